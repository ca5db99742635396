"""Runs programs with time limits and keeps what they gave: one that fails, hangs or is missing costs no other result."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path


def lines_of(path: Path) -> list[dict]:
    """The whole lines of JSON in a file that a program may have been killed while writing."""
    if not path.exists():
        return []
    return [
        json.loads(line)
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.endswith("}")
    ]


def end(process: subprocess.Popen) -> None:
    """Kills a program that `start` began, and what it began."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        pass  # in the driver for ever: the next stage goes on beside it


class Stages:
    """Results are written after each stage."""

    def __init__(self, out: Path, folder: Path, seconds: float) -> None:
        self.out = out
        self.folder = folder
        self.end = time.monotonic() + seconds
        self.results: list[dict] = []
        out.mkdir(parents=True, exist_ok=True)

    def left(self) -> float:
        return self.end - time.monotonic()

    def run(self, name: str, command: list, limit: float) -> str:
        """ "passed", "failed (code)", "timeout", "missing" or "no time left"."""
        return self._stage(name, command, limit, lambda limit: self._wait(name, command, limit))

    def cases(self, name: str, command: list, output: Path, limit: float, silence: float) -> str:
        """As run(), of a program that writes lines to `output`, "begin" before each case, and takes a case's number as its
        last argument. A case in which it dies, or writes nothing for `silence` seconds, is left out, and the program is
        started again behind it."""
        return self._stage(
            name, command, limit, lambda limit: self._cases(name, command, output, limit, silence)
        )

    def _stage(self, name: str, command: list, limit: float, run) -> str:
        start = time.monotonic()
        print(f"== {name}", flush=True)
        limit = min(limit, self.left())
        if limit <= 1:
            state = "no time left"
        elif shutil.which(str(command[0])) is None:
            state = "missing"
        else:
            state = run(limit)
            log = (self.out / f"{name}.log").read_text(encoding="utf-8", errors="replace")
            print("\n".join(log.splitlines()[-6:]))
        self.results.append(
            {"stage": name, "state": state, "seconds": round(time.monotonic() - start, 1)}
        )
        print(f"   {state} after {self.results[-1]['seconds']} s", flush=True)
        (self.out / "stages.json").write_text(json.dumps(self.results, indent=1), encoding="utf-8")
        return state

    def _start(self, name: str, command: list) -> subprocess.Popen:
        with open(self.out / f"{name}.log", "a", encoding="utf-8") as log:
            return subprocess.Popen(
                [str(c) for c in command],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, "SPARSEAGG_REQUIRE_GPU": "1"},
                start_new_session=True,
            )

    def _wait(self, name: str, command: list, limit: float) -> str:
        process = self._start(name, command)
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            end(process)
            return "timeout"
        return "passed" if code == 0 else f"failed ({code})"

    def _cases(self, name: str, command: list, output: Path, limit: float, silence: float) -> str:
        output.unlink(missing_ok=True)
        over = time.monotonic() + limit
        first, lost = 0, 0
        while True:
            error = self._until_silent(
                self._start(name, [*command, *([first] if first else [])]), output, over, silence
            )
            if error is None:
                return "passed" if lost == 0 else f"failed ({lost} cases lost)"
            began = [line["case"] for line in lines_of(output) if line.get("kind") == "begin"]
            if not began or began[-1] < first:
                return f"failed ({error})"  # before its first case
            if time.monotonic() > over:
                return "timeout"
            lost += 1
            first = began[-1] + 1
            with open(output, "a", encoding="utf-8") as file:
                file.write(
                    "\n" + json.dumps({"kind": "lost", "case": began[-1], "error": error}) + "\n"
                )

    @staticmethod
    def _until_silent(
        process: subprocess.Popen, output: Path, over: float, silence: float
    ) -> str | None:
        """None when the program has ended well, or why it has not."""
        size, since = -1, time.monotonic()
        while True:
            try:
                code = process.wait(timeout=0.2)
                return None if code == 0 else f"exit code {code}"
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            seen = output.stat().st_size if output.exists() else 0
            if seen != size:
                size, since = seen, now
            if now - since > silence or now > over:
                end(process)
                return (
                    f"no answer for {now - since:.0f} s"
                    if now - since > silence
                    else "time is over"
                )
