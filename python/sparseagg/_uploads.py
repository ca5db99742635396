"""Updates over one StreamUpdates call: small ones whole, large ones in chunks; resumed after a broken connection.

    pending:  sent, not yet answered; resent in order on a new stream when the old one breaks
    again:    answered "come back later"; resent after the pause that the server asked for

A server ends a stream that is silent for its `stream-idle-ms`; the next update opens another one.

An update stays in memory until it is answered, so the number and the bytes of pending updates are bounded. Of a small one it is
the message that stays: its arrays are the caller's, who may have filled them with the next update when it is sent again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable, Union

from sparseagg._encode.wire import EncodedUpdate
from sparseagg._net.retry import STREAM_IDLE, Backoff, is_retryable
from sparseagg._net.stream_call import StreamCall
from sparseagg._net.transport import Transport
from sparseagg._progress import Meter
from sparseagg._proto import aggregation_pb2
from sparseagg.errors import SparseAggError, UnavailableError, from_error_message
from sparseagg.records import Receipt, receipt_from_proto

_CHUNK_BYTES = (
    1 << 20
)  # gRPC's throughput is flat from 64 KiB to 4 MiB; the protocol recommends 1 MiB
# Small updates that wait for gRPC are sent in one message of at most this number of bytes, or of one update.
BATCH_BYTES_MAX = 64 << 10
BATCH_UPDATES_MAX = 1000  # the protocol's limit
_PENDING_MAX = 1000
_PENDING_BYTES_MAX = 64 << 20

# Room in a message for the fields around a chunk's bytes: update_id (at most 64 characters), offset, tags, lengths.
_CHUNK_FRAMING_BYTES = 256

Outcome = Union[Receipt, SparseAggError]


def chunk_size(message_bytes_max: int) -> int:
    """Returns the bytes of one chunk, for a server that takes messages of at most `message_bytes_max`."""
    return max(1, min(_CHUNK_BYTES, message_bytes_max - _CHUNK_FRAMING_BYTES))


def reduce_messages(
    update: EncodedUpdate, message_bytes_max: int
) -> Iterator[aggregation_pb2.ReduceRequest]:
    """Yields an update as messages of Reduce, whole or in chunks."""
    if update.message_bytes <= message_bytes_max:
        yield aggregation_pb2.ReduceRequest(update=update.whole())
        return
    yield aggregation_pb2.ReduceRequest(begin=update.begin())
    size = chunk_size(message_bytes_max)
    for offset in range(0, update.payload.size, size):
        yield aggregation_pb2.ReduceRequest(chunk=update.chunk(offset, size))


def outcome_of(answer: Any, update: EncodedUpdate) -> Outcome:
    """Returns the outcome of `update` from a StreamUpdatesResponse that is not about progress."""
    if answer.WhichOneof("body") == "receipt":
        return receipt_from_proto(answer.receipt, update.encodings)
    return from_error_message(answer.error)


def take_together(unsent: deque[Any]) -> Any:
    """Returns the first of the messages to send, a StreamUpdatesRequest; with the next ones, if they are whole updates
    and small."""
    first = unsent.popleft()
    updates: list[Any] = []
    size = first.ByteSize()
    while first.HasField("update") and unsent and unsent[0].HasField("update"):
        size += unsent[0].ByteSize()
        if size > BATCH_BYTES_MAX or len(updates) + 1 >= BATCH_UPDATES_MAX:
            break
        updates.append(unsent.popleft().update)
    if not updates:
        return first
    batch = aggregation_pb2.UpdateBatch(updates=[first.update, *updates])
    return aggregation_pb2.StreamUpdatesRequest(batch=batch, takes_more=True)


class UpdateStream:
    """Submits updates; `on_answer(update, outcome)` is called once for each, in the order of the answers.

    One thread may use it. `submit` and `finish` raise when the server stays unreachable; what was not answered then is
    safe to submit again with the same update_id.
    """

    def __init__(
        self,
        transport: Transport,
        message_bytes_max: int,
        on_answer: Callable[[EncodedUpdate, Outcome], None],
        timeout: float,
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._transport = transport
        self._message_bytes_max = message_bytes_max
        self._on_answer = on_answer
        self._timeout = timeout
        self._backoff: Backoff | None = None  # since the last progress
        self._stream: StreamCall | None = None
        self._pending: dict[str, EncodedUpdate] = {}
        self._messages: dict[str, Any] = {}  # of the small ones among the pending
        self._pending_bytes = 0
        self._again: deque[tuple[EncodedUpdate, SparseAggError]] = deque()
        # The large update in progress: its id, when its chunks began, and their bytes. It is None after an interruption.
        self._timed: tuple[str, float, int] | None = None
        self._offset: int | None = None  # answer to the BeginUpdate under way
        self._committed: dict[str, int] = {}  # the most that the server had of each large one

    def submit(self, update: EncodedUpdate, message: Any = None) -> None:
        """Sends `update`; waits first while too much is unanswered. message: it as a whole, if it is made already."""
        while self._is_full(update):
            self._step()
        self._pending[update.update_id] = update
        self._pending_bytes += update.message_bytes
        if update.message_bytes <= self._message_bytes_max:
            self._messages[update.update_id] = message or aggregation_pb2.StreamUpdatesRequest(
                update=update.whole(), takes_more=True
            )
        self._attempt(lambda stream: self._send(stream, update))
        self._take_answers()

    def finish(self) -> None:
        """Waits until every update is answered."""
        while self._pending:
            self._step()
        if self._stream is not None:
            self._stream.sent_all()

    def unanswered(self) -> list[tuple[EncodedUpdate, Any]]:
        """Returns the updates that were submitted and are not answered, each with what `submit` calls its message."""
        return [(update, self._messages.get(key)) for key, update in self._pending.items()]

    def close(self) -> None:
        """Gives up what is not answered."""
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    def __enter__(self) -> UpdateStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_full(self, update: EncodedUpdate) -> bool:
        if not self._pending:
            return False
        return (
            update.update_id in self._pending  # answers name the update_id only
            or len(self._pending) >= _PENDING_MAX
            or self._pending_bytes + update.message_bytes > _PENDING_BYTES_MAX
        )

    def _step(self) -> None:
        """Waits for one answer, or sends one update again."""
        if self._again:
            update, error = self._again.popleft()
            self._pause(error)
            self._attempt(lambda stream: self._send(stream, update))
        else:
            self._attempt(self._receive)

    def _attempt(self, action: Callable[[StreamCall], None]) -> None:
        """Does `action`; when the connection breaks, connects again and resends what is pending instead."""
        try:
            action(self._open())
            return
        except SparseAggError as failure:
            error = failure
        self._timed = None
        while True:
            self._take_answers()  # those that came before the break
            self.close()
            self._pause(error)
            self._again.clear()  # pending, too: resent with the others
            try:
                stream = self._open()
                for update in list(self._pending.values()):
                    self._send(stream, update)
                return
            except SparseAggError as failure:
                error = failure

    def _open(self) -> StreamCall:
        if self._stream is None:
            self._stream = self._transport.stream(
                "StreamUpdates",
                idle_timeout=self._timeout,
                for_update=True,
                take=take_together,
            )
        return self._stream

    def _send(self, stream: StreamCall, update: EncodedUpdate) -> None:
        if update.update_id not in self._pending:
            return  # answered in the meantime
        message = self._messages.get(update.update_id)
        if message is not None:
            stream.send(message)
            self._meter.advance(update.payload.size)
            return
        self._offset = None
        stream.send(aggregation_pb2.StreamUpdatesRequest(begin=update.begin()))
        while self._offset is None and self._is_expected(update):
            self._receive(stream)
        offset = self._offset or 0
        self._timed = (update.update_id, time.monotonic(), update.payload.size - offset)
        while offset < update.payload.size and self._is_expected(update):
            chunk = update.chunk(offset, chunk_size(self._message_bytes_max))
            stream.send(aggregation_pb2.StreamUpdatesRequest(chunk=chunk))
            offset += len(chunk.data)
            self._meter.advance(len(chunk.data))
            self._take_answers()

    def _is_expected(self, update: EncodedUpdate) -> bool:
        """Returns True while the server has neither counted `update` nor refused it."""
        waits = any(other is update for other, _ in self._again)
        return update.update_id in self._pending and not waits

    def _receive(self, stream: StreamCall) -> None:
        answer = stream.receive()
        if answer is None:
            raise UnavailableError("the server ended the stream before it answered every update")
        self._handle_all(answer)

    def _take_answers(self) -> None:
        while self._stream is not None:
            answer = self._stream.poll()
            if answer is None:
                return
            self._handle_all(answer)

    def _handle_all(self, answer: Any) -> None:
        self._handle(answer)
        for other in answer.more:
            self._handle(other)

    def _handle(self, answer: Any) -> None:
        update = self._pending.get(answer.update_id)
        if update is None:
            return  # the second answer to an update that was sent twice
        if answer.WhichOneof("body") == "progress":
            self._offset = answer.progress.committed_offset
            # A server that takes the beginning and refuses the rest, as with a full disk, gets no further.
            if self._offset > self._committed.get(update.update_id, 0):
                self._committed[update.update_id] = self._offset
                self._backoff = None
            return
        outcome = outcome_of(answer, update)
        if isinstance(outcome, SparseAggError) and is_retryable(outcome):
            self._timed = None
            self._again.append((update, outcome))
            return
        if self._timed is not None and self._timed[0] == answer.update_id:
            _, begin, size = self._timed
            self._timed = None
            if not isinstance(outcome, SparseAggError):
                self._transport.upload_rate.record(size, time.monotonic() - begin)
        self._backoff = None
        del self._pending[answer.update_id]
        self._messages.pop(answer.update_id, None)
        self._committed.pop(answer.update_id, None)
        self._pending_bytes -= update.message_bytes
        self._on_answer(update, outcome)

    def _pause(self, error: SparseAggError) -> None:
        """Sleeps before the next attempt, or raises `error` when there was no progress for too long."""
        if self._backoff is None:
            self._backoff = self._transport.new_backoff(self._timeout)
        # The caller had nothing to send for a while, or a busy machine was late to send it: no failure of the server. Time
        # alone ends it.
        if error.reason == STREAM_IDLE and self._backoff.remaining() != 0:
            return
        self._backoff.wait(error)
