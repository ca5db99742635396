"""examples/batch/with_spark.py in a real Spark: any number of workers, any tree, a killed worker, a lost executor."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from support import batch  # noqa: E402

PROGRAM = batch.EXAMPLES / "with_spark.py"


@pytest.fixture(scope="module")
def expected():
    return batch.in_one_process()


@pytest.mark.parametrize(
    ("master", "options"),
    [
        ("local[2,4]", ()),
        ("local[3,4]", ("--depth", 1, "--shares", 7)),
        ("local[4,4]", ("--depth", 4, "--shares", 20)),
    ],
)
def test_every_number_of_workers_and_every_tree_has_the_bits_of_one_process(
    expected, tmp_path, master, options
):
    found = batch.numbers_of(tmp_path, PROGRAM, "--master", master, *options)
    assert batch.digests(found) == expected


def test_a_task_whose_worker_was_killed_is_run_again_and_counts_once(expected, tmp_path):
    found = batch.numbers_of(tmp_path, PROGRAM, "--kill")
    assert found["attempts"] == 9
    assert batch.digests(found) == expected


def test_what_a_killed_executor_had_done_is_done_again_and_counts_once(expected, tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    found = batch.numbers_of(tmp_path, batch.SUPPORT / "spark_loses_executor.py", traces)
    assert 8 < found["attempts"] <= 16
    assert batch.digests(found) == expected
