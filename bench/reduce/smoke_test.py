#!/usr/bin/python3
"""Whether the benchmark of the reduction works, on tiny cases: smoke_test.py REDUCE_BENCH"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import case_reader
import cases
import contest
import numpy as np
import summary

REDUCE_BENCH = Path(sys.argv.pop(1))
# Ordinary; hostile values with repeated indices; rows of values.
SORTED = cases.Case(10_000, 10**6, 10)
HOSTILE = cases.Case(10_000, 10**6, 10, "zipf", "shuffled", 1, "exponents")
ROWS = cases.Case(500, 300, 5, "uniform", "sorted", 16)


class ReduceBenchTest(unittest.TestCase):
    """Runs the program once for each case."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="sparseagg_bench_")
        tools = contest.Tools(REDUCE_BENCH, Path(cls.folder.name), None, 2, bandwidth_mb=8)
        effort = contest.Effort(rounds=1, threads=[1, 2], rounds_again=1)
        cls.reports = {c: contest.run_case(c, tools, effort) for c in (SORTED, HOSTILE, ROWS)}

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def distinct_rows(self, case: cases.Case) -> int:
        path = Path(self.folder.name) / "again.case"
        cases.make(case, path)
        return len(np.unique(case_reader.read(path).rows))

    def digests(self, case: cases.Case) -> set:
        return {row["digest"] for row in self.reports[case]["rows"] if "digest" in row}

    def test_all_plans_give_the_bits_of_the_reference_back_end(self) -> None:
        for case, report in self.reports.items():
            own = [row for row in report["rows"] if row["own"] and "seconds" in row]
            self.assertIn("reference", {row["contender"].split("/")[0] for row in own})
            self.assertGreater(len(own), 4)
            self.assertEqual(len(self.digests(case)), 1, case.name)
            self.assertEqual(report["errors"], [])

    def test_other_updates_give_other_digests(self) -> None:
        self.assertEqual(len(set.union(*map(self.digests, self.reports))), len(self.reports))

    def test_the_result_and_that_of_the_peers_has_every_row(self) -> None:
        # reduce_bench itself compares the peers with ours.
        for case, report in self.reports.items():
            self.assertEqual(report["result_nnz"], self.distinct_rows(case))
            timed = {row["contender"] for row in report["rows"] if "seconds" in row}
            self.assertIn("std::sort + reduce", timed)

    def test_the_planner_table_has_every_form_and_number_of_threads(self) -> None:
        rows = summary.planner([self.reports[SORTED]])
        forms = {(row["threads"], row["form"]) for row in rows}
        self.assertEqual(forms, {(t, f) for t in (1, 2) for f in ("batch", "stream")})
        for row in rows:
            self.assertGreaterEqual(row["ratio"], 1)

    def test_what_was_measured_again_is_what_counts(self) -> None:
        report = {**self.reports[SORTED], "again": []}
        first = next(row for row in summary.planner([report]) if row["form"] == "stream")
        for row in report["rows"]:
            if row["own"] and (row["threads"], row["form"]) == (first["threads"], "stream"):
                seconds = 2.0 if row["plan"] == first["chosen"] else 1.0
                report["again"].append({**row, "runs": [seconds]})
        rows = {(row["threads"], row["form"]): row for row in summary.planner([report])}
        point = rows[first["threads"], "stream"]
        self.assertEqual((point["ratio"], point["flag"]), (2.0, "<<<"))
        self.assertEqual(point["first_ratio"], first["ratio"])
        self.assertNotIn("first_ratio", rows[first["threads"], "batch"])

    def test_a_file_that_is_cut_off_is_refused(self) -> None:
        path = Path(self.folder.name) / "cut.case"
        cases.make(SORTED, path)
        path.write_bytes(path.read_bytes()[:-4])
        run = subprocess.run([REDUCE_BENCH, path], capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("is not a benchmark case", run.stderr)


if __name__ == "__main__":
    unittest.main()
