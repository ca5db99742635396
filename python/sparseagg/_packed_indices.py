"""The indices of `coo.packed` in numpy; docs/wire_format.md has the grammar. The same bytes as C++ makes.

    indices := entry * words *      one entry for 256 rows, then the blocks' words
    entry   := first:u64 begin:u32 tag:u32

Blocks of one form are done at a time, as a matrix [blocks, rows of a block].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseagg.errors import SparseAggError

if TYPE_CHECKING:
    from sparseagg.tensors import Array

BLOCK_ENTRIES = 256
_REPEATS_FORM = 64
_BITMAP_FORM = 128
_BLOCK_WORDS_MAX = ((BLOCK_ENTRIES - 1) * 63 + 31) // 32
_ENTRY = np.dtype([("first", "<u8"), ("begin", "<u4"), ("tag", "<u4")])
_BLOCKS_AT_ONCE = 1024  # bits are handled as bytes, so that memory stays a few MiB


def block_key(n: Array) -> Array:
    """SplitMix64's output function of n * golden ratio, modulo 2^64."""
    with np.errstate(over="ignore"):
        x = n.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


_KEYS = block_key(np.arange(_BLOCK_WORDS_MAX + 5))


def encode_rows(rows: Array) -> bytes:
    """uint64 rows that never descend, below 2^63, as `coo.packed` has them."""
    count = len(rows)
    blocks = -(-count // BLOCK_ENTRIES)
    if blocks == 0:
        return b""
    full = count // BLOCK_ENTRIES
    parts = [(slice(0, full), rows[: full * BLOCK_ENTRIES].reshape(full, BLOCK_ENTRIES))]
    if full < blocks:
        parts.append((slice(full, blocks), rows[full * BLOCK_ENTRIES :].reshape(1, -1)))
    forms = np.zeros(blocks, np.int64)
    sizes = np.zeros(blocks, np.int64)
    for where, matrix in parts:
        if len(matrix):
            forms[where], sizes[where] = _plan(matrix)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    words = np.zeros(int(ends[-1]), "<u4")
    for where, matrix in parts:
        for form in np.unique(forms[where]):
            chosen = np.flatnonzero(forms[where] == form)
            for some in np.split(chosen, range(_BLOCKS_AT_ONCE, len(chosen), _BLOCKS_AT_ONCE)):
                _put(words, begins[where][some], sizes[where][some], int(form), matrix[some])
    entries = np.zeros(blocks, _ENTRY)
    entries["first"] = rows[::BLOCK_ENTRIES]
    entries["begin"] = begins
    checks = _checks(entries["first"], forms, begins, ends, words)
    entries["tag"] = forms.astype(np.uint32) | checks << np.uint32(8)
    return entries.tobytes() + words.tobytes()


def decode_rows(data: Array, count: int, num_rows: int, name: str) -> Array:
    """The uint64 rows of `count` entries. Raises SparseAggError, naming tensor and block, for anything malformed."""
    blocks = -(-count // BLOCK_ENTRIES)
    directory_bytes = blocks * _ENTRY.itemsize
    if len(data) < directory_bytes or len(data) % 4:
        raise _malformed(
            name, 0, blocks, f"{len(data)} bytes of indices cannot hold {count} entries"
        )
    if blocks == 0:
        return np.empty(0, np.uint64)
    entries = np.frombuffer(data.tobytes(), _ENTRY, blocks)
    words = np.frombuffer(data.tobytes(), "<u4", offset=directory_bytes)
    begins = entries["begin"].astype(np.int64)
    ends = np.append(begins[1:], len(words))
    forms = (entries["tag"] & np.uint32(0xFF)).astype(np.int64)
    counts = np.full(blocks, BLOCK_ENTRIES)
    counts[-1] = count - (blocks - 1) * BLOCK_ENTRIES
    _check_sizes(name, forms, begins, ends, counts, len(words))
    damaged = _checks(entries["first"], forms, begins, ends, words) != entries["tag"] >> np.uint32(
        8
    )
    if damaged.any():
        raise SparseAggError(
            f'tensor "{name}": block {int(damaged.argmax())} of {blocks}: its check does not agree with its content',
            reason="CHECKSUM_MISMATCH",
        )
    rows = np.empty(count, np.uint64)
    for form in np.unique(forms):
        for size in np.unique(counts):
            chosen = np.flatnonzero((forms == form) & (counts == size))
            for some in np.split(chosen, range(_BLOCKS_AT_ONCE, len(chosen), _BLOCKS_AT_ONCE)):
                if len(some):
                    matrix = _take(
                        words, begins[some], ends[some], int(form), entries["first"][some], size
                    )
                    if matrix is None:
                        raise _malformed(
                            name, int(some[0]), blocks, "a bitmap has not as many bits as entries"
                        )
                    rows[some[:, None] * BLOCK_ENTRIES + np.arange(size)] = matrix
    if (rows[1:] < rows[:-1]).any():
        block = int((rows[1:] < rows[:-1]).argmax()) // BLOCK_ENTRIES
        raise _malformed(name, block, blocks, "its rows do not ascend")
    if int(rows[-1]) >= num_rows:
        raise SparseAggError(
            f'tensor "{name}": row {int(rows[-1])} at entry {count - 1} is not below {num_rows} rows',
            reason="INDEX_OUT_OF_RANGE",
        )
    return rows


def _plan(matrix: Array) -> tuple[Array, Array]:
    """Form and number of words of each block."""
    count = matrix.shape[1]
    differences = matrix[:, 1:] - matrix[:, :-1]
    if count == 1:
        return np.zeros(len(matrix), np.int64), np.zeros(len(matrix), np.int64)
    repeats = (differences == 0).any(axis=1)
    largest = differences.max(axis=1) - (~repeats).astype(np.uint64)
    width = _bit_width(largest)
    words = ((count - 1) * width + 31) // 32
    form = width + np.where(repeats, _REPEATS_FORM, 0)
    bitmap_words = ((matrix[:, -1] - matrix[:, 0]) // np.uint64(32) + np.uint64(1)).astype(np.int64)
    bitmap = ~repeats & (bitmap_words < words)
    return np.where(bitmap, _BITMAP_FORM, form), np.where(bitmap, bitmap_words, words)


def _bit_width(values: Array) -> Array:
    width = np.zeros(len(values), np.int64)
    rest = values.copy()
    for bits in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(bits)
        wide = high != 0
        width[wide] += bits
        rest[wide] = high[wide]
    width += rest != 0
    return width


def _put(words: Array, begins: Array, sizes: Array, form: int, matrix: Array) -> None:
    """Writes blocks of one form to their places in `words`."""
    if form == _BITMAP_FORM:
        starts = np.cumsum(sizes) - sizes
        bits = np.zeros(int(sizes.sum()) * 32, np.uint8)
        offsets = (matrix - matrix[:, :1]).astype(np.int64)
        bits[(starts[:, None] * 32 + offsets).ravel()] = 1
        places = np.repeat(begins - starts, sizes) + np.arange(int(sizes.sum()))
        words[places] = np.packbits(bits, bitorder="little").view("<u4")
        return
    width = form % _REPEATS_FORM
    size = int(sizes[0])
    if size == 0:
        return
    step = np.uint64(1 if form < _REPEATS_FORM else 0)
    differences = matrix[:, 1:] - matrix[:, :-1] - step
    item = _item_bytes(width)
    narrow = np.ascontiguousarray(differences.astype(f"<u{item}"))
    bits = np.unpackbits(
        narrow.view(np.uint8).reshape(*narrow.shape, item), axis=2, bitorder="little"
    )
    packed = np.zeros((len(matrix), size * 32), np.uint8)
    packed[:, : narrow.shape[1] * width] = bits[:, :, :width].reshape(len(matrix), -1)
    block_words = np.packbits(packed, axis=1, bitorder="little").view("<u4")
    words[begins[:, None] + np.arange(size)] = block_words


def _take(
    words: Array, begins: Array, ends: Array, form: int, first: Array, count: int
) -> Array | None:
    """The rows [blocks, count] of blocks of one form; None when a bitmap is not one."""
    sizes = ends - begins
    if form == _BITMAP_FORM:
        starts = np.cumsum(sizes) - sizes
        places = np.repeat(begins - starts, sizes) + np.arange(int(sizes.sum()))
        bits = np.unpackbits(words[places].view(np.uint8), bitorder="little")
        positions = np.flatnonzero(bits)
        block = np.searchsorted(starts * 32, positions, side="right") - 1
        good = (np.bincount(block, minlength=len(sizes)) == count).all()
        if not good or not bits[starts * 32].all() or not words[ends - 1].all():
            return None
        offsets = (positions - starts[block] * 32).astype(np.uint64).reshape(len(sizes), count)
        rows: Array = first[:, None] + offsets
        return rows
    width = form % _REPEATS_FORM
    step = np.uint64(1 if form < _REPEATS_FORM else 0)
    rows = np.empty((len(sizes), count), np.uint64)
    rows[:, 0] = first
    rows[:, 1:] = step
    if width and count > 1:
        size = int(sizes[0])
        block_words = np.ascontiguousarray(words[begins[:, None] + np.arange(size)])
        bits = np.unpackbits(block_words.view(np.uint8), axis=1, bitorder="little")
        item = _item_bytes(width)
        wide = np.zeros((len(sizes), count - 1, item * 8), np.uint8)
        wide[:, :, :width] = bits[:, : (count - 1) * width].reshape(len(sizes), count - 1, width)
        values = np.packbits(wide, axis=2, bitorder="little").view(f"<u{item}")[:, :, 0]
        rows[:, 1:] += values.astype(np.uint64)
    return np.cumsum(rows, axis=1, dtype=np.uint64)


def _item_bytes(width: int) -> int:
    return next(size for size in (1, 2, 4, 8) if width <= 8 * size)


def _checks(first: Array, forms: Array, begins: Array, ends: Array, words: Array) -> Array:
    """The 24 bits of each block's check."""
    with np.errstate(over="ignore"):
        key = np.arange(len(words)) - np.repeat(begins, ends - begins) + 5
        running = np.zeros(len(words) + 1, np.uint64)
        np.cumsum(words.astype(np.uint64) * _KEYS[key], out=running[1:])
        low, high = first & np.uint64(0xFFFFFFFF), first >> np.uint64(32)
        sums = _KEYS[1] + _KEYS[2] * low + _KEYS[3] * high + _KEYS[4] * forms.astype(np.uint64)
        sums = sums + running[ends] - running[begins]
    keys: Array = (sums >> np.uint64(40)).astype(np.uint32)
    return keys


def _check_sizes(
    name: str, forms: Array, begins: Array, ends: Array, counts: Array, total: int
) -> None:
    sizes = ends - begins
    wrong = (sizes < 0) | (sizes > _BLOCK_WORDS_MAX) | (ends > total) | (forms > _BITMAP_FORM)
    wrong[0] |= begins[0] != 0
    packed = forms < _BITMAP_FORM
    expected = ((counts - 1) * (forms % _REPEATS_FORM) + 31) // 32
    wrong |= packed & (sizes != expected)
    wrong |= ~packed & (sizes == 0)
    if wrong.any():
        block = int(wrong.argmax())
        raise _malformed(
            name,
            block,
            len(forms),
            f"form {forms[block]} in words {begins[block]} to {ends[block]} of {total}",
        )


def _malformed(name: str, block: int, blocks: int, what: str) -> SparseAggError:
    return SparseAggError(
        f'tensor "{name}": block {block} of {blocks}: {what}', reason="MALFORMED_BLOCK"
    )
