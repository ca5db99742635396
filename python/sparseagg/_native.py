"""Calls the native library, which has the core and the CPU back end (python/native/native.h), through ctypes, whose
calls release the GIL.

Importing this module raises ImportError if the package has no library (a pure wheel has none) or that of another
version.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseagg import _native_interface as c
from sparseagg.errors import SparseAggError, from_error_message
from sparseagg.tensors import VALUE_DTYPES, TensorSpec

if TYPE_CHECKING:
    from sparseagg.tensors import Array

_NUMBERS = {name: number for number, name in enumerate(VALUE_DTYPES, 1)}  # sparseagg::ValueType
_NAMES = {number: name for name, number in _NUMBERS.items()}


_library = c.load()


class _Core:
    """The back end of this process, made when it is first needed. A forked child makes its own. If the parent had made
    one, the child's has one thread, because the parent's threads do not exist in the child."""

    def __init__(self) -> None:
        self._begin(threads=0)  # one for each processor
        os.register_at_fork(after_in_child=self._begin_in_child)

    def _begin(self, threads: int) -> None:
        self._threads = threads
        self._handle = c.Handle()
        self._lock = threading.Lock()

    def _begin_in_child(self) -> None:
        self._begin(1 if self._handle else self._threads)

    def handle(self) -> Any:
        """Returns the back end, which lives as long as the process."""
        with self._lock:
            if not self._handle:
                handle = c.Handle()
                _check(_library.core_new(self._threads, ctypes.byref(handle)))
                self._handle = handle
            return self._handle


_core = _Core()


@dataclass(frozen=True)
class Part:
    """One tensor of an update as the library takes it: two arrays in C order, and their encoding."""

    name: str
    dense_shape: Sequence[int]
    sparse_dim: int
    value_type: str
    encoding: str
    values_encoding: str
    nnz: int
    indices: Array
    values: Array


@dataclass(frozen=True)
class Update:
    """One update of a reduction; errors name it by `id`."""

    id: str
    weight: float
    parts: Sequence[Part]


class _Owned:
    """Owns an object of the library, and frees it."""

    def __init__(self, free: Any) -> None:
        self.handle = c.Handle()
        self._free = free

    def __del__(self) -> None:
        if self.handle:
            self._free(self.handle)


class Snapshot(_Owned):
    """The exact state of a reduction at one moment."""

    def __init__(self) -> None:
        super().__init__(_library.snapshot_free)

    def write(self) -> bytes:
        """Returns the state in its wire format. One thread at a time."""
        written = c.Bytes()
        _check(_library.snapshot_write(self.handle, ctypes.byref(written)))
        return ctypes.string_at(written.data, written.size)


def read_snapshot(data: bytes) -> Snapshot:
    """Returns the state that `Snapshot.write`, or a server, wrote."""
    snapshot = Snapshot()
    text = c.Bytes(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))
    _check(_library.snapshot_read(text, ctypes.byref(snapshot.handle)))
    return snapshot


class Result(_Owned):
    """The result of `Reduction.report`. Its arrays are views of its memory, which lives as long as any of them."""

    def __init__(self) -> None:
        super().__init__(_library.result_free)

    def manifest(self) -> c.Manifest:
        """What it was computed from."""
        manifest = c.Manifest()
        _library.result_manifest(self.handle, ctypes.byref(manifest))
        return manifest

    def tensor(self, number: int) -> ResultTensor:
        """The one at this place of the specification."""
        found = c.ResultTensor()
        _library.result_tensor(self.handle, number, ctypes.byref(found))
        return ResultTensor(self, number, found)


class ResultTensor:
    """One tensor of a result."""

    def __init__(self, result: Result, number: int, found: c.ResultTensor) -> None:
        self._result, self._number, self._found = result, number, found
        self.dense_shape = tuple(found.dense_shape[: found.rank])
        self.sparse_dim = int(found.sparse_dim)
        self.value_type = _NAMES[found.value_type]
        self.nnz = int(found.nnz)

    def indices(self) -> Array:
        """Returns int64 `[nnz, sparse_dim]`."""
        shape = (self.nnz, self.sparse_dim)
        if self._found.indices:
            return np.asarray(_View(self._result, self._found.indices, shape, "<i8"))
        indices = np.empty(shape, "<i8")
        _library.result_indices(self._result.handle, self._number, indices.ctypes.data)
        return indices

    def values(self) -> Array:
        """Returns `[nnz, *dense_shape[sparse_dim:]]`."""
        shape = (self.nnz, *self.dense_shape[self.sparse_dim :])
        dtype = VALUE_DTYPES[self.value_type]
        if not self._found.values_bytes:
            return np.empty(shape, dtype)
        return np.asarray(_View(self._result, self._found.values, shape, dtype.str))

    def dense(self) -> Array:
        """Returns `[*dense_shape]`, with zeros where the result has no entry."""
        dtype = VALUE_DTYPES[self.value_type]
        if self._found.values_bytes == dtype.itemsize * math.prod(self.dense_shape):
            return self.values().reshape(self.dense_shape)
        dense = np.empty(self.dense_shape, dtype)
        _library.result_dense(self._result.handle, self._number, dense.ctypes.data)
        return dense


class Reduction(_Owned):
    """A stateless reduction. Thread-safe: several threads may add to it at the same time."""

    def __init__(self, specs: Sequence[TensorSpec], *, at_once: bool) -> None:
        super().__init__(_library.reduction_free)
        core = _core.handle()
        self._core = core
        kept: list[Any] = []
        tensors = (c.Spec * len(specs))()
        for tensor, spec in zip(tensors, specs):
            tensor.name = _text(spec.name, kept)
            tensor.op = _text(spec.op, kept)
            tensor.plan = _text(spec.plan, kept)
            tensor.dense_shape = _shape(spec.dense_shape)
            tensor.rank, tensor.sparse_dim = len(spec.dense_shape), spec.sparse_dim
            tensor.value_type = _NUMBERS[spec.value_type]
            tensor.is_modular = spec.integer_overflow == "modular"
        _check(
            _library.reduction_new(core, tensors, len(specs), at_once, ctypes.byref(self.handle))
        )

    def add(self, updates: Sequence[Update]) -> None:
        """Adds updates, several at a time. Their arrays are not needed afterwards. Raises the error of the first that is
        refused; the others may have been added."""
        self._check_process()
        kept: list[Any] = []
        described = (c.Update * len(updates))()
        for one, update in zip(described, updates):
            one.id = _text(update.id, kept)
            one.weight = update.weight
            one.tensors = self._tensors(update.parts, kept)
            one.count = len(update.parts)
        _check(_library.reduction_add(self.handle, described, len(updates)))

    @staticmethod
    def _tensors(parts: Sequence[Part], kept: list[Any]) -> Any:
        tensors = (c.Tensor * len(parts))()
        for tensor, part in zip(tensors, parts):
            tensor.name = _text(part.name, kept)
            tensor.encoding = _text(part.encoding, kept)
            tensor.values_encoding = _text(part.values_encoding, kept)
            tensor.indices = _array(part.indices)
            tensor.values = _array(part.values)
            tensor.dense_shape = _shape(part.dense_shape)
            tensor.rank, tensor.sparse_dim = len(part.dense_shape), part.sparse_dim
            tensor.value_type = _NUMBERS[part.value_type]
            tensor.has_i32_indices = part.indices.itemsize == 4
            tensor.nnz = part.nnz
        kept.append(tensors)
        return tensors

    def snapshot(self) -> Snapshot:
        """Returns the state so far."""
        self._check_process()
        snapshot = Snapshot()
        _check(_library.reduction_snapshot(self.handle, ctypes.byref(snapshot.handle)))
        return snapshot

    def merge(self, snapshot: Snapshot) -> None:
        """Adds the state of another reduction of the same tensors."""
        self._check_process()
        _check(_library.reduction_merge(self.handle, snapshot.handle))

    def report(self) -> Result:
        """Ends the reduction and returns its result."""
        self._check_process()
        result = Result()
        _check(_library.reduction_report(self.handle, ctypes.byref(result.handle)))
        return result

    def _check_process(self) -> None:
        if _core.handle() is not self._core:
            raise SparseAggError(
                "this reduction was begun before the process was forked; begin one in the child",
                reason="REDUCTION_FORKED",
            )


class Packing(_Owned):
    """Indices as `coo.packed` has them, and the order that their values go in.

    indices: `[nnz, sparse_dim]`, each within `dense_shape`. They are read again by `values`.
    bytes_max: of the packed indices, and of what sorting takes.
    """

    def __init__(self, indices: Array, dense_shape: Sequence[int], bytes_max: int) -> None:
        super().__init__(_library.packing_free)
        self._indices = indices
        nnz, sparse_dim = indices.shape
        data = indices.ctypes.data
        described = c.Indices(data, _shape(dense_shape), nnz, sparse_dim, indices.itemsize == 4)
        _check(_library.packing_new(ctypes.byref(described), bytes_max, ctypes.byref(self.handle)))

    @property
    def is_made(self) -> bool:
        """False where `bytes_max` was not enough, and for rows that the library cannot sort."""
        return bool(self.handle)

    @property
    def is_in_order(self) -> bool:
        """True where the values go as they are."""
        return bool(_library.packing_is_in_order(self.handle))

    def take(self) -> Array:
        """The packed indices, which the library then frees."""
        packed = np.empty(_library.packing_bytes(self.handle), np.uint8)
        _library.packing_take(self.handle, packed.ctypes.data)
        return packed

    def values(self, values: Array, begin: int, end: int) -> Array:
        """`values` `[nnz, ...]`, in C order, of the entries from `begin` to `end` of the ascending order."""
        ordered = np.empty((end - begin, *values.shape[1:]), values.dtype)
        row_bytes = values.nbytes // len(values)
        _library.packing_values(
            self.handle, values.ctypes.data, row_bytes, begin, end, ordered.ctypes.data
        )
        return ordered


class _View:
    """Memory of a result in the form that numpy reads. An array keeps this object, and so the result, alive."""

    def __init__(self, result: Result, address: int, shape: tuple[int, ...], typestr: str) -> None:
        self._result = result
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": typestr,
            "version": 3,
        }


def _check(error: Any) -> None:
    """Raises the error that the library returned, if any, as the client raises a server's error."""
    if not error:
        return
    found = error.contents
    fields = found.metadata.text().split("\0")
    described = SimpleNamespace(
        code=found.code,
        reason=found.reason.text(),
        message=found.message.text(),
        metadata=dict(zip(fields[::2], fields[1::2])),
        retry_after_ms=found.retry_after_ms,
    )
    _library.error_free(error)
    raise from_error_message(described)


def _text(text: str, kept: list[Any]) -> c.Bytes:
    """UTF-8, which lives as long as `kept`."""
    data = text.encode()
    kept.append(data)
    return c.Bytes(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))


def _array(array: Array) -> c.Bytes:
    return c.Bytes(array.ctypes.data if array.size else None, array.nbytes)


def _shape(dense_shape: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(dense_shape))(*dense_shape)
