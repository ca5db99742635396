"""examples/batch/with_mpi.py under a real mpiexec: any number of ranks, any tree, a killed rank, a damaged file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py")
from support import batch  # noqa: E402
from support.batch import shares  # noqa: E402

PROGRAM = ("-m", "mpi4py", batch.EXAMPLES / "with_mpi.py")


@pytest.fixture(scope="module")
def expected():
    return batch.in_one_process()


@pytest.fixture(autouse=True)
def _mpi_as_root(monkeypatch):
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")


def on(ranks):
    return (str(Path(sys.executable).parent / "mpiexec"), "--oversubscribe", "-n", str(ranks))


@pytest.mark.parametrize(("dtype", "at_least"), [(np.float32, 50_000), (np.float64, 10)])
def test_floating_point_sums_of_the_data_depend_on_the_order(dtype, at_least):
    """Otherwise equal bits would show little."""
    contributors = range(100)
    found = []
    for order in (contributors, contributors[::-1]):
        total = np.zeros([200_000, 4], dtype)
        for contributor in order:
            emb = shares.update_of(contributor)["emb"]
            np.add.at(total, emb.indices[:, 0], emb.values * dtype(shares.weight_of(contributor)))
        found.append(total)
    assert np.count_nonzero(found[0] != found[1]) > at_least


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (4, ()),
        (3, ("--shares", 7)),
        (4, ("--group", 2)),
        (5, ("--group", 3, "--shares", 3)),  # two ranks have no share
    ],
)
def test_every_number_of_ranks_and_every_tree_has_the_bits_of_one_process(
    expected, tmp_path, ranks, options
):
    found = batch.numbers_of(tmp_path, *PROGRAM, *options, launcher=on(ranks))
    assert batch.digests(found) == expected


def test_a_killed_rank_ends_the_job_and_the_next_job_goes_on(expected, tmp_path):
    keep = tmp_path / "kept"
    code, output = batch.run(*PROGRAM, "--kill", "--keep", keep, launcher=on(4))
    assert code != 0
    assert "VERDICT" not in output
    before = {file.name: file.stat().st_mtime_ns for file in keep.glob("*.partial")}
    assert len(before) < 8
    found = batch.numbers_of(tmp_path, *PROGRAM, "--kill", "--keep", keep, launcher=on(3))
    assert batch.digests(found) == expected
    assert len(list(keep.glob("*.partial"))) == 8
    for name, changed in before.items():
        assert (keep / name).stat().st_mtime_ns == changed
        attempts = list(keep.glob(f"attempt.{name.split('.')[0]}.*"))
        assert len(attempts) == 1
    assert len(list(keep.glob("attempt.500-625.*"))) == 2  # the one that was killed


def test_a_damaged_file_ends_the_job(tmp_path):
    keep = tmp_path / "kept"
    few = (*PROGRAM, "--contributors", 8, "--shares", 4, "--keep", keep)
    batch.numbers_of(tmp_path, *few, launcher=on(2))
    file = keep / "2-4.partial"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    code, output = batch.run(*few, launcher=on(2))
    assert code != 0
    assert "VERDICT" not in output
    assert "partial aggregate" in output or "INVALID_PARTIAL" in output
