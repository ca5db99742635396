"""The indices of `coo.packed` in numpy; docs/wire_format.md has the grammar. The same bytes as C++ makes.

    indices := entry * words *      one entry for 256 rows, then the blocks' words
    entry   := first:u64 begin:u32 tag:u32

Blocks of one form are done at a time, as a matrix [blocks, rows of a block].
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseagg.errors import SparseAggError

if TYPE_CHECKING:
    from sparseagg.tensors import Array

BLOCK_ENTRIES = 256
_REPEATS_FORM = 64
_BITMAP_FORM = 128
_BLOCK_WORDS_MAX = ((BLOCK_ENTRIES - 1) * 63 + 31) // 32
_WORDS_MAX = (1 << 32) - 1
_ROWS_MAX = 1 << 63
# 255 differences of this width cannot carry a row beyond 64 bits.
_SAFE_WIDTH_MAX = 54
_ENTRY = np.dtype([("first", "<u8"), ("begin", "<u4"), ("tag", "<u4")])
_BLOCKS_AT_ONCE = 1024  # bits are handled as bytes, so that memory stays a few MiB
# Rows that are packed at a time, for the same reason.
SPAN_ENTRIES = BLOCK_ENTRIES * _BLOCKS_AT_ONCE


def block_key(n: Array) -> Array:
    """Returns SplitMix64's output function of n * golden ratio, modulo 2^64."""
    with np.errstate(over="ignore"):
        x = n.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


_KEYS = block_key(np.arange(_BLOCK_WORDS_MAX + 5))
_KEY_INTS: list[int] = _KEYS.tolist()
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)  # of a byte


def encode_rows(rows: Array) -> Array:
    """Encodes uint64 rows that never descend, below 2^63, as `coo.packed` does."""
    return encode_spans(
        [rows[begin:][:SPAN_ENTRIES] for begin in range(0, len(rows), SPAN_ENTRIES)]
    )


def encode_spans(spans: Iterable[Array]) -> Array:
    """Encodes the same from rows that come in spans: `SPAN_ENTRIES` each, the last one fewer."""
    all_entries: list[Array] = []
    all_words: list[Array] = []
    begin = 0
    for rows in spans:
        if not all_entries and len(rows) <= BLOCK_ENTRIES:  # the only block
            return np.frombuffer(_encode_block(rows.tolist()), np.uint8)
        entries, words = _encode_blocks(rows)
        entries["begin"] += np.uint32(begin)
        begin += len(words)
        all_entries.append(entries)
        all_words.append(words)
    encoded = np.empty(sum(entries.nbytes for entries in all_entries) + 4 * begin, np.uint8)
    end = 0
    for parts in (all_entries, all_words):
        parts.reverse()
        while parts:  # of the packed bytes no second copy is in memory
            part = parts.pop().view(np.uint8)
            encoded[end : end + len(part)] = part
            end += len(part)
    return encoded


def packed_bytes(blocks: Array) -> float:
    """Returns the mean bytes of blocks `[n, BLOCK_ENTRIES]` of uint64 rows that never descend."""
    return float(_plan(blocks)[1].mean()) * 4 + _ENTRY.itemsize


def _encode_blocks(rows: Array) -> tuple[Array, Array]:
    """Entries, and words, of any number of blocks but none."""
    count = len(rows)
    blocks = -(-count // BLOCK_ENTRIES)
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
    return entries, words


def _encode_block(rows: list[int]) -> bytes:
    """The only block. For four rows 4 us, where the sixty calls of numpy take 200; for 200 rows 67 and 409."""
    first = rows[0]
    differences = [after - before for before, after in zip(rows, rows[1:])]
    step = 0 if 0 in differences else 1
    width = (max(differences) - step).bit_length() if differences else 0
    size = (len(differences) * width + 31) // 32
    bitmap_size = (rows[-1] - first) // 32 + 1
    bits = 0
    if step == 1 and bitmap_size < _too_many_for_a_bitmap(width, size):
        form, size = _BITMAP_FORM, bitmap_size
        for row in rows:
            bits |= 1 << (row - first)
    else:
        form = width if step == 1 else _REPEATS_FORM + width
        for difference in reversed(differences):
            bits = bits << width | difference - step
    words = bits.to_bytes(4 * size, "little")
    parts = (1, first & 0xFFFFFFFF, first >> 32, form, *struct.unpack(f"<{size}I", words))
    check = sum(part * key for part, key in zip(parts, _KEY_INTS[1:])) >> 40 & 0xFFFFFF
    return struct.pack("<QII", first, 0, form | check << 8) + words


def decode_rows(data: Array, count: int, num_rows: int, name: str) -> Array:
    """Returns the uint64 rows of `count` entries. Raises SparseAggError, naming tensor and block, for anything
    malformed: the first of several blocks, and of several things in one block the one that C++ names."""
    _check_length(data, count, name)
    if count == 0:
        return np.empty(0, np.uint64)
    blocks = _Blocks(data.tobytes(), count, num_rows, name)
    blocks.check_sizes()
    blocks.check_contents()
    rows = blocks.unpack()
    blocks.check_rows(rows)
    if blocks.error is not None:
        raise blocks.error
    return rows


def _check_length(data: Array, count: int, name: str) -> None:
    """The sizes that `count` entries may have: of none, no byte."""
    blocks = -(-count // BLOCK_ENTRIES)
    least = blocks * _ENTRY.itemsize
    most = least + 4 * min(blocks * _BLOCK_WORDS_MAX, _WORDS_MAX)
    if least <= len(data) <= most and len(data) % 4 == 0:
        return
    needed = f"a multiple of 4 from {least} to {most}" if blocks else "0"
    raise SparseAggError(
        f'tensor "{name}": nnz {count} needs {needed} bytes of indices, there are {len(data)}',
        reason="SIZE_MISMATCH",
    )


class _Blocks:
    """The blocks of one tensor. Each check looks at all blocks before the first one found wrong so far, so that in the end
    `error` is what decoding one block after the other would find first. The order of the checks is that of C++
    (sparse/encodings/coo_packed.cc)."""

    def __init__(self, data: bytes, count: int, num_rows: int, name: str) -> None:
        self.error: SparseAggError | None = None
        self._name, self._count = name, count
        # A malformed header may have any shape.
        self._num_rows = np.uint64(min(max(num_rows, 0), _ROWS_MAX))
        self._total = self._sound = -(-count // BLOCK_ENTRIES)
        entries = np.frombuffer(data, _ENTRY, self._total)
        self._words = np.frombuffer(data, "<u4", offset=entries.nbytes)
        self._first = entries["first"]
        self._forms = (entries["tag"] & np.uint32(0xFF)).astype(np.int64)
        self._stated_checks = entries["tag"] >> np.uint32(8)
        self._begins = entries["begin"].astype(np.int64)
        self._ends = np.append(self._begins[1:], len(self._words))
        self._counts = np.full(self._total, BLOCK_ENTRIES)
        self._counts[-1] = count - (self._total - 1) * BLOCK_ENTRIES

    def check_sizes(self) -> None:
        """That forms exist and have the words that they need, one block's after the other's."""
        forms, begins, ends = self._forms, self._begins, self._ends
        sizes = ends - begins
        wrong = (sizes < 0) | (sizes > _BLOCK_WORDS_MAX) | (ends > len(self._words))
        wrong[0] |= begins[0] != 0
        wrong |= forms > _BITMAP_FORM
        expected = ((self._counts - 1) * (forms % _REPEATS_FORM) + 31) // 32
        wrong |= (forms < _BITMAP_FORM) & (sizes != expected)
        block = self._first_wrong(wrong)
        if block is not None:
            words = f"words {begins[block]} to {ends[block]} of {len(self._words)}"
            self._refuse(block, f"form {forms[block]} in {words}")

    def check_contents(self) -> None:
        """The checks, and what a block must not hold."""
        sound = slice(0, self._sound)
        first, forms = self._first[sound], self._forms[sound]
        begins, ends = self._begins[sound], self._ends[sound]
        words = self._words[: int((ends - begins).sum())]
        checks = _checks(first, forms, begins, ends, words)
        damaged = self._first_wrong(checks != self._stated_checks[sound])
        self._refuse(damaged, "its check does not agree with its content", "CHECKSUM_MISMATCH")
        block = self._first_wrong(first >= self._num_rows)
        if block is not None:
            self._out_of_range(block, first[block : block + 1])
        wrong = forms == _BITMAP_FORM
        if wrong.any():
            wrong[wrong] = _wrong_bitmaps(
                words, begins[wrong], ends[wrong], self._counts[sound][wrong]
            )
        self._refuse(self._first_wrong(wrong), "its bitmap is not one of its entries")

    def unpack(self) -> Array:
        """Returns the rows; of blocks that are not sound, anything."""
        rows = np.zeros(self._count, np.uint64)
        forms, counts = self._forms[: self._sound], self._counts[: self._sound]
        for form in np.unique(forms):
            for size in np.unique(counts):
                chosen = np.flatnonzero((forms == form) & (counts == size))
                for some in np.split(chosen, range(_BLOCKS_AT_ONCE, len(chosen), _BLOCKS_AT_ONCE)):
                    if len(some):
                        begins, ends = self._begins[some], self._ends[some]
                        rows[some[:, None] * BLOCK_ENTRIES + np.arange(size)] = _take(
                            self._words, begins, ends, int(form), self._first[some], size
                        )
        return rows

    def check_rows(self, rows: Array) -> None:
        """That rows never descend and are below `num_rows`."""
        starts = np.arange(self._total) * BLOCK_ENTRIES
        last = rows[starts + self._counts - 1]
        wide = self._forms % _REPEATS_FORM > _SAFE_WIDTH_MAX
        if wide.any():
            wide &= np.maximum.reduceat(rows, starts) >= np.uint64(_ROWS_MAX)
        self._refuse(self._first_wrong(wide), "a row is beyond 2^63")
        overlap = self._first_wrong(np.append(False, self._first[1:] < last[:-1]))
        self._refuse(overlap, "it begins below the end of the block before")
        block = self._first_wrong(last >= self._num_rows)
        if block is not None:
            self._out_of_range(block, rows[starts[block] :][: self._counts[block]])

    def _first_wrong(self, wrong: Array) -> int | None:
        """Returns the first block that is `wrong` among those that were sound so far, or None if there is none."""
        among = wrong[: self._sound]
        return int(among.argmax()) if among.any() else None

    def _refuse(self, block: int | None, what: str, reason: str = "MALFORMED_BLOCK") -> None:
        if block is not None:
            where = f'tensor "{self._name}": block {block} of {self._total}'
            self._end_at(block, SparseAggError(f"{where}: {what}", reason=reason))

    def _out_of_range(self, block: int, rows: Array) -> None:
        """For the first of the block's `rows` that is."""
        at = int((rows >= self._num_rows).argmax())
        error = SparseAggError(
            f'tensor "{self._name}": row {rows[at]} at entry {block * BLOCK_ENTRIES + at} '
            f"is not below {self._num_rows} rows",
            reason="INDEX_OUT_OF_RANGE",
        )
        self._end_at(block, error)

    def _end_at(self, block: int, error: SparseAggError) -> None:
        self._sound, self.error = block, error


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
    bitmap = ~repeats & (bitmap_words < _too_many_for_a_bitmap(width, words))
    return np.where(bitmap, _BITMAP_FORM, form), np.where(bitmap, bitmap_words, words)


def _too_many_for_a_bitmap(width: Any, words: Any) -> Any:
    """Words, where differences of `width` bits, each an int or an array, need `words`."""
    return words + (width == 1) * (words // 8 + 1)


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


def _wrong_bitmaps(words: Array, begins: Array, ends: Array, counts: Array) -> Array:
    """Which of these blocks are none: with as many bits as entries, of which one is the first and one in the last word."""
    running = np.zeros(len(words) + 1, np.int64)
    np.cumsum(_ONES[words.view(np.uint8)].reshape(-1, 4).sum(axis=1), out=running[1:])
    wrong: Array = running[ends] - running[begins] != counts
    filled = ~wrong  # those have a word, since they have an entry
    wrong[filled] |= (words[begins[filled]] & np.uint32(1)) == 0
    wrong[filled] |= words[ends[filled] - 1] == 0
    return wrong


def _take(words: Array, begins: Array, ends: Array, form: int, first: Array, count: int) -> Array:
    """Returns the rows [blocks, count] of blocks of one form."""
    sizes = ends - begins
    if form == _BITMAP_FORM:
        starts = np.cumsum(sizes) - sizes
        places = np.repeat(begins - starts, sizes) + np.arange(int(sizes.sum()))
        bits = np.unpackbits(words[places].view(np.uint8), bitorder="little")
        positions = np.flatnonzero(bits).reshape(len(sizes), count)
        offsets = (positions - starts[:, None] * 32).astype(np.uint64)
        unpacked: Array = first[:, None] + offsets
        return unpacked
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
    """Returns the 24 bits of each block's check."""
    with np.errstate(over="ignore"):
        key = np.arange(len(words)) - np.repeat(begins, ends - begins) + 5
        running = np.zeros(len(words) + 1, np.uint64)
        np.cumsum(words.astype(np.uint64) * _KEYS[key], out=running[1:])
        low, high = first & np.uint64(0xFFFFFFFF), first >> np.uint64(32)
        sums = _KEYS[1] + _KEYS[2] * low + _KEYS[3] * high + _KEYS[4] * forms.astype(np.uint64)
        sums = sums + running[ends] - running[begins]
    keys: Array = (sums >> np.uint64(40)).astype(np.uint32)
    return keys
