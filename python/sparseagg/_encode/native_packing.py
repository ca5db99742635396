"""The packing of `coo.packed` in C++, where the package has its native library; numpy makes the same bytes without it."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING, Callable

from sparseagg._encode.native_library import native_module
from sparseagg._encode.recoded import Payload, made_when_read
from sparseagg.tensors import SparseTensor

if TYPE_CHECKING:
    from sparseagg import _native
    from sparseagg.tensors import Array

# As in python/native/packing.cc: the most entries of a range, the fewest that it may be limited to, the most ranges, and the
# bytes that an entry takes while it is sorted.
_RANGE_ENTRIES_MAX, _RANGE_ENTRIES_MIN, _RANGES_MAX, _SORT_BYTES = 1 << 22, 1 << 18, 64, 8
_UNBOUNDED = (1 << 64) - 1


def is_here() -> bool:
    """Returns whether the package has its native library."""
    return isinstance(native_module(), ModuleType)


def scans(nnz: int, bytes_max: int) -> int:
    """Returns how often the indices of unsorted entries are read in order to sort them; 0 where there is too little memory."""
    entries = _range_entries(bytes_max)
    if entries < min(nnz, _RANGE_ENTRIES_MIN) or nnz > _RANGES_MAX * entries:
        return 0
    return math.ceil(nnz / entries)


def sort_bytes(nnz: int, bytes_max: int) -> int:
    """Returns the memory that sorting takes."""
    return _SORT_BYTES * min(nnz, _range_entries(bytes_max))


def _range_entries(bytes_max: int) -> int:
    return min(bytes_max * 2 // 3 // _SORT_BYTES, _RANGE_ENTRIES_MAX)


def pack(tensor: SparseTensor, bytes_max: int | None = None) -> NativePacking | None:
    """Packs the indices. Returns None without the library, beyond `bytes_max`, and for rows that it cannot sort."""
    native = native_module()
    if not isinstance(native, ModuleType) or not tensor.nnz:
        return None
    limit = _UNBOUNDED if bytes_max is None else bytes_max
    packing: _native.Packing = native.Packing(tensor.indices, tensor.dense_shape, limit)
    return NativePacking(packing, tensor) if packing.is_made else None


class NativePacking:
    """Packed indices, and the order in which the rows of the tensor ascend."""

    def __init__(self, packing: _native.Packing, tensor: SparseTensor) -> None:
        self._packing, self._nnz = packing, tensor.nnz
        self.is_in_order = packing.is_in_order
        self.indices = packing.take()

    def of(self, values: Array) -> Array:
        """Returns `values` in this order."""
        return self._packing.values(values, 0, self._nnz)

    def values(self, values: Array, convert: Callable[[Array], Array], itemsize: int) -> Payload:
        """Returns `values` in this order, converted to elements of `itemsize`."""
        width = math.prod(values.shape[1:])
        return made_when_read(
            self._nnz,
            itemsize * width,
            lambda begin, end: convert(self._packing.values(values, begin, end).reshape(-1)),
        )
