"""tests/vectors/partials.bin: a second implementation of the format reads and writes the same bytes as the library."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sparseagg import IN_PROCESS, InvalidArgumentError, Partial, Reduction, TensorSpec
from sparseagg._local import is_possible
from support import partial_format

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
BLOB = (VECTORS / "partials.bin").read_bytes()
CASES = json.loads((VECTORS / "partials.json").read_text())

needs_library = pytest.mark.skipif(not is_possible(), reason="the package has no native library")


def data_of(case):
    return BLOB[case["offset"] : case["offset"] + case["bytes"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_second_implementation_reads_and_writes_the_vectors(case):
    partial = partial_format.read(data_of(case))
    assert partial.digest.hex() == case["digest"]
    assert [len(tensor.rows) for tensor in partial.tensors] == [
        own["rows"] for own in case["tensors"]
    ]


@needs_library
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_library_reads_and_writes_the_vectors(case):
    assert Partial.from_bytes(data_of(case)).to_bytes() == data_of(case)


@needs_library
def test_the_second_implementation_finds_the_exact_sums_in_what_the_library_writes():
    assert IN_PROCESS
    reduction = Reduction(TensorSpec("t", [70_000, 2], op="mean_of_contributors"))
    first = np.float32([[0.1, 2.0], [3.0, 1e-30]])
    reduction.add({"t": ([65_536, 3], first, [70_000, 2])}, weight=3)
    reduction.add({"t": ([3], np.float32([[1e30, 4.0]]), [70_000, 2])}, weight=0.5)
    partial = partial_format.read(reduction.snapshot().to_bytes())
    tenth, tiny, large = (Fraction(float(np.float32(value))) for value in (0.1, 1e-30, 1e30))
    (tensor,) = partial.tensors
    assert tensor.rows == {
        3: [9 + large / 2, 3 * tiny + 2, Fraction(7, 2)],
        65_536: [3 * tenth, Fraction(6), Fraction(3)],
    }
    assert (partial.contributors, partial.total_weight, tensor.entries) == (2, Fraction(7, 2), 3)
    assert partial.covered is None


@needs_library
def test_damaged_bytes_are_refused_with_the_place():
    data = bytearray(data_of(CASES[0]))
    data[-100] ^= 1
    with pytest.raises(InvalidArgumentError, match='tensor "sum.u64": slice|digest'):
        Partial.from_bytes(data)
    with pytest.raises(InvalidArgumentError, match="does not begin with spagpart"):
        Partial.from_bytes(b"x" * 100)
