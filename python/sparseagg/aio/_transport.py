"""The channel of the asyncio client: calls with deadlines and retries, and streams with a limit on standing still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable
from typing import Any, Callable, TypeVar

import grpc
import grpc.aio
from google.protobuf import empty_pb2

from sparseagg import _arguments
from sparseagg._net import forks as _forks
from sparseagg._net.retry import Backoff
from sparseagg._net.transport import METHODS, Channel, was_done_before
from sparseagg.errors import DeadlineExceededError, SparseAggError

_T = TypeVar("_T")
_CANNOT_WRITE = "Internal error from Core"  # set_internal_error() of grpc.aio


class Transport(Channel):
    """The channel of the asyncio client. It belongs to one event loop."""

    _library = grpc.aio
    _loop: asyncio.AbstractEventLoop | None = None  # of the first call

    def _check_open(self) -> None:
        super()._check_open()
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if loop is not self._loop:
            raise SparseAggError(
                "the client belongs to another event loop; make one in each",
                code=grpc.StatusCode.FAILED_PRECONDITION,
                reason="OTHER_EVENT_LOOP",
            )

    async def close(self) -> None:
        """Ends the channels and every call on them; in a forked child nothing, they are the parent's."""
        self._closed = True
        if self._made_in != _forks.generation():
            return
        for client in self.leaf_clients():
            await client.close()
        for channel in self._connections.channels():
            await channel.close()

    async def unary(
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
                        answer = await connection.methods[method](
                            request, timeout=backoff.remaining(), metadata=self._access.metadata()
                        )
                    finally:
                        self._give_back(method, connection)
                self.has_answered()
                return answer
            except grpc.RpcError as failure:
                error = await self._checked(self._error_of(failure, for_update=for_update))
            except asyncio.CancelledError:
                if not _is_task_cancelled():  # by grpc.aio, of whose calls close() is the end
                    self._check_open()
                raise
            if repeated and was_done_before(method, error):
                return empty_pb2.Empty()
            await asyncio.sleep(backoff.pause(error))
            repeated = True

    async def _checked(self, error: SparseAggError) -> SparseAggError:
        """Returns `error`, or what is found to be behind it."""
        if self._should_try_tls(error) and await asyncio.to_thread(self._tls_probe.speaks_tls):
            return self._peer.with_tls()
        return error

    async def repeat(self, action: Callable[[], Awaitable[_T]]) -> _T:
        """What `action` gives, done again until it works or `timeout` seconds after the first failure are over."""
        backoff: Backoff | None = None
        while True:
            try:
                return await action()
            except SparseAggError as failure:
                backoff = backoff or self.new_backoff()
                await asyncio.sleep(backoff.pause(failure))

    async def stream(
        self,
        method: str,
        request: Any,
        *,
        idle_timeout: float | None,
        for_update: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Yields the answers of a stream; `request` is a message for a server stream, an async iterable of messages
        else.

        DeadlineExceededError when nothing has moved in either direction for `idle_timeout` seconds. What the iterable raises
        is raised here.
        """
        self._check_open()
        moves = 0
        idle_timeout = _arguments.finite(idle_timeout)
        # grpc.aio would log what the iterable raises, and end the call without it.
        iterable_failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def counted(requests: AsyncIterable[Any]) -> AsyncIterator[Any]:
            nonlocal moves
            try:
                async for message in requests:
                    moves += 1
                    yield message
            except Exception as failure:
                if not iterable_failed.done():
                    iterable_failed.set_exception(failure)
                # The end of this iterator would tell the server that the upload is complete.
                await asyncio.Event().wait()

        is_server_stream = METHODS[method].kind == "unary_stream"
        connection = self._take_connection(method)
        call: Any = None
        reading: asyncio.Future[Any] | None = None
        try:
            call = connection.methods[method](
                request if is_server_stream else counted(request), metadata=self._access.metadata()
            )
            while True:
                reading, seen = asyncio.ensure_future(call.read()), moves
                waiting = (reading, iterable_failed)
                while not (
                    await asyncio.wait(
                        waiting, timeout=idle_timeout, return_when=asyncio.FIRST_COMPLETED
                    )
                )[0]:
                    if moves == seen:
                        raise DeadlineExceededError(f"no progress for {idle_timeout:g} s")
                    seen = moves
                if iterable_failed.done():
                    iterable_failed.result()
                if reading.cancelled():  # by grpc.aio, as below; it never hears of a cancelled task
                    self._check_open()
                    raise self._peer.connection_lost("grpc.aio could not write to it")
                answer = reading.result()
                if answer is grpc.aio.EOF:
                    return
                self.has_answered()
                yield answer
        except grpc.RpcError as failure:
            # grpc.aio itself ends a call that is being read when it cannot write to a broken connection, with one of these.
            if failure.details() == _CANNOT_WRITE:
                raise self._peer.connection_lost("grpc.aio could not write to it") from None
            raise await self._checked(self._error_of(failure, for_update=for_update)) from None
        finally:
            self._give_back(method, connection)
            if call is not None:
                call.cancel()
            if reading is not None and not reading.done():
                reading.cancel()
            iterable_failed.cancel()


def _is_task_cancelled() -> bool:
    """Returns True where somebody has cancelled this task. Before Python 3.11 a task does not tell."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0
