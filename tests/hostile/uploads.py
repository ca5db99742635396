"""Updates in chunks for thousands of clients: client n adds 1 to the first rows of the tensor "t"."""

import struct

import http2
from _proto import aggregation_pb2 as api
from _proto import types_pb2 as types

ENTRY_BYTES = 12  # an index of 8 bytes, a value of 4
STREAM_UPDATES = http2.SERVICE + "StreamUpdates"
OPEN_STREAM = http2.request_headers(STREAM_UPDATES)


def payload(entries: int) -> bytes:
    return struct.pack(f"<{entries}q", *range(entries)) + struct.pack("<f", 1.0) * entries


def update_header(round_name: str, contributor: str) -> types.UpdateHeader:
    return types.UpdateHeader(round=f"rounds/{round_name}", contributor=contributor, update_id="u")


def tensor_header(rows: int, entries: int) -> types.TensorHeader:
    return types.TensorHeader(
        name="t", value_type=types.VALUE_TYPE_F32, dense_shape=[rows], sparse_dim=1, nnz=entries
    )


def begin(round_name: str, contributor: str, rows: int, entries: int) -> bytes:
    tensor = tensor_header(rows, entries)
    tensor.indices_bytes, tensor.values_bytes = 8 * entries, 4 * entries
    update = api.BeginUpdate(header=update_header(round_name, contributor), tensors=[tensor])
    return http2.message(api.StreamUpdatesRequest(begin=update).SerializeToString())


def chunk(data: bytes, offset: int) -> bytes:
    body = api.UpdateChunk(update_id="u", offset=offset, data=data)
    return http2.message(api.StreamUpdatesRequest(chunk=body).SerializeToString())


def whole(round_name: str, contributor: str, rows: int, entries: int, data: bytes) -> bytes:
    """A SubmitUpdateRequest."""
    tensor = types.Tensor(
        header=tensor_header(rows, entries),
        indices=data[: 8 * entries],
        values=data[8 * entries :],
    )
    update = api.SubmitUpdateRequest(
        header=update_header(round_name, contributor), tensors=[tensor]
    )
    return update.SerializeToString()


def data_frames(stream: int, data: bytes, last: bool = False) -> bytes:
    """DATA frames of at most 16 KiB, which every peer takes."""
    out = b""
    for at in range(0, len(data), 16_000):
        end = http2.END_STREAM if last and at + 16_000 >= len(data) else 0
        out += http2.frame(http2.DATA, end, stream, data[at : at + 16_000])
    return out
