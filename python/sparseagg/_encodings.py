"""Which encoding a tensor travels in: one that changes nothing and is soonest there, or the one asked for.
docs/wire_format.md has the encodings, docs/python.md the rule.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Union

import numpy as np

from sparseagg import _arguments
from sparseagg._packed_indices import (
    BLOCK_ENTRIES,
    SPAN_ENTRIES,
    encode_rows,
    encode_spans,
    packed_bytes,
)
from sparseagg._recoded import Payload, recode
from sparseagg._value_coding import (
    VALUE_CODINGS,
    coded_bytes,
    encode_values,
    exact_values,
    smallest_exact_coding,
    value_codings_of,
)
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError
from sparseagg.tensors import AnyTensor, SparseTensor

if TYPE_CHECKING:
    from sparseagg.tensors import Array

RAW = "coo.raw"
PACKED = "coo.packed"
_ENCODINGS = ("auto", RAW, PACKED)
# Below, packing takes longer than the bytes that it saves.
_PACKED_BYTES_MIN = 1024
# What "auto" decides on: so many blocks of indices, and so many values, spread over the tensor.
_SAMPLE_BLOCKS, _SAMPLE_VALUES = 16, 4096
# Seconds that packing takes in numpy: in all; for an entry in order, and out of order; for a value that is checked and
# coded. Measured on a loaded core with numpy 1.24: 4 to 30 ns an entry, 130 to 200 with sorting, 2 to 10 a value.
_SECONDS, _SECONDS_OF_ENTRY, _SECONDS_OF_UNSORTED, _SECONDS_OF_VALUE = 3e-4, 3e-8, 2e-7, 1e-8
# So many entries are packed to see how long it takes, of a tensor that has so many times as many.
_TRIAL_ENTRIES, _TRIAL_SHARE = 1 << 16, 8
# Memory that "auto" may take for packed indices, or for sorting.
_EXTRA_BYTES_MAX = 48 << 20
_ROWS_MAX = 1 << 63
_I32 = np.iinfo(np.int32)
_NO_INDICES: Array = np.empty(0, "<i4")
_NO_BYTES: Array = np.empty(0, np.uint8)

ValuesChoice = Union[str, Mapping[str, str]]


@dataclass(frozen=True)
class EncodeOptions:
    """What a caller asks for; see `Round.submit`.

    bytes_per_second: of the connection, for "auto"; 0 where only the number of bytes counts.
    """

    encoding: str = "auto"
    values: ValuesChoice = "auto"
    bytes_per_second: float = 0.0

    def __post_init__(self) -> None:
        if self.encoding not in _ENCODINGS:
            raise InvalidArgumentError(
                f'no encoding "{self.encoding}", only {", ".join(_ENCODINGS)}',
                reason="UNKNOWN_ENCODING",
            )
        choices = self.values.values() if isinstance(self.values, Mapping) else (self.values,)
        for choice in choices:
            if choice not in ("auto", *VALUE_CODINGS):
                raise InvalidArgumentError(
                    f'no values encoding "{choice}", only auto, {", ".join(VALUE_CODINGS)}',
                    reason="UNKNOWN_VALUES_ENCODING",
                )

    def check_names(self, tensors: Collection[str]) -> None:
        """Raises InvalidArgumentError for values of a tensor that is not there."""
        if isinstance(self.values, Mapping):
            _arguments.names("values", self.values, tensors)

    def for_server(self, encodings: frozenset[str], bytes_per_second: float = 0.0) -> EncodeOptions:
        """For a server that knows these, over such a connection. One that cannot unpack gets what everyone reads."""
        if self.encoding == "auto" and PACKED not in encodings:
            return EncodeOptions(RAW, "auto")
        return EncodeOptions(self.encoding, self.values, bytes_per_second)

    def values_of(self, tensor: str) -> str:
        """The coding asked for a tensor's values."""
        if isinstance(self.values, Mapping):
            return self.values.get(tensor, "auto")
        return self.values


@dataclass(frozen=True)
class EncodedTensor:
    """The two byte strings of a tensor, and how they are to be read."""

    encoding: str
    values_encoding: str
    nnz: int
    indices: Payload
    values: Payload


def encode_tensor(
    name: str, tensor: AnyTensor, options: EncodeOptions, seed: int = 0
) -> EncodedTensor:
    """`tensor` as `options` say. Raises InvalidUpdateError, naming the tensor, for what the encoding cannot hold."""
    ranges: list[tuple[int, int]] = []
    nnz = int(tensor.values.size > 0)
    indices: Payload = _NO_INDICES
    if isinstance(tensor, SparseTensor):
        ranges = _ranges(tensor.indices)
        nnz, indices = tensor.nnz, _narrowed(tensor.indices, ranges)
    raw = EncodedTensor(RAW, "", nnz, indices, tensor.values)
    values = options.values_of(name)
    if options.encoding == RAW:
        if values not in ("auto", "raw"):
            raise InvalidUpdateError(
                f'tensor "{name}": coo.raw has no values encoding "{values}"; take coo.packed',
                reason="UNKNOWN_VALUES_ENCODING",
            )
        return raw
    may_be_raw = options.encoding == "auto" and values in ("auto", "raw")
    if may_be_raw:
        if _bytes(raw) < _PACKED_BYTES_MIN:
            return raw
        coding = _choose(tensor, raw, values, options.bytes_per_second)
        if coding is None:
            return raw
        values = coding
    wrong = _wrong_indices(tensor, ranges) if isinstance(tensor, SparseTensor) else ""
    if wrong:
        if options.encoding == "auto":
            return raw  # The server refuses it, in its own words.
        raise InvalidUpdateError(f'tensor "{name}": {wrong}', reason="INDEX_OUT_OF_RANGE")
    packed = _pack(name, tensor, nnz, values, seed)
    return raw if may_be_raw and _bytes(raw) <= _bytes(packed) else packed


def _choose(
    tensor: AnyTensor, raw: EncodedTensor, values: str, bytes_per_second: float
) -> str | None:
    """The values encoding ("auto" or "raw") with which `tensor` is packed, or None where it is sooner there unpacked.

    Judged by a sample: what packing saves, at the speed of the connection, against the seconds that packing takes.
    """
    seconds = _SECONDS
    saved = 0.0
    if isinstance(tensor, SparseTensor) and tensor.nnz:
        size, is_sorted = _estimate(tensor)
        saved = raw.indices.nbytes - size
        seconds += tensor.nnz * (_SECONDS_OF_ENTRY if is_sorted else _SECONDS_OF_UNSORTED)
        needed = size if is_sorted else size + 8 * tensor.nnz  # the order
        if needed > _EXTRA_BYTES_MAX:
            return None
        is_worth_a_trial = bytes_per_second and _gain(saved, seconds, bytes_per_second) > 0
        if is_worth_a_trial and tensor.nnz >= _TRIAL_SHARE * _TRIAL_ENTRIES:
            seconds = max(seconds, _seconds_by_trial(tensor, is_sorted))
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


def _seconds_by_trial(tensor: SparseTensor, is_sorted: bool) -> float:
    """Seconds that the indices will take, by some of them: of a machine that is busy, more than it takes by itself."""
    seconds = []
    for _ in range(2 if is_sorted else 1):  # the first of short ones says little
        begin = time.monotonic()
        rows = flatten_indices(tensor.indices[:_TRIAL_ENTRIES], tensor.dense_shape)
        encode_rows(rows if is_sorted else np.sort(rows))
        seconds.append(time.monotonic() - begin)
    return min(seconds) * tensor.nnz / _TRIAL_ENTRIES


def _gain(saved: float, seconds: float, bytes_per_second: float) -> float:
    """Seconds, or bytes where only these count."""
    return saved / bytes_per_second - seconds if bytes_per_second else saved


def _estimate(tensor: SparseTensor) -> tuple[float, bool]:
    """Bytes of packed indices, and whether they seem to be in order, by some blocks."""
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
    if not is_sorted:  # Sorted, the rows of a block are as far apart as so many rows of the tensor.
        gap = max(1, math.prod(shape[: tensor.sparse_dim]) // nnz)
        steps = np.random.default_rng(0).geometric(1 / gap, (_SAMPLE_BLOCKS, width))
        blocks = np.cumsum(steps, axis=1).astype(np.uint64)
    return packed_bytes(blocks) * -(-nnz // BLOCK_ENTRIES), is_sorted


def rounding_seed(round_name: str, contributor: str, tensor: str) -> int:
    """For stochastic values: a retry has the same bytes, another contributor other roundings."""
    text = "\0".join((round_name, contributor, tensor))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _bytes(encoded: EncodedTensor) -> int:
    return encoded.indices.nbytes + encoded.values.nbytes


def _pack(name: str, tensor: AnyTensor, nnz: int, values: str, seed: int) -> EncodedTensor:
    indices: Array = _NO_BYTES
    order: _Order | None = None
    if isinstance(tensor, SparseTensor):
        try:
            indices = encode_spans(_ascending_spans(tensor))
        except _NotSorted:
            order = _Order(tensor)
            indices = encode_spans(order.spans())
    flat = tensor.values.reshape(-1)
    coding = values
    if values == "auto":
        coding = smallest_exact_coding(flat, tensor.value_type)
    elif values not in value_codings_of(tensor.value_type):
        # Narrow types and integers stay as they are; f32 of an f32 tensor is what it is.
        coding = "raw"
    coded: Payload
    if coding == "raw" or values == "auto":

        def convert(part: Array) -> Array:
            return exact_values(part, coding)

        if order is not None:
            coded = order.values(tensor.values, convert, coded_bytes(coding, flat.itemsize, 1))
        else:
            coded = flat if coding == "raw" else recode(flat, coded_bytes(coding, 8, 1), convert)
    else:
        if order is not None:
            flat = order.of(tensor.values).reshape(-1)
        coded = np.frombuffer(encode_values(flat, tensor.value_type, coding, seed, name), np.uint8)
    return EncodedTensor(PACKED, "" if coding == "raw" else coding, nnz, indices, coded)


class _Order:
    """The order in which the rows of a tensor ascend; equal rows stay in theirs. Takes 8 bytes an entry, or 24 where a row
    and a position do not fit in 64 bits together."""

    def __init__(self, tensor: SparseTensor) -> None:
        self._position_bits = np.uint64(tensor.nnz.bit_length())
        row_bits = math.prod(tensor.dense_shape[: tensor.sparse_dim]).bit_length()
        self._rows: Array | None = None
        if row_bits + int(self._position_bits) <= 64:
            self._keys = np.empty(tensor.nnz, np.uint64)  # row and position
            for begin in range(0, tensor.nnz, SPAN_ENTRIES):
                rows = _rows_of(tensor, begin)
                positions = np.arange(begin, begin + len(rows), dtype=np.uint64)
                self._keys[begin:][: len(rows)] = rows << self._position_bits | positions
            self._keys.sort()
        else:
            rows = flatten_indices(tensor.indices, tensor.dense_shape)
            self._keys = np.argsort(rows, kind="stable").astype(np.uint64)  # positions
            self._rows = rows

    def spans(self) -> Iterator[Array]:
        """The rows in order, in spans of `SPAN_ENTRIES`."""
        for begin in range(0, len(self._keys), SPAN_ENTRIES):
            keys = self._keys[begin:][:SPAN_ENTRIES]
            yield keys >> self._position_bits if self._rows is None else self._rows[keys]

    def of(self, values: Array, keys: Array | None = None) -> Array:
        """`values` in this order, or those of some of its keys."""
        keys = self._keys if keys is None else keys
        if self._rows is None:
            keys = keys & ((np.uint64(1) << self._position_bits) - np.uint64(1))
        taken: Array = values[keys]
        return taken

    def values(self, values: Array, convert: Callable[[Array], Array], itemsize: int) -> Payload:
        """`values` in this order, converted to elements of `itemsize`."""
        width = math.prod(values.shape[1:])
        return recode(
            self._keys, itemsize * width, lambda keys: convert(self.of(values, keys).reshape(-1))
        )


class _NotSorted(Exception):
    """A row is below the one before."""


def _ascending_spans(tensor: SparseTensor) -> Iterator[Array]:
    """The rows in spans of `SPAN_ENTRIES`. Raises _NotSorted at the first that descends."""
    last = np.uint64(0)
    for begin in range(0, tensor.nnz, SPAN_ENTRIES):
        rows = _rows_of(tensor, begin)
        if rows[0] < last or (rows[1:] < rows[:-1]).any():
            raise _NotSorted
        last = rows[-1]
        yield rows


def _rows_of(tensor: SparseTensor, begin: int) -> Array:
    """Those of a span."""
    return flatten_indices(tensor.indices[begin : begin + SPAN_ENTRIES], tensor.dense_shape)


def _ranges(indices: Array) -> list[tuple[int, int]]:
    """The smallest and the largest index of each dimension; none where there are no entries. By column: numpy takes ten
    times as long with an axis."""
    if not len(indices):
        return []
    columns = [indices[:, dimension] for dimension in range(indices.shape[1])]
    return [(int(column.min()), int(column.max())) for column in columns]


def _wrong_indices(tensor: SparseTensor, ranges: list[tuple[int, int]]) -> str:
    """What is wrong with the indices; empty when each is one of the shape."""
    indexed = tensor.dense_shape[: tensor.sparse_dim]
    if math.prod(indexed) >= _ROWS_MAX:
        return "its indexed dimensions multiply to 2^63 or more"
    for dimension, (size, (low, high)) in enumerate(zip(indexed, ranges)):
        if low < 0 or high >= size:
            column = tensor.indices[:, dimension]
            entry = int(((column < 0) | (column >= size)).argmax())
            return (
                f"index {column[entry]} of dimension {dimension} at entry {entry} "
                f"is not in [0, {size})"
            )
    return ""


def flatten_indices(indices: Array, dense_shape: tuple[int, ...]) -> Array:
    """Indices `[nnz, sparse_dim]` as uint64 rows, row-major."""
    rows = indices[:, 0].astype(np.uint64)
    for dimension in range(1, indices.shape[1]):
        rows = rows * np.uint64(dense_shape[dimension]) + indices[:, dimension].astype(np.uint64)
    return rows


def unflatten_rows(rows: Array, indexed_shape: tuple[int, ...]) -> Array:
    """The opposite: int64 indices `[nnz, sparse_dim]`."""
    indices = np.empty((len(rows), len(indexed_shape)), "<i8")
    rest = rows
    for dimension in reversed(range(len(indexed_shape))):
        if dimension == 0:
            indices[:, 0] = rest
        else:
            rest, indices[:, dimension] = np.divmod(rest, np.uint64(indexed_shape[dimension]))
    return indices


def _narrowed(indices: Array, ranges: list[tuple[int, int]]) -> Payload:
    """int64 indices as int32 where all of them fit, which halves their bytes. Others go as they are, wrong ones too:
    it is the server that names them."""
    if indices.itemsize == 4:
        return indices
    if any(low < _I32.min or high > _I32.max for low, high in ranges) or not ranges:
        return indices
    return recode(indices, 4, lambda part: part.astype("<i4"))
