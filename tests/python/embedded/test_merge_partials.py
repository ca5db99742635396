"""`merge_partials`: the step of a tree, of Partials or bytes, without a description of the tensors."""

from __future__ import annotations

import functools
import itertools
import pickle
import random

import numpy as np
import pytest
from sparseagg import (
    InvalidArgumentError,
    Reduction,
    SparseAggError,
    TensorSpec,
    merge_partials,
)

pytestmark = pytest.mark.usefixtures("in_process")

SPECS = [
    TensorSpec("emb", [1000, 4], op="weighted_mean"),
    TensorSpec("hits", [1 << 40], "i64"),
    TensorSpec("bias", [6], "f64", sparse_dim=0, op="mean_of_contributors"),
]
# Names beyond ASCII, and shapes of 0 to 3 dimensions of which 0 to 2 are indexed.
SHAPES = [("a", [], 0), ("größe/π", [7], 1), ("n" * 255, [30, 20, 2], 2), ("d", [3, 2], 0)]
TYPES_AND_OPS = [
    *(
        (value_type, "sum")
        for value_type in ("f16", "bf16", "f32", "f64", "i32", "i64", "u32", "u64")
    ),
    *(("f32", op) for op in ("weighted_mean", "mean_of_contributors", "count", "min", "max")),
]


def update(seed):
    """Of sums that no f64 holds."""
    generator = np.random.default_rng(seed)
    scale = np.exp2(generator.integers(-60, 60, (60, 4)))
    values = (generator.standard_normal((60, 4)) * scale).astype(np.float32)
    hits = generator.integers(0, 1 << 40, 9)
    return {
        "emb": (generator.integers(0, 1000, 60), values, [1000, 4]),
        "hits": (hits, generator.integers(-9, 9, 9), [1 << 40]),
        "bias": generator.standard_normal(6),
    }


def reduction_of(seeds):
    reduction = Reduction(SPECS)
    for seed in seeds:
        reduction.add(update(seed), weight=1 + seed % 7)
    return reduction


@pytest.fixture(scope="module")
def partials():
    """Returns those of 12 reductions of 0 to 3 updates, and that of one reduction of all."""
    cuts = [0, 3, 3, 4, 6, 9, 11, 13, 15, 18, 19, 21, 24]
    parts = [reduction_of(range(a, b)).snapshot() for a, b in zip(cuts, cuts[1:])]
    return parts, reduction_of(range(24)).snapshot()


def test_any_grouping_in_any_order_has_the_bytes_of_one_reduction(partials):
    parts, whole = partials
    chance = random.Random(7)
    for _ in range(20):
        level = chance.sample(parts, len(parts))
        while len(level) > 1:
            width = chance.randint(2, 5)
            level = [merge_partials(level[n : n + width]) for n in range(0, len(level), width)]
        assert level[0].to_bytes() == whole.to_bytes()


def test_bytes_pickles_and_partials_are_merged_alike(partials):
    parts, whole = partials
    ways = (
        lambda partial: partial,
        lambda partial: partial.to_bytes(),
        lambda partial: bytearray(partial.to_bytes()),
        lambda partial: memoryview(partial.to_bytes()),
        lambda partial: pickle.loads(pickle.dumps(partial)),
    )
    mixed = merge_partials(ways[n % len(ways)](part) for n, part in enumerate(parts))
    assert mixed.to_bytes() == whole.to_bytes()
    folded = functools.reduce(lambda a, b: merge_partials([a, b]), parts)
    assert pickle.dumps(folded) == pickle.dumps(whole)


def test_what_was_merged_stays_as_it_was(partials):
    parts, _ = partials
    before = [part.to_bytes() for part in parts]
    merge_partials(parts)
    assert [part.to_bytes() for part in parts] == before


@pytest.mark.parametrize(("value_type", "op"), TYPES_AND_OPS)
def test_the_tensors_are_read_from_the_bytes(value_type, op):
    overflows = ["checked", "modular"] if value_type[0] in "iu" else ["checked"]
    specs = [
        TensorSpec(name, shape, value_type, sparse_dim, op, overflow)
        for (name, shape, sparse_dim), overflow in zip(SHAPES, itertools.cycle(overflows))
    ]
    data = Reduction(specs).snapshot().to_bytes()
    # Its head has names, shapes, types, operators and overflow rules, which come from the merged bytes alone.
    assert merge_partials([data, data]).to_bytes() == data


def test_an_iterator_is_read_one_by_one_and_its_own_errors_pass(partials):
    parts, _ = partials

    def failing():
        yield parts[0]
        raise RuntimeError("the network")

    with pytest.raises(RuntimeError, match="the network"):
        merge_partials(failing())


@pytest.mark.parametrize("nothing", [[], (), iter([])])
def test_nothing_is_refused(nothing):
    with pytest.raises(InvalidArgumentError, match="no partial aggregate"):
        merge_partials(nothing)


def test_one_alone_is_no_list(partials):
    whole = partials[1]
    for one in (whole, whole.to_bytes(), None, 5):
        with pytest.raises(InvalidArgumentError, match="is no list of partial aggregates"):
            merge_partials(one)


def test_the_error_says_which_one_it_is(partials):
    whole = partials[1]
    data = whole.to_bytes()
    other = Reduction(TensorSpec("emb", [1000, 5], op="weighted_mean")).snapshot()
    cases = [
        (data[:-1], InvalidArgumentError, "INVALID_PARTIAL"),
        (data[:100] + bytes([data[100] ^ 1]) + data[101:], InvalidArgumentError, "INVALID_PARTIAL"),
        (other, SparseAggError, "SPEC_MISMATCH"),
        ("text", InvalidArgumentError, ""),
    ]
    for bad, kind, reason in cases:
        with pytest.raises(kind, match="^partial aggregate 2: ") as caught:
            merge_partials([data, whole, bad, whole])
        assert caught.value.reason == reason
