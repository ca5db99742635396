"""Sums in this process are exact whatever settings for floating point other packages left its threads with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sparseagg import Partial, Reduction, TensorSpec, sparse_sum
from support.float_settings import flush_to_zero

# A sum that loses a subnormal number where it is taken for 0, and one that is then rounded otherwise.
SUMS = {
    "f32": (np.float32, [1e38, 1e-45, -1e38], "0x1.0000000000000p-149"),
    "f64": (np.float64, [1, 2**-53, 5e-324], "0x1.0000000000001p+0"),
}
ROWS = {"one": 1, "many": 100_000}  # many are shared among threads


def updates_of(dtype, numbers, rows):
    return [(np.arange(rows), np.full(rows, number, dtype), [rows]) for number in numbers]


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize(("dtype", "numbers", "expected"), SUMS.values(), ids=SUMS.keys())
def test_a_sum_is_exact_where_the_smallest_numbers_are_flushed_to_zero(
    in_process, dtype, numbers, expected, rows
):
    updates = updates_of(dtype, numbers, rows)
    with flush_to_zero():
        values = sparse_sum(updates, **in_process).values
    assert {float(value).hex() for value in values} == {expected}


@pytest.mark.parametrize(("dtype", "numbers", "expected"), SUMS.values(), ids=SUMS.keys())
def test_partials_are_exact_where_the_smallest_numbers_are_flushed_to_zero(
    in_process, dtype, numbers, expected
):
    specs = [TensorSpec("t", [1], "f32" if dtype == np.float32 else "f64")]
    updates = updates_of(dtype, numbers, 1)
    with flush_to_zero():
        parts = []
        for update in updates:
            reduction = Reduction(specs)
            reduction.add({"t": update})
            parts.append(reduction.snapshot().to_bytes())
        whole = Reduction(specs)
        for part in parts:
            whole.merge(Partial.from_bytes(part))
        values = whole.result()["t"].values
    assert [float(value).hex() for value in values] == [expected]


# The library makes its threads when it is first used.
FIRST_USE = """
import numpy as np
from sparseagg import IN_PROCESS, sparse_sum
from support.float_settings import flush_to_zero

numbers = np.float32([1e38, 1e-45, -1e38])
updates = [(np.arange(100_000), np.full(100_000, number), [100_000]) for number in numbers]
with flush_to_zero():
    sparse_sum(updates, target=IN_PROCESS)
    values = sparse_sum(updates, target=IN_PROCESS).values
print({float(value).hex() for value in values})
"""


def test_a_library_that_is_first_used_with_such_settings_is_exact(in_process):
    with flush_to_zero():
        pass  # skipped where there is no such processor
    tests = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE], cwd=tests, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "{'0x1.0000000000000p-149'}", done.stderr
