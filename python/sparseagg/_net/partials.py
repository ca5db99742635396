"""Partial aggregates of rounds: read from one server, sent to another (docs/partials.md)."""

from __future__ import annotations

from typing import Any, Callable, SupportsFloat

import numpy as np

from sparseagg import _requests
from sparseagg._encode.wire import EncodedUpdate
from sparseagg._handles import RoundBase
from sparseagg._net.transport import Transport
from sparseagg._progress import Meter
from sparseagg._proto import aggregation_pb2, types_pb2
from sparseagg.errors import InvalidArgumentError, NotFoundError, SparseAggError
from sparseagg.records import Receipt, RoundInfo, receipt_from_proto
from sparseagg.reduction import Partial
from sparseagg.result import ANSWERS_MAX

# Room for the fields around the bytes in a message: tags and lengths.
_FRAMING_BYTES = 32


class PartialUpdate(EncodedUpdate):
    """A partial aggregate, which is sent like an update whose one tensor is encoded as "partial.v1"."""

    is_partial = True

    def __init__(self, data: bytes, *, round_name: str, node: str, update_id: str) -> None:
        super().__init__({}, round_name=round_name, contributor=node, update_id=update_id)
        header = types_pb2.TensorHeader(
            encoding="partial.v1", value_type=types_pb2.VALUE_TYPE_F32, values_bytes=len(data)
        )
        self.data = data
        self._tensors = [(header, np.empty(0, np.uint8), np.frombuffer(data, np.uint8))]
        self.payload = self._byte_string()
        self.message_bytes += len(data) + header.ByteSize() + _FRAMING_BYTES

    def request(self) -> aggregation_pb2.SubmitPartialRequest:
        """Returns the partial aggregate in one message."""
        return aggregation_pb2.SubmitPartialRequest(header=self.header, partial=self.data)


def partial_update(
    round_name: str, partial: Any, node: str, update_id: str | None
) -> PartialUpdate:
    """Returns what `Round.submit_partial` sends."""
    data = partial.to_bytes() if isinstance(partial, Partial) else partial
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidArgumentError(f"a {type(partial).__name__} is no partial aggregate")
    data = bytes(data)
    # The digest at the end names the content, so a resend has the id of the first.
    own_id = data[-32:].hex() if update_id is None else update_id
    return PartialUpdate(data, round_name=round_name, node=node, update_id=own_id)


class PartialReader:
    """Puts an answer of GetPartial together, over several streams if one breaks."""

    def __init__(self, round_name: str) -> None:
        self._round = round_name
        self._size: int | None = None
        self._data = bytearray()

    def request(self) -> aggregation_pb2.GetPartialRequest:
        """Returns the request for what is not here yet."""
        return aggregation_pb2.GetPartialRequest(name=self._round, offset=len(self._data))

    def add(self, message: Any) -> None:
        """Takes the next message of a stream."""
        if message.WhichOneof("body") == "header":
            self._size = message.header.bytes
        elif message.chunk.offset == len(self._data):
            self._data += message.chunk.data

    def finish(self) -> bytes:
        """Returns the whole, at the end of a stream. Raises SparseAggError when something is missing."""
        if self._size is None or len(self._data) != self._size:
            raise SparseAggError(
                f"the server ended the partial aggregate after {len(self._data)} bytes",
                reason="TRUNCATED",
            )
        return bytes(self._data)


class PartialRound(RoundBase):
    """What a `Round` has of them, and of the parts of a result."""

    _transport: Transport
    _server: Callable[..., _requests.Server]
    info: Callable[..., RoundInfo]
    wait: Callable[..., RoundInfo]
    _call: Callable[..., Any]
    _send: Callable[..., Receipt]
    _explained: Callable[..., SparseAggError]

    def parts(self) -> tuple[Any, ...]:
        """Returns the round of each owner of a published result (`create_round(owners=True)`), a `Round` at its leaf. Their
        results are the rows of this one's, in order; several may be read at a time. Empty for any other round."""
        return self._transport.part_handles(self.info().manifest)

    def partial(self, timeout: SupportsFloat | None = None) -> bytes:
        """Returns the partial aggregate of a published round that was created with `publish_partial`, as bytes: for
        `submit_partial` of another round, or `Partial.from_bytes`. Waits for the publication; does not seal.

        timeout: seconds to wait for the publication; None waits as long as it takes.

        Raises as `wait` does; SparseAggError (RESULT_NOT_PARTIAL) for a round whose result is rounded.
        """
        self.wait(timeout)
        reader = PartialReader(self.name)

        def receive() -> bytes:
            with self._transport.stream(
                "GetPartial",
                reader.request(),
                idle_timeout=self._transport.timeout,
                answers_max=ANSWERS_MAX,
            ) as stream:
                while (message := stream.receive()) is not None:
                    reader.add(message)
            return reader.finish()

        try:
            return self._transport.repeat(receive)
        except NotFoundError as missing:
            raise self._explained(missing) from None

    def submit_partial(
        self,
        partial: bytes | Partial,
        *,
        node: str,
        update_id: str | None = None,
        timeout: SupportsFloat | None = None,
    ) -> Receipt:
        """Merges a partial aggregate of the same tensors into the round, as if each update that it covers had been
        submitted: all of them are counted, or none.

        partial: what `Round.partial` gave, here or on another server.
        node: its sender, 1 to 128 characters of [A-Za-z0-9._:@|/-]; one partial aggregate for each. Not the name of a
            contributor that is covered.
        update_id: as in `submit`; made of the content when left out, so that the same bytes are counted once.
        timeout: as in `submit`.

        Raises AlreadyExistsError (CONTRIBUTORS_OVERLAP) for one that covers a contributor who is counted already: the
        message names him; SparseAggError (SPEC_MISMATCH) for other tensors.
        """
        limit = _requests.TimeLimit(self._time_limit(timeout))
        update = partial_update(self.name, partial, node, update_id)
        if update.message_bytes > self._server(limit).message_bytes_max:
            with Meter(False, update.payload.size, "sending") as meter:
                return self._send(update, limit.seconds, limit.left(), meter)
        answer = self._call(
            "SubmitPartial", update.request(), timeout=limit.left(), for_update=True
        )
        receipt = receipt_from_proto(answer, {})
        self._was_born(receipt.durability, receipt.epoch)
        return receipt
