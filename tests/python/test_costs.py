"""What the package adds to numpy's own work, counted in calls and in memory; bench/python_bench.py measures the time."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
from sparseagg import SparseTensor, flatten
from sparseagg._encode.encodings import EncodeOptions, encode_tensor
from sparseagg._encode.packed_indices import encode_rows

RANDOM = np.random.default_rng(11)
ENTRIES = 300_000


def calls(action):
    """The number of calls of functions, of Python's and of C's: a loop over entries makes one for each."""
    count = 0

    def count_calls(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_calls)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def peak_bytes(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rows_of_16(rows):
    values = np.ones((len(rows), 16), np.float32)
    return SparseTensor(rows, values, [2 * len(rows), 16])


def matrix():
    """As of scipy: two indexed dimensions, row after row."""
    rows = np.sort(RANDOM.choice(40 * ENTRIES, ENTRIES, replace=False))
    indices = np.stack(np.divmod(rows, 4000), axis=1)
    values = RANDOM.standard_normal(ENTRIES, dtype=np.float32)
    return SparseTensor(indices, values, [ENTRIES // 100, 4000]), rows.astype(np.uint64)


def test_a_dense_array_costs_itself_and_some_arrays_of_indices():
    ascending = np.arange(0, 2 * ENTRIES, 2)
    for rows in (ascending, RANDOM.permutation(ascending)):
        tensor = rows_of_16(rows)
        dense_bytes = 2 * tensor.values.nbytes
        assert calls(tensor.to_dense) < 100
        assert peak_bytes(tensor.to_dense) < dense_bytes + 8 * rows.nbytes


def test_a_list_of_numbers_is_one_tensor_without_a_look_at_each():
    numbers = [float(n) for n in range(ENTRIES)]
    assert calls(lambda: flatten(numbers)) < 100


def test_two_indexed_dimensions_are_packed_in_little_more_than_one(packed_by):
    tensor, rows = matrix()
    options = EncodeOptions("coo.packed", "raw")
    encode_tensor("t", tensor, options)  # loads the library
    of_one = calls(lambda: encode_rows(rows))
    assert calls(lambda: encode_tensor("t", tensor, options)) < of_one + 200
    # numpy makes one array of the rows; the library reads the indices where they are.
    of_one = peak_bytes(lambda: encode_rows(rows)) + rows.nbytes if packed_by == "numpy" else 0
    assert peak_bytes(lambda: encode_tensor("t", tensor, options)) < of_one + rows.nbytes // 2


def test_auto_costs_little_where_nothing_is_packed():
    tensor, _ = matrix()
    raw = EncodeOptions("coo.raw")
    auto = EncodeOptions("auto", "auto").for_server(frozenset({"coo.packed"}), 1e9)
    of_raw = calls(lambda: encode_tensor("t", tensor, raw))
    assert calls(lambda: encode_tensor("t", tensor, auto)) < of_raw + 2000
    of_raw = peak_bytes(lambda: encode_tensor("t", tensor, raw))
    assert peak_bytes(lambda: encode_tensor("t", tensor, auto)) < of_raw + tensor.values.nbytes
