"""Errors in this process are those of a server: the same class, code, reason, message and metadata."""

from __future__ import annotations

import numpy as np
import pytest
from sparseagg import (
    Reduction,
    SparseAggError,
    SparseTensor,
    TensorSpec,
    reduce,
    sparse_sum,
)

EMB = TensorSpec("emb", [800, 2], op="weighted_mean")
BIAS = TensorSpec("bias", [3], sparse_dim=0)
HITS = TensorSpec("hits", [10], "i32")
MATRIX = TensorSpec("matrix", [10, 10], sparse_dim=2)
NAN_OF_MATRIX = {"matrix": ([[9, 1], [3, 7]], np.float32([1, np.nan]), [10, 10])}
SPECS = [EMB, BIAS]
NO_BIAS = np.zeros(3, np.float32)


def rows(*indices, values=None, shape=(800, 2), dtype=np.float32):
    if values is None:
        values = np.ones((len(indices), *shape[1:]), dtype)
    return SparseTensor(np.array(indices), np.array(values, dtype), shape)


def hits(*numbers):
    return [{"hits": SparseTensor([7], np.array([number], np.int32), [10])} for number in numbers]


GOOD = {"emb": rows(3), "bias": NO_BIAS}
UPDATES = {
    "an index beyond the table": {"emb": rows(1, 812)},
    "an index beyond one dimension": {"emb": rows(1, -2)},
    "not a number": {"emb": rows(3, values=[[1, np.nan]])},
    "infinite": {"emb": rows(3, values=[[-np.inf, 0]])},
    "infinite and dense": {"bias": np.float32([1, np.inf, 0])},
    "another type": {"emb": rows(3, dtype=np.float64)},
    "another shape": {"emb": rows(3, shape=(801, 2))},
    "another rank": {"emb": rows(3, shape=(800,))},
    "a dense one of another shape": {"bias": np.zeros(4, np.float32)},
    "dense in place of sparse": {"emb": np.zeros((800, 2), np.float32)},
    "a tensor too many": {"other": rows(3)},
    "no tensor": {"emb": None},
    "letters": {"bias": ["a", "b", "c"]},
}
CALLS = {
    **{what: (SPECS, [GOOD, {**GOOD, **bad}], {}) for what, bad in UPDATES.items()},
    "a tensor left out": (SPECS, [GOOD, {"emb": rows(3)}], {}),
    "a negative weight": (SPECS, [GOOD], {"weights": [-1]}),
    "a weight that is none": (SPECS, [GOOD, GOOD], {"weights": [1, float("nan")]}),
    "an infinite weight": (SPECS, [GOOD], {"weights": [float("inf")]}),
    "a weight beyond f32": (SPECS, [GOOD], {"weights": [1e39]}),
    "a weight in letters": (SPECS, [GOOD], {"weights": ["one"]}),
    "too few weights": (SPECS, [GOOD, GOOD], {"weights": [1]}),
    "too many weights": (SPECS, [GOOD], {"weights": [1, 2]}),
    "a weight of integers that is not whole": ([HITS], hits(1), {"weights": [0.5]}),
    "a weight of integers above 2^24": ([HITS], hits(1), {"weights": [2**25]}),
    "an overflow": ([HITS], hits(2**31 - 1, 1), {}),
    "a product beyond f64": (
        [TensorSpec("t", [1], "f64", op="weighted_mean")],
        [{"t": ([0], [1e300], [1])}],
        {"weights": [1e30]},
    ),
    "no tensors": ([], [], {}),
    "two tensors of one name": ([EMB, EMB], [], {}),
    "an unknown operator": ([TensorSpec("t", [10], op="median")], [], {}),
    "no operator": ([TensorSpec("t", [10], op=None)], [], {}),
    "an unknown plan": ([TensorSpec("t", [10], plan="magic")], [], {}),
    "too many rows": ([TensorSpec("t", [2**40, 2**40], sparse_dim=2)], [], {}),
    "no rows": ([TensorSpec("t", [0])], [], {}),
    "no name": ([TensorSpec("", [10])], [], {}),
    "a name that does not print": ([TensorSpec("a\nb", [10])], [], {}),
    "more indices than dimensions": ([TensorSpec("t", [10], sparse_dim=2)], [], {}),
    "a negative sparse_dim": ([TensorSpec("t", [10], sparse_dim=-1)], [], {}),
    "too many dimensions": ([TensorSpec("t", [2] * 17)], [], {}),
    "a mean that wraps": (
        [TensorSpec("t", [10], "i32", op="weighted_mean", integer_overflow="modular")],
        [],
        {},
    ),
    "an unknown overflow": ([TensorSpec("t", [10], "i32", integer_overflow="odd")], [], {}),
    "no TensorSpec": (["t"], [], {}),
    "an unknown layout": (SPECS, [GOOD], {"layout": "square"}),
    "an unknown encoding": (SPECS, [GOOD], {"encoding": "zip"}),
    "an unknown values encoding": (SPECS, [GOOD], {"values": "int3"}),
    "values of an unknown tensor": (SPECS, [GOOD], {"values": {"embb": "int8"}}),
    "not a number of a matrix": ([MATRIX], [NAN_OF_MATRIX], {}),
    "packed, not a number of a matrix": ([MATRIX], [NAN_OF_MATRIX], {"encoding": "coo.packed"}),
    "packed, not a number out of order": (
        SPECS,
        [{**GOOD, "emb": rows(9, 5, values=[[1, np.nan], [1, 1]])}],
        {"encoding": "coo.packed"},
    ),
    "packed, beyond the table": (SPECS, [{**GOOD, "emb": rows(812)}], {"encoding": "coo.packed"}),
    "raw and rounded": (SPECS, [GOOD], {"encoding": "coo.raw", "values": "int8"}),
    "no updates at all": (SPECS, None, {}),
    "one model as the updates": (SPECS, GOOD, {}),
}


def facts(call):
    with pytest.raises(SparseAggError) as caught:
        call()
    error = caught.value
    return type(error), error.code, error.reason, error.message, error.metadata, error.retry_after


@pytest.mark.parametrize("what", list(CALLS))
def test_the_same_error_both_ways(client, in_process, what):
    specs, updates, options = CALLS[what]
    here = facts(lambda: reduce(specs, updates, **in_process, **options))
    there = facts(lambda: client.reduce(specs, updates, **options))
    # The limit for the number of tensors differs in this process; the only other limit is memory.
    assert [str(fact).replace("max = 65536;", "max = 1024;") for fact in here] == list(
        map(str, there)
    )
    assert "\n" not in here[3]


@pytest.mark.parametrize("later", ["not a number", "letters"])
def test_of_several_that_are_refused_the_first_is_told(client, in_process, later):
    """Large ones, which several threads add; some mistakes are found before the library is asked."""
    large = np.arange(0, 40_000) % 800
    updates = [{"emb": rows(*large), "bias": NO_BIAS} for _ in range(9)]
    updates[4]["emb"] = rows(*large[:-1], 812)
    updates[5] = {**GOOD, **UPDATES[later]}
    updates[7]["emb"] = rows(*large[:-1], 999)
    here = facts(lambda: reduce(SPECS, updates, **in_process))
    if later == "not a number":  # of letters the client knows before the server has answered
        assert here == facts(lambda: client.reduce(SPECS, updates))
    assert 'update "4"' in here[3] and "812" in here[3]


@pytest.mark.parametrize("what", list(UPDATES))
def test_a_step_by_step_reduction_has_these_errors_and_goes_on(in_process, what):
    reduction = Reduction(SPECS)
    reduction.add(GOOD)
    step = facts(lambda: reduction.add({**GOOD, **UPDATES[what]}))
    assert step == facts(lambda: reduce(*CALLS[what][:2], **in_process))
    reduction.add(GOOD, weight=3)
    result = reduction.result()
    assert result.manifest.contributors == 2
    assert result.manifest.total_weight == 4
    assert result["emb"].indices.tolist() == [[3]]


def test_a_sum_that_nobody_knows_the_shape_of(client, in_process):
    assert facts(lambda: sparse_sum([], **in_process)) == facts(
        lambda: sparse_sum([], client=client)
    )
