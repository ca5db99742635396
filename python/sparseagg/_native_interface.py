"""The C interface of the native library (python/native/native.h): its structures and functions, for ctypes.

No compiler compares them with the header; every test of tests/python/embedded goes through them.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sparseagg import __version__

LIBRARY = Path(__file__).with_name("_native_core.so")

Shape = ctypes.POINTER(ctypes.c_int64)


class Bytes(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_uint64))

    def text(self) -> str:
        """As UTF-8; what is none of it is shown as such."""
        if not self.size:
            return ""
        return ctypes.string_at(self.data, self.size).decode(errors="backslashreplace")


class Error(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_int32),
        ("retry_after_ms", ctypes.c_uint64),
        ("reason", Bytes),
        ("message", Bytes),
        ("metadata", Bytes),
    )


class Spec(ctypes.Structure):
    _fields_ = (
        ("name", Bytes),
        ("op", Bytes),
        ("plan", Bytes),
        ("dense_shape", Shape),
        ("rank", ctypes.c_uint32),
        ("sparse_dim", ctypes.c_uint32),
        ("value_type", ctypes.c_uint32),
        ("is_modular", ctypes.c_uint32),
    )


class Tensor(ctypes.Structure):
    _fields_ = (
        ("name", Bytes),
        ("encoding", Bytes),
        ("values_encoding", Bytes),
        ("indices", Bytes),
        ("values", Bytes),
        ("dense_shape", Shape),
        ("rank", ctypes.c_uint32),
        ("sparse_dim", ctypes.c_uint32),
        ("value_type", ctypes.c_uint32),
        ("has_i32_indices", ctypes.c_uint32),
        ("nnz", ctypes.c_uint64),
    )


class Update(ctypes.Structure):
    _fields_ = (
        ("id", Bytes),
        ("weight", ctypes.c_float),
        ("tensors", ctypes.POINTER(Tensor)),
        ("count", ctypes.c_uint64),
    )


class ResultTensor(ctypes.Structure):
    _fields_ = (
        ("dense_shape", Shape),
        ("rank", ctypes.c_uint32),
        ("sparse_dim", ctypes.c_uint32),
        ("value_type", ctypes.c_uint32),
        ("nnz", ctypes.c_uint64),
        ("indices", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("values_bytes", ctypes.c_uint64),
    )


class Indices(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dense_shape", Shape),
        ("nnz", ctypes.c_uint64),
        ("sparse_dim", ctypes.c_uint32),
        ("is_i32", ctypes.c_uint32),
    )


class Manifest(ctypes.Structure):
    """What a result was computed from; `publish_time` in seconds since 1970."""

    _fields_ = (
        ("contributors", ctypes.c_uint64),
        ("total_weight", ctypes.c_double),
        ("infinite_values", ctypes.c_uint64),
        ("publish_time", ctypes.c_double),
    )


Handle = ctypes.c_void_p
ErrorPointer = ctypes.POINTER(Error)
_OUT = ctypes.POINTER(Handle)
# Name: type of the result, types of the arguments.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "version": (ctypes.c_char_p,),
    "error_free": (None, ErrorPointer),
    "core_new": (ErrorPointer, ctypes.c_uint32, _OUT),
    "reduction_new": (
        ErrorPointer,
        Handle,
        ctypes.POINTER(Spec),
        ctypes.c_uint64,
        ctypes.c_uint32,
        _OUT,
    ),
    "reduction_free": (None, Handle),
    "reduction_add": (ErrorPointer, Handle, ctypes.POINTER(Update), ctypes.c_uint64),
    "reduction_snapshot": (ErrorPointer, Handle, _OUT),
    "snapshot_write": (ErrorPointer, Handle, ctypes.POINTER(Bytes)),
    "snapshot_read": (ErrorPointer, Bytes, _OUT),
    "snapshot_free": (None, Handle),
    "reduction_merge": (ErrorPointer, Handle, Handle),
    "reduction_report": (ErrorPointer, Handle, _OUT),
    "result_manifest": (None, Handle, ctypes.POINTER(Manifest)),
    "result_tensor": (None, Handle, ctypes.c_uint64, ctypes.POINTER(ResultTensor)),
    "result_indices": (None, Handle, ctypes.c_uint64, ctypes.c_void_p),
    "result_dense": (None, Handle, ctypes.c_uint64, ctypes.c_void_p),
    "result_free": (None, Handle),
    "packing_new": (ErrorPointer, ctypes.POINTER(Indices), ctypes.c_uint64, _OUT),
    "packing_bytes": (ctypes.c_uint64, Handle),
    "packing_is_in_order": (ctypes.c_uint32, Handle),
    "packing_take": (None, Handle, ctypes.c_void_p),
    "packing_values": (
        None,
        Handle,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_void_p,
    ),
    "packing_free": (None, Handle),
}


def load() -> Any:
    """The functions by name."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as bad:
        raise ImportError(f"the native library cannot be loaded: {bad}") from None
    functions = SimpleNamespace()
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, f"sparseagg_native_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    version = functions.version().decode()
    if version != __version__:
        raise ImportError(f"{LIBRARY} is of version {version}, the package of {__version__}")
    return functions
