"""Large updates: encoded beside the event loop, and sent over StreamUpdates in chunks, resumed after a broken connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from sparseagg import _requests
from sparseagg._encode.wire import EncodedUpdate
from sparseagg._net.retry import Backoff
from sparseagg._progress import Meter
from sparseagg._proto import aggregation_pb2
from sparseagg._requests import ReadUpdate
from sparseagg._uploads import chunk_size, reduce_messages
from sparseagg.aio._transport import Transport
from sparseagg.errors import SparseAggError, UnavailableError, from_error_message
from sparseagg.records import Receipt, receipt_from_proto

# From here on encoding takes longer than handing it to a thread.
_ENCODED_BESIDE_BYTES_MIN = 1 << 20


async def encode(update: ReadUpdate, may_fill_arrays_again: bool) -> EncodedUpdate:
    """Calls `_requests.encode`; for a large update in a thread, so that the event loop goes on."""
    if update.nbytes < _ENCODED_BESIDE_BYTES_MIN:
        return _requests.encode(update, may_fill_arrays_again)
    return await asyncio.to_thread(_requests.encode, update, may_fill_arrays_again)


async def messages_of_reduce(
    update: EncodedUpdate, message_bytes_max: int
) -> AsyncIterator[aggregation_pb2.ReduceRequest]:
    """Yields the messages of `_uploads.reduce_messages`, made in a thread where that takes more than copying."""
    messages = reduce_messages(update, message_bytes_max)
    if not update.payload.is_made_when_read:
        for message in messages:
            yield message
        return
    while (message := await asyncio.to_thread(next, messages, None)) is not None:
        yield message


class ChunkedUpload:
    """The attempts at one update. What the server has of it, it keeps, so each attempt starts where the last ended."""

    def __init__(
        self,
        transport: Transport,
        update: EncodedUpdate,
        message_bytes_max: int,
        timeout: float,
        meter: Meter,
    ) -> None:
        self._transport = transport
        self._update = update
        self._chunk_size = chunk_size(message_bytes_max)
        self._timeout = timeout
        self._meter = meter
        self._committed = 0  # bytes that the server has

    async def run(self) -> Receipt:
        """Returns the receipt. Raises the refusal, or the last error when nothing moves for too long."""
        backoff: Backoff | None = None
        while True:
            committed = self._committed
            try:
                return await self._attempt()
            except SparseAggError as failure:
                if backoff is None or self._committed > committed:
                    backoff = self._transport.new_backoff(self._timeout)
                await asyncio.sleep(backoff.pause(failure))

    async def _attempt(self) -> Receipt:
        offset: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        begin, size = 0.0, 0
        async for answer in self._transport.stream(
            "StreamUpdates", self._messages(offset), idle_timeout=self._timeout, for_update=True
        ):
            kind = answer.WhichOneof("body")
            if kind == "receipt":
                self._transport.upload_rate.record(size, time.monotonic() - begin)
                return receipt_from_proto(answer.receipt, self._update.encodings)
            if kind == "error":
                raise from_error_message(answer.error)
            self._committed = max(self._committed, answer.progress.committed_offset)
            if not offset.done():
                offset.set_result(answer.progress.committed_offset)
                begin, size = time.monotonic(), self._update.payload.size - offset.result()
        raise UnavailableError("the server ended the stream before it answered the update")

    async def _messages(self, offset: asyncio.Future[int]) -> AsyncIterator[object]:
        request = aggregation_pb2.StreamUpdatesRequest
        yield request(begin=self._update.begin())
        position = await offset
        while position < self._update.payload.size:
            if self._update.payload.is_made_when_read:
                chunk = await asyncio.to_thread(self._update.chunk, position, self._chunk_size)
            else:
                chunk = self._update.chunk(position, self._chunk_size)
            yield request(chunk=chunk)
            position += len(chunk.data)
            self._meter.advance(len(chunk.data))
