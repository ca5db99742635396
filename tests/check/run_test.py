"""What `./dev check` promises of any list of suites: it goes on after a failure, and says so; an earlier table is completed only
while the sources are the same."""

import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import run
from suites import SUITES, Suite

PASSES = Suite("passes", "small", (("true",),))
FAILS = Suite("fails", "small", (("sh", "-c", "echo a reason; exit 3"), ("touch", "never")))
SKIPS = Suite("skips", "small", (("echo", "5 passed, 2 skipped in 1 s"),))


class CheckTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "check"
        self.results = pathlib.Path(folder.name) / "results.json"
        self.state = "abc1234"

    def check(self, suites: tuple[Suite, ...], *arguments: str) -> tuple[int, str]:
        printed = io.StringIO()
        with (
            mock.patch.object(run, "ROOT", self.out.parent),
            mock.patch.object(run, "OUT", self.out),
            mock.patch.object(run, "RESULTS", self.results),
            mock.patch.object(run, "SUITES", suites),
            mock.patch.object(run, "state_of_sources", lambda unread=(): self.state),
            mock.patch.object(run, "commit", lambda: "0123abc"),
            mock.patch.object(sys, "argv", ["check", *arguments]),
            contextlib.redirect_stdout(printed),
        ):
            return run.main(), printed.getvalue()

    def test_goes_on_after_a_failure_and_ends_with_one(self) -> None:
        status, printed = self.check((FAILS, PASSES))
        self.assertEqual(status, 1)
        self.assertIn("a reason", printed)
        self.assertRegex(printed, r"\| fails \| small \| +\| FAILED: sh .* ended with 3 \|")
        self.assertRegex(printed, r"\| passes \| small \| +\| passed \|")
        self.assertFalse((self.out.parent / "never").exists())

    def test_ends_with_zero_when_all_pass_and_counts_what_they_left_out(self) -> None:
        status, printed = self.check((PASSES, SKIPS))
        self.assertEqual(status, 0)
        self.assertIn("passed, 2 skipped", printed)

    def test_begins_at_a_suite_and_completes_the_table_of_the_same_sources(self) -> None:
        self.check((PASSES, FAILS), "--only", "passes")
        status, printed = self.check((PASSES, SKIPS), "--from", "skips")
        self.assertEqual(status, 0)
        self.assertRegex(printed, r"\| passes \| small \| +\| passed \|")

    def test_forgets_the_results_of_other_sources(self) -> None:
        self.check((PASSES, SKIPS), "--only", "passes")
        self.state = "abc1234+changed"
        _, printed = self.check((PASSES, SKIPS), "--from", "skips")
        self.assertRegex(printed, r"\| passes \| small \| +\| not run \|")
        self.assertIn("not green: passes", printed)

    def test_keeps_a_result_while_only_what_the_suite_does_not_read_has_changed(self) -> None:
        cpp = Suite("cpp", "small", (("true",),), unread=("*.py",))
        states = {(): "all-1", cpp.unread: "cpp-1"}
        with (
            mock.patch.object(run, "OUT", self.out),
            mock.patch.object(run, "RESULTS", self.results),
            mock.patch.object(run, "SUITES", (PASSES, cpp)),
            mock.patch.object(run, "state_of_sources", lambda unread=(): states[unread]),
        ):
            self.out.mkdir()
            run.Results().add(PASSES, run.Outcome("passed", 1))
            run.Results().add(cpp, run.Outcome("passed", 1))
            states[()] = "all-2"
            self.assertEqual(set(run.Results().outcomes), {"cpp"})
            states[cpp.unread] = "cpp-2"
            self.assertEqual(set(run.Results().outcomes), set())

    def test_a_suite_that_cannot_run_here_is_not_green(self) -> None:
        needs_root = Suite("rooted", "small", (("true",),), needs_root=True)
        with mock.patch("os.geteuid", lambda: 1000):
            status, printed = self.check((needs_root,))
        self.assertEqual(status, 1)
        self.assertIn("not run: needs root", printed)

    def test_results_are_on_the_disk_after_every_suite(self) -> None:
        self.check((PASSES, FAILS))
        kept = json.loads(self.results.read_text())
        self.assertEqual(set(kept), {"passes", "fails"})

    def test_two_runs_beside_each_other_complete_one_table(self) -> None:
        with (
            mock.patch.object(run, "OUT", self.out),
            mock.patch.object(run, "RESULTS", self.results),
            mock.patch.object(run, "SUITES", (PASSES, FAILS, SKIPS)),
            mock.patch.object(run, "state_of_sources", lambda unread=(): self.state),
        ):
            self.out.mkdir()
            first, second = run.Results(), run.Results()
            first.add(PASSES, run.Outcome("passed", 1))
            second.add(SKIPS, run.Outcome("passed", 1))
            first.add(FAILS, run.Outcome("FAILED", 1))
            self.assertEqual(set(run.Results().outcomes), {"passes", "skips", "fails"})

    def test_leaves_nothing_behind_when_it_is_ended(self) -> None:
        mark = self.out.parent / "child"
        child = f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 600"
        waits = Suite("waits", "small", (("sh", "-c", child),))

        def end_this_process() -> None:
            while not mark.exists():
                threading.Event().wait(0.01)
            os.kill(os.getpid(), signal.SIGTERM)

        ender = threading.Thread(target=end_this_process)
        ender.start()
        status, printed = self.check((waits,))
        ender.join()
        self.assertEqual(status, 130)
        self.assertIn("go on with ./dev check --from waits", printed)
        self.assertFalse(pathlib.Path("/proc", mark.read_text().strip()).exists())

    def test_sources_are_what_is_written_and_not_text(self) -> None:
        root = self.out.parent
        git = ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e"]
        with mock.patch.object(run, "ROOT", root):
            subprocess.run([*git, "init", "-q"], check=True)
            (root / "source.cc").write_text("int x;")
            (root / "page.md").write_text("A page.")
            before = run.state_of_sources()
            subprocess.run([*git, "add", "."], check=True)
            subprocess.run([*git, "commit", "-qm", "All."], check=True)
            (root / "page.md").write_text("A page with a table.")
            self.assertEqual(run.state_of_sources(), before)
            self.assertRegex(run.commit(), r"^[0-9a-f]{7,}$")
            without_python = run.state_of_sources(("*.py",))
            (root / "new.py").write_text("y = 1")
            self.assertEqual(run.state_of_sources(("*.py",)), without_python)
            self.assertNotEqual(run.state_of_sources(), before)
            self.assertRegex(run.commit(), r"^[0-9a-f]{7,}\+changes$")
            (root / "new.cc").write_text("int y;")
            self.assertNotEqual(run.state_of_sources(("*.py",)), without_python)

    def test_every_suite_has_a_name_of_its_own(self) -> None:
        self.assertEqual(len({suite.name for suite in SUITES}), len(SUITES))


if __name__ == "__main__":
    unittest.main()
