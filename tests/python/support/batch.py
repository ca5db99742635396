"""The programs of examples/batch, run as a user runs them, and what they must find."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from conftest import ROOT

EXAMPLES = ROOT / "examples/batch"
SUPPORT = ROOT / "tests/python/support"
sys.path.insert(0, str(EXAMPLES))
import shares  # noqa: E402

CONTRIBUTORS = 1_000  # of 10^4 entries: 10^7
KINDS = ("contributors", "bytes", "partial", "result")


def in_one_process() -> dict:
    """The count and the digests that every program must have, computed here."""
    return shares.digests(shares.partial_of(shares.Share(range(CONTRIBUTORS))))


def run(program: str, *options: object, launcher: tuple = (), seconds: float = 400) -> tuple:
    """(exit code, output) of a program, whose whole session is ended when it takes too long. It has a home of its own:
    Ray leaves files there."""
    command = [*launcher, sys.executable, *map(str, (program, *options))]
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "HOME": home,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
        }
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=home,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise AssertionError(f"still running after {seconds} s: {output[-3000:]}") from None
    return process.returncode, output


def numbers_of(folder: Path, program: str, *options: object, launcher: tuple = ()) -> dict:
    """What a program found that must end well: its numbers."""
    out = folder / "numbers.json"
    code, output = run(program, *options, "--out", out, launcher=launcher)
    assert code == 0, output[-3000:]
    assert "VERDICT: PASSED" in output
    return json.loads(out.read_text())


def digests(numbers: dict) -> dict:
    """What must be equal, without times and attempts."""
    return {kind: numbers[kind] for kind in KINDS}
