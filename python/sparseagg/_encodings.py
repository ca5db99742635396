"""Which encoding a tensor travels in: the smallest that changes nothing, or the one asked for. docs/wire_format.md."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import numpy as np

from sparseagg import _arguments
from sparseagg._packed_indices import encode_rows
from sparseagg._value_coding import (
    VALUE_CODINGS,
    encode_values,
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

ValuesChoice = Union[str, Mapping[str, str]]


@dataclass(frozen=True)
class EncodeOptions:
    """What a caller asks for; see `Round.submit`. `encoding` is what the server knows, too."""

    encoding: str = "auto"
    values: ValuesChoice = "auto"

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

    def for_server(self, encodings: frozenset[str]) -> EncodeOptions:
        """For a server that knows these: one that cannot unpack gets what everyone reads."""
        if self.encoding == "auto" and PACKED not in encodings:
            return EncodeOptions(RAW, "auto")
        return self

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
    indices: Array
    values: Array


def encode_tensor(
    name: str, tensor: AnyTensor, options: EncodeOptions, seed: int = 0
) -> EncodedTensor:
    """`tensor` as `options` say. Raises InvalidUpdateError, naming the tensor, for what the encoding cannot hold."""
    if isinstance(tensor, SparseTensor):
        nnz, indices = tensor.nnz, _narrowed(tensor.indices)
    else:
        nnz, indices = int(tensor.values.size > 0), np.empty(0, "<i4")
    raw = EncodedTensor(RAW, "", nnz, indices, tensor.values)
    values = options.values_of(name)
    if options.encoding == RAW:
        if values not in ("auto", "raw"):
            raise InvalidUpdateError(
                f'tensor "{name}": coo.raw has no values encoding "{values}"; take coo.packed',
                reason="UNKNOWN_VALUES_ENCODING",
            )
        return raw
    lossless = values in ("auto", "raw")
    if options.encoding == "auto" and lossless and _bytes(raw) < _PACKED_BYTES_MIN:
        return raw
    wrong = _wrong_indices(tensor) if isinstance(tensor, SparseTensor) else ""
    if wrong:
        if options.encoding == "auto":
            return raw  # it is the server that refuses it
        raise InvalidUpdateError(f'tensor "{name}": {wrong}', reason="INDEX_OUT_OF_RANGE")
    packed = _pack(name, tensor, nnz, values, seed)
    if options.encoding == "auto" and _bytes(raw) <= _bytes(packed):
        return raw
    return packed


def rounding_seed(round_name: str, contributor: str, tensor: str) -> int:
    """For stochastic values: a retry has the same bytes, another contributor other roundings."""
    text = "\0".join((round_name, contributor, tensor))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _bytes(encoded: EncodedTensor) -> int:
    return encoded.indices.nbytes + encoded.values.nbytes


def _pack(name: str, tensor: AnyTensor, nnz: int, values: str, seed: int) -> EncodedTensor:
    flat = tensor.values.reshape(-1)
    indices = b""
    if isinstance(tensor, SparseTensor):
        rows = flatten_indices(tensor.indices, tensor.dense_shape)
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            rows, flat = rows[order], tensor.values[order].reshape(-1)
        indices = encode_rows(rows)
    coding = values
    if values == "auto":
        coding = smallest_exact_coding(flat, tensor.value_type)
    elif coding not in value_codings_of(tensor.value_type):
        # Narrow types and integers stay as they are; f32 of an f32 tensor is what it is.
        coding = "raw"
    coded = encode_values(flat, tensor.value_type, coding, seed, name)
    return EncodedTensor(
        PACKED,
        "" if coding == "raw" else coding,
        nnz,
        np.frombuffer(indices, np.uint8),
        np.frombuffer(coded, np.uint8),
    )


def _wrong_indices(tensor: SparseTensor) -> str:
    """What is wrong with the indices; empty when each is one of the shape."""
    indexed = tensor.dense_shape[: tensor.sparse_dim]
    if math.prod(indexed) >= _ROWS_MAX:
        return "its indexed dimensions multiply to 2^63 or more"
    if not tensor.nnz:
        return ""
    low, high = tensor.indices.min(axis=0), tensor.indices.max(axis=0)
    for dimension, size in enumerate(indexed):
        if low[dimension] < 0 or high[dimension] >= size:
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


def _narrowed(indices: Array) -> Array:
    """int64 indices as int32 where all of them fit, which halves their bytes. Others go as they are, wrong ones too:
    it is the server that names them."""
    if indices.itemsize == 4 or not indices.size:
        return indices
    if int(indices.min()) < _I32.min or int(indices.max()) > _I32.max:
        return indices
    return indices.astype("<i4")
