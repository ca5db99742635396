"""Tensors <-> messages of the protocol. Arrays travel as little-endian bytes, never as repeated numbers.

An update (and an answer) is one byte string: for each tensor its indices, then its values, in the encoding that its header
names. Small ones travel as whole `Tensor` messages, large ones as chunks of that byte string.
"""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np

from sparseagg import _arguments
from sparseagg._encode.encodings import (
    PACKED,
    RAW,
    EncodedTensor,
    EncodeOptions,
    encode_tensor,
    rounding_seed,
    unflatten_rows,
)
from sparseagg._encode.packed_indices import decode_rows
from sparseagg._encode.recoded import Payload, Recoded
from sparseagg._encode.value_coding import check_values, decode_values
from sparseagg._proto import aggregation_pb2, types_pb2
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError, SparseAggError
from sparseagg.records import TensorEncoding, value_type_name
from sparseagg.tensors import (
    VALUE_DTYPES,
    AnyTensor,
    ResultTensor,
    SparseTensor,
    TensorSpec,
)

_VALUE_TYPES = {
    name: types_pb2.ValueType.Value(f"VALUE_TYPE_{name.upper()}") for name in VALUE_DTYPES
}
_INDEX_DTYPES: dict[int, np.dtype[Any]] = {
    types_pb2.INDEX_TYPE_UNSPECIFIED: np.dtype("<i8"),
    types_pb2.INDEX_TYPE_I64: np.dtype("<i8"),
    types_pb2.INDEX_TYPE_I32: np.dtype("<i4"),
}
# Room for the fields around a tensor's bytes in a message: tags and lengths.
_FRAMING_BYTES = 32


_RAW_OPTIONS = EncodeOptions(RAW)


class ByteString:
    """Arrays seen as one string of bytes, which is read or written piece by piece."""

    def __init__(self, arrays: Sequence[Payload]) -> None:
        self._parts: list[Any] = [
            array if isinstance(array, Recoded) else array.reshape(-1).view(np.uint8).data
            for array in arrays
            if array.size
        ]
        self._starts: list[int] = []
        self.size = 0
        for part in self._parts:
            self._starts.append(self.size)
            self.size += _length(part)

    @property
    def is_made_when_read(self) -> bool:
        """True where reading takes more than copying."""
        return any(isinstance(part, Recoded) for part in self._parts)

    def read(self, offset: int, size: int) -> bytes:
        """Returns at most `size` bytes from `offset`; fewer only at the end."""
        pieces = []
        for part, begin, end in self._pieces(offset, size):
            pieces.append(part.read(begin, end) if isinstance(part, Recoded) else part[begin:end])
        return b"".join(pieces)

    def write(self, offset: int, data: bytes) -> None:
        """Puts `data` at `offset`. Raises ValueError where it does not fit."""
        if offset + len(data) > self.size:
            raise ValueError(f"{len(data)} bytes at {offset} do not fit in {self.size}")
        done = 0
        for part, begin, end in self._pieces(offset, len(data)):
            part[begin:end] = data[done : done + end - begin]
            done += end - begin

    def _pieces(self, offset: int, size: int) -> Any:
        number = bisect.bisect_right(self._starts, offset) - 1
        while size > 0 and 0 <= number < len(self._parts):
            part = self._parts[number]
            begin = offset - self._starts[number]
            end = min(_length(part), begin + size)
            yield part, begin, end
            offset += end - begin
            size -= end - begin
            number += 1


def _length(part: Any) -> int:
    return part.nbytes if isinstance(part, Recoded) else len(part)


class EncodedUpdate:
    """One contributor's update, ready to be sent whole or in chunks, as often as it takes."""

    is_partial = False  # True of a partial aggregate, whose sender belongs to no leaf

    def __init__(
        self,
        tensors: Mapping[str, AnyTensor],
        *,
        round_name: str = "",
        contributor: str = "",
        update_id: str = "",
        weight: SupportsFloat | None = None,
        options: EncodeOptions = _RAW_OPTIONS,
    ) -> None:
        self.header = types_pb2.UpdateHeader(
            round=round_name,
            contributor=_arguments.text(
                "contributor", contributor, InvalidUpdateError, "INVALID_CONTRIBUTOR"
            ),
            update_id=_arguments.text(
                "update_id", update_id, InvalidUpdateError, "INVALID_UPDATE_ID"
            ),
        )
        if weight is not None:
            # Rounded here: protobuf 3.20 in pure Python would make what is just above f32's largest number infinite.
            self.header.weight = float(np.float32(_arguments.weight(weight)))
        self._tensors: list[tuple[Any, Payload, Payload]] = []
        for name, tensor in tensors.items():
            seed = rounding_seed(round_name, contributor, name)
            encoded = encode_tensor(name, tensor, options, seed)
            header = _header_of(name, tensor, encoded)
            self._tensors.append((header, encoded.indices, encoded.values))
        self.payload = self._byte_string()
        # An upper bound of the serialised SubmitUpdateRequest.
        self.message_bytes = self.payload.size + self.header.ByteSize() + _FRAMING_BYTES
        self.message_bytes += sum(
            header.ByteSize() + _FRAMING_BYTES for header, _, _ in self._tensors
        )

    @property
    def encodings(self) -> dict[str, TensorEncoding]:
        """Returns the encoding of each tensor."""
        return {
            header.name: TensorEncoding(
                header.encoding,
                header.values_encoding or "raw",
                header.nnz,
                header.indices_bytes + header.values_bytes,
            )
            for header, _, _ in self._tensors
        }

    def keep(self) -> None:
        """Copies what is still in the caller's arrays, who is going to fill them with the next update."""
        self._tensors = [
            (header, indices.copy(), values.copy()) for header, indices, values in self._tensors
        ]
        self.payload = self._byte_string()

    @property
    def update_id(self) -> str:
        """The id that makes resending safe."""
        return str(self.header.update_id)

    def whole(self) -> aggregation_pb2.SubmitUpdateRequest:
        """Returns the update in one message."""
        tensors = [
            types_pb2.Tensor(header=header, indices=indices.tobytes(), values=values.tobytes())
            for header, indices, values in self._tensors
        ]
        return aggregation_pb2.SubmitUpdateRequest(header=self.header, tensors=tensors)

    def begin(self) -> aggregation_pb2.BeginUpdate:
        """Returns the message that precedes the chunks."""
        headers = [header for header, _, _ in self._tensors]
        return aggregation_pb2.BeginUpdate(header=self.header, tensors=headers)

    def chunk(self, offset: int, size: int) -> aggregation_pb2.UpdateChunk:
        """Returns the chunk of at most `size` bytes at `offset`."""
        data = self.payload.read(offset, size)
        return aggregation_pb2.UpdateChunk(update_id=self.update_id, offset=offset, data=data)

    def _byte_string(self) -> ByteString:
        return ByteString([array for _, *arrays in self._tensors for array in arrays])


def check_spec(spec: TensorSpec) -> None:
    """Raises InvalidArgumentError for what no message can hold; the rest is checked where the tensor is aggregated."""
    if not isinstance(spec, TensorSpec):
        raise InvalidArgumentError(f"{spec!r} is no TensorSpec")
    if spec.integer_overflow not in ("checked", "modular"):
        raise InvalidArgumentError(
            f'tensor "{spec.name}": no integer_overflow "{spec.integer_overflow}", only "checked" and "modular"'
        )
    with _arguments.refusing(f'tensor "{spec.name}"', reason="INVALID_SPEC"):
        _arguments.text("name", spec.name)
        _arguments.whole("sparse_dim", spec.sparse_dim, 0, 2**32 - 1)
        _arguments.text("op", spec.op)
        _arguments.text("plan", spec.plan)


def spec_to_proto(spec: TensorSpec) -> types_pb2.TensorSpec:
    """Returns a record as `sparseagg.v1.TensorSpec`."""
    check_spec(spec)
    overflow = f"INTEGER_OVERFLOW_{spec.integer_overflow.upper()}"
    with _arguments.refusing(f'tensor "{spec.name}"', reason="INVALID_SPEC"):
        return types_pb2.TensorSpec(
            name=spec.name,
            value_type=_VALUE_TYPES[spec.value_type],
            dense_shape=spec.dense_shape,
            sparse_dim=operator.index(spec.sparse_dim),
            op=spec.op,
            integer_overflow=types_pb2.IntegerOverflow.Value(overflow),
            plan=spec.plan,
        )


def selection_to_proto(
    tensor: str, indices: Any, spec: TensorSpec | None = None
) -> aggregation_pb2.IndexSelection:
    """Indices `[n, sparse_dim]` (or `[n]`) as `sparseagg.v1.IndexSelection`. `spec`: the tensor's, where it is known.

    Raises InvalidArgumentError for anything but integers below 2^63, and for another shape. An empty array may have any
    type and shape.
    """
    what = f'tensor "{tensor}": the indices to select'
    _arguments.unmasked(what, indices, InvalidArgumentError, "INDEX_TYPE_UNSUPPORTED")
    with _arguments.refusing(what):
        array = np.asarray(indices)
    if array.size and spec is not None:
        flat = array.ndim == 1 and spec.sparse_dim == 1
        if not flat and array.shape[1:] != (spec.sparse_dim,):
            raise InvalidArgumentError(
                f'tensor "{tensor}": the selection has the shape {array.shape}; it must be (n, {spec.sparse_dim})'
            )
    # Converted, a mask would ask for the rows 0 and 1, and 2.7 for row 2.
    if array.size and array.dtype.kind not in "iu":
        hint = "; of a mask take np.argwhere(mask)" if array.dtype.kind == "b" else ""
        raise InvalidArgumentError(
            f'tensor "{tensor}": the indices to select are of type {array.dtype}, not integers{hint}',
            reason="INDEX_TYPE_UNSUPPORTED",
        )
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise InvalidArgumentError(
            f'tensor "{tensor}": index {int(array.max())} is not below 2^63',
            reason="INDEX_OUT_OF_RANGE",
        )
    narrow = array.dtype == np.int32
    return aggregation_pb2.IndexSelection(
        tensor=tensor,
        index_type=types_pb2.INDEX_TYPE_I32 if narrow else types_pb2.INDEX_TYPE_I64,
        indices=np.ascontiguousarray(array, "<i4" if narrow else "<i8").tobytes(),
    )


class Answer:
    """An aggregate being received: allocated from its header, filled by its chunks."""

    def __init__(self, header: aggregation_pb2.AggregateHeader) -> None:
        self.header = header
        self._arrays = []
        for tensor in header.tensors:
            self._arrays.append(np.empty(tensor.indices_bytes, np.uint8))
            self._arrays.append(np.empty(tensor.values_bytes, np.uint8))
        self._bytes = ByteString(self._arrays)
        self._received = 0

    @property
    def size(self) -> int:
        """Bytes that the chunks bring."""
        return self._bytes.size

    def add(self, chunk: aggregation_pb2.AggregateChunk) -> None:
        """Takes the next chunk."""
        if chunk.offset != self._received or chunk.offset + len(chunk.data) > self._bytes.size:
            raise SparseAggError(
                f"the server sent {len(chunk.data)} bytes at {chunk.offset}, {self._received} of "
                f"{self._bytes.size} bytes were here",
                reason="OFFSET_MISMATCH",
            )
        self._bytes.write(chunk.offset, chunk.data)
        self._received += len(chunk.data)

    def tensors(self, *, dense: bool, selected: Sequence[str] = ()) -> dict[str, ResultTensor]:
        """Returns the tensors by name, once everything is here."""
        if self._received != self._bytes.size:
            raise SparseAggError(
                f"the answer ended after {self._received} of {self._bytes.size} bytes",
                reason="TRUNCATED",
            )
        result: dict[str, ResultTensor] = {}
        for number, header in enumerate(self.header.tensors):
            indices, values = self._arrays[2 * number : 2 * number + 2]
            result[header.name] = _decode(header, indices, values, dense, header.name in selected)
        return result


def _decode(
    header: Any,
    index_bytes: np.ndarray[Any, Any],
    value_bytes: np.ndarray[Any, Any],
    dense: bool,
    selected: bool,
) -> ResultTensor:
    shape, sparse_dim = tuple(header.dense_shape), header.sparse_dim
    value_type = value_type_name(header.value_type)
    _check_header(header, value_type, len(index_bytes))
    count = header.nnz * math.prod(shape[sparse_dim:])
    coding = header.values_encoding
    check_values(len(value_bytes), count, value_type, coding, header.name)
    is_packed = header.encoding == PACKED
    if is_packed:  # before the values, as in C++: of two things that are wrong, both name the same
        entries = header.nnz if sparse_dim else 0
        rows = decode_rows(index_bytes, entries, math.prod(shape[:sparse_dim]), header.name)
    values = decode_values(value_bytes, count, value_type, coding, header.name)
    if sparse_dim == 0:
        # Nobody had anything to add: nnz 0, and the sum of nothing is 0.
        return values.reshape(shape) if values.size else np.zeros(shape, values.dtype)
    if dense:
        return values.reshape((-1, *shape[sparse_dim:]) if selected else shape)
    if is_packed:
        indices = unflatten_rows(rows, shape[:sparse_dim])
    else:
        indices = index_bytes.view(_INDEX_DTYPES[header.index_type])
    row_shape = shape[sparse_dim:]
    return SparseTensor(
        indices.reshape(header.nnz, sparse_dim),
        values.reshape(header.nnz, *row_shape),
        shape,
        value_type,
    )


def _check_header(header: Any, value_type: str, index_bytes: int) -> None:
    """Raises SparseAggError for a tensor that this version cannot read, or that is none."""

    def refused(what: str, reason: str) -> SparseAggError:
        return SparseAggError(f'tensor "{header.name}": {what}', reason=reason)

    if header.encoding not in ("", RAW, PACKED):
        raise refused(f'this version knows no encoding "{header.encoding}"', "UNKNOWN_ENCODING")
    if value_type not in VALUE_DTYPES:
        raise refused(f"this version knows no {value_type}", "UNKNOWN_VALUE_TYPE")
    if header.sparse_dim > len(header.dense_shape):
        raise refused(
            f"sparse_dim {header.sparse_dim} is above the rank {len(header.dense_shape)}",
            "SHAPE_MISMATCH",
        )
    if header.sparse_dim == 0 and header.nnz > 1:
        raise refused(f"nnz is {header.nnz}; a dense tensor has 0 or 1", "SIZE_MISMATCH")
    if header.encoding == PACKED:
        return  # the sizes of its blocks are looked at where they are unpacked
    index_type = _INDEX_DTYPES.get(header.index_type)
    if index_type is None:
        raise refused(f"this version knows no index_type {header.index_type}", "UNKNOWN_INDEX_TYPE")
    if index_bytes != header.nnz * header.sparse_dim * index_type.itemsize:
        raise refused(
            f"{index_bytes} bytes of indices are not {header.nnz} entries", "SIZE_MISMATCH"
        )


def _header_of(name: str, tensor: AnyTensor, encoded: EncodedTensor) -> types_pb2.TensorHeader:
    narrow = encoded.encoding == RAW and encoded.indices.itemsize == 4
    return types_pb2.TensorHeader(
        name=name,
        encoding=encoded.encoding,
        values_encoding=encoded.values_encoding,
        value_type=_VALUE_TYPES[tensor.value_type],
        dense_shape=tensor.dense_shape,
        sparse_dim=tensor.sparse_dim if isinstance(tensor, SparseTensor) else 0,
        index_type=types_pb2.INDEX_TYPE_I32 if narrow else types_pb2.INDEX_TYPE_I64,
        nnz=encoded.nnz,
        indices_bytes=encoded.indices.nbytes,
        values_bytes=encoded.values.nbytes,
    )
