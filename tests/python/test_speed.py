"""What the package adds to numpy's own work, as a ratio of processor times, which other programs change little."""

from __future__ import annotations

import time

import numpy as np
from sparseagg import SparseTensor, flatten
from sparseagg._encode.encodings import EncodeOptions, encode_tensor
from sparseagg._encode.packed_indices import encode_rows

RANDOM = np.random.default_rng(11)
ENTRIES = 300_000


def seconds(action):
    """Of this thread, the least of three runs."""
    times = []
    for _ in range(3):
        begin = time.thread_time()
        action()
        times.append(time.thread_time() - begin)
    return min(times)


def rows_of_16(rows):
    values = np.ones((len(rows), 16), np.float32)
    return SparseTensor(rows, values, [2 * len(rows), 16])


def test_a_dense_array_costs_little_more_than_an_assignment():
    ascending = np.arange(0, 2 * ENTRIES, 2)
    for tensor in (rows_of_16(ascending), rows_of_16(RANDOM.permutation(ascending))):

        def assign(tensor=tensor):
            dense = np.zeros(tensor.dense_shape, np.float32)
            dense[tensor.indices[:, 0]] = tensor.values

        assert seconds(tensor.to_dense) < 4 * seconds(assign)


def test_a_list_of_numbers_is_one_tensor_without_a_look_at_each():
    numbers = [float(n) for n in range(ENTRIES)]
    assert seconds(lambda: flatten(numbers)) < 3 * seconds(lambda: np.asarray(numbers))


def matrix():
    """As of scipy: two indexed dimensions, row after row."""
    rows = np.sort(RANDOM.choice(40 * ENTRIES, ENTRIES, replace=False))
    indices = np.stack(np.divmod(rows, 4000), axis=1)
    values = RANDOM.standard_normal(ENTRIES, dtype=np.float32)
    return SparseTensor(indices, values, [ENTRIES // 100, 4000]), rows.astype(np.uint64)


def test_two_indexed_dimensions_are_packed_in_little_more_than_one():
    tensor, rows = matrix()
    packed = seconds(lambda: encode_tensor("t", tensor, EncodeOptions("coo.packed", "raw")))
    assert packed < 2 * seconds(lambda: encode_rows(rows))


def test_auto_costs_little_where_nothing_is_packed():
    tensor, _ = matrix()
    raw = seconds(lambda: encode_tensor("t", tensor, EncodeOptions("coo.raw")))
    auto = EncodeOptions("auto", "auto")
    auto = auto.for_server(frozenset({"coo.packed"}), 1e9)
    assert seconds(lambda: encode_tensor("t", tensor, auto)) < 4 * raw + 2e-3
