"""The owner of examples/browser with Python workers; tests/ops/browser_test.py has the tabs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from conftest import BINARY, ROOT
from support.texts import write_texts

SMALL = ("--rounds", "2", "--contributors", "8", "--dimensions", "8", "--passes", "2")


def run(program, *options):
    """Runs a program of examples/ on a server of its own, and returns what it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "SPARSEAGG_BINARY": str(BINARY),
    }
    command = [sys.executable, str(ROOT / "examples" / program), *map(str, options)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_workers_that_are_killed_at_random_give_the_bits_of_the_demo_that_nobody_disturbs(tmp_path):
    texts = write_texts(tmp_path / "texts")
    demo = ("--data", texts, *SMALL)
    run("word_embeddings/train.py", *demo, "--processes", "1", "--out", tmp_path / "demo")
    kills = ("--workers", "3", "--kill-every", "5", "--lease", "1", "--page-port", "0")
    printed = run("browser/train.py", *demo, *kills, "--json", tmp_path / "numbers.json")
    expected = json.loads((tmp_path / "demo/word_embeddings.json").read_text())
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    losses = [expected["initial_loss"], *(row["held_out_loss"] for row in expected["rounds"])]
    assert numbers["losses"] == losses
    assert numbers["tasks"] == 27 + 2 * 8 and numbers["leases"] >= numbers["tasks"]
    assert numbers["killed"] == 43 // 5
    assert "each counted once" in printed


def test_too_little_text_is_an_error_of_one_line(tmp_path):
    (tmp_path / "one.txt").write_text("word " * 500)
    program = str(ROOT / "examples/browser/train.py")
    done = subprocess.run(
        [sys.executable, program, "--data", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "--data DIR" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_server_that_demands_tokens_changes_no_bit(tmp_path):
    texts = write_texts(tmp_path / "texts")
    options = ("--data", texts, *SMALL, "--workers", "2", "--page-port", "0", "--json")
    digests = []
    for tokens in ((), ("--tokens",)):
        printed = run("browser/train.py", *options, tmp_path / "numbers.json", *tokens)
        assert ("#token=" in printed) == bool(tokens)
        digests.append(json.loads((tmp_path / "numbers.json").read_text())["digest"])
    assert digests[0] == digests[1]
