"""Runs all contenders on one case and joins what they say."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import cases
import summary
import ways

_PEER_SECONDS_MAX = 400
# Of all rows: those whose sum in f32 is 0 by chance. 4 of 6 * 10^7 in the largest case.
_CANCELLED_MAX = 1e-5
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Tools:
    """The paths of the programs and files."""

    reduce_bench: Path
    data: Path  # files of cases, gone after use
    peers_python: (
        Path | None
    )  # has the libraries of the peers; None: only what this interpreter has
    threads: int  # all of the machine
    bandwidth_mb: int = 256


@dataclass(frozen=True)
class Effort:
    """The limits of the measurements of a case."""

    rounds: int
    threads: list[int]
    forms: list[str] = field(default_factory=lambda: ["batch", "stream"])
    plans: list[str] = field(default_factory=list)  # none: all
    cpp_peers: bool = True
    python_peers: list[str] = field(default_factory=list)  # names
    rounds_again: int = 0  # of a point where the planner seems to be wrong


class ContestError(Exception):
    """A program failed; the message is its."""


def run_case(case: cases.Case, tools: Tools, effort: Effort) -> dict:
    """{"case", "shape", "read_bytes_s", "result_nnz", "rows", "again", "errors"}; {"case", "skipped"} where it cannot be
    made.

    With Python peers, our own runs are one half before and one half after them. `again` has further runs of the points
    where the planner seems to be wrong: of 300 points some do by chance.
    """
    path = tools.data / f"{case.name}.case"
    tools.data.mkdir(parents=True, exist_ok=True)
    try:
        cases.make(case, path)
        first = effort.rounds - effort.rounds // 2 if effort.python_peers else effort.rounds
        report = _reduce_bench(path, tools, effort, first)
        # Where a peer takes half a minute, it is measured with all threads only.
        few = tools.threads if case.entries > 10**7 else 1
        peer_rows = [row for name in effort.python_peers for row in _peer(name, path, tools, few)]
        if effort.rounds > first:
            _join(report, _reduce_bench(path, tools, effort, effort.rounds - first))
        report["rows"] += peer_rows
        report["errors"] += _wrong_results(peer_rows, report["result_nnz"])
        report["shape"], report["case"] = report["case"], case.name
        looks = _second_looks(report, effort.rounds_again) if effort.rounds_again else []
        again = [_reduce_bench(path, tools, look, look.rounds) for look in looks]
        report["again"] = [row for later in again for row in later["rows"]]
        report["errors"] += [error for later in again for error in later["errors"]]
    except cases.UnavailableCaseError as error:
        return {"case": case.name, "skipped": str(error)}
    finally:
        path.unlink(missing_ok=True)
    return report


def _second_looks(report: dict, rounds: int) -> list[Effort]:
    """What is to be measured again: the chosen plan and the one that seemed better, by themselves."""
    return [
        Effort(
            rounds,
            [point["threads"]],
            [point["form"]],
            ["auto", point["chosen"], point["best"]],
            cpp_peers=False,
        )
        for point in summary.planner([report])
        if point["flag"]
    ]


def _reduce_bench(path: Path, tools: Tools, effort: Effort, rounds: int) -> dict:
    out = path.with_suffix(".json")
    command = [tools.reduce_bench, path, "--json", out, "--rounds", rounds]
    command += ["--threads", ",".join(map(str, effort.threads))]
    command += ["--forms", ",".join(effort.forms), "--bandwidth-mb", tools.bandwidth_mb]
    if effort.plans:
        command += ["--plans", ",".join(effort.plans)]
    if not effort.cpp_peers:
        command.append("--no-peers")
    # As in a server: what one round frees is there for the next.
    environment = {**os.environ, "TCMALLOC_RELEASE_RATE": "0"}
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    try:
        report = json.loads(out.read_text())
    except (OSError, ValueError) as error:
        raise ContestError(f"{path.stem}: {run.stderr.strip() or run.returncode}") from error
    finally:
        out.unlink(missing_ok=True)
    if run.returncode != 0 and not report["errors"]:
        report["errors"].append(f"reduce_bench ended with {run.returncode}")
    return report


def _peer(name: str, path: Path, tools: Tools, few: int) -> list[dict]:
    """The rows of a Python peer: with `few` and with all threads where that makes a difference to it."""
    peer = next(peer for peer in ways.PEERS if peer.name == name)
    python = tools.peers_python or sys.executable
    rows = []
    for threads in sorted({few, tools.threads}) if peer.threaded else [1]:
        row = {"contender": name, "own": False, "threads": threads, "form": "batch"}
        out = path.with_suffix(".peer.json")
        command = [python, _HERE / "peers.py", "run", name, path]
        command += ["--threads", threads, "--json", out]
        try:
            run = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, timeout=_PEER_SECONDS_MAX
            )
            rows.append(json.loads(out.read_text()))
        except subprocess.TimeoutExpired:
            rows.append({**row, "skipped": f"took more than {_PEER_SECONDS_MAX} s"})
        except (OSError, ValueError):
            rows.append({**row, "skipped": f"ended with status {run.returncode}"})
        finally:
            out.unlink(missing_ok=True)
    return rows


def _key(row: dict) -> tuple:
    return row["contender"], row["threads"], row["form"]


def _join(report: dict, later: dict) -> None:
    """Adds the runs of a later part to a report."""
    report["errors"] += later["errors"]
    for threads, value in later["read_bytes_s"].items():
        report["read_bytes_s"][threads] = max(value, report["read_bytes_s"][threads])
    rows = {_key(row): row for row in report["rows"]}
    for row in later["rows"]:
        mine = rows.get(_key(row))
        if mine is None or "skipped" in mine or "skipped" in row:
            continue
        before = mine["seconds"]
        mine["runs"] += row["runs"]
        mine["seconds"] = statistics.median(mine["runs"])
        mine["seconds_min"], mine["seconds_max"] = min(mine["runs"]), max(mine["runs"])
        mine["peak_bytes"] = max(mine["peak_bytes"], row["peak_bytes"])
        mine["ns_entry"] *= mine["seconds"] / before
        mine["gb_s"] *= before / mine["seconds"]
        bandwidth = report["read_bytes_s"].get(str(mine["threads"]))
        if bandwidth:
            mine["limit_percent"] = 100e9 * mine["gb_s"] / bandwidth
        if mine["own"] and mine["digest"] != row["digest"]:
            report["errors"].append(f"{row['contender']}: two runs differ in their bits")


def _wrong_results(rows: list[dict], nnz: int) -> list[str]:
    """Peers whose result has other rows than ours: not the same problem was solved."""
    losers = {peer.name for peer in ways.PEERS if peer.loses_zeros}
    wrong = []
    for row in rows:
        missing = nnz - (row.get("nnz") or nnz)
        may_miss = _CANCELLED_MAX * nnz if row["contender"] in losers else 0
        if not 0 <= missing <= may_miss:
            wrong.append(f"{row['contender']}: {row['nnz']} rows instead of {nnz}")
    return wrong
