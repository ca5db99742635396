"""examples/batch/with_ray.py in a real Ray: any number of workers, any tree, a killed worker, a lost node."""

from __future__ import annotations

import pytest

pytest.importorskip("ray")
from support import batch  # noqa: E402

PROGRAM = batch.EXAMPLES / "with_ray.py"


@pytest.fixture(scope="module")
def expected():
    return batch.in_one_process()


@pytest.mark.parametrize(
    ("workers", "fan_in", "number"),
    [(2, 2, 16), (3, 5, 7), (4, 16, 16)],
)
def test_every_number_of_workers_and_every_tree_has_the_bits_of_one_process(
    expected, tmp_path, workers, fan_in, number
):
    options = ("--workers", workers, "--fan-in", fan_in, "--shares", number)
    found = batch.numbers_of(tmp_path, PROGRAM, *options)
    assert batch.digests(found) == expected


def test_a_task_whose_worker_was_killed_is_run_again_and_counts_once(expected, tmp_path):
    found = batch.numbers_of(tmp_path, PROGRAM, "--kill")
    assert found["attempts"] == 9
    assert batch.digests(found) == expected


def test_what_a_killed_node_had_is_made_again_and_counts_once(expected, tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    found = batch.numbers_of(tmp_path, batch.SUPPORT / "ray_loses_node.py", traces)
    assert 8 < found["attempts"] <= 16
    assert batch.digests(found) == expected
