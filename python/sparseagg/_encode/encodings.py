"""Which encoding a tensor travels in: one that changes nothing and is soonest there, or the one asked for.
docs/wire_format.md has the encodings, docs/python.md the rule.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Union

import numpy as np

from sparseagg import _arguments
from sparseagg._encode import auto_encoding, native_packing
from sparseagg._encode.entries import check_finite, place_of, width_of
from sparseagg._encode.native_packing import NativePacking
from sparseagg._encode.packed_indices import encode_spans
from sparseagg._encode.recoded import Payload, recode
from sparseagg._encode.rows import (
    NotSorted,
    RowOrder,
    ascending_spans,
    flatten_indices,
    unflatten_rows,
)
from sparseagg._encode.value_coding import (
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
_ROWS_MAX = 1 << 63
_I32 = np.iinfo(np.int32)
_NO_INDICES: Array = np.empty(0, "<i4")
_NO_BYTES: Array = np.empty(0, np.uint8)

__all__ = [
    "PACKED",
    "RAW",
    "EncodeOptions",
    "EncodedTensor",
    "ValuesChoice",
    "encode_tensor",
    "flatten_indices",
    "rounding_seed",
    "unflatten_rows",
]

ValuesChoice = Union[str, Mapping[str, str]]


@dataclass(frozen=True)
class EncodeOptions:
    """The encodings that a caller requests; see `Round.submit`.

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
        """Returns the coding asked for a tensor's values."""
        if isinstance(self.values, Mapping):
            return self.values.get(tensor, "auto")
        return self.values


@dataclass(frozen=True)
class EncodedTensor:
    """The two byte strings of a tensor, and how they are to be read.

    is_reordered: the entries are in another order than they were handed in.
    """

    encoding: str
    values_encoding: str
    nnz: int
    indices: Payload
    values: Payload
    is_reordered: bool = False


def encode_tensor(
    name: str, tensor: AnyTensor, options: EncodeOptions, seed: int = 0
) -> EncodedTensor:
    """Returns `tensor` as `options` say. Raises InvalidUpdateError, naming the tensor, for what the encoding cannot
    hold, and for values that are not finite where the server would name their entry by another place or index."""
    encoded = _encode(name, tensor, options, seed)
    if isinstance(tensor, SparseTensor) and (encoded.is_reordered or tensor.sparse_dim > 1):
        check_finite(name, tensor)
    return encoded


def _encode(name: str, tensor: AnyTensor, options: EncodeOptions, seed: int) -> EncodedTensor:
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
        coding = auto_encoding.choose(tensor, raw.indices.nbytes, values, options.bytes_per_second)
        if coding is None:
            return raw
        values = coding
    wrong = _wrong_indices(tensor, ranges) if isinstance(tensor, SparseTensor) else ""
    if wrong:
        if options.encoding == "auto":
            return raw  # The server refuses it, in its own words.
        raise InvalidUpdateError(f'tensor "{name}": {wrong}', reason="INDEX_OUT_OF_RANGE")
    try:
        limit = auto_encoding.EXTRA_BYTES_MAX if may_be_raw else None
        packed = _pack(name, tensor, nnz, values, seed, limit)
    except NotSorted:
        return raw
    return raw if may_be_raw and _bytes(raw) <= _bytes(packed) else packed


def rounding_seed(round_name: str, contributor: str, tensor: str) -> int:
    """For stochastic values: a retry has the same bytes, another contributor other roundings."""
    text = "\0".join((round_name, contributor, tensor))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _bytes(encoded: EncodedTensor) -> int:
    return encoded.indices.nbytes + encoded.values.nbytes


def _pack(
    name: str, tensor: AnyTensor, nnz: int, values: str, seed: int, bytes_max: int | None
) -> EncodedTensor:
    """Returns `tensor` in coo.packed. Raises NotSorted where sorting it takes more than `bytes_max`."""
    indices: Array = _NO_BYTES
    order: NativePacking | RowOrder | None = None
    if isinstance(tensor, SparseTensor):
        indices, order = _pack_indices(tensor, bytes_max)
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
        place = partial(_place_of_value, tensor, order)
        data = encode_values(flat, tensor.value_type, coding, seed, name, place)
        coded = np.frombuffer(data, np.uint8)
    values_encoding = "" if coding == "raw" else coding
    return EncodedTensor(PACKED, values_encoding, nnz, indices, coded, order is not None)


def _place_of_value(
    tensor: AnyTensor, order: NativePacking | RowOrder | None, position: int
) -> str:
    """Returns how an error names the value that is sent at `position`."""
    if not isinstance(tensor, SparseTensor):
        return f"value {position}"
    entry, column = divmod(position, width_of(tensor))
    if order is not None:
        entry = int(order.of(np.arange(tensor.nnz))[entry])
    return place_of(tensor, entry, column)


def _pack_indices(
    tensor: SparseTensor, bytes_max: int | None
) -> tuple[Array, NativePacking | RowOrder | None]:
    """Returns the packed indices and the order of the values; None where they go as they are."""
    packing = native_packing.pack(tensor, bytes_max)
    if packing is not None:
        return packing.indices, None if packing.is_in_order else packing
    try:
        return encode_spans(ascending_spans(tensor)), None
    except NotSorted:
        if bytes_max is not None and RowOrder.bytes_of(tensor) > bytes_max:
            raise
    order = RowOrder(tensor)
    return encode_spans(order.spans()), order


def _ranges(indices: Array) -> list[tuple[int, int]]:
    """Returns the smallest and the largest index of each dimension; none where there are no entries. By column: numpy
    takes ten times as long with an axis."""
    if not len(indices):
        return []
    columns = [indices[:, dimension] for dimension in range(indices.shape[1])]
    return [(int(column.min()), int(column.max())) for column in columns]


def _wrong_indices(tensor: SparseTensor, ranges: list[tuple[int, int]]) -> str:
    """Returns what is wrong with the indices, or "" if each of them is within the shape."""
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


def _narrowed(indices: Array, ranges: list[tuple[int, int]]) -> Payload:
    """Returns int64 indices as int32 where all of them fit, which halves their bytes. Others go as they are, wrong ones
    too: it is the server that names them."""
    if indices.itemsize == 4:
        return indices
    if any(low < _I32.min or high > _I32.max for low, high in ranges) or not ranges:
        return indices
    return recode(indices, 4, lambda part: part.astype("<i4"))
