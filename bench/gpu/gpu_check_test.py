#!/usr/bin/env python3
"""Whether gpu_check would come back with results, without a GPU: gpu_check_test.py GPU_REDUCE_EMULATED GPU_PREDICT"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import gpu_table
import grid
from stages import Stages, folder_of_library, lines_of

HERE = Path(__file__).resolve().parent
GPU_PREDICT = Path(sys.argv.pop())
GPU_REDUCE = Path(sys.argv.pop())
PLANS = {
    "cusparse_spmm",
    "cusparse_dense",
    "dense_accumulate",
    "tile_merge",
    "row_reduce",
    "thrust_sort_reduce",
    "radix_segments",
}

# Case 1 hangs, case 2 dies, the others give a line each.
PROGRAM = """
import json, sys, threading
first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
with open(sys.argv[1], "a" if first else "w", encoding="utf-8") as file:
    for case in range(first, 5):
        print(json.dumps({"kind": "begin", "case": case}), file=file, flush=True)
        if case == 1:
            file.write('{"kind": "half a li')
            file.flush()
            threading.Event().wait()
        if case == 2:
            sys.exit(7)
        print(json.dumps({"kind": "reduce", "case": case}), file=file, flush=True)
"""


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sparseagg_gpu_check_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class GridTest(unittest.TestCase):
    def test_the_full_grid_has_every_size_of_the_issue_and_the_quick_cases_first(self) -> None:
        cases = grid.full()
        self.assertEqual(len({case.key() for case in cases}), len(cases))
        self.assertEqual(cases[: len(grid.quick())], grid.quick())
        scalars = [case for case in cases if case.width == 1]
        self.assertTrue({10**6, 10**8, 5 * 10**8} <= {case.entries for case in scalars})
        self.assertTrue({10**6, 10**8, 10**9, 10**12} <= {case.rows for case in scalars})
        self.assertEqual({"uniform", "zipf", "overlap"}, {case.indices for case in scalars})
        self.assertEqual({8, 64, 1000}, {case.contributors for case in cases})
        self.assertEqual({1, 16, 64, 128, 512}, {case.width for case in cases})
        self.assertGreater(len(cases), 250)

    def test_updates_without_duplicates_need_as_many_rows(self) -> None:
        with self.assertRaises(ValueError):
            grid.Case(10**8, 10**6, 8)


class ProgramsTest(InFolder):
    """On the emulated GPU, with tiny cases; and the table of what they wrote."""

    def setUp(self) -> None:
        super().setUp()
        self.cases = self.folder / "cases.txt"
        grid.write(self.cases, grid.tiny())

    def run_reduce(self, *first: str) -> list[dict]:
        output = self.folder / "gpu_reduce.jsonl"
        subprocess.run(
            [GPU_REDUCE, self.cases, output, "100", *first], check=True, stdout=subprocess.DEVNULL
        )
        return lines_of(output)

    def test_every_plan_gives_the_same_for_every_case(self) -> None:
        lines = self.run_reduce()
        self.assertEqual(
            [line["case"] for line in lines if line["kind"] == "begin"], list(range(5))
        )
        for case in grid.tiny():
            own = [m for m in lines if m["kind"] == "reduce" and grid.key_of(m) == case.key()]
            self.assertEqual([m for m in own if "error" in m], [])
            plans = {m["plan"] for m in own if m.get("same")}
            self.assertEqual(plans, PLANS, case)
            self.assertEqual(any(m.get("end_to_end") for m in own), case.end_to_end)
            peers = {m["plan"] for m in own if m["plan"].startswith("peer")}
            self.assertEqual(peers, {gpu_table.CUB, gpu_table.DENSE} if case.width == 1 else set())

    def test_cases_before_the_first_are_left_out_and_lines_appended(self) -> None:
        before = len(self.run_reduce())
        again = self.run_reduce("3")[before:]
        self.assertEqual([line["case"] for line in again if line["kind"] == "begin"], [3, 4])

    def test_a_file_that_is_no_list_of_cases_is_refused(self) -> None:
        self.cases.write_text("1000 100 x\n", encoding="utf-8")
        call = subprocess.run(
            [GPU_REDUCE, self.cases, self.folder / "out", "1"], check=False, capture_output=True
        )
        self.assertEqual(call.returncode, 2)

    def test_the_table_has_a_line_for_each_measurement_beside_its_prediction(self) -> None:
        measured = [line for line in self.run_reduce() if line["kind"] == "reduce"]
        predictions = self.folder / "predictions.json"
        subprocess.run([GPU_PREDICT, self.cases, predictions], check=True)
        text = gpu_table.write(self.folder, predictions)
        lines = [line for line in text.splitlines() if " ms" in line]
        self.assertEqual(len(lines), sum(1 for m in measured if "ms" in m))
        self.assertGreaterEqual(text.count("model "), len(PLANS) * len(grid.tiny()))
        self.assertIn("not measured  sorted, 1e8 in 1e9", text)
        results = json.loads((self.folder / "results.json").read_text(encoding="utf-8"))
        self.assertEqual(len(results["measured"]), len(measured))

    def test_the_peers_program_runs(self) -> None:
        output = self.folder / "peer_numpy.jsonl"
        command = [sys.executable, HERE / "peers.py", self.cases, output, "60"]
        subprocess.run([*command, "numpy"], check=True, stdout=subprocess.DEVNULL)
        lines = [line for line in lines_of(output) if line["kind"] == "reduce"]
        self.assertEqual(
            [grid.key_of(line) for line in lines], [case.key() for case in grid.tiny()]
        )
        self.assertTrue(all("ms" in line for line in lines), lines)


class PredictionsTest(InFolder):
    def test_the_written_predictions_are_the_model_s(self) -> None:
        """Otherwise: gpu_predict CASES bench/results/gpu_predictions.json, CASES by grid.py full."""
        grid.write(self.folder / "cases.txt", grid.full())
        subprocess.run(
            [GPU_PREDICT, self.folder / "cases.txt", self.folder / "now.json"], check=True
        )
        self.assertEqual(
            gpu_table.predictions_of(self.folder / "now.json"),
            gpu_table.predictions_of(gpu_table.PREDICTIONS),
        )


class AimsTest(InFolder):
    def aims_of(self, measured: list[dict]) -> dict[str, str]:
        text = "".join(json.dumps({"kind": "reduce", **m}) + "\n" for m in measured)
        (self.folder / "gpu_reduce.jsonl").write_text(text, encoding="utf-8")
        return {
            aim["aim"]: aim["state"] for aim in gpu_table.aims(gpu_table.Results(self.folder, {}))
        }

    @staticmethod
    def line(case: grid.Case, **fields: object) -> dict:
        names = ("entries", "rows", "contributors", "indices", "sorted", "width")
        return {**dict(zip(names, case.key(), strict=True)), **fields}

    def test_an_aim_is_met_missed_or_not_measured(self) -> None:
        case = grid.quick()[0]
        ours = [
            self.line(case, plan="tile_merge", ms=4.0),
            self.line(case, plan="radix_segments", ms=6.0),
        ]
        sort, coalesce = (
            "sorted, 1e8 in 1e9: times as fast as raw CUB",
            "sorted, 1e8 in 1e9: times as fast as torch coalesce",
        )
        found = self.aims_of([*ours, self.line(case, plan=gpu_table.CUB, ms=16.0)])
        self.assertEqual((found[sort], found[coalesce]), ("met", "not measured"))
        found = self.aims_of([*ours, self.line(case, plan=gpu_table.CUB, ms=15.9)])
        self.assertEqual(found[sort], "missed")
        found = self.aims_of(
            [*ours, self.line(case, plan="peer: torch coalesce", error="out of memory")]
        )
        self.assertEqual(found[coalesce], "not measured")


class CheckTest(InFolder):
    """The whole of gpu_check, with programs that do nothing."""

    def test_results_are_eight_files_and_one_is_the_log_of_all_stages(self) -> None:
        bench = self.folder / "bench"
        shutil.copytree(HERE, bench / "gpu", ignore=shutil.ignore_patterns("__pycache__"))
        (bench / "results").mkdir()
        shutil.copy2(gpu_table.PREDICTIONS, bench / "results")
        programs = self.folder / "build" / "gpu_check"
        programs.mkdir(parents=True)
        for name in ("conformance_test", "plans_test"):
            self.make_program(programs / f"cuda_gpu_{name}")
        self.make_program(programs / "cuda_device_numerics_test")
        self.make_program(programs / "gpu_reduce", 'echo \'{"kind": "device"}\' >"$2"')
        out = self.folder / "out"
        call = subprocess.run(
            [sys.executable, "-B", bench / "gpu" / "gpu_check", "--out", out, "--seconds", "100"],
            check=False,
            capture_output=True,
            text=True,
        )
        self.assertEqual(call.returncode, 0, call.stderr)
        files = {path.name for path in out.iterdir()}
        made_from = {f"peer_{name}.jsonl" for name in ("cupy", "jax", "torch")}
        made_from |= {"gpu_reduce.jsonl", "stages.json"}
        self.assertEqual(files, made_from | {"log.txt", "results.json", "table.txt"})
        stages = json.loads((out / "stages.json").read_text(encoding="utf-8"))
        log = (out / "log.txt").read_text(encoding="utf-8").splitlines()
        self.assertEqual([f"== {s['stage']}" for s in stages], [x for x in log if x[:3] == "== "])
        self.assertEqual(log.count("ran"), 6)
        self.assertIn("not measured", call.stdout)

    @staticmethod
    def make_program(path: Path, work: str = "echo ran") -> None:
        path.write_text(f"#!/bin/sh\n{work}\n", encoding="utf-8")
        path.chmod(0o755)


class StagesTest(InFolder):
    def stages(self, seconds: float = 60) -> Stages:
        return Stages(self.folder / "out", self.folder, seconds)

    def test_a_case_that_hangs_or_dies_costs_no_other(self) -> None:
        program, output = self.folder / "program.py", self.folder / "out" / "lines.jsonl"
        program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
        stages = self.stages()
        state = stages.cases(
            "measure", [sys.executable, program, output], output, limit=50, silence=3
        )
        self.assertEqual(state, "failed (2 cases lost)")
        lines = lines_of(output)
        self.assertEqual([line["case"] for line in lines if line["kind"] == "reduce"], [0, 3, 4])
        lost = {line["case"]: line["error"] for line in lines if line["kind"] == "lost"}
        self.assertEqual(list(lost), [1, 2])
        self.assertIn("no answer", lost[1])
        self.assertEqual(lost[2], "exit code 7")

    def test_a_program_that_dies_before_its_first_case_is_not_started_again(self) -> None:
        output = self.folder / "out" / "lines.jsonl"
        state = self.stages().cases(
            "measure", [sys.executable, "-c", "raise SystemExit(3)"], output, 20, 5
        )
        self.assertEqual(state, "failed (exit code 3)")

    def test_limits_and_missing_programs_are_states(self) -> None:
        stages = self.stages()
        self.assertEqual(stages.run("missing", ["no-such-program"], 5), "missing")
        self.assertEqual(
            stages.run(
                "slow", [sys.executable, "-c", "import threading; threading.Event().wait()"], 1.5
            ),
            "timeout",
        )
        self.assertEqual(
            stages.run("bad", [sys.executable, "-c", "raise SystemExit(1)"], 20), "failed (1)"
        )
        self.assertEqual(stages.run("good", [sys.executable, "-c", "pass"], 20), "passed")
        self.assertEqual(
            self.stages(0).run("late", [sys.executable, "-c", "pass"], 20), "no time left"
        )
        states = json.loads((self.folder / "out" / "stages.json").read_text(encoding="utf-8"))
        self.assertEqual([stage["stage"] for stage in states], ["late"])

    def test_a_stage_that_says_too_much_leaves_room_for_others(self) -> None:
        stages = self.stages()
        stages.LOG_BYTES_MAX = 100
        for name in ("first", "second"):
            talk = f"print('{name} begins'); print('x' * 1000); print('{name} ends')"
            stages.run(name, [sys.executable, "-c", talk], 20)
            self.assertTrue(stages.said.startswith(f"{name} begins\n"), stages.said)
        text = stages.log.read_text(encoding="utf-8")
        self.assertLess(len(text), 400)
        for words in ("== first\nfirst begins\n", "first ends\n== second\n", "\nsecond ends\n"):
            self.assertIn(words, text)

    def test_an_environment_is_for_programs_that_are_not_in_python(self) -> None:
        stages = Stages(self.folder / "out", self.folder, 60, {"SPARSEAGG_OF_OURS": "set"})
        stages.run("shell", ["sh", "-c", "echo _${SPARSEAGG_OF_OURS}_"], 20)
        self.assertEqual(stages.said, "_set_\n")
        look = "import os; print(os.environ.get('SPARSEAGG_OF_OURS'))"
        stages.run("python", [sys.executable, "-c", look], 20)
        self.assertEqual(stages.said, "None\n")

    def test_a_line_that_is_no_json_costs_no_other(self) -> None:
        path = self.folder / "lines.jsonl"
        path.write_text('{"kind": "a"}\n{"kind": "b", "error": "in "x""}\n{"kind": "c"}\n[1]\n')
        self.assertEqual([line["kind"] for line in lines_of(path)], ["a", "c"])

    def test_a_library_is_found_among_packages_of_python(self) -> None:
        library = self.folder / "site" / "nvidia" / "cu13" / "lib" / "libx.so.12"
        library.parent.mkdir(parents=True)
        library.touch()
        folders = [str(self.folder), str(self.folder / "site")]
        self.assertEqual(folder_of_library("libx.so.12", folders), library.parent)
        self.assertIsNone(folder_of_library("liby.so.12", folders))


if __name__ == "__main__":
    unittest.main()
