"""The indices of a tensor as rows: one number for each entry, row-major among the indexed dimensions, and in order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Callable

import numpy as np

from sparseagg._encode.packed_indices import SPAN_ENTRIES
from sparseagg._encode.recoded import Payload, recode
from sparseagg.tensors import SparseTensor

if TYPE_CHECKING:
    from sparseagg.tensors import Array


def flatten_indices(indices: Array, dense_shape: tuple[int, ...]) -> Array:
    """Indices `[nnz, sparse_dim]` as uint64 rows, row-major."""
    rows = indices[:, 0].astype(np.uint64)
    for dimension in range(1, indices.shape[1]):
        rows = rows * np.uint64(dense_shape[dimension]) + indices[:, dimension].astype(np.uint64)
    return rows


def unflatten_rows(rows: Array, indexed_shape: tuple[int, ...]) -> Array:
    """Does the opposite: returns int64 indices `[nnz, sparse_dim]`."""
    indices = np.empty((len(rows), len(indexed_shape)), "<i8")
    rest = rows
    for dimension in reversed(range(len(indexed_shape))):
        if dimension == 0:
            indices[:, 0] = rest
        else:
            rest, indices[:, dimension] = np.divmod(rest, np.uint64(indexed_shape[dimension]))
    return indices


class RowOrder:
    """The order in which the rows of a tensor ascend; equal rows stay in theirs. Takes 8 bytes an entry, or 24 where a row
    and a position do not fit in 64 bits together."""

    def __init__(self, tensor: SparseTensor) -> None:
        self._position_bits = np.uint64(tensor.nnz.bit_length())
        self._rows: Array | None = None
        if self._fits_in_keys(tensor):
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

    @classmethod
    def bytes_of(cls, tensor: SparseTensor) -> int:
        """Returns the memory that the order of this tensor takes."""
        return tensor.nnz * (8 if cls._fits_in_keys(tensor) else 24)

    @staticmethod
    def _fits_in_keys(tensor: SparseTensor) -> bool:
        rows = math.prod(tensor.dense_shape[: tensor.sparse_dim])
        return rows.bit_length() + tensor.nnz.bit_length() <= 64

    def spans(self) -> Iterator[Array]:
        """Yields the rows in order, in spans of `SPAN_ENTRIES`."""
        for begin in range(0, len(self._keys), SPAN_ENTRIES):
            keys = self._keys[begin:][:SPAN_ENTRIES]
            yield keys >> self._position_bits if self._rows is None else self._rows[keys]

    def of(self, values: Array, keys: Array | None = None) -> Array:
        """Returns `values` in this order, or those of some of its keys."""
        keys = self._keys if keys is None else keys
        if self._rows is None:
            keys = keys & ((np.uint64(1) << self._position_bits) - np.uint64(1))
        taken: Array = values[keys]
        return taken

    def values(self, values: Array, convert: Callable[[Array], Array], itemsize: int) -> Payload:
        """Returns `values` in this order, converted to elements of `itemsize`."""
        width = math.prod(values.shape[1:])
        return recode(
            self._keys, itemsize * width, lambda keys: convert(self.of(values, keys).reshape(-1))
        )


class NotSorted(Exception):
    """A row is below the one before."""


def ascending_spans(tensor: SparseTensor) -> Iterator[Array]:
    """Yields the rows in spans of `SPAN_ENTRIES`. Raises NotSorted at the first that descends."""
    last = np.uint64(0)
    for begin in range(0, tensor.nnz, SPAN_ENTRIES):
        rows = _rows_of(tensor, begin)
        if rows[0] < last or (rows[1:] < rows[:-1]).any():
            raise NotSorted
        last = rows[-1]
        yield rows


def _rows_of(tensor: SparseTensor, begin: int) -> Array:
    """Returns the rows of the span that begins at entry `begin`."""
    return flatten_indices(tensor.indices[begin : begin + SPAN_ENTRIES], tensor.dense_shape)
