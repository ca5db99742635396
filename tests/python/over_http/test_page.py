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


def test_the_page_shows_every_unary_call():
    services = "".join(file.read_text() for file in PROTOS.glob("*.proto"))
    calls = re.findall(r"rpc (\w+)\((stream )?\w+\) returns \((stream )?", services)
    unary = {name for name, in_stream, out_stream in calls if not in_stream and not out_stream}
    text = "\n".join(command for command, _ in commands_of_the_page())
    assert len(unary) > 20
    assert unary - set(re.findall(r"(?:call |task |Service/)(\w+)", text)) == set()
