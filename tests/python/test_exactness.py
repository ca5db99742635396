"""The result of the real server equals rational arithmetic rounded once, bit for bit (oracle.py)."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from sparseagg import OutOfRangeError, SparseTensor, sparse_sum
from support import oracle

FLOAT_OPERATORS = ["sum", "weighted_mean", "mean_of_contributors", "min", "max"]
ROWS = 6

# Decimal values that hurt: the smallest subnormal beside the largest number, ties, cancelling pairs. Each is turned
# into the nearest value of the type under test.
_HOSTILE = {
    "f16": [
        "6e-8",
        "6.1e-5",
        "1",
        "1.001",
        "2048",
        "2049",
        "4097",
        "65504",
        "-65504",
        "0",
        "3e-7",
        "-1",
    ],
    "bf16": [
        "1e-40",
        "1e-38",
        "1",
        "1.008",
        "256",
        "257",
        "3e38",
        "-3e38",
        "1e30",
        "0",
        "-1",
        "-256",
    ],
    "f32": [
        "1e-45",
        "1.4e-45",
        "1e-38",
        "1",
        "1.0000001",
        "16777216",
        "16777217",
        "1e30",
        "-1e30",
        "3.4e38",
        "-1",
        "0",
    ],
    "f64": [
        "5e-324",
        "1e-300",
        "1",
        "1.0000000000000002",
        "9007199254740992",
        "1e30",
        "-1e30",
        "1e300",
        "-1e300",
        "0",
    ],
}
_WEIGHTS = ["0", "1", "1", "3", "0.1", "1e-30", "16777216", "1024"]


def _random_bits(value_type: str, generator: random.Random) -> int:
    fmt = oracle.FORMATS[value_type]
    if generator.random() < 0.7:
        return fmt.round(Fraction(generator.choice(_HOSTILE[value_type])))
    # Any finite pattern; for f64 below 2^1000, so that products with weights stay finite.
    exponents = 2 * fmt.exponent_max if value_type != "f64" else 2000
    sign = generator.getrandbits(1) << (np.dtype(fmt.bits_dtype).itemsize * 8 - 1)
    fraction = generator.getrandbits(fmt.precision - 1)
    return sign | generator.randrange(exponents + 1) << (fmt.precision - 1) | fraction


def _random_update(value_type: str, generator: random.Random) -> SparseTensor:
    nnz = generator.randrange(0, 12)
    rows = [generator.randrange(ROWS) for _ in range(nnz)]
    bits = [_random_bits(value_type, generator) for _ in range(nnz)]
    fmt = oracle.FORMATS[value_type]
    values = np.array(bits, fmt.bits_dtype).view(fmt.dtype)
    return SparseTensor(np.array(rows, np.int64), values, [ROWS], value_type)


def _expected(op, value_type, updates, weights) -> dict[int, int]:
    """Row -> bit pattern."""
    fmt = oracle.FORMATS[value_type]
    exact_weights = [Fraction(float(np.float32(weight))) for weight in weights]
    here: dict[int, list[oracle.Contribution]] = {}
    for update, weight in zip(updates, exact_weights):
        by_row: dict[int, list[Fraction]] = {}
        for row, bits in zip(
            update.indices[:, 0].tolist(), oracle.bits_of(value_type, update.values)
        ):
            by_row.setdefault(row, []).append(fmt.value(bits))
        for row, values in by_row.items():
            here.setdefault(row, []).append(oracle.Contribution(weight, values, value_type))
    total = sum(exact_weights, Fraction(0))
    return {
        row: oracle.aggregate_float(op, value_type, parts, total)
        for row, parts in sorted(here.items())
    }


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("value_type", list(oracle.FORMATS))
@pytest.mark.parametrize("op", FLOAT_OPERATORS)
def test_equals_rational_arithmetic_rounded_once(where, op, value_type, seed):
    generator = random.Random(f"{op} {value_type} {seed}")
    updates = [_random_update(value_type, generator) for _ in range(generator.randrange(1, 20))]
    weights = [float(np.float32(generator.choice(_WEIGHTS))) for _ in updates]
    result = sparse_sum(updates, op, weights, **where)
    actual = dict(zip(result.indices[:, 0].tolist(), oracle.bits_of(value_type, result.values)))
    assert actual == _expected(op, value_type, updates, weights)


@pytest.mark.parametrize("value_type", ["f16", "f32", "f64"])  # numpy has no bfloat16
def test_the_oracle_rounds_as_numpy_does(value_type):
    fmt = oracle.FORMATS[value_type]
    generator = random.Random(value_type)
    for _ in range(500):
        bits = _random_bits("f64", generator)
        value = oracle.FORMATS["f64"].value(bits)
        with np.errstate(over="ignore", under="ignore"):
            expected = (
                np.array([bits], np.uint64).view(np.float64).astype(fmt.dtype) + 0.0
            )  # -0 is +0
        assert fmt.round(value) in (
            oracle.bits_of(value_type, expected)[0],
            0 if expected[0] == 0 else None,
        )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e30, 1e-45, -1e30], 1e-45),
        ([16777216, 1, 1e-45], 16777218),  # just above the tie between 2^24 and 2^24 + 2
        ([16777216, 1], 16777216),  # a tie goes to even
        ([16777218, 1], 16777220),
        ([3.4e38, 3.4e38, -3.4e38], 3.4e38),  # no overflow on the way
        ([-0.0, -0.0], 0.0),
    ],
)
def test_famous_sums_of_f32(where, values, expected):
    updates = [([0], np.float32([value]), [1]) for value in values]
    result = sparse_sum(updates, **where)
    assert result.values.tobytes() == np.float32([expected]).tobytes()


def test_a_sum_beyond_the_range_is_infinite(where):
    updates = [([0], np.float32([3e38]), [1])] * 2
    assert sparse_sum(updates, **where).values.tolist() == [float("inf")]


def test_sums_values_at_their_indices_and_not_the_components(where):
    a = ([0, 5], np.float32([1, 1]), [10])
    b = ([5, 9], np.float32([1, 1]), [10])
    result = sparse_sum([a, b], **where)
    assert result.indices[:, 0].tolist() == [0, 5, 9]
    assert result.values.tolist() == [1, 2, 1]


@pytest.mark.parametrize("value_type", list(oracle.INTEGER_BITS))
@pytest.mark.parametrize("seed", range(4))
def test_modular_integers_wrap(where, value_type, seed):
    bits = oracle.INTEGER_BITS[value_type]
    generator = random.Random(f"{value_type} {seed}")
    signed = value_type.startswith("i")
    low = -(1 << (bits - 1)) if signed else 0
    numbers = [generator.randrange(low, low + (1 << bits)) for _ in range(9)]
    dtype = {"i": "int", "u": "uint"}[value_type[0]] + str(bits)
    updates = [([3], np.array([number], dtype), [5]) for number in numbers]
    result = sparse_sum(updates, **where, integer_overflow="modular")
    expected = (sum(numbers) - low) % (1 << bits) + low
    assert result.values.tolist() == [expected]


def test_a_checked_integer_overflow_names_the_index(where):
    updates = [([7], np.array([2**31 - 1], np.int32), [10]), ([7], np.array([1], np.int32), [10])]
    with pytest.raises(OutOfRangeError, match="7") as caught:
        sparse_sum(updates, **where)
    assert caught.value.reason == "INTEGER_OVERFLOW"


def test_a_checked_integer_sum_may_leave_the_range_on_the_way(where):
    updates = [
        ([0], np.array([number], np.int64), [1]) for number in (2**63 - 1, 2**63 - 1, -(2**63))
    ]
    assert sparse_sum(updates, **where).values.tolist() == [2**63 - 2]


def test_count_counts_contributors_and_not_entries(where):
    updates = [
        ([1, 1, 2], np.float32([[1, 2], [3, 4], [5, 6]]), [4, 2]),
        ([1], np.float32([[0, 0]]), [4, 2]),
    ]
    result = sparse_sum(updates, "count", **where)
    assert result.indices[:, 0].tolist() == [1, 2]
    assert result.values.ravel().tolist() == [2, 1]
    assert result.value_type == "u64"


def test_the_two_means_differ_where_a_contributor_is_absent(where):
    updates = [([0, 1], np.float32([4, 4]), [2]), ([0], np.float32([8]), [2])]
    weighted = sparse_sum(updates, "weighted_mean", [1, 3], **where)
    of_contributors = sparse_sum(updates, "mean_of_contributors", [1, 3], **where)
    assert weighted.values.tolist() == [7, 1]
    assert of_contributors.values.tolist() == [7, 4]


@pytest.mark.parametrize("value_type", list(oracle.FORMATS))
@pytest.mark.parametrize("op", [*FLOAT_OPERATORS, "count"])
def test_order_and_splitting_change_no_bit(where, op, value_type):
    generator = random.Random(f"order {op} {value_type}")
    updates = [_random_update(value_type, generator) for _ in range(12)]
    # Powers of two: halving them is exact.
    weights = [float(2 ** generator.randrange(0, 8)) for _ in updates]
    reference = _bytes_of(sparse_sum(updates, op, weights, **where))

    shuffled = list(zip([_shuffled(update, generator) for update in updates], weights))
    generator.shuffle(shuffled)
    tensors, shuffled_weights = zip(*shuffled)
    assert _bytes_of(sparse_sum(tensors, op, shuffled_weights, **where)) == reference

    pieces = [piece for pair in zip(updates, weights) for piece in _split(op, *pair)]
    tensors, split_weights = zip(*pieces)
    assert _bytes_of(sparse_sum(tensors, op, split_weights, **where)) == reference


def _bytes_of(result: SparseTensor) -> tuple:
    return result.indices.tobytes(), result.values.tobytes()


def _shuffled(update: SparseTensor, generator: random.Random) -> SparseTensor:
    order = generator.sample(range(update.nnz), update.nnz)
    return SparseTensor(
        update.indices[order], update.values[order], update.dense_shape, update.value_type
    )


def _split(op: str, update: SparseTensor, weight: float) -> list:
    """Two updates that mean the same as one: the weighted mean shares the weight, the others share the rows."""
    if op == "weighted_mean":
        return [(update, weight / 2), (update, weight / 2)]
    low = update.indices[:, 0] < ROWS // 2
    return [
        (
            SparseTensor(
                update.indices[part], update.values[part], update.dense_shape, update.value_type
            ),
            weight,
        )
        for part in (low, ~low)
    ]
