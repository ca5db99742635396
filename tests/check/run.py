"""Runs every suite that is too long for CI, at full size, and prints one table. `./dev check` calls it.

A suite that fails does not end the run. Results are kept in bench/results/check.json and belong to the sources that they were
made of: `--from` and `--only` complete the table of an earlier run, in which a suite stays while no source that it reads has
changed. That file can be committed, so that another machine goes on with the table. What is written of a run, pages (*.md) and
bench/results, is no source. Logs are in build/check/.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from suites import SUITES, Suite

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "check"
RESULTS = ROOT / "bench" / "results" / "check.json"
NO_SOURCES = ("*.md", "bench/results")  # git's patterns
PROGRESS_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Outcome:
    result: str
    seconds: int
    commit: str = ""
    date: str = ""

    @property
    def passed(self) -> bool:
        return self.result.startswith("passed")


def git(*arguments: str, index: str | None = None) -> str:
    environment = {**os.environ, "GIT_INDEX_FILE": index} if index else None
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


def state_of_sources(unread: tuple[str, ...] = ()) -> str:
    """The name that git gives to the working tree without pages, results and what matches `unread`."""
    with tempfile.TemporaryDirectory() as folder:
        index = str(pathlib.Path(folder) / "index")
        without = [f":(exclude){pattern}" for pattern in (*NO_SOURCES, *unread)]
        git("add", "--all", "--", ".", *without, index=index)
        return git("write-tree", index=index)


def commit() -> str:
    without = [f":(exclude){pattern}" for pattern in NO_SOURCES]
    changes = git("status", "--short", "--", ".", *without)
    return git("rev-parse", "--short", "HEAD") + ("+changes" if changes else "")


def skips_in(log: str) -> int:
    """Tests that a passing suite left out: as CTest, pytest and our own scripts report them."""
    log = re.sub(r"^\$ .*", "", log, flags=re.MULTILINE)  # the commands
    in_pytest = sum(int(number) for number in re.findall(r"\b(\d+) skipped\b", log))
    return in_pytest + len(re.findall(r"\(Skipped\)$|\bSKIPPED,|: not tested, ", log, re.MULTILINE))


class Progress:
    """A live line on a terminal, a line every half minute in a log."""

    def __init__(self, suite: Suite, log: pathlib.Path):
        self._suite, self._log = suite, log
        self._start = self._last = time.monotonic()

    def seconds(self) -> int:
        return round(time.monotonic() - self._start)

    def show(self) -> None:
        on_terminal = sys.stdout.isatty()
        if not on_terminal and time.monotonic() - self._last < PROGRESS_SECONDS:
            return
        self._last = time.monotonic()
        line = f"    {self._suite.name}, {self.seconds()} s: {last_line(self._log)}"
        print(
            f"\r\033[K{line[:110]}" if on_terminal else line[:160], end="" if on_terminal else "\n"
        )
        sys.stdout.flush()

    def end(self) -> None:
        if sys.stdout.isatty():
            print("\r\033[K", end="")


def last_line(log: pathlib.Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def run_command(
    command: tuple[str, ...], suite: Suite, log: pathlib.Path, progress: Progress
) -> int:
    with log.open("ab") as output:
        output.write(f"$ {' '.join(command)}\n".encode())
        output.flush()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **dict(suite.environment)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that an interrupt ends all that it started
        )
        try:
            while True:
                try:
                    return process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    progress.show()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise


def run_suite(suite: Suite) -> Outcome:
    log = OUT / f"{suite.name}.log"
    log.write_bytes(b"")
    progress = Progress(suite, log)
    print(f"==> {suite.name}: {suite.size} (log: {log.relative_to(ROOT)})", flush=True)
    if suite.needs_root and os.geteuid() != 0:
        return Outcome("not run: needs root", 0)
    for command in suite.commands:
        status = run_command(command, suite, log, progress)
        progress.end()
        if status != 0:
            print("\n".join(log.read_text(errors="replace").splitlines()[-30:]))
            return Outcome(f"FAILED: {' '.join(command)} ended with {status}", progress.seconds())
    skips = skips_in(log.read_text(errors="replace"))
    return Outcome(f"passed, {skips} skipped" if skips else "passed", progress.seconds())


def table(outcomes: dict[str, Outcome]) -> str:
    lines = ["| suite | size | seconds | result | commit | date |", "|---|---|---|---|---|---|"]
    for suite in SUITES:
        outcome = outcomes.get(suite.name, Outcome("not run", 0))
        lines.append(
            f"| {suite.name} | {suite.size} | {outcome.seconds or ''} | {outcome.result} "
            f"| {outcome.commit} | {outcome.date} |"
        )
    return "\n".join(lines) + "\n"


class Results:
    """What is known of the sources as they are now, on the disk after every suite."""

    def __init__(self) -> None:
        states = {unread: state_of_sources(unread) for unread in {suite.unread for suite in SUITES}}
        self._states = {suite.name: states[suite.unread] for suite in SUITES}
        self.outcomes: dict[str, Outcome] = self._kept()

    def _kept(self) -> dict[str, Outcome]:
        if not RESULTS.is_file():
            return {}
        kept = json.loads(RESULTS.read_text())
        return {
            name: Outcome(**entry["outcome"])
            for name, entry in kept.items()
            if name in self._states and entry["state"] == self._states[name]
        }

    def add(self, suite: Suite, outcome: Outcome) -> None:
        # Another run may have added its suites since: two that use different presets may go on beside each other.
        self.outcomes = {**self._kept(), suite.name: outcome}
        lines = [
            f'"{name}": '
            + json.dumps({"state": self._states[name], "outcome": dataclasses.asdict(outcome)})
            for name, outcome in self.outcomes.items()
        ]
        RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        (OUT / "table.md").write_text(table(self.outcomes))


def chosen_suites(options: argparse.Namespace) -> list[Suite]:
    names = [suite.name for suite in SUITES]
    if options.only:
        return [suite for suite in SUITES if suite.name in options.only]
    return list(SUITES[names.index(options.start) if options.start else 0 :])


def arguments() -> argparse.Namespace:
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(prog="./dev check", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--from", dest="start", choices=names, metavar="SUITE", help="begin there")
    which.add_argument("--only", nargs="+", choices=names, metavar="SUITE", help="these alone")
    which.add_argument("--list", action="store_true", help="print the suites and end")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.list:
        for suite in SUITES:
            print(f"{suite.name:12} {suite.size}")
        return 0
    OUT.mkdir(parents=True, exist_ok=True)
    results = Results()
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # as an interrupt: nothing is left behind
    try:
        for suite in chosen_suites(options):
            named = commit()
            outcome = dataclasses.replace(
                run_suite(suite), commit=named, date=datetime.date.today().isoformat()
            )
            results.add(suite, outcome)
            print(f"    {suite.name}: {outcome.result} after {outcome.seconds} s", flush=True)
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with ./dev check --from {suite.name}")
        return 130
    finally:
        print("\n" + table(results.outcomes), flush=True)
    missing = [
        suite.name
        for suite in SUITES
        if not results.outcomes.get(suite.name, Outcome("not run", 0)).passed
    ]
    if missing:
        print(f"not green: {', '.join(missing)}")
    return 1 if any(suite.name in missing for suite in chosen_suites(options)) else 0


if __name__ == "__main__":
    sys.exit(main())
