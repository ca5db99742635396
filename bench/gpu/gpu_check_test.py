#!/usr/bin/env python3
"""Whether gpu_check would come back with results, without a GPU: both of its calls run here as they would there, with tiny
cases on the emulated GPU. Programs that need hardware are stood in for: nvidia-smi, ncu and compute-sanitizer.

usage: gpu_check_test.py FOLDER_OF_PROGRAMS
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gpu_table
import grid
from stages import lines_of

HERE = Path(__file__).resolve().parent
PROGRAMS = Path(sys.argv.pop())
REDUCE = PROGRAMS / "gpu_reduce_emulated"
PREDICT = PROGRAMS / "gpu_predict"

CASE = grid.Case(1000, 100_000, 8)
TINY = [
    CASE,
    grid.Case(1000, 500, 4, "zipf", sorted=False),
    grid.Case(1000, 500, 8, "overlap"),
    grid.Case(1000, 2000, 2, "zipf"),
    grid.Case(64, 100, 4, sorted=False, width=16),
]
PLANS = (*grid.OURS, *grid.LIBRARIES)

# gpu_reduce, but cusparse_spmm dies, thrust_sort_reduce hangs, and dense_accumulate gives another result.
FAULTY = """
import json, subprocess, sys, threading
steps, output, *more = sys.argv[1:]
lines = open(steps, encoding="utf-8").read().splitlines()
faults = [n for n, x in enumerate(lines) if x.split()[-1] in ("cusparse_spmm", "thrust_sort_reduce")]
good = lines[: faults[0]] if faults else lines
if good:
    open(steps + ".good", "w", encoding="utf-8").write("\\n".join(good) + "\\n")
    subprocess.run(["GPU_REDUCE", steps + ".good", output + ".own", *more], check=True)
    text = open(output + ".own", encoding="utf-8").read().splitlines()
    open(output + ".own", "w").close()
    with open(output, "a", encoding="utf-8") as file:
        for line in text:
            fields = json.loads(line)
            if fields.get("plan") == "dense_accumulate" and "digest" in fields:
                fields["digest"] = "other"
            file.write(json.dumps(fields) + "\\n")
if faults:
    with open(output, "a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": "begin", "step": faults[0]}) + "\\n")
    if lines[faults[0]].endswith("cusparse_spmm"):
        sys.exit(4)
    threading.Event().wait()
"""

NCU = """
import subprocess, sys
log = sys.argv[sys.argv.index("--log-file") + 1]
at = next(i for i, x in enumerate(sys.argv) if x.endswith("gpu_reduce"))
subprocess.run(sys.argv[at:], check=True)
kernel = "void sparseagg::gpu::ForEachKernel<sparseagg::gpu::<unnamed>::Add<float>>(sparseagg::gpu::Count, unsigned long)"
names = '"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum",'
names += '"sm__warps_active.avg.pct_of_peak_sustained_active"'
open(log, "w").write("==PROF== said\\n" + names + '\\n"","","byte","byte","nsecond","%"\\n'
    + f'"0","{kernel}","3,000","1000","2000","50"\\n"1","{kernel}","1000","1000","1000","80"\\n')
"""

SANITIZER = """
import subprocess, sys
at = next(i for i, x in enumerate(sys.argv) if "build/gpu_check/" in x)
print("========= under", sys.argv[sys.argv.index("--tool") + 1])
sys.exit(subprocess.run(sys.argv[at:]).returncode)
"""


def make_program(path: Path, work: str) -> None:
    """A shell's work, or Python's."""
    first = f"#!{sys.executable}" if "import" in work else "#!/bin/sh"
    path.write_text(f"{first}\n{work.strip()}\n", encoding="utf-8")
    path.chmod(0o755)


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sparseagg_gpu_check_test_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class ProgramsTest(InFolder):
    """On the emulated GPU, with tiny cases; and the table of what they wrote."""

    def reduce(self, steps: list[grid.Step], *more: str) -> list[dict]:
        path, output = self.folder / "steps.txt", self.folder / "lines.jsonl"
        grid.write(path, steps)
        command = [REDUCE, path, output, "100", *more]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return lines_of(output)

    def test_every_plan_gives_what_the_cpu_says(self) -> None:
        plans = (*PLANS, grid.REFERENCE)
        self.reduce([(case, plan) for case in TINY for plan in plans], "once")
        results = gpu_table.Results(self.folder, {})
        self.assertEqual([line for line in results.reduced if "error" in line], [])
        for lines in results.by_case().values():
            self.assertEqual({line["plan"] for line in lines if line["same"]}, set(plans))

    def test_what_a_plan_takes_includes_what_is_put_aside(self) -> None:
        lines = [x for x in self.reduce([(CASE, plan) for plan in PLANS]) if x["kind"] == "reduce"]
        self.assertEqual([line["put_aside"] for line in lines], [0] * len(PLANS))

    def test_steps_are_done_in_their_order_and_lines_appended(self) -> None:
        steps = [(TINY[4], "row_reduce"), (CASE, grid.CUB), (CASE, "tile_merge")]
        self.reduce(steps, "once")
        lines = self.reduce([(CASE, grid.DENSE), (CASE, "none")], "once")
        done = [line["plan"] for line in lines if line["kind"] == "reduce"]
        self.assertEqual(done, ["row_reduce", grid.CUB, "tile_merge", grid.DENSE, "none"])
        begun = [line["step"] for line in lines if line["kind"] == "begin"]
        self.assertEqual(begun, [0, 1, 2, 0, 1])
        self.assertEqual(lines[-1]["error"], "no such plan here")

    def test_a_file_that_is_no_list_of_steps_is_refused(self) -> None:
        path = self.folder / "steps.txt"
        path.write_text("1000 100 x\n", encoding="utf-8")
        call = subprocess.run(
            [REDUCE, path, self.folder / "out", "1"], check=False, capture_output=True
        )
        self.assertEqual(call.returncode, 2)

    def test_the_table_has_a_line_for_each_measurement_beside_its_prediction(self) -> None:
        steps = [(case, plan) for case in TINY for plan in (*grid.OURS, grid.END_TO_END)]
        measured = [line for line in self.reduce(steps) if line["kind"] == "reduce"]
        predictions = self.folder / "predictions.json"
        subprocess.run([PREDICT, self.folder / "steps.txt", predictions], check=True)
        gpu_table.write(self.folder, predictions)
        text = (self.folder / "table.txt").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if " ms" in line]
        self.assertEqual(len(lines), len(measured))
        self.assertEqual(text.count("model "), len(measured))
        results = json.loads((self.folder / "results.json").read_text(encoding="utf-8"))
        self.assertEqual(len([x for x in results["lines"] if x["kind"] == "reduce"]), len(measured))

    def test_the_peers_program_runs(self) -> None:
        path, output = self.folder / "steps.txt", self.folder / "lines.jsonl"
        grid.write(path, [*((case, "numpy_unique") for case in TINY), (CASE, "no_such_job")])
        command = [sys.executable, HERE / "peers.py", path, output, "60"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = [line for line in lines_of(output) if line["kind"] == "reduce"]
        self.assertEqual([grid.case_of(line) for line in lines], [*TINY, CASE])
        self.assertTrue(all("ms" in line for line in lines[:-1]), lines)
        self.assertIn("error", lines[-1])


class PredictionsTest(InFolder):
    def test_the_written_predictions_are_the_model_s(self) -> None:
        """Otherwise: gpu_predict STEPS bench/results/gpu_predictions.json, STEPS by grid.py."""
        steps = self.folder / "steps.txt"
        subprocess.run([sys.executable, HERE / "grid.py", steps], check=True)
        subprocess.run([PREDICT, steps, self.folder / "now.json"], check=True)
        self.assertEqual(
            gpu_table.predictions_of(self.folder / "now.json"),
            gpu_table.predictions_of(gpu_table.PREDICTIONS),
        )


class CallsTest(InFolder):
    """gpu_check itself, in what looks like the unpacked archive."""

    def setUp(self) -> None:
        super().setUp()
        shutil.copytree(
            HERE, self.folder / "bench" / "gpu", ignore=shutil.ignore_patterns("__pycache__")
        )
        (self.folder / "bench" / "results").mkdir()
        shutil.copy2(gpu_table.PREDICTIONS, self.folder / "bench" / "results")
        self.programs = self.folder / "build" / "gpu_check"
        self.programs.mkdir(parents=True)
        os.symlink(REDUCE, self.programs / "gpu_reduce")
        for name, program, tests in (
            (
                "conformance",
                "cuda_emulated_conformance_test",
                "*IndexSpace*:*NegativeZero*/*sum_f32",
            ),
            ("plans", "cuda_plans_test", "*HotRow*:*FarApart*"),
        ):
            work = f'exec {PROGRAMS / program} "$@" --gtest_filter="{tests}"'
            make_program(self.programs / f"cuda_gpu_{name}_test", work)
        make_program(self.programs / "cuda_device_numerics_test", "echo ran")
        (self.programs / "commit.txt").write_text("0123abc\n", encoding="utf-8")
        if (PROGRAMS / "sparseagg").exists():
            os.symlink(PROGRAMS / "sparseagg", self.programs / "sparseagg")
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        make_program(self.tools / "nvidia-smi", "echo an emulated GPU")
        make_program(self.tools / "ncu", NCU)
        make_program(self.tools / "compute-sanitizer", SANITIZER)
        self.out = self.folder / "out"

    def call(self, *arguments: str) -> subprocess.CompletedProcess:
        """With less time, and as much shorter limits, than on hardware."""
        path = f"{self.tools}{os.pathsep}{os.environ['PATH']}"
        command = [
            sys.executable,
            "-B",
            self.folder / "bench" / "gpu" / "gpu_check",
            "--out",
            self.out,
        ]
        return subprocess.run(
            [*command, "--scale", "1e-5", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path},
        )

    def states(self) -> dict[str, str]:
        stages = json.loads((self.out / "stages.json").read_text(encoding="utf-8"))
        return {stage["stage"]: stage["state"] for stage in stages}

    def test_the_first_call(self) -> None:
        call = self.call("--seconds", "200")
        states = self.states()
        not_passed = {k: v for k, v in states.items() if v != "passed"}
        # There is no GPU for the server; a loaded machine may not come to the end of the densities.
        self.assertEqual(
            set(not_passed) - {"server", "densities"}, set(), call.stdout + call.stderr
        )
        names = {path.name for path in self.out.iterdir()}
        made = {"results.json", "table.txt", "summary.txt"}
        self.assertEqual(names, made | {"lines.jsonl", "log.txt", "stages.json"})
        for plan in PLANS:
            self.assertTrue(
                {f"smoke_{plan}", f"conformance_{plan}", f"plans_{plan}"} <= set(states)
            )
        results = gpu_table.Results(self.out, {})
        self.assertEqual(results.different(), [])
        for case in grid.DECISIVE:
            own = results.best(case.scaled(1e-5), *grid.OURS)
            self.assertIsNotNone(own, case)
        self.assertEqual(len(results.of_kind("kernels")), 6)
        aims = gpu_table.aims(results, 1e-5)
        measured = {aim["aim"].split(":")[0] for aim in aims if aim["state"] != "not measured"}
        self.assertIn("end to end", measured)
        self.assertIn("rows of 64", measured)
        self.assertIn("first call, commit 0123abc", call.stdout)
        self.assertTrue(call.stdout.rstrip().endswith(gpu_table.describe_aim(aims[-1])))
        log = (self.out / "log.txt").read_text(encoding="utf-8")
        self.assertEqual(log.count("== conformance_"), len(PLANS))
        self.assertIn("========= under racecheck", log)
        if (PROGRAMS / "sparseagg").exists():
            loads = results.of_kind("server")
            self.assertEqual({x["backend"] for x in loads if "error" in x}, {"cuda"})
            self.assertTrue(any(x.get("exact") and x["gb_s"] > 0 for x in loads), loads)

    def test_a_plan_that_dies_hangs_or_differs_costs_only_itself(self) -> None:
        (self.programs / "gpu_reduce").unlink()
        make_program(self.programs / "gpu_reduce", FAULTY.replace("GPU_REDUCE", str(REDUCE)))
        for name in ("conformance", "plans"):
            make_program(self.programs / f"cuda_gpu_{name}_test", "echo ran")
        call = self.call("--seconds", "100")
        self.assertEqual(call.returncode, 1)
        states = self.states()
        bad = {k for k, v in states.items() if k.startswith("smoke_") and v != "passed"}
        faulty = ("thrust_sort_reduce", "cusparse_spmm", "dense_accumulate")
        self.assertEqual(bad, {f"smoke_{plan}" for plan in faulty}, call.stdout + call.stderr)
        # Each was looked at with memcheck, and those that die are not measured.
        self.assertTrue({f"memcheck_of_{plan}" for plan in faulty} <= set(states))
        self.assertEqual(states["measure_thrust_sort_reduce"], "nothing to do")
        self.assertEqual(states["measure_cusparse_dense"], "passed")
        results = gpu_table.Results(self.out, {})
        self.assertEqual({line["plan"] for line in results.different()}, {"dense_accumulate"})
        for case, plan in (*grid.MEANT, (grid.CANONICAL, grid.CUB), (grid.ROWS, grid.END_TO_END)):
            self.assertIsNotNone(results.best(case.scaled(1e-5), plan), plan)
        for words in ("LOST thrust_sort_reduce", "LOST cusparse_spmm", "DIFFERS dense_accumulate:"):
            self.assertIn(words, call.stdout)

    def test_the_second_call(self) -> None:
        old = self.programs / "old"
        first = self.programs / "first"
        for folder in (old, first):
            folder.mkdir()
        os.symlink(REDUCE, old / "gpu_reduce")
        failed = ("smoke_row_reduce", "conformance_tile_merge", "plans_tile_merge", "racecheck")
        stages = [{"stage": name, "state": "failed (1)"} for name in failed]
        stages.append({"stage": "plans_row_reduce", "state": "passed"})
        (first / "stages.json").write_text(json.dumps(stages), encoding="utf-8")
        call = self.call("--second", "--seconds", "160")
        states = self.states()
        not_passed = {k: v for k, v in states.items() if v != "passed"}
        late = {"densities", "rest", "old", "new"}
        self.assertEqual(set(not_passed) - late, set(), call.stdout + call.stderr)
        self.assertTrue(set(failed) <= set(states))
        self.assertNotIn("plans_row_reduce", states)
        results = gpu_table.Results(self.out, {})
        for case, plan in grid.MEANT:
            for stage in ("old", "new"):
                self.assertIsNotNone(results.best(case.scaled(1e-5), plan, stage=stage), plan)
        self.assertIn("old and new programs in turn", call.stdout)
        self.assertTrue({"densities", "rest", "measure_torch", "measure_cub"} <= set(states))


if __name__ == "__main__":
    unittest.main()
