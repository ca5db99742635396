"""The tree obeys the rules of rules.py, and each rule catches what it is for (planted faults)."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checks
import house

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def guarded(path: str, body: str) -> str:
    guard = checks._guard(path)
    return f"#ifndef {guard}\n#define {guard}\n{body}\n#endif  // {guard}\n"


class TreeTest(unittest.TestCase):
    """One case for each check, over the real tree."""

    @classmethod
    def setUpClass(cls):
        cls.tree = checks.read_tree(ROOT)

    def test_finds_the_sources(self):
        for path in ("sparse/types.h", "service/engine/engine.h", "tests/tidy/rules.py"):
            self.assertIn(path, self.tree)

    def assert_clean(self, check):
        problems = list(check(self.tree))
        self.assertEqual([], problems, "\n" + "\n".join(map(str, problems)))

    def test_the_measures_of_the_house_are_kept(self):
        exceeded = [row for row in house.measures(self.tree) if row[1] > row[2]]
        self.assertEqual([], exceeded)


class HouseTest(unittest.TestCase):
    """Tests what counts as a fragment."""

    def test_a_sentence_without_a_main_clause_is_a_fragment(self):
        for sentence in ["Of one reduction.", "Whether it is the first.", "Beside that kernel."]:
            self.assertTrue(house.is_fragment(sentence), sentence)

    def test_sentences_notes_and_heads_of_kernels_are_none(self):
        for sentence in [
            "Returns the rows of a run.",
            "For a durable round, the receipt means stable storage.",
            "If it fails, nothing is counted.",
            "In: a batch.",
            "Thread-safe.",
        ]:
            self.assertFalse(house.is_fragment(sentence), sentence)

    def test_sentences_of_a_comment_are_read_over_its_lines(self):
        text = "// Takes all. Of one\n// reduction.\nint x;  // Of y.\n// | a | table |\n"
        self.assertEqual(["Takes all.", "Of one reduction."], list(house.comment_sentences(text)))

    def test_sentences_of_docstrings_are_read(self):
        text = '# Of all.\ndef f():\n    """Of x.\n\n    x: of y.\n    """\n'
        self.assertEqual(["Of all.", "Of x."], list(house.sentences_of("bench/a.py", text)))


for _check in checks.ALL_CHECKS:
    setattr(
        TreeTest, f"test_{_check.__name__}", lambda self, check=_check: self.assert_clean(check)
    )


class PlantedFaultTest(unittest.TestCase):
    """The checks fail when they should, and only then."""

    def messages(self, check, **files):
        tree = {path.replace("__", "/").replace("_DOT_", "."): text for path, text in files.items()}
        return [str(problem) for problem in check(tree)]

    def includes(self, path, *names):
        tree = {path: "".join(f'#include "{name}"\n' for name in names)}
        return [str(problem) for problem in checks.check_dependencies(tree)]

    def test_wrong_includes_are_caught(self):
        for path, name in [
            ("sparse/planner.cc", "grpcpp/grpcpp.h"),
            ("sparse/planner.cc", "google/protobuf/message.h"),
            ("sparse/planner.cc", "thread"),
            ("sparse/planner.cc", "absl/synchronization/mutex.h"),
            ("sparse/planner.cc", "cpu/cpu_backend.h"),
            ("sparse/planner.cc", "service/engine/engine.h"),
            ("cpu/cpu_backend.cc", "cuda_runtime.h"),
            ("cpu/cpu_backend.cc", "sparseagg/v1/types.pb.h"),
            ("cuda/cuda_backend.cc", "cpu/cpu_backend.h"),
            ("cuda/cuda_backend.h", "cuda_runtime.h"),
            ("cuda/launch.h", "cub/cub.cuh"),
            ("cuda/kernels/sort.cu", "absl/status/status.h"),
            ("cuda/kernels/sort.cu", "iostream"),
            ("service/store/memory_store.cc", "service/engine/engine.h"),
            ("service/engine/engine.cc", "grpcpp/grpcpp.h"),
            ("service/engine/engine.cc", "cpu/cpu_backend.h"),
            ("service/rpc/submit.cc", "cuda_runtime.h"),
            ("service/rpc/submit.cc", "sqlite3.h"),
            ("service/rpc/submit.cc", "cpu/cpu_backend.h"),
            ("service/main.cc", "cuda/cuda_backend.h"),
            ("client/client.cc", "service/engine/engine.h"),
            ("client/client.cc", "CLI/CLI.hpp"),
            ("tests/sparse/planner_test.cc", "grpcpp/grpcpp.h"),
        ]:
            with self.subTest(path=path, include=name):
                self.assertEqual(1, len(self.includes(path, name)))

    def test_right_includes_pass(self):
        self.assertEqual(
            [],
            self.includes("sparse/planner.cc", "sparse/types.h", "vector", "absl/status/status.h"),
        )
        self.assertEqual(
            [],
            self.includes(
                "service/rpc/submit.cc",
                "grpcpp/grpcpp.h",
                "service/engine/engine.h",
                "sparseagg/v1/types.pb.h",
                "proto/convert.h",
            ),
        )
        self.assertEqual(
            [], self.includes("service/main.cc", "service/serve.h", "sparse/backend.h")
        )

    def test_an_unknown_library_is_caught(self):
        self.assertIn(
            "belongs to no library", self.includes("cpu/cpu_backend.cc", "boost/asio.hpp")[0]
        )

    def test_a_file_without_a_row_is_caught(self):
        self.assertIn("belongs to no row", self.includes("newfolder/thing.cc", "vector")[0])

    def test_a_kernel_includes_only_host_device_headers_of_sparse(self):
        tree = {
            "cuda/kernels/sort.cu": '#include "sparse/window.h"\n#include "sparse/planner.h"\n',
            "sparse/window.h": '#include "base/host_device.h"\n',
            "sparse/planner.h": "",
        }
        problems = [str(p) for p in checks.check_dependencies(tree)]
        self.assertEqual(1, len(problems))
        self.assertIn("sparse/planner.h", problems[0])

    def test_the_position_of_a_problem_is_named(self):
        self.assertTrue(
            self.includes("sparse/planner.cc", "vector", "grpc/grpc.h")[0].startswith(
                "sparse/planner.cc:2:"
            )
        )

    def test_wrong_header_guards_are_caught(self):
        right = guarded("sparse/a.h", "int x;")
        self.assertEqual([], list(checks.check_header_guards({"sparse/a.h": right})))
        self.assertEqual(1, len(list(checks.check_header_guards({"sparse/b.h": right}))))
        self.assertEqual(1, len(list(checks.check_header_guards({"sparse/a.h": "#pragma once\n"}))))

    def test_conditionals_are_caught(self):
        text = guarded("cpu/a.h", "#ifdef SPARSEAGG_HAVE_CUDA\n#endif")
        self.assertEqual(1, len(list(checks.check_conditionals({"cpu/a.h": text}))))
        self.assertEqual(
            [], list(checks.check_conditionals({"cpu/a.h": guarded("cpu/a.h", "int x;")}))
        )
        self.assertEqual(
            [],
            list(checks.check_conditionals({"base/host_device.h": "#ifdef __CUDACC__\n#endif\n"})),
        )

    def test_unfinished_work_is_caught(self):
        self.assertEqual(
            1, len(list(checks.check_unfinished({"docs/a.md": "TO" + "DO: write this"})))
        )
        self.assertEqual([], list(checks.check_unfinished({"docs/a.md": "nothing to do"})))

    def test_skips_without_a_reason_are_caught(self):
        self.assertEqual(
            1, len(list(checks.check_skips({"tests/a_test.cc": 'GTEST_SKIP() << "flaky";'})))
        )
        self.assertEqual(
            [], list(checks.check_skips({"tests/a_test.cc": 'GTEST_SKIP() << "no GPU here";'}))
        )

    def test_sleeps_are_caught(self):
        self.assertEqual(1, len(list(checks.check_sleeps({"tests/a_test.py": "time.sleep(1)"}))))
        self.assertEqual([], list(checks.check_sleeps({"python/client.py": "time.sleep(1)"})))

    def test_reactions_that_may_throw_are_caught(self):
        throws, ends = "void OnDone() override {", "void OnReadDone(bool ok) noexcept override {"
        self.assertEqual(1, len(list(checks.check_reactions({"service/rpc/a.cc": throws}))))
        self.assertEqual([], list(checks.check_reactions({"service/rpc/a.cc": ends})))

    def test_long_files_are_caught(self):
        self.assertEqual(1, len(list(checks.check_file_sizes({"cpu/a.cc": "\n" * 451}))))
        self.assertEqual(
            [], list(checks.check_file_sizes({"cpu/a.cc": "\n" * 450, "docs/a.md": "\n" * 900}))
        )

    def test_long_functions_are_caught(self):
        def function(lines):
            return "int F(int x) {\n" + "  ++x;\n" * lines + "}\n"

        self.assertEqual(1, len(list(checks.check_function_sizes({"cpu/a.cc": function(101)}))))
        self.assertEqual([], list(checks.check_function_sizes({"cpu/a.cc": function(60) * 3})))
        self.assertEqual(1, len(list(checks.check_function_sizes({"cpu/a.cc": function(75) * 5}))))

    def test_reasons_without_a_row_are_caught(self):
        made = 'MakeError(absl::StatusCode::kNotFound, "{}_SPOON", text)'.format
        maker = """absl::Status Invalid(std::string_view reason, const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}
"""
        tree = {
            "docs/api.md": "| `NO_SPOON` | NOT_FOUND, DATA_LOSS | a | b |\n"
            "| `BENT_SPOON` | INVALID_ARGUMENT | a | b |\n",
            "cpu/a.cc": made("NO"),
            "cpu/b.cc": maker + 'return Invalid("BENT_SPOON", "is NO_SPOON");',
        }
        self.assertEqual([], list(checks.check_reasons(tree)))
        for path, text in (
            ("cpu/a.cc", made("NEW")),
            ("cpu/a.cc", made("BENT")),  # with another code
            ("cpu/b.cc", maker + 'if (x) {\n  return Invalid(\n      "NO_SPOON", text);'),
        ):
            self.assertEqual(1, len(list(checks.check_reasons({**tree, path: text}))))

    def test_links_to_nothing_are_caught(self):
        tree = {
            "docs/a.md": "# The `first` page\n[b](b.md#what-is-here) [c](#the-first-page) [](../cpu)",
            "docs/b.md": "## What is here?\n[](https://example.org/x) ![](x.webp)",
            "cpu/a.cc": "",
        }
        self.assertEqual([], list(checks.check_links(tree)))
        for link in ("c.md", "b.md#what-is-there", "#first", "../gpu"):
            text = {"docs/a.md": tree["docs/a.md"] + f"\n[]({link})"}
            self.assertEqual(1, len(list(checks.check_links({**tree, **text}))), link)

    def test_files_that_are_gone_are_caught_where_they_are_named(self):
        tree = {"cpu/state/cells.h": "", "docs/a.md": "`cells.h`, `state/cells.h`, [](../cpu/b.cc)"}
        self.assertEqual([], list(checks.check_paths(tree)))
        for path, text in [("docs/a.md", "`state/runs.h`"), ("cpu/a.cc", "// See cpu/cells.h.")]:
            self.assertEqual(1, len(list(checks.check_paths({**tree, path: text}))), text)

    def test_commands_that_dev_does_not_have_are_caught(self):
        tree = {"dev": "command_test_ops() {\n}\n", "docs/a.md": "`./dev test-ops`, ./dev does"}
        self.assertEqual([], list(checks.check_dev_commands(tree)))
        tree["docs/a.md"] = "run `./dev " + "tests`"
        self.assertEqual(1, len(list(checks.check_dev_commands(tree))))


if __name__ == "__main__":
    unittest.main()
