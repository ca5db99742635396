"""`Client`: a connection to a sparseagg server, and `sparse_sum`, the stateless operator."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import grpc

from sparseagg._proto import aggregation_pb2, types_pb2
from sparseagg._transport import RetryPolicy, StreamCall, Transport
from sparseagg._uploads import chunk_size
from sparseagg._wire import EncodedUpdate, spec_to_proto
from sparseagg.convert import AnyTensor, as_tensor, as_tensor_of
from sparseagg.errors import InvalidArgumentError
from sparseagg.records import RoundInfo, ServerInfo, info_from_proto, round_from_proto
from sparseagg.result import ANSWERS_MAX, Result, layout_number, receive_result
from sparseagg.round import Round
from sparseagg.tensors import ResultTensor, SparseTensor, TensorSpec

DEFAULT_TARGET = "127.0.0.1:50061"
_MESSAGE_BYTES_MAX = 16 << 20  # the server's default, used when it does not tell


class Client:
    """A connection to one server. Thread-safe; a context manager, which closes it.

    target: "host:port", "unix:/path", or any gRPC target.
    timeout: seconds for one call with its retries; for streams, seconds without any progress.
    retry: when failed calls are made again; `RetryPolicy(attempts=1)` never does.
    credentials: `grpc.ssl_channel_credentials(...)` for TLS; None is plain text.
    metadata: sent with every call, for example `[("authorization", "Bearer ...")]`.
    channel_options: gRPC channel arguments on top of the package's.

    Do not carry a Client over `os.fork()`; make one in each process.

        with Client("127.0.0.1:50061") as client:
            round = client.create_round([TensorSpec("emb", [50000, 64])])
            round.submit({"emb": SparseTensor(rows, values, [50000, 64])}, contributor="phone-17", weight=128)
            round.seal()
            aggregate = round.result()["emb"]
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout: float = 60.0,
        retry: RetryPolicy | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        channel_options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        self.target = target
        self._transport = Transport(
            target,
            credentials=credentials,
            options=channel_options,
            metadata=metadata,
            timeout=timeout,
            retry=retry or RetryPolicy(),
        )
        self._lock = threading.Lock()
        self._known_message_bytes_max: int | None = None

    def close(self) -> None:
        """Closes the connection; calls under way fail."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.target!r})"

    def info(self) -> ServerInfo:
        """Version, back ends, operators, encodings and limits of the server."""
        request = aggregation_pb2.GetServerInfoRequest()
        return info_from_proto(self._transport.unary("GetServerInfo", request))

    def create_round(
        self,
        tensors: Sequence[TensorSpec],
        round_id: str | None = None,
        *,
        durability: str | None = None,
        request_id: str | None = None,
    ) -> Round:
        """Opens a round.

        round_id: 1 to 63 characters of [a-z0-9-], starting with a letter; the server makes one up when left out.
        durability: "memory" or "durable"; the server's default when left out.
        request_id: at most 64 characters; a second call with the same id and content returns the first round, which
            makes opening safe over a restart of the caller. Made up when left out.

        Raises InvalidArgumentError (the message names tensor and limit), AlreadyExistsError (round_id is taken).
        """
        spec = types_pb2.RoundSpec(tensors=[spec_to_proto(tensor) for tensor in tensors])
        if durability is not None:
            if durability not in ("memory", "durable"):
                raise InvalidArgumentError(
                    f'no durability "{durability}", only "memory" and "durable"'
                )
            spec.durability = types_pb2.Durability.Value(f"DURABILITY_{durability.upper()}")
        request = aggregation_pb2.CreateRoundRequest(
            round_id=round_id or "", spec=spec, request_id=request_id or uuid.uuid4().hex
        )
        info = round_from_proto(self._transport.unary("CreateRound", request))
        return Round(self._transport, self._message_bytes_max, info.name, info)

    def round(self, name: str) -> Round:
        """A handle of a round that someone opened: "rounds/r1" or just "r1". Asks the server nothing yet."""
        full_name = name if name.startswith("rounds/") else f"rounds/{name}"
        return Round(self._transport, self._message_bytes_max, full_name)

    def rounds(self, page_size: int = 50) -> Iterator[RoundInfo]:
        """Every round by name, ascending; fetched page by page."""
        request = aggregation_pb2.ListRoundsRequest(page_size=page_size)
        while True:
            page = self._transport.unary("ListRounds", request)
            for message in page.rounds:
                yield round_from_proto(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def reduce(
        self,
        tensors: Sequence[TensorSpec],
        updates: Iterable[Mapping[str, Any]],
        *,
        weights: Sequence[float] | None = None,
        layout: str = "sparse",
    ) -> Result:
        """The stateless operator: aggregates `updates` in one call, without a round; the server stores nothing.

        tensors: what is aggregated, and how.
        updates: one mapping from tensor names to tensors (as in `Round.submit`, all of them) for each contributor.
        weights: one for each update; 1 each when left out.
        layout: "sparse" or "dense", as in `Round.result`.

        Raises InvalidUpdateError, OutOfRangeError (overflow of a checked integer sum).
        """
        start = aggregation_pb2.ReduceStart(
            spec=types_pb2.RoundSpec(tensors=[spec_to_proto(tensor) for tensor in tensors]),
            layout=layout_number(layout),
        )
        encoded = _encode_for_reduce(tensors, updates, weights)
        message_bytes_max = self._message_bytes_max()

        def call() -> Result:
            with self._transport.stream(
                "Reduce",
                idle_timeout=self._transport.timeout,
                answers_max=ANSWERS_MAX,
                for_update=True,
            ) as stream:
                stream.send(aggregation_pb2.ReduceRequest(start=start))
                for update in encoded:
                    _send_to_reduce(stream, update, message_bytes_max)
                stream.sent_all()
                return receive_result(stream, layout)

        return self._transport.repeat(call)

    def _message_bytes_max(self) -> int:
        with self._lock:
            if self._known_message_bytes_max is None:
                limits = self.info().limits
                self._known_message_bytes_max = limits.get("message-bytes-max", _MESSAGE_BYTES_MAX)
            return self._known_message_bytes_max


def sparse_sum(
    tensors: Iterable[Any],
    op: str = "sum",
    weights: Sequence[float] | None = None,
    *,
    target: str = DEFAULT_TARGET,
    client: Client | None = None,
    layout: str = "sparse",
    value_type: str | None = None,
    integer_overflow: str = "checked",
) -> ResultTensor:
    """The exact aggregate of equally shaped tensors, rounded once.

    tensors: at least one; each a SparseTensor, a tuple (indices, values, dense_shape), a scipy sparse matrix or
        array, or, for a dense tensor, a numpy array. All of the same shape, sparse_dim and value type.
    op: "sum", "weighted_mean" (absent counts as zero), "mean_of_contributors" (only those that hold the index),
        "count", "min" or "max".
    weights: one for each tensor; 1 each when left out.
    target, client: the server; give a `client` where one is open already.
    layout: "sparse" gives a SparseTensor (`.to_dense()`, `.to_scipy()`), "dense" an array of the full shape. Dense
        tensors give an array in both.
    value_type: "bf16" where the values are uint16 bit patterns; otherwise taken from the values.
    integer_overflow: "checked" (OutOfRangeError names the index) or "modular" (wraps).

    The order of the tensors changes no bit of the result. Equal indices within one tensor are summed first.

        >>> a = ([0, 5], np.float32([1, 1]), [10])
        >>> b = ([5, 9], np.float32([1, 1]), [10])
        >>> total = sparse_sum([a, b])
        >>> total.indices.ravel(), total.values
        (array([0, 5, 9]), array([1., 2., 1.], dtype=float32))
    """
    updates = [as_tensor(tensor, value_type) for tensor in tensors]
    if not updates:
        raise InvalidArgumentError("sparse_sum of no tensors: the shape of the result is unknown")
    spec = _common_spec(updates, op, integer_overflow)
    if client is not None:
        result = client.reduce(
            [spec], ({spec.name: u} for u in updates), weights=weights, layout=layout
        )
    else:
        with Client(target) as own:
            result = own.reduce(
                [spec], ({spec.name: u} for u in updates), weights=weights, layout=layout
            )
    return result[spec.name]


def _common_spec(tensors: Sequence[AnyTensor], op: str, integer_overflow: str) -> TensorSpec:
    """The spec of the first tensor; the server refuses the others where they differ."""
    first = tensors[0]
    sparse_dim = first.sparse_dim if isinstance(first, SparseTensor) else 0
    return TensorSpec(
        "tensor",
        first.dense_shape,
        first.value_type,
        sparse_dim,
        op,
        integer_overflow=integer_overflow,
    )


def _encode_for_reduce(
    specs: Sequence[TensorSpec],
    updates: Iterable[Mapping[str, Any]],
    weights: Sequence[float] | None,
) -> list[EncodedUpdate]:
    by_name = {spec.name: spec for spec in specs}
    listed = list(updates)
    if weights is not None and len(weights) != len(listed):
        raise InvalidArgumentError(f"{len(weights)} weights for {len(listed)} updates")
    return [
        EncodedUpdate(
            {name: as_tensor_of(by_name.get(name), value) for name, value in update.items()},
            # Error messages name the contributor: its place in the list.
            contributor=str(position),
            update_id=str(position),
            weight=None if weights is None else weights[position],
        )
        for position, update in enumerate(listed)
    ]


def _send_to_reduce(stream: StreamCall, update: EncodedUpdate, message_bytes_max: int) -> None:
    if update.message_bytes <= message_bytes_max:
        stream.send(aggregation_pb2.ReduceRequest(update=update.whole()))
        return
    stream.send(aggregation_pb2.ReduceRequest(begin=update.begin()))
    size = chunk_size(message_bytes_max)
    for offset in range(0, update.payload.size, size):
        stream.send(aggregation_pb2.ReduceRequest(chunk=update.chunk(offset, size)))
