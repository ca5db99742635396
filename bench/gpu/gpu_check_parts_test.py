#!/usr/bin/env python3
"""The parts of gpu_check that need no program of this build: cases, stages, tables."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock
from pathlib import Path

import gpu_kernels
import gpu_table
import grid
import packing
from stages import Program, Stages, folder_of_library, lines_of

CASE = grid.Case(1000, 100_000, 8)
OTHERS = [grid.Case(1000, rows, 8) for rows in (1000, 2000, 3000)]

# Step 1 hangs, step 2 dies, the others give a line each.
PROGRAM = """
import json, sys, threading
with open(sys.argv[2], "a", encoding="utf-8") as file:
    for number, line in enumerate(open(sys.argv[1], encoding="utf-8").read().splitlines()):
        plan = line.split()[-1]
        print(json.dumps({"kind": "begin", "step": number}), file=file, flush=True)
        if plan == "hangs":
            file.write('{"kind": "half a li')
            file.flush()
            threading.Event().wait()
        if plan == "dies":
            sys.exit(7)
        print(json.dumps({"kind": "reduce", "plan": plan}), file=file, flush=True)
"""


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sparseagg_gpu_check_test_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class GridTest(unittest.TestCase):
    def test_the_full_grid_has_every_size_that_is_asked_for_and_the_quick_cases_first(self) -> None:
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


class TableTest(InFolder):
    def results_of(self, lines: list[dict]) -> gpu_table.Results:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.folder / "lines.jsonl").write_text(text, encoding="utf-8")
        return gpu_table.Results(self.folder, {})

    @staticmethod
    def line(case: grid.Case, plan: str, **fields: object) -> dict:
        return {"kind": "reduce", **grid.members((case, plan)), **fields}

    def states(self, lines: list[dict]) -> dict[str, str]:
        return {aim["aim"]: aim["state"] for aim in gpu_table.aims(self.results_of(lines))}

    def test_an_aim_is_met_missed_or_not_measured(self) -> None:
        case = grid.CANONICAL
        ours = [
            self.line(case, "tile_merge", ms=4.0),
            self.line(case, "radix_segments", ms=6.0),
        ]
        sort, coalesce = (
            "canonical, 1e8 in 1e9: times as fast as raw CUB",
            "canonical, 1e8 in 1e9: times as fast as torch coalesce",
        )
        found = self.states([*ours, self.line(case, grid.CUB, ms=32.0)])
        self.assertEqual((found[sort], found[coalesce]), ("met", "not measured"))
        found = self.states([*ours, self.line(case, grid.CUB, ms=31.9)])
        self.assertEqual(found[sort], "missed")
        found = self.states([*ours, self.line(case, grid.COALESCE, error="out of memory")])
        self.assertEqual(found[coalesce], "not measured")

    def test_the_digest_of_the_cpu_counts_and_else_that_of_our_first_plan(self) -> None:
        lines = [
            self.line(CASE, "cusparse_spmm", digest="a"),
            self.line(CASE, "radix_segments", digest="b"),
        ]
        different = self.results_of(lines).different()
        self.assertEqual([line["plan"] for line in different], ["cusparse_spmm"])
        lines.append(self.line(CASE, grid.REFERENCE, digest="a"))
        different = self.results_of(lines).different()
        self.assertEqual([line["plan"] for line in different], ["radix_segments"])

    def test_old_programs_measure_for_the_comparison_only(self) -> None:
        lines = [
            {"kind": "stage", "stage": "old"},
            self.line(grid.CANONICAL, "tile_merge", ms=1.0),
            {"kind": "stage", "stage": "new"},
            self.line(grid.CANONICAL, "tile_merge", ms=2.0),
        ]
        results = self.results_of(lines)
        self.assertEqual(results.best(grid.CANONICAL, "tile_merge")["ms"], 2.0)
        self.assertIn("x0.50", gpu_table.describe_comparison(results, 1)[1])

    def test_the_summary_is_a_page_and_ends_with_the_aims(self) -> None:
        kernels = [
            {
                "kernel": "k" * 60,
                "launches": 1,
                "ms": 1,
                "mb_read": 1,
                "mb_written": 1,
                "gb_s": 1,
                "warps_percent": 1,
            }
        ]
        lines = [
            {"kind": "kernels", "kernels": kernels * 6, **grid.members((CASE, "row_reduce"))}
        ] * 100
        results = self.results_of(lines)
        met = gpu_table.aims(results)
        text = gpu_table.summary(results, met, 1)
        self.assertLess(len(text.encode()), 10_000)
        self.assertTrue(text.endswith(gpu_table.describe_aim(met[-1]) + "\n"))
        self.assertIn("more in table.txt", text)


class KernelsTest(InFolder):
    def test_both_layouts_of_ncu_are_read(self) -> None:
        path = self.folder / "kernels.csv"
        names = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        kernel = '"0","void cub::detail::Sort<int>(int)",'
        path.write_text(
            f'==PROF== said\n{names}{kernel}"gpu__time_duration.sum","usecond","1,000.5"\n'
            f'{kernel}"dram__bytes_read.sum","Mbyte","2"\n',
            encoding="utf-8",
        )
        found = gpu_kernels.by_kernel(path)
        self.assertEqual(
            [(k["kernel"], k["ms"], k["mb_read"]) for k in found], [("Sort<int>", 1.0005, 2.0)]
        )

    def test_a_file_without_kernels_gives_none(self) -> None:
        path = self.folder / "kernels.csv"
        self.assertEqual(gpu_kernels.by_kernel(path), [])
        path.write_text("==ERROR== no permission\n", encoding="utf-8")
        self.assertEqual(gpu_kernels.by_kernel(path), [])


class PackingTest(InFolder):
    def test_a_pack_takes_along_what_was_packed_before_and_its_results(self) -> None:
        binaries, results, pack = (self.folder / name for name in ("bin", "results", "pack"))
        for folder in (binaries, results):
            folder.mkdir()
        for name in packing.PROGRAMS:
            shutil.copy2(shutil.which("true"), binaries / name)
        (results / "stages.json").write_text("[]", encoding="utf-8")
        with unittest.mock.patch.object(packing, "PACK", pack):
            packing.collect(binaries)
            self.assertEqual(
                {path.name for path in pack.iterdir()}, {*packing.PROGRAMS, "commit.txt"}
            )
            packing.collect(binaries, old=pack, results=results)
        subprocess.run([pack / "old" / "gpu_reduce"], check=True)
        self.assertEqual((pack / "first" / "stages.json").read_text(encoding="utf-8"), "[]")

    def test_what_a_program_needs_beside_the_c_library_is_named(self) -> None:
        program = Path(shutil.which("true"))
        self.assertEqual(packing.libraries_of(program), [])
        self.assertGreaterEqual(packing.glibc_of(program), (2, 2))


class StagesTest(InFolder):
    def stages(self, seconds: float = 60) -> Stages:
        return Stages(self.folder / "out", seconds)

    def program(self) -> list:
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
        return [sys.executable, path]

    def test_a_step_that_hangs_or_dies_costs_no_other(self) -> None:
        stages = self.stages()
        steps = [(CASE, plan) for plan in ("first", "hangs", "dies", "good", "last")]
        state = stages.steps("measure", self.program(), steps, limit=50, silence=1.5)
        self.assertEqual(state, "failed (2 steps lost)")
        lines = lines_of(stages.lines)
        done = [line["plan"] for line in lines if line["kind"] == "reduce"]
        self.assertEqual(done, ["first", "good", "last"])
        lost = {line["plan"]: line["error"] for line in lines if line["kind"] == "lost"}
        self.assertEqual(list(lost), ["hangs", "dies"])
        self.assertIn("no answer", lost["hangs"])
        self.assertEqual(lost["dies"], "exit code 7")

    def test_a_plan_that_has_lost_two_steps_is_not_tried_again(self) -> None:
        stages = self.stages()
        steps = [(case, plan) for case in OTHERS for plan in ("dies", "good")]
        state = stages.steps("measure", self.program(), steps, limit=50, silence=20)
        self.assertEqual(state, "failed (2 steps lost)")
        done = [line["plan"] for line in lines_of(stages.lines) if line["kind"] == "reduce"]
        self.assertEqual(done, ["good"] * len(OTHERS))

    def test_a_program_that_dies_before_its_first_step_is_not_started_again(self) -> None:
        program = [sys.executable, "-c", "raise SystemExit(3)"]
        state = self.stages().steps("measure", program, [(CASE, "x")], 20, 5)
        self.assertEqual(state, "failed (exit code 3)")

    def test_limits_and_missing_programs_are_states(self) -> None:
        stages = self.stages()
        self.assertEqual(stages.run("missing", ["no-such-program"], 5), "missing")
        wait = [sys.executable, "-c", "import threading; threading.Event().wait()"]
        self.assertEqual(stages.run("slow", wait, 1.5), "timeout")
        self.assertEqual(
            stages.run("bad", [sys.executable, "-c", "raise SystemExit(1)"], 20), "failed (1)"
        )
        self.assertEqual(stages.run("good", [sys.executable, "-c", "pass"], 20), "passed")
        late = self.stages(0)
        self.assertEqual(late.run("late", [sys.executable, "-c", "pass"], 20), "no time left")
        states = json.loads((self.folder / "out" / "stages.json").read_text(encoding="utf-8"))
        self.assertEqual([stage["stage"] for stage in states], ["late"])

    def test_a_stage_that_fails_says_why(self) -> None:
        stages = self.stages()
        talk = "print('begins'); print('error: no such thing'); print('ends'); raise SystemExit(1)"
        stages.run("bad", [sys.executable, "-c", talk], 20)
        self.assertEqual(stages.results[0]["said"], "error: no such thing")
        stages.steps("steps", [sys.executable, "-c", talk], [(CASE, "x")], 20, 5)
        self.assertEqual(stages.results[1]["said"], "error: no such thing")
        text = gpu_table.describe_stages(gpu_table.Results(self.folder / "out", {}))
        self.assertIn("error: no such thing", text[1])

    def test_programs_run_beside_each_other_and_one_that_hangs_costs_no_other(self) -> None:
        hang = [sys.executable, "-c", "import threading; threading.Event().wait()"]
        quick = [sys.executable, "-c", "import os; print(os.environ.get('SPARSEAGG_OF_ONE'))"]
        programs = [
            Program("hangs", hang),
            Program("hangs too", hang),
            Program("one", quick, {"SPARSEAGG_OF_ONE": "set"}),
            Program("two", quick),
        ]
        stages = self.stages()
        states = stages.together(programs, 50, slots=2, each=1.5)
        self.assertEqual(states, ["timeout", "timeout", "passed", "passed"])
        self.assertLess(stages.results[-1]["at"], 30)
        log = stages.log.read_text(encoding="utf-8")
        self.assertIn("== one\nset\n", log)
        self.assertIn("== two\nNone\n", log)

    def test_limits_are_as_much_shorter_as_the_time_is(self) -> None:
        stages = Stages(self.folder / "out", 30, planned=300)
        wait = [sys.executable, "-c", "import threading; threading.Event().wait()"]
        self.assertEqual(stages.run("slow", wait, 15), "timeout")
        self.assertLess(stages.results[0]["seconds"], 10)

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
        stages = Stages(self.folder / "out", 60, {"SPARSEAGG_OF_OURS": "set"})
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
