"""The conformance grid of tests/conformance in this process and on a server: operators x value types x widths of rows x sizes x
distributions of rows x kinds of values. Every bit of every result is the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sparseagg import SparseTensor, TensorSpec, reduce

OPERATORS = ["sum", "weighted_mean", "mean_of_contributors", "count", "min", "max"]
MEANS = ["weighted_mean", "mean_of_contributors"]
VALUE_TYPES = ["f16", "bf16", "f32", "f64", "i32", "i64", "u32", "u64"]
WIDTHS = [1, 3, 64]
SIZES = [0, 1, 31, 32, 33, 255, 256, 257]
CONTRIBUTORS = 3
ROWS = 1000


def rows_of(random, distribution, nnz, contributor):
    """The rows of one update."""
    hot = random.integers(0, ROWS, nnz)
    hot[::2] = 5
    return {
        "distinct": lambda: random.permutation(ROWS)[:nnz],
        "all equal": lambda: np.full(nnz, 7),
        "zipf": lambda: np.minimum(random.zipf(1.3, nnz) - 1, ROWS - 1),
        "sorted": lambda: np.sort(random.permutation(ROWS)[:nnz]),
        "reversed": lambda: np.sort(random.permutation(ROWS)[:nnz])[::-1],
        "one hot row": lambda: hot,
        "disjoint": lambda: contributor + CONTRIBUTORS * np.arange(nnz),
        "identical": lambda: 3 * np.arange(nnz),
    }[distribution]()


DISTRIBUTIONS = [
    "distinct",
    "all equal",
    "zipf",
    "sorted",
    "reversed",
    "one hot row",
    "disjoint",
    "identical",
]


def bits_of_floats(random, value_type, shape):
    """Finite numbers of all exponents, as unsigned integers."""
    bytes_, exponent = {"f16": (2, 5), "bf16": (2, 8), "f32": (4, 8), "f64": (8, 11)}[value_type]
    bits = random.integers(0, (1 << 8 * bytes_) - 1, shape, np.uint64, endpoint=True)
    lowest = np.uint64(1 << (8 * bytes_ - 1 - exponent))  # of the exponent
    all_ones = lowest * np.uint64((1 << exponent) - 1)
    bits = np.where(bits & all_ones == all_ones, bits ^ lowest, bits)
    return bits.astype(f"<u{bytes_}")


def values_of(random, kind, value_type, shape):
    """Hostile values have every bit pattern that is a number; small ones are whole numbers."""
    if value_type[0] in "iu":
        dtype = np.dtype(f"<{value_type[0]}{int(value_type[1:]) // 8}")
        if kind == "small":
            return random.integers(0, 100, shape).astype(dtype)
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if kind == "hostile":
        bits = bits_of_floats(random, value_type, shape)
        return bits if value_type == "bf16" else bits.view(f"<f{bits.itemsize}")
    whole = random.integers(-9, 10, shape).astype(np.float32)
    if value_type == "bf16":
        return (whole.view(np.uint32) >> 16).astype("<u2")
    return whole.astype(f"<f{int(value_type[1:]) // 8}")


def grid(random, value_type, width):
    """One tensor for each operator, size and distribution: specifications, and the updates. Every third has small values."""
    shape = [ROWS, width] if width > 1 else [ROWS]
    specs, updates = [], [{} for _ in range(CONTRIBUTORS)]
    for op, nnz, distribution in itertools.product(OPERATORS, SIZES, DISTRIBUTIONS):
        is_small = len(specs) % 3 == 0 or (value_type[0] in "iu" and op in MEANS)
        kind = "small" if is_small else "hostile"
        name = f"{op}, {nnz} entries, {distribution}, {kind}"
        overflow = "checked" if is_small or value_type[0] not in "iu" else "modular"
        specs.append(TensorSpec(name, shape, value_type, 1, op, overflow))
        for contributor, update in enumerate(updates):
            rows = rows_of(random, distribution, nnz, contributor)
            values = values_of(random, kind, value_type, (nnz, *shape[1:]))
            update[name] = SparseTensor(rows.copy(), values, shape, value_type)
    return specs, updates


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("value_type", VALUE_TYPES)
def test_the_conformance_grid_has_the_bits_of_a_server(client, in_process, value_type, width):
    seed = 100 * VALUE_TYPES.index(value_type) + width
    specs, updates = grid(np.random.default_rng(seed), value_type, width)
    weights = [1.0, 0.0, 2.0] if value_type[0] in "iu" else [1.0, 0.0, 0.3]
    here = reduce(specs, updates, weights=weights, **in_process)
    there = client.reduce(specs, updates, weights=weights)
    assert len(here) == len(specs)
    for name, tensor in here.items():
        expected = there[name]
        assert tensor.values.dtype == expected.values.dtype, (name, seed)
        assert tensor.indices.tobytes() == expected.indices.tobytes(), (name, seed)
        assert tensor.values.tobytes() == expected.values.tobytes(), (name, seed)
    assert here.manifest.infinite_values == there.manifest.infinite_values
