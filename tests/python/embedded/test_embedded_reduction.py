"""`Reduction`: steps, snapshots and merges, many threads, forked children."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading

import numpy as np
import pytest
from sparseagg import (
    InvalidArgumentError,
    Partial,
    Reduction,
    SparseAggError,
    TensorSpec,
    reduce,
    sparse_sum,
)
from sparseagg._encode.encodings import EncodeOptions
from sparseagg._requests import read_one_for_reduce
from support import partial_format

pytestmark = pytest.mark.usefixtures("in_process")

THREADS = 8
SPECS = [
    TensorSpec("emb", [1000, 4], op="weighted_mean"),
    TensorSpec("hits", [50], "i64"),
    TensorSpec("bias", [6], "f64", sparse_dim=0, op="mean_of_contributors"),
]


def update(seed):
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 1000, 60)
    scale = np.exp2(generator.integers(-30, 30, (60, 4)))
    values = (generator.standard_normal((60, 4)) * scale).astype(np.float32)
    hits = generator.integers(0, 50, 9)
    return {
        "emb": (rows, values, [1000, 4]),
        "hits": (hits, generator.integers(-9, 9, 9), [50]),
        "bias": generator.standard_normal(6),
    }


def weight(seed):
    return float(1 + seed % 7)


def bits(result):
    sparse = [(t.indices.tobytes(), t.values.tobytes()) for t in (result["emb"], result["hits"])]
    manifest = result.manifest
    return sparse, result["bias"].tobytes(), manifest.contributors, manifest.total_weight


def in_threads(action):
    """Calls `action(number)` in `THREADS` threads that begin together, and returns the results in order."""
    together, results = threading.Barrier(THREADS), [None] * THREADS

    def run(number):
        together.wait()
        results[number] = action(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture(scope="module")
def at_once():
    """Returns the sum of 80 updates."""
    from sparseagg import IN_PROCESS

    seeds = range(10 * THREADS)
    updates = [update(seed) for seed in seeds]
    return bits(reduce(SPECS, updates, weights=map(weight, seeds), target=IN_PROCESS))


def test_eight_threads_add_to_one_reduction(at_once):
    reduction = Reduction(SPECS)

    def add(number):
        for seed in range(number, 10 * THREADS, THREADS):
            reduction.add(update(seed), weight(seed))

    in_threads(add)
    assert bits(reduction.result()) == at_once


def test_eight_threads_with_a_reduction_each_are_merged(at_once):
    def partial_of(number):
        reduction = Reduction(SPECS)
        for seed in range(number, 10 * THREADS, THREADS):
            reduction.add(update(seed), weight(seed))
        return reduction.snapshot()

    partials = in_threads(partial_of)
    for order in (partials, partials[::-1]):
        whole = Reduction(SPECS)
        for partial in order:
            whole.merge(partial)
        assert bits(whole.result()) == at_once


def test_eight_threads_sum_at_the_same_time():
    tensors = [[update(8 * number + n)["emb"] for n in range(8)] for number in range(THREADS)]
    one_by_one = [sparse_sum(each, target="in-process") for each in tensors]
    together = in_threads(lambda number: sparse_sum(tensors[number], target="in-process"))
    for alone, beside in zip(one_by_one, together):
        assert alone.values.tobytes() == beside.values.tobytes()


def test_a_snapshot_is_of_its_moment_and_may_be_merged_twice():
    reduction = Reduction(TensorSpec("t", [5]))
    reduction.add({"t": ([1], np.float32([1]), [5])})
    partial = reduction.snapshot()
    reduction.add({"t": ([2], np.float32([5]), [5])})
    assert reduction.result()["t"].values.tolist() == [1, 5]
    other = Reduction(TensorSpec("t", [5]))
    other.merge(partial)
    other.merge(partial)
    result = other.result("dense")
    assert result["t"].tolist() == [0, 2, 0, 0, 0]
    assert result.manifest.contributors == 2


def test_a_billion_contributors_without_names_take_the_memory_of_one():
    reduction = Reduction(TensorSpec("t", [5]))
    reduction.add({"t": ([1], np.float32([1]), [5])})
    partial = partial_format.read(bytes(reduction.snapshot()))
    partial.contributors = 2**30
    many = Partial(partial_format.write(partial))
    for _ in range(2):
        reduction.merge(many)
    result = reduction.result("dense")
    assert result["t"].tolist() == [0, 3, 0, 0, 0]
    assert result.manifest.contributors == 2**31 + 1


@pytest.mark.parametrize(
    "spec",
    [
        TensorSpec("t", [6]),
        TensorSpec("t", [5], "f64"),
        TensorSpec("t", [5], op="max"),
        TensorSpec("other", [5]),
    ],
)
def test_a_partial_of_another_tensor_is_refused_and_changes_nothing(spec):
    partial = Reduction(spec).snapshot()
    reduction = Reduction(TensorSpec("t", [5]))
    reduction.add({"t": ([1], np.float32([1]), [5])})
    with pytest.raises(SparseAggError, match='tensor "t"') as caught:
        reduction.merge(partial)
    assert caught.value.reason == "SPEC_MISMATCH"
    assert reduction.result()["t"].values.tolist() == [1]


def test_what_is_no_partial():
    reduction = Reduction(TensorSpec("t", [5]))
    with pytest.raises(InvalidArgumentError, match="Partial"):
        reduction.merge(reduction)
    for data, what in ((5, "int"), (b"spagpart", "too short"), (b"x" * 100, "spagpart")):
        with pytest.raises(InvalidArgumentError, match=what):
            Partial.from_bytes(data)


def test_a_partial_can_be_copied_and_pickled():
    reduction = Reduction(TensorSpec("t", [5]))
    reduction.add({"t": ([1], np.float32([0.1]), [5])})
    partial = reduction.snapshot()
    for copied in (copy.copy(partial), copy.deepcopy(partial), pickle.loads(pickle.dumps(partial))):
        assert isinstance(copied, Partial)
        assert copied.to_bytes() == partial.to_bytes()
    reduction.merge(Partial.from_bytes(partial.to_bytes()))
    assert reduction.result()["t"].values.tolist() == [2 * np.float32(0.1)]


def test_a_reduction_ends_with_its_result():
    reduction = Reduction(TensorSpec("t", [5]))
    with pytest.raises(InvalidArgumentError, match="square"):
        reduction.result("square")
    reduction.result()
    for call in (reduction.result, reduction.snapshot, lambda: reduction.add({"t": ([], [], [5])})):
        with pytest.raises(SparseAggError) as caught:
            call()
        assert caught.value.reason == "REDUCTION_ENDED"


def test_an_example_tells_the_tensors():
    model = {"emb": ([0], np.float32([[1, 2]]), [9, 2]), "layers": [np.ones(3), np.ones(2)]}
    reduction = Reduction(model, op="max")
    reduction.add(model)
    assert reduction.result().like(model)["layers"][1].tolist() == [1, 1]
    assert Reduction([np.ones(3)]).result()["0"].tolist() == [0, 0, 0]
    assert Reduction(iter(SPECS)).result()["bias"].tolist() == [0] * 6
    with pytest.raises(InvalidArgumentError, match="op"):
        Reduction(SPECS, op="max")


def test_the_library_works_without_the_interpreter_lock():
    """Threads release the GIL here only when they wait, so another thread runs in the middle of a call, or never."""
    from sparseagg import _native

    spec = TensorSpec("t", [1 << 20])
    rows, values = np.arange(1 << 20), np.ones(1 << 20, np.float32)
    read = read_one_for_reduce({"t": spec}, 0, {"t": (rows, values, [1 << 20])}, 1, EncodeOptions())
    tensor = read.tensors["t"]
    part = _native.Part(
        "t", tensor.dense_shape, 1, "f32", "coo.raw", "", tensor.nnz, tensor.indices, tensor.values
    )
    begun, has_run = threading.Event(), []

    def other():
        begun.wait()
        has_run.append(True)

    thread = threading.Thread(target=other)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        thread.start()
        reduction = _native.Reduction([spec], at_once=False)
        begun.set()
        assert not has_run  # this thread still holds the GIL
        for _ in range(1000):
            reduction.add([_native.Update("0", 1.0, [part])])
            if has_run:
                break
        assert has_run
    finally:
        sys.setswitchinterval(interval)
        thread.join()


def test_a_forked_child_sums_with_the_same_bits(at_once):
    """The parent has used threads, which the child does not have."""
    begun = Reduction(SPECS)
    seeds = range(10 * THREADS)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            updates = [update(seed) for seed in seeds]
            there = reduce(SPECS, updates, weights=map(weight, seeds), target="in-process")
            try:
                begun.add(update(0))
            except SparseAggError as refused:
                status = not (bits(there) == at_once and refused.reason == "REDUCTION_FORKED")
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.WEXITSTATUS(status) == 0
    begun.add(update(0))
    assert begun.result().manifest.contributors == 1
