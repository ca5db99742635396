"""Where a sum is computed, and the errors of a package without the native library."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT
from sparseagg import (
    IN_PROCESS,
    Client,
    DeadlineExceededError,
    Reduction,
    SparseAggError,
    TensorSpec,
    UnavailableError,
    sparse_sum,
)

UPDATE = ([0, 5], np.float32([1, 1]), [10])


@pytest.fixture(autouse=True)
def no_server_named(monkeypatch):
    monkeypatch.delenv("SPARSEAGG_SERVER", raising=False)


def test_without_an_address_it_is_this_process(in_process):
    assert sparse_sum([UPDATE, UPDATE]).values.tolist() == [2, 2]


def test_the_environment_names_a_server(monkeypatch, tmp_path):
    # The target is refused when the client is made, so nothing waits for a server.
    monkeypatch.setenv("SPARSEAGG_SERVER", "127.0.0.1:99999")
    with pytest.raises(ValueError, match="99999"):
        sparse_sum([UPDATE])


def test_the_environment_of_a_server_that_is_there(monkeypatch, server, rounds_left):
    monkeypatch.setenv("SPARSEAGG_SERVER", server.target)
    assert sparse_sum([UPDATE]).values.tolist() == [1, 1]


def test_this_process_is_named_in_spite_of_the_environment(in_process, monkeypatch):
    monkeypatch.setenv("SPARSEAGG_SERVER", "127.0.0.1:99999")
    assert sparse_sum([UPDATE], target=IN_PROCESS).values.tolist() == [1, 1]


def test_a_client_is_used_where_it_is_given():
    with Client("127.0.0.1:1", timeout=0.01) as nowhere, pytest.raises(SparseAggError) as caught:
        sparse_sum([UPDATE], client=nowhere)
    assert isinstance(caught.value, (UnavailableError, DeadlineExceededError))


def in_a_pure_package(program):
    """Returns what `program` prints with the package's sources, which have no library beside them."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "python")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_the_library_a_sum_goes_to_the_default_server(server):
    printed = in_a_pure_package(
        "import sparseagg, sparseagg._handles as handles\n"
        f"handles.DEFAULT_TARGET = {server.target!r}\n"
        "print(sparseagg.sparse_sum([([0, 5], [1.0, 1.0], [10])]).values)"
    )
    assert printed.strip() == "[1. 1.]"


def test_without_the_library_its_absence_is_told():
    printed = in_a_pure_package(
        "import sparseagg, sparseagg._local as local\n"
        "for make in (lambda: sparseagg.Reduction(sparseagg.TensorSpec('t', [3])),\n"
        "             lambda: sparseagg.sparse_sum([[1.0]], target='in-process')):\n"
        "    try:\n"
        "        make()\n"
        "    except sparseagg.SparseAggError as error:\n"
        "        print(error.reason, error)\n"
        "print(local.why_a_server_is_needed(None), '|', local.why_a_server_is_needed('host'))"
    )
    reduction, insisted, hint = printed.splitlines()
    for line in (reduction, insisted):
        assert line.startswith("NO_NATIVE_LIBRARY this package has no native library")
        assert "give the target of a server" in line
    assert "_native_core.so" in hint
    assert hint.endswith("needs a server at this address | ")


def test_a_reduction_is_always_in_this_process(in_process, monkeypatch):
    monkeypatch.setenv("SPARSEAGG_SERVER", "127.0.0.1:99999")
    assert Reduction(TensorSpec("t", [3])).result()["t"].nnz == 0


def test_memory_does_not_grow_with_the_updates(in_process):
    """The peak memory of the process is the state and one batch, for any number of updates."""
    program = (
        "import resource, numpy as np\n"
        "from sparseagg import sparse_sum\n"
        "rows, values = np.arange(0, 600_000, 2), np.ones(300_000, np.float32)\n"
        "def peak_mb(updates):\n"
        "    stream = ((rows, values, [600_000]) for _ in range(updates))\n"
        "    assert (sparse_sum(stream, target='in-process').values == updates).all()\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "print(-peak_mb(60) + peak_mb(240))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    megabytes_more = 180 * 300_000 * 12 / 1e6
    assert float(done.stdout) < megabytes_more / 8
