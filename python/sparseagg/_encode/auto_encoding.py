"""`encoding="auto"`: whether a tensor is there sooner packed or unpacked. docs/python.md has the rule.

A sample of the tensor tells what packing saves, the speed of the connection how long that takes to send, and measured rates
how long packing takes, in the native library or in numpy.
"""

from __future__ import annotations

import math
import time

import numpy as np

from sparseagg._encode import native_packing
from sparseagg._encode.packed_indices import BLOCK_ENTRIES, encode_rows, packed_bytes
from sparseagg._encode.rows import RowOrder, flatten_indices
from sparseagg._encode.value_coding import coded_bytes, smallest_exact_coding
from sparseagg.tensors import AnyTensor, SparseTensor

# The sample that "auto" decides on: blocks of indices, and values, spread over the tensor.
_SAMPLE_BLOCKS, _SAMPLE_VALUES = 16, 4096
# Seconds that packing takes in numpy: in all; for an entry in order, and out of order; for a value that is checked and
# coded. Measured on a loaded core with numpy 1.24: 4 to 30 ns an entry, 130 to 200 with sorting, 2 to 10 a value.
_SECONDS, _SECONDS_OF_ENTRY, _SECONDS_OF_UNSORTED, _SECONDS_OF_VALUE = 3e-4, 3e-8, 2e-7, 1e-8
# The same in the native library; sorting reads all indices several times, for the indices and again for the values. A
# trial sorts few entries once, in cache.
_NATIVE_SECONDS_OF_ENTRY, _NATIVE_SECONDS_OF_UNSORTED, _NATIVE_SECONDS_OF_SCAN = 5e-9, 6e-8, 5e-9
_NATIVE_SECONDS_OF_UNSORTED_TRIAL = 2e-8
# A trial packs this number of entries to see how long it takes now; a tensor gets one if it has this many times as many.
_TRIAL_ENTRIES, _TRIAL_SHARE = 1 << 16, 8
# Memory that "auto" may take for packed indices, or for sorting.
EXTRA_BYTES_MAX = 48 << 20


def choose(tensor: AnyTensor, index_bytes: int, values: str, bytes_per_second: float) -> str | None:
    """Returns the values encoding ("auto" or "raw") with which `tensor` is packed, or None where it is sooner there
    unpacked.

    index_bytes: of its indices unpacked. values: "auto", or "raw" where they are to stay as they are.
    bytes_per_second: of the connection; 0 where only bytes count.
    """
    seconds = _SECONDS
    saved = 0.0
    if isinstance(tensor, SparseTensor) and tensor.nnz:
        size, is_sorted = _estimate(tensor)
        saved = index_bytes - size
        if size > EXTRA_BYTES_MAX or not (is_sorted or _may_sort(tensor, size)):
            return None
        packing = tensor.nnz * _seconds_of_entry(tensor.nnz, is_sorted)
        is_worth_a_trial = bytes_per_second and _gain(saved, packing, bytes_per_second) > 0
        if is_worth_a_trial and tensor.nnz >= _TRIAL_SHARE * _TRIAL_ENTRIES:
            packing *= max(1.0, _slowness(tensor, is_sorted))
        seconds += packing
    gain = _gain(saved, seconds, bytes_per_second)
    choice = "raw"
    if values == "auto":
        flat = tensor.values.reshape(-1)
        sample = flat[:: -(-flat.size // _SAMPLE_VALUES) or 1]
        coding = smallest_exact_coding(np.ascontiguousarray(sample), tensor.value_type)
        if coding != "raw":
            size = coded_bytes(coding, flat.itemsize, flat.size)
            more = _gain(flat.nbytes - size, _SECONDS_OF_VALUE * flat.size, bytes_per_second)
            if more > 0:
                gain, choice = gain + more, "auto"
    return choice if gain > 0 else None


def _slowness(tensor: SparseTensor, is_sorted: bool) -> float:
    """Returns how many times as long as the rates say some entries take to pack: a busy machine is slower."""
    some = SparseTensor(
        tensor.indices[:_TRIAL_ENTRIES],
        tensor.values[:_TRIAL_ENTRIES],
        tensor.dense_shape,
        tensor.value_type,
    )
    seconds = []
    for _ in range(2):  # The first short trial is slower: its caches are cold.
        begin = time.monotonic()
        if native_packing.is_here():
            native_packing.pack(some)
        else:
            rows = flatten_indices(some.indices, some.dense_shape)
            encode_rows(rows if is_sorted else np.sort(rows))
        seconds.append(time.monotonic() - begin)
    expected = _seconds_of_entry(_TRIAL_ENTRIES, is_sorted)
    if native_packing.is_here() and not is_sorted:
        expected = _NATIVE_SECONDS_OF_UNSORTED_TRIAL
    return min(seconds) / (_TRIAL_ENTRIES * expected)


def _gain(saved: float, seconds: float, bytes_per_second: float) -> float:
    """Returns the seconds saved, or the bytes where only these count."""
    return saved / bytes_per_second - seconds if bytes_per_second else saved


def _estimate(tensor: SparseTensor) -> tuple[float, bool]:
    """Returns the bytes of packed indices, and whether they seem to be in order, by some blocks."""
    nnz, shape = tensor.nnz, tensor.dense_shape
    starts = np.zeros(1, np.int64)
    if nnz > BLOCK_ENTRIES:
        starts = np.unique(np.linspace(0, nnz - BLOCK_ENTRIES, _SAMPLE_BLOCKS).astype(np.int64))
    width = min(nnz, BLOCK_ENTRIES)
    places = (starts[:, None] + np.arange(width)).reshape(-1)
    rows = flatten_indices(tensor.indices[places], shape)
    blocks = rows.reshape(-1, width)
    in_blocks = bool((blocks[:, 1:] >= blocks[:, :-1]).all())
    is_sorted = in_blocks and bool((blocks[1:, 0] >= blocks[:-1, 0]).all())
    if not is_sorted:  # Once sorted, neighbours are as far apart as random rows of this density.
        gap = max(1, math.prod(shape[: tensor.sparse_dim]) // nnz)
        steps = np.random.default_rng(0).geometric(1 / gap, (_SAMPLE_BLOCKS, width))
        blocks = np.cumsum(steps, axis=1).astype(np.uint64)
    return packed_bytes(blocks) * -(-nnz // BLOCK_ENTRIES), is_sorted


def _may_sort(tensor: SparseTensor, packed: float) -> bool:
    """Returns True where its order and its packed indices take no more memory than "auto" may take."""
    if native_packing.is_here() and native_packing.scans(tensor.nnz, EXTRA_BYTES_MAX):
        return packed + native_packing.sort_bytes(tensor.nnz, EXTRA_BYTES_MAX) <= EXTRA_BYTES_MAX
    return packed + RowOrder.bytes_of(tensor) <= EXTRA_BYTES_MAX


def _seconds_of_entry(nnz: int, is_sorted: bool) -> float:
    if not native_packing.is_here():
        return _SECONDS_OF_ENTRY if is_sorted else _SECONDS_OF_UNSORTED
    if is_sorted:
        return _NATIVE_SECONDS_OF_ENTRY
    scans = native_packing.scans(nnz, EXTRA_BYTES_MAX)
    return _NATIVE_SECONDS_OF_UNSORTED + scans * _NATIVE_SECONDS_OF_SCAN
