"""Runs programs with time limits and keeps what they gave: one that fails, hangs or is missing costs no other result."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path


def lines_of(path: Path) -> list[dict]:
    """The whole lines of JSON in a file that a program may have been killed while writing. What is no JSON after all, by an
    error's text in it, say, costs no other line."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return [line for line in lines if isinstance(line, dict) and "kind" in line]


def folder_of_library(name: str, folders: list[str]) -> Path | None:
    """Where `name` lies: in one of the folders, or in NVIDIA's packages of Python there."""
    for folder in folders:
        for path in (Path(folder) / name, *sorted(Path(folder).glob(f"nvidia/*/lib/{name}"))):
            if path.exists():
                return path.parent
    return None


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
    """Results are written after each stage, output to one log: results may have to travel in few files."""

    LOG_BYTES_MAX = 1 << 20  # of a stage

    def __init__(
        self, out: Path, folder: Path, seconds: float, environment: dict[str, str] | None = None
    ) -> None:
        self.out = out
        self.folder = folder
        self.environment = environment or {}  # of programs that are not in Python
        self.end = time.monotonic() + seconds
        self.results: list[dict] = []
        self.said = ""  # by the last stage
        out.mkdir(parents=True, exist_ok=True)
        self.log = out / "log.txt"
        self.log.write_text("", encoding="utf-8")

    def left(self) -> float:
        return self.end - time.monotonic()

    def run(self, name: str, command: list, limit: float) -> str:
        """ "passed", "failed (code)", "timeout", "missing" or "no time left"."""
        return self._stage(name, command, limit, lambda limit: self._wait(command, limit))

    def cases(self, name: str, command: list, output: Path, limit: float, silence: float) -> str:
        """As run(), of a program that writes lines to `output`, "begin" before each case, and takes a case's number as its
        last argument. A case in which it dies, or writes nothing for `silence` seconds, is left out, and the program is
        started again behind it."""
        return self._stage(
            name, command, limit, lambda limit: self._cases(command, output, limit, silence)
        )

    def _stage(self, name: str, command: list, limit: float, run) -> str:
        start = time.monotonic()
        print(f"== {name}", flush=True)
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"== {name}\n")
        begin = self.log.stat().st_size
        self.said = ""
        limit = min(limit, self.left())
        if limit <= 1:
            state = "no time left"
        elif shutil.which(str(command[0])) is None:
            state = "missing"
        else:
            state = run(limit)
            self.said = self._shorten(begin)
            print("\n".join(self.said.splitlines()[-6:]))
        self.results.append(
            {"stage": name, "state": state, "seconds": round(time.monotonic() - start, 1)}
        )
        print(f"   {state} after {self.results[-1]['seconds']} s", flush=True)
        (self.out / "stages.json").write_text(json.dumps(self.results, indent=1), encoding="utf-8")
        return state

    def _shorten(self, begin: int) -> str:
        """What a stage wrote from there on; what is too much is left out of the middle."""
        with open(self.log, "r+b") as log:
            log.seek(begin)
            said = log.read()
            if len(said) > self.LOG_BYTES_MAX:
                half = self.LOG_BYTES_MAX // 2
                left_out = f"\n... {len(said) - 2 * half} bytes left out ...\n".encode()
                said = said[:half] + left_out + said[-half:]
                log.seek(begin)
                log.write(said)
                log.truncate()
        return said.decode("utf-8", errors="replace")

    def _start(self, command: list) -> subprocess.Popen:
        own = self.environment if command[0] != sys.executable else {}
        with open(self.log, "a", encoding="utf-8") as log:
            return subprocess.Popen(
                [str(c) for c in command],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **own, "SPARSEAGG_REQUIRE_GPU": "1"},
                start_new_session=True,
            )

    def _wait(self, command: list, limit: float) -> str:
        process = self._start(command)
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            end(process)
            return "timeout"
        return "passed" if code == 0 else f"failed ({code})"

    def _cases(self, command: list, output: Path, limit: float, silence: float) -> str:
        output.unlink(missing_ok=True)
        over = time.monotonic() + limit
        first, lost = 0, 0
        while True:
            error = self._until_silent(
                self._start([*command, *([first] if first else [])]), output, over, silence
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
