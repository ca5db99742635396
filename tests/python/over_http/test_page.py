"""The commands of docs/http.md, run as they stand there, print what the page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.http_edge import start

PAGE = Path(__file__).resolve().parents[3] / "docs/http.md"
PROTOS = Path(__file__).resolve().parents[3] / "proto/sparseagg/v1"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
END = "=== end of the command ==="


def differences(shown, found, where="answer"):
    """Where `found` lacks something that the page shows."""
    if isinstance(shown, dict) and isinstance(found, dict):
        return [
            line
            for name, value in shown.items()
            for line in differences(value, found.get(name), f"{where}.{name}")
        ]
    if isinstance(shown, list) and isinstance(found, list) and len(found) >= len(shown):
        pairs = enumerate(zip(shown, found))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{where}[{i}]")]
    return [] if shown == found else [f"{where} is {found!r}, the page says {shown!r}"]


def commands_of_the_page():
    """Pairs of a command and what it prints, None if the page does not say."""
    pairs = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "sh":
            pairs.append([text, None])
        elif kind == "json":
            pairs[-1][1] = json.loads(text)
    return pairs


@pytest.mark.skipif(shutil.which("curl") is None, reason="the package curl is not installed")
def test_the_commands_print_what_the_page_says(own_server, tmp_path):
    _, port = start(own_server, tmp_path, f"--data-dir={tmp_path / 'data'}")
    pairs = commands_of_the_page()
    assert len(pairs) > 12 and all(shown is not None for _, shown in pairs)
    script = f"\necho '{END}'\n".join(command for command, _ in pairs)
    script = script.replace("127.0.0.1:50063", f"127.0.0.1:{port}")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(END)
    assert len(printed) == len(pairs)
    for (command, shown), found in zip(pairs, printed):
        assert differences(shown, json.loads(found)) == [], command


def unary_calls():
    """The paths of all unary calls, "Service/Method"."""
    paths = []
    for file in PROTOS.glob("*.proto"):
        for service, body in re.findall(
            r"^service (\w+) \{(.*?)^\}", file.read_text(), re.S | re.M
        ):
            calls = re.findall(r"rpc (\w+)\((stream )?\w+\) returns \((stream )?", body)
            paths += [f"{service}/{name}" for name, *streams in calls if not any(streams)]
    assert len(paths) > 20
    return sorted(paths)


def test_the_page_shows_every_unary_call():
    text = "\n".join(command for command, _ in commands_of_the_page())
    shown = set(re.findall(r"(?:call |task |Service/)(\w+)", text))
    assert {path.partition("/")[2] for path in unary_calls()} - shown == set()


def statuses_of_the_page():
    """The HTTP status of each code, from the table of the page."""
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    return {code: int(status) for codes, status in rows for code in re.findall(r"\w+", codes)}


@pytest.mark.skipif(shutil.which("curl") is None, reason="the package curl is not installed")
def test_an_error_of_every_unary_call_has_its_code_its_status_and_a_reason(own_server, tmp_path):
    _, port = start(own_server, tmp_path)
    statuses = statuses_of_the_page()
    assert len(statuses) == 16

    def curl(path, body, *more):
        command = [
            "curl",
            "-s",
            "-w",
            "\n%{http_code}",
            f"http://127.0.0.1:{port}/sparseagg.v1.{path}",
        ]
        command += ["-H", "Content-Type: application/json", "-d", body, *more]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        answer, _, status = printed.rpartition("\n")
        return int(status), json.loads(answer)

    without_arguments = {"ListRounds", "ListTasks", "GetServerInfo"}
    for path in unary_calls():
        status, answer = curl(path, "{}")
        if path.partition("/")[2] in without_arguments:
            assert status == 200, answer
        else:
            assert status == statuses[answer["code"]] == 400, answer
            assert answer["details"][0]["debug"]["reason"].startswith("INVALID_"), answer
        for body in ('{"nane": 1}', "[]", "{"):
            status, answer = curl(path, body)
            assert (status, answer["code"]) == (400, "invalid_argument")
            assert answer["details"][0]["debug"]["reason"] == "MALFORMED_JSON"
        status, answer = curl(path, "{}", "-X", "PUT")
        assert (status, answer["details"][0]["debug"]["reason"]) == (405, "METHOD_NOT_ALLOWED")
