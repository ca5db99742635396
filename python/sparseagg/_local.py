"""Reductions in this process: the native library (`_native`) reads updates from the caller's arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from types import ModuleType
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from sparseagg import _arguments
from sparseagg._encode.encodings import (
    RAW,
    EncodedTensor,
    EncodeOptions,
    encode_tensor,
    rounding_seed,
)
from sparseagg._encode.entries import check_finite
from sparseagg._encode.native_library import native_module
from sparseagg._encode.recoded import Payload, Recoded
from sparseagg._encode.wire import check_spec
from sparseagg._requests import ReadUpdate
from sparseagg.convert import ReadTensors
from sparseagg.errors import InvalidUpdateError, SparseAggError
from sparseagg.records import Manifest
from sparseagg.result import Result, layout_number
from sparseagg.tensors import AnyTensor, ResultTensor, SparseTensor, TensorSpec

if TYPE_CHECKING:
    from sparseagg import _native, _native_interface
    from sparseagg.tensors import Array

# The `target` that asks for a sum in this process, whatever the environment says.
IN_PROCESS = "in-process"
# A list of updates with at most this number of bytes is reduced at once, which is fastest. A larger list or a generator
# is reduced in batches.
_AT_ONCE_BYTES_MAX = 512 << 20
_INDEX_BYTES = 8  # of an entry in the library's memory
# Updates of a list are handed over together up to this number of bytes, for the library to add several at a time.
_TOGETHER_BYTES = 64 << 20
_NO_INDICES: Array = np.empty(0, "<i8")


def is_possible() -> bool:
    """Returns whether the package has its native library."""
    return isinstance(native_module(), ModuleType)


def read_snapshot(data: bytes) -> _native.Snapshot:
    """Returns the partial aggregate of these bytes."""
    snapshot: _native.Snapshot = _required_module().read_snapshot(data)
    return snapshot


def _required_module() -> ModuleType:
    native = native_module()
    if isinstance(native, ModuleType):
        return native
    raise SparseAggError(
        f"this package has no native library ({native}); install a wheel that has it, or give the target of a server",
        code=grpc.StatusCode.UNIMPLEMENTED,
        reason="NO_NATIVE_LIBRARY",
    )


def is_wanted(target: str | None) -> bool:
    """Returns whether to reduce in this process: if `target` says so, or if the library is there and neither `target`
    nor the environment names a server."""
    if target is None:
        return not os.environ.get("SPARSEAGG_SERVER") and is_possible()
    return target == IN_PROCESS


def why_a_server_is_needed(target: str | None) -> str:
    """Says why a call without a target needs a server: the package has no native library. Empty if it needs none."""
    absent = native_module()
    if target is not None or os.environ.get("SPARSEAGG_SERVER") or isinstance(absent, ModuleType):
        return ""
    return f"this package has no native library ({absent}), so a sum without a target needs a server at this address"


def at_once(updates: Iterable[Any]) -> bool:
    """Returns whether `updates` is a list of updates that have been read and are small enough to be reduced at once."""
    if not isinstance(updates, list):
        return False
    staged = 0
    for update in updates:
        if not isinstance(update, ReadTensors):
            return False
        for tensor in update.values():
            entries = tensor.nnz if isinstance(tensor, SparseTensor) else 1
            staged += _INDEX_BYTES * entries + tensor.values.nbytes
    return staged <= _AT_ONCE_BYTES_MAX


class LocalReduction:
    """A stateless reduction in this process, with the checks and the errors of the server's."""

    def __init__(self, specs: Sequence[TensorSpec], options: EncodeOptions, at_once: bool) -> None:
        native = _required_module()
        for spec in specs:
            check_spec(spec)
        self._native: Any = native
        self._specs = {spec.name: spec for spec in specs}
        self._options = options
        self._reduction: _native.Reduction = native.Reduction(specs, at_once=at_once)

    def add(self, update: ReadUpdate) -> None:
        """Adds it; its arrays are not needed afterwards."""
        self._reduction.add([self._encoded(update)])

    def add_all(self, updates: Iterable[ReadUpdate]) -> None:
        """Adds them, several at a time. Their arrays must stay as they are until it returns. Raises the error of the first
        that is refused; others may have been added."""
        unread = iter(updates)
        while True:
            together, refused = self._next(unread)
            self._reduction.add(together)  # if one of these is refused, too, it comes first
            if refused is not None:
                raise refused
            if not together:
                return

    def snapshot(self) -> _native.Snapshot:
        """Returns the state so far."""
        return self._reduction.snapshot()

    def merge(self, snapshot: _native.Snapshot) -> None:
        """Adds the state of another reduction."""
        self._reduction.merge(snapshot)

    def result(self, layout: str) -> Result:
        """Ends the reduction and returns its result."""
        layout_number(layout)  # raises for an unknown layout
        result = self._reduction.report()
        tensors = {
            name: _result_tensor(result.tensor(number), layout)
            for number, name in enumerate(self._specs)
        }
        return Result(tensors, _manifest(result.manifest()))

    def _next(
        self, unread: Iterator[ReadUpdate]
    ) -> tuple[list[_native.Update], SparseAggError | None]:
        """Updates of `_TOGETHER_BYTES`: fewer at the end, and before one that is refused, whose error comes with them."""
        together: list[_native.Update] = []
        together_bytes = 0
        try:
            for update in unread:
                together.append(self._encoded(update))
                together_bytes += _bytes_of(together[-1])
                if together_bytes >= _TOGETHER_BYTES:
                    break
        except SparseAggError as bad:
            return together, bad
        return together, None

    def _encoded(self, update: ReadUpdate) -> _native.Update:
        name = update.update_id
        with _arguments.refusing(f"update {name}", InvalidUpdateError):
            weight = 1.0 if update.weight is None else _arguments.weight(update.weight)
            parts = [self._part(name, *item) for item in update.tensors.items()]
        made: _native.Update = self._native.Update(name, weight, parts)
        return made

    def _part(self, update_id: str, name: str, tensor: AnyTensor) -> _native.Part:
        encoded = _encoded(name, tensor, self._options, update_id)
        part: _native.Part = self._native.Part(
            name,
            tensor.dense_shape,
            tensor.sparse_dim if isinstance(tensor, SparseTensor) else 0,
            tensor.value_type,
            encoded.encoding,
            encoded.values_encoding,
            encoded.nnz,
            _in_memory(encoded.indices),
            _in_memory(encoded.values),
        )
        return part


def _encoded(name: str, tensor: AnyTensor, options: EncodeOptions, update_id: str) -> EncodedTensor:
    """Returns the arrays unchanged unless another encoding is requested. An encoding that rounds values rounds them as
    it does on the wire."""
    if options.encoding not in ("auto", RAW) or options.values_of(name) not in ("auto", "raw"):
        return encode_tensor(name, tensor, options, rounding_seed("", update_id, name))
    if isinstance(tensor, SparseTensor):
        if tensor.sparse_dim > 1:  # as `encode_tensor`
            check_finite(name, tensor)
        return EncodedTensor(RAW, "", tensor.nnz, tensor.indices, tensor.values)
    return EncodedTensor(RAW, "", int(tensor.values.size > 0), _NO_INDICES, tensor.values)


def _bytes_of(update: _native.Update) -> int:
    return sum(part.indices.nbytes + part.values.nbytes for part in update.parts)


def _in_memory(payload: Payload) -> Array:
    return payload.copy() if isinstance(payload, Recoded) else payload


def _result_tensor(tensor: _native.ResultTensor, layout: str) -> ResultTensor:
    if layout == "dense" or tensor.sparse_dim == 0:
        return tensor.dense()
    return SparseTensor(tensor.indices(), tensor.values(), tensor.dense_shape, tensor.value_type)


def _manifest(found: _native_interface.Manifest) -> Manifest:
    return Manifest(
        contributors=found.contributors,
        total_weight=found.total_weight,
        rejected={},
        duplicates=0,
        updates_digest=b"",
        result_digest=b"",
        infinite_values=found.infinite_values,
        publish_time=datetime.fromtimestamp(found.publish_time, timezone.utc),
    )
