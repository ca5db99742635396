"""The channel to the server: unary calls with deadlines and retries, and streams that are read in the background.

Methods are called by their path ("/sparseagg.v1.AggregationService/GetRound"), so no generated stubs are needed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, NamedTuple, TypeVar

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, empty_pb2

from sparseagg._local_server import LocalServer
from sparseagg._net import forks as _forks
from sparseagg._net.address import Address, is_direct
from sparseagg._net.connections import Connection, Connections
from sparseagg._net.leaves import LeafClients
from sparseagg._net.proxy import proxy_of
from sparseagg._net.retry import Backoff, RetryPolicy
from sparseagg._net.stream_call import StreamCall, Take
from sparseagg._net.tls_probe import TlsProbe
from sparseagg._net.transport_errors import Peer
from sparseagg._net.upload_rate import UploadRate
from sparseagg._proto import aggregation_pb2, tasks_pb2, types_pb2
from sparseagg.errors import (
    NotFoundError,
    SparseAggError,
    from_rpc_error,
)
from sparseagg.security import Access

_T = TypeVar("_T")
SERVICE = "/sparseagg.v1.AggregationService/"
TASK_SERVICE = "/sparseagg.v1.TaskService/"
_PACKAGE = ".sparseagg.v1"


class Method(NamedTuple):
    """A method of the server: its kind in grpc's Python ("unary_stream"), the type of its answers, and its path."""

    kind: str
    answer: Any
    path: str


def _methods() -> dict[str, Method]:
    """Returns the methods of both services by name. From the bytes of the descriptions, which every version of protobuf has
    in the same way."""
    methods = {}
    for module, prefix in ((aggregation_pb2, SERVICE), (tasks_pb2, TASK_SERVICE)):
        description = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        (service,) = description.service
        for method in service.method:
            request = "stream" if method.client_streaming else "unary"
            response = "stream" if method.server_streaming else "unary"
            package, _, name = method.output_type.rpartition(".")
            modules = (module, types_pb2) if package == _PACKAGE else (empty_pb2,)
            (answer,) = (getattr(one, name) for one in modules if hasattr(one, name))
            methods[method.name] = Method(f"{request}_{response}", answer, prefix + method.name)
    return methods


METHODS = _methods()
# The distribution's gRPC (1.51) gets on with connecting while a call waits, and otherwise looks every 5 s: too seldom
# for attempts that nobody waits in between. It reads this when it starts, with the first channel.
_POLL_INTERVAL = "GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS"
_POLL_INTERVAL_MS = "100"
_environment = threading.Lock()
# gRPC's own pause between two attempts to connect grows to two minutes; a server that restarts is back in seconds.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # The time that one attempt to connect may take: with TLS several round trips and some arithmetic.
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A name is looked up again after a failure: it may have moved to another address. gRPC would wait 30 s in between.
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    # A server or a router that vanished without a word is noticed after 40 s, as by the C++ client;
    # the server allows a ping every 10 s. gRPC itself would stop after two pings of a stream that
    # only waits (WatchRound).
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Newer versions of gRPC wait for the answer of a ping by this one, a minute by default.
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Channels of one process to one target would share a connection.
    ("grpc.use_local_subchannel_pool", 1),
)
# gRPC sends every TCP connection through the proxy that http_proxy names, which does not reach our
# loopback.
_LOCAL_OPTIONS = (("grpc.enable_http_proxy", 0),)
# A thread that reads ends in milliseconds once its channel is closed.
_JOIN_SECONDS = 5.0
# The call that carries updates.
UPLOADS = "StreamUpdates"
# Calls that last until a round, or a group of tasks, changes or ends.
_WAITS = frozenset({"WaitRound", "WatchRound", "WaitTasks"})


@contextmanager
def _poll_interval() -> Iterator[None]:
    """For the time in which gRPC may start: afterwards the variable is gone again, for this process and its children."""
    with _environment:
        is_ours = _POLL_INTERVAL not in os.environ
        if is_ours:
            os.environ[_POLL_INTERVAL] = _POLL_INTERVAL_MS
        try:
            yield
        finally:
            if is_ours:
                os.environ.pop(_POLL_INTERVAL, None)


def was_done_before(method: str, error: SparseAggError) -> bool:
    """Returns True where a repeated call fails because the attempt whose answer was lost had done it."""
    return method == "DeleteRound" and isinstance(error, NotFoundError)


class Channel(LeafClients):
    """The channels of `grpc`, or of `grpc.aio`, to one server, and what every call over them shares."""

    _library: Any = grpc
    # The server, where it is a child of this process alone: it can tell why it no longer answers.
    local_server: LocalServer | None = None

    def __init__(
        self,
        address: Address,
        *,
        access: Access,
        options: Sequence[tuple[str, Any]],
        timeout: float,
        retry: RetryPolicy,
        connections: int,
    ) -> None:
        local_options = _LOCAL_OPTIONS if is_direct(address) else ()
        # The caller's last: of equal keys gRPC itself would take the first.
        by_name = dict([*CHANNEL_OPTIONS, *local_options, *options])
        all_options = list(by_name.items())

        def connect() -> Connection:
            # close() sets _closed before it lists the channels, so none is opened that it does not find.
            self._check_open()
            with _poll_interval():
                channel = access.open_channel(self._library, address.target, all_options)
            _forks.keep(channel)
            methods = {
                name: getattr(channel, method.kind)(
                    method.path,
                    request_serializer=_serialize,
                    response_deserializer=method.answer.FromString,
                )
                for name, method in METHODS.items()
            }
            return Connection(channel, methods)

        _forks.check_new()
        self._made_in = _forks.generation()
        self._closed = False
        self._connections = Connections(connect, connections)
        self._peer = Peer(
            address.target,
            ",".join(address.hosts),
            proxy_of(address, by_name),
            tls=access.credentials is not None,
        )
        self._tls_probe = TlsProbe(address, self._peer)
        self.upload_rate = UploadRate(address)
        self._answered = False
        self._access = access
        self.timeout = timeout
        self.retry = retry

    def _check_open(self) -> None:
        _forks.check_process(self._made_in)
        if self._closed:  # where gRPC has errors of its own
            raise _client_is_closed()

    def _take_connection(self, method: str) -> Connection:
        """Returns the connection for a call. `_give_back` gives it back."""
        if method == UPLOADS:
            return self._connections.take()
        return self._connections.take_for_wait() if method in _WAITS else self._connections.first

    def _give_back(self, method: str, connection: Connection) -> None:
        """The call has ended."""
        if method == UPLOADS:
            self._connections.give_back(connection)
        elif method in _WAITS:
            self._connections.end_wait(connection)

    @contextmanager
    def _starting_call(self) -> Iterator[None]:
        """For the start of a call: gRPC raises a ValueError, or one of its own, where close() was faster."""
        try:
            yield
        except (ValueError, grpc.aio.UsageError):
            self._check_open()
            raise

    def new_backoff(self, timeout: float | None = None, *, since_failure: bool = False) -> Backoff:
        """Of one operation of `timeout` seconds (default: the client's)."""
        return Backoff(
            self.retry,
            self.timeout if timeout is None else timeout,
            since_failure=since_failure,
            was_connected=lambda: self._answered,
            away_seconds=self.away_seconds,
        )

    def has_answered(self) -> None:
        """Notes that the server is there: from now on a failure is one that it may come back from."""
        self._answered = True

    def _error_of(self, failure: grpc.RpcError, *, for_update: bool) -> SparseAggError:
        """Returns the exception of a failed call."""
        error = from_rpc_error(failure, for_update=for_update)
        # The server gives its errors a reason; most without one come from the connection.
        if error.reason:
            self.has_answered()
            return error
        # gRPC's word for calls that come while the server stops, too; of one cancelled here nobody hears.
        if error.code is grpc.StatusCode.CANCELLED and self._closed:
            return _client_is_closed()
        error = self._peer.explain(error.code, error.message) or error
        return error if self.local_server is None else self.local_server.explain(error)

    def _should_try_tls(self, error: SparseAggError) -> bool:
        """Returns True where a server with TLS, called without, is a likely cause."""
        return error.reason == "CONNECTION_CLOSED" and not self._answered


class Transport(Channel):
    """The channel of the client for threads. Thread-safe."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._streams: weakref.WeakSet[StreamCall] = weakref.WeakSet()
        self._streams_lock = threading.Lock()

    def close(self) -> None:
        """Ends the channels and every call on them; in a forked child nothing, they are the parent's."""
        self._closed = True
        if self._made_in != _forks.generation():
            return
        for client in self.leaf_clients():
            client.close()
        for channel in self._connections.channels():
            channel.close()
        # A thread that is left at the exit of the process may hold a lock of gRPC, for which gRPC then waits for ever.
        with self._streams_lock:
            streams = list(self._streams)
        for stream in streams:
            stream.join(_JOIN_SECONDS, _client_is_closed())

    def unary(
        self,
        method: str,
        request: Any,
        *,
        timeout: float | None = None,
        for_update: bool = False,
    ) -> Any:
        """Calls `method` until it answers, refuses, or `timeout` seconds (default: the client's) are over."""
        backoff = self.new_backoff(timeout)
        repeated = False
        while True:
            self._check_open()
            try:
                with self._starting_call():
                    connection = self._take_connection(method)
                    try:
                        answer = connection.methods[method](
                            request, timeout=backoff.remaining(), metadata=self._access.metadata()
                        )
                    finally:
                        self._give_back(method, connection)
                self.has_answered()
                return answer
            except grpc.RpcError as failure:
                error = self._error_of(failure, for_update=for_update)
            if repeated and was_done_before(method, error):
                return empty_pb2.Empty()
            backoff.wait(error)
            repeated = True

    def _error_of(self, failure: grpc.RpcError, *, for_update: bool) -> SparseAggError:
        error = super()._error_of(failure, for_update=for_update)
        if self._should_try_tls(error) and self._tls_probe.speaks_tls():
            return self._peer.with_tls()
        return error

    def repeat(self, action: Callable[[], _T]) -> _T:
        """What `action` returns, done again until it works or `timeout` seconds after the first failure are over."""
        backoff: Backoff | None = None
        while True:
            try:
                return action()
            except SparseAggError as failure:
                backoff = backoff or self.new_backoff()
                backoff.wait(failure)

    def stream(
        self,
        method: str,
        request: Any = None,
        *,
        idle_timeout: float | None,
        answers_max: int | None = None,
        for_update: bool = False,
        take: Take | None = None,
    ) -> StreamCall:
        """Starts a stream; `request` for a server stream, None for one that the caller sends on; `take` as in StreamCall."""
        self._check_open()
        metadata = self._access.metadata()
        connection = self._take_connection(method)

        def start(requests: Iterator[Any]) -> Any:
            with self._starting_call():
                return connection.methods[method](
                    requests if request is None else request, metadata=metadata
                )

        end = partial(self._give_back, method, connection)
        error_of = partial(self._error_of, for_update=for_update)
        call = StreamCall(start, end, error_of, self.has_answered, idle_timeout, answers_max, take)
        with self._streams_lock:
            self._streams.add(call)
        return call


def _client_is_closed() -> SparseAggError:
    return SparseAggError(
        "the client is closed", code=grpc.StatusCode.FAILED_PRECONDITION, reason="CLIENT_CLOSED"
    )


def _serialize(message: Any) -> bytes:
    """Returns the bytes of a message."""
    return bytes(message.SerializeToString())
