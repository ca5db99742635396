#!/usr/bin/python3
"""Measures the reduction on many cases, against everything a user would pick instead: ./dev bench reduce calls it.

Writes OUT/reduce.json after every case, at the end tables and pictures beside it. bench/README.md explains them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

import cases
import contest
import crossover
import peers_venv
import plots
import summary
import ways

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import report as report_tool

ROOT = Path(__file__).resolve().parents[2]


def parse_arguments() -> argparse.Namespace:
    """The options; `--help` shows them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument("--quick", action="store_true", help="20 cases")
    tier.add_argument("--full", action="store_true", help="the whole grid, up to 10^8 entries")
    parser.add_argument("--peers", action="store_true", help="Python libraries, too, where listed")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--no-crossover", action="store_true", help="not against dense aggregation")
    parser.add_argument(
        "--reduce-bench", type=Path, default=ROOT / "build/release/bin/reduce_bench"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench")
    return parser.parse_args()


class Run:
    """One run of the benchmark."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._tier = "quick" if options.quick else "full" if options.full else "default"
        self._begin = time.monotonic()
        out = options.out
        python = peers_venv.make(out / "venv", out / "venv.log") if options.peers else None
        self._tools = contest.Tools(
            options.reduce_bench, out / "data", python, len(os.sched_getaffinity(0))
        )
        self._report: dict = {
            "benchmark": "reduce",
            "tier": self._tier,
            "threads": self._tools.threads,
            "cases": [],
            "crossover": [],
        }

    def run(self) -> int:
        """Everything, in order; the exit code."""
        self._options.out.mkdir(parents=True, exist_ok=True)
        chosen = [
            case for case in cases.cases_of(self._tier) if re.search(self._options.only, case.name)
        ]
        for number, case in enumerate(chosen, 1):
            self._say(f"[{number}/{len(chosen)}] {case.name}")
            measured = contest.run_case(case, self._tools, self._effort(case))
            self._report["cases"].append(measured)
            print(f"    {_line(measured, self._tools.threads)}", flush=True)
            self._write()
        if not (self._options.no_crossover or self._options.only or self._options.quick):
            rounds = 2 if self._tier == "default" else 3
            self._report["crossover"] = crossover.run(
                self._tools, rounds, crossover.SHAPES, crossover.POINTS, self._say
            )
        return self._finish()

    def _effort(self, case: cases.Case) -> contest.Effort:
        """The listed cases of the default tier are measured thoroughly; the rest of the grid is for the planner."""
        values = case.entries * case.width
        with_peers = case in cases.PEERS
        thorough = with_peers or case in cases.cases_of("default") or self._tier == "quick"
        most = 30_000_000 if with_peers else 2_000_000
        few = self._tier == "quick" or not thorough or values > most
        every = sorted({1, self._tools.threads})
        python_peers = []
        if self._options.peers and with_peers:
            python_peers = [p.name for p in ways.PEERS if p.name != crossover.NUMPY]
        return contest.Effort(
            2 if few else 3,
            every if thorough else [self._tools.threads],
            cpp_peers=thorough,
            python_peers=python_peers,
            rounds_again=7,
        )

    def _write(self) -> Path:
        path = self._options.out / "reduce.json"
        path.write_text(json.dumps(self._report, indent=1) + "\n")
        return path

    def _finish(self) -> int:
        reports, threads = self._report["cases"], self._tools.threads
        crossovers = self._report["crossover"]
        bandwidths = [r["read_bytes_s"] for r in reports if "read_bytes_s" in r]
        self._report["read_gb_s"] = {
            count: max(b.get(count, 0) for b in bandwidths) / 1e9
            for count in sorted({count for b in bandwidths for count in b})
        }
        self._report["seconds"] = round(time.monotonic() - self._begin)
        self._report["tables"] = {
            "nanoseconds an entry": summary.overview(reports, threads),
            "planner": summary.planner(reports),
            "dense aggregation": [row for c in crossovers for row in c["summary"]],
            "promises": summary.claims(reports, crossovers, threads),
        }
        path = self._write()
        report_tool.stamp(path)
        report = json.loads(path.read_text())
        (self._options.out / "reduce.txt").write_text(report_tool.render(report) + "\n")
        # On the screen the choices that are wrong; all of them are in the files.
        report["tables"]["planner"] = [row for row in report["tables"]["planner"] if row["flag"]]
        print(f"\n{report_tool.render(report)}\n\nAll tables: {self._options.out / 'reduce.txt'}")
        if plots.plot_cases(reports, threads, self._options.out / "reduce_cases.svg"):
            print(f"Picture: {self._options.out / 'reduce_cases.svg'}")
        if plots.plot_crossover(crossovers, threads, self._options.out / "reduce_crossover.svg"):
            print(f"Picture: {self._options.out / 'reduce_crossover.svg'}")
        errors = [
            f"{r.get('case', 'crossover')}: {error}"
            for r in [*reports, *crossovers]
            for error in r.get("errors", [])
        ]
        for error in errors:
            print(f"run.py: {error}", file=sys.stderr)
        return 1 if errors else 0

    def _say(self, text: str) -> None:
        seconds = round(time.monotonic() - self._begin)
        print(f"[{seconds // 60}:{seconds % 60:02}] {text}", flush=True)


def _line(measured: dict, threads: int) -> str:
    """The planner's choice and the best of the others, on a line."""
    if "skipped" in measured:
        return f"skipped: {measured['skipped']}"
    rows = summary.overview([measured], threads)[0]
    return "  ".join(f"{k} {report_tool.text_of(v)}" for k, v in rows.items() if k != "case")


def main() -> int:
    options = parse_arguments()
    if not options.reduce_bench.exists():
        print(f"run.py: {options.reduce_bench} is not built", file=sys.stderr)
        return 2
    try:
        return Run(options).run()
    except contest.ContestError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
