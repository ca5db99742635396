"""Runs programs with time limits and keeps what they gave: one that fails, hangs or is missing costs no other result."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grid

# A plan that has lost this number of steps is not tried again: each hang costs as long as a silence may last.
LOST_MAX = 2
TIME_OVER = "time is over"


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


def reason_of(said: str) -> str:
    """The first line that speaks of an error, or the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    bad = [line for line in lines if re.search("error|fail|invalid|no usable|refused", line, re.I)]
    return ([*bad[:1], *lines[-1:], ""])[0][:200]


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


@dataclasses.dataclass(frozen=True)
class Program:
    """A command, and what its environment has beside the usual."""

    name: str
    command: list
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


class Stages:
    """Runs stages within `seconds` in all. Results are written after each stage, lines of JSON of all programs to one file,
    output to one log: results may have to travel in few files. Limits are for a run of `planned` seconds, and are as much
    shorter as `seconds` are fewer."""

    LOG_BYTES_MAX = 1 << 20  # of a stage

    def __init__(
        self,
        out: Path,
        seconds: float,
        environment: dict[str, str] | None = None,
        planned: float | None = None,
    ) -> None:
        self.out = out
        self.environment = environment or {}  # of programs that are not in Python
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        self.pace = min(1.0, seconds / planned) if planned else 1.0
        self.results: list[dict] = []
        self.said = ""  # by the last stage
        out.mkdir(parents=True, exist_ok=True)
        self.log = out / "log.txt"
        self.lines = out / "lines.jsonl"
        for path in (self.log, self.lines):
            path.write_text("", encoding="utf-8")

    def left(self) -> float:
        return self.end - time.monotonic()

    def line(self, **fields: object) -> None:
        """After whatever a program was killed in writing."""
        with open(self.lines, "a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(fields) + "\n")

    def run(self, name: str, command: list, limit: float, **environment: str) -> str:
        """ "passed", "failed (code)", "timeout", "missing" or "no time left"."""
        return self.together([Program(name, command, environment)], limit)[0]

    def together(
        self, programs: list[Program], limit: float, slots: int = 1, each: float | None = None
    ) -> list[str]:
        """The states of programs of which so many run at a time, in the order given; all within the limit, and each within one
        of its own: one that hangs holds a slot no longer."""
        over = time.monotonic() + min(limit * self.pace, self.left())
        waiting = list(programs)
        running: list[_Running] = []
        states = {}
        while waiting or running:
            while waiting and len(running) < slots:
                program = waiting.pop(0)
                if time.monotonic() > over - self.pace:
                    states[program.name] = self._record(program.name, "no time left", 0)
                elif shutil.which(str(program.command[0])) is None:
                    states[program.name] = self._record(program.name, "missing", 0)
                else:
                    running.append(_Running(program, self._environment(program)))
            for one in list(running):
                own = over if each is None else min(over, one.start + each * self.pace)
                state = one.state(own)
                if state is None:
                    continue
                running.remove(one)
                self._keep(one.program.name, one.said())
                states[one.program.name] = self._record(one.program.name, state, one.seconds())
            try:
                if running:
                    running[0].process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                pass
        return [states[program.name] for program in programs]

    def steps(
        self, name: str, program: list, steps: list[grid.Step], limit: float, silence: float, *more
    ) -> str:
        """Runs PROGRAM STEPS LINES SECONDS, which appends lines, "begin" before each step. A step in which it dies, or writes
        nothing for `silence` seconds, is lost; the program is started again with the steps behind it."""
        start = time.monotonic()
        self.said = ""
        self.line(kind="stage", stage=name)
        if not steps:
            state = "nothing to do"
        elif self.left() <= 1:
            state = "no time left"
        elif shutil.which(str(program[0])) is None:
            state = "missing"
        else:
            over = start + min(limit * self.pace, self.left())
            state = self._steps(name, program, steps, over, silence * self.pace, more)
        return self._record(name, state, time.monotonic() - start)

    def _steps(
        self,
        name: str,
        program: list,
        steps: list[grid.Step],
        over: float,
        silence: float,
        more: tuple,
    ) -> str:
        lost: collections.Counter[str] = collections.Counter()
        late = False
        with tempfile.TemporaryDirectory(prefix="sparseagg_gpu_check_") as folder:
            path = Path(folder) / "steps.txt"
            while steps:
                grid.write(path, steps)
                before, size = len(lines_of(self.lines)), self.lines.stat().st_size
                seconds = max(0.0, over - time.monotonic())
                one = _Running(
                    Program(name, [*program, path, self.lines, f"{seconds:.1f}", *more]),
                    self._environment(Program(name, program)),
                )
                error = one.until_silent(self.lines, size, over, silence)
                self._keep(name, one.said())
                lines = lines_of(self.lines)[before:]
                if error is None:
                    late = any(line["kind"] == "time_over" for line in lines)
                    break
                begun = [line["step"] for line in lines if line["kind"] == "begin"]
                if not begun:
                    return f"failed ({error})"  # before its first step
                plan = steps[begun[-1]][1]
                self.line(kind="lost", error=error, **grid.members(steps[begun[-1]]))
                if error == TIME_OVER:
                    return "timeout"
                lost[plan] += 1
                steps = [step for step in steps[begun[-1] + 1 :] if lost[step[1]] < LOST_MAX]
        if lost:
            return f"failed ({sum(lost.values())} steps lost)"
        return "time over" if late else "passed"

    def amend(self, state: str) -> None:
        """Of the last stage: what its results say."""
        last = self.results.pop()
        self._record(last["stage"], state, last["seconds"])

    def _record(self, name: str, state: str, seconds: float) -> str:
        at = round(time.monotonic() - self.begin, 1)
        result = {"stage": name, "state": state, "seconds": round(seconds, 1), "at": at}
        if state.startswith("failed"):
            result["said"] = reason_of(self.said)
        self.results.append(result)
        print(f"{at:6.1f} s  {name}: {state}, {seconds:.1f} s", flush=True)
        (self.out / "stages.json").write_text(json.dumps(self.results, indent=1), encoding="utf-8")
        return state

    def _keep(self, name: str, said: bytes) -> None:
        """In the log; what is too much is left out of the middle."""
        if len(said) > self.LOG_BYTES_MAX:
            half = self.LOG_BYTES_MAX // 2
            left_out = f"\n... {len(said) - 2 * half} bytes left out ...\n".encode()
            said = said[:half] + left_out + said[-half:]
        self.said = said.decode("utf-8", errors="replace")
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"== {name}\n{self.said}")

    def _environment(self, program: Program) -> dict[str, str]:
        own = self.environment if program.command[0] != sys.executable else {}
        return {**os.environ, **own, "SPARSEAGG_REQUIRE_GPU": "1", **program.environment}


class _Running:
    """A program that has been started."""

    def __init__(self, program: Program, environment: dict[str, str]) -> None:
        self.program = program
        self._output = tempfile.TemporaryFile()
        self.start = time.monotonic()
        self.process = subprocess.Popen(
            [str(c) for c in program.command],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    def seconds(self) -> float:
        return time.monotonic() - self.start

    def said(self) -> bytes:
        """Ends the reading of it, too."""
        self._output.seek(0)
        with self._output:
            return self._output.read()

    def state(self, over: float) -> str | None:
        """None while it runs and may."""
        code = self.process.poll()
        if code is not None:
            return "passed" if code == 0 else f"failed ({code})"
        if time.monotonic() < over:
            return None
        end(self.process)
        return "timeout"

    def until_silent(self, lines: Path, first: int, over: float, silence: float) -> str | None:
        """None when the program has ended well, or why it has not. Until its first line, which makes the file longer than
        `first` bytes, it has three times as long: it loads libraries and makes a context."""
        size = first
        since = time.monotonic()
        while True:
            try:
                code = self.process.wait(timeout=0.1)
                return None if code == 0 else f"exit code {code}"
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            seen = lines.stat().st_size
            if seen != size:
                size, since = seen, now
            if now > over:
                end(self.process)
                return TIME_OVER
            if now - since > (3 * silence if size == first else silence):
                end(self.process)
                return f"no answer for {now - since:.0f} s"
