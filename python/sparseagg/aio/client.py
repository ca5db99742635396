"""`Client`: a connection to a sparseagg server, for asyncio."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Callable, SupportsFloat, SupportsIndex

from sparseagg import _arguments, _requests
from sparseagg._encode.encodings import EncodeOptions, ValuesChoice
from sparseagg._handles import ClientBase
from sparseagg._local_server import LocalServer
from sparseagg._net.leaves import RoundLeaves
from sparseagg._proto import aggregation_pb2
from sparseagg.aio._transport import Transport
from sparseagg.aio._uploads import encode, messages_of_reduce
from sparseagg.aio.pipeline import Pipeline
from sparseagg.aio.round import Round
from sparseagg.aio.tasks import Tasks
from sparseagg.records import RoundInfo, ServerInfo, info_from_proto, round_from_proto
from sparseagg.result import Result, ResultReader
from sparseagg.tasks.pipeline_plan import PipelinePlan
from sparseagg.tensors import TensorSpec


class Client(ClientBase):
    """A connection to one server, for one event loop; an async context manager, which closes it.

    The parameters are those of `sparseagg.Client`.
    """

    _transport_type = Transport
    _transport: Transport

    @classmethod
    async def local(
        cls,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
        start_timeout: SupportsFloat = 60.0,
        **options: Any,
    ) -> Client:
        """A client with a server of its own; see `sparseagg.Client.local`.

        async with await Client.local() as client:
            ...
        """
        server = LocalServer(data_dir, settings)
        try:
            await asyncio.to_thread(server.wait_until_it_serves, start_timeout)
            client = cls(server.target, tls=False, **options)
        except BaseException:
            server.stop()
            raise
        client._owns(server)
        return client

    async def close(self) -> None:
        """Closes the connection; calls under way fail. A server that is this client's own ends."""
        await self._transport.close()
        if self._transport.local_server is not None:
            await asyncio.to_thread(self._transport.local_server.stop)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def info(self) -> ServerInfo:
        """Returns version, back ends, operators, encodings and limits of the server."""
        return await self._info(None)

    async def _info(self, timeout: float | None) -> ServerInfo:
        request = aggregation_pb2.GetServerInfoRequest()
        return info_from_proto(
            await self._transport.unary("GetServerInfo", request, timeout=timeout)
        )

    async def create_round(
        self,
        tensors: Iterable[TensorSpec],
        round_id: str | None = None,
        *,
        durability: str | None = None,
        request_id: str | None = None,
        goal: SupportsIndex | None = None,
        min_contributors: SupportsIndex | None = None,
        max_contributors: SupportsIndex | None = None,
        deadline: SupportsFloat | timedelta | datetime | None = None,
        grace: SupportsFloat | timedelta | None = None,
        keep_updates: bool = False,
        publish_partial: bool = False,
        leaf_wait: SupportsFloat | timedelta | None = None,
        owners: bool = False,
    ) -> Round:
        """Opens a round; see `sparseagg.Client.create_round`."""
        policy = _requests.round_policy(
            goal, min_contributors, max_contributors, deadline, grace, leaf_wait
        )
        request = _requests.create_round(
            tensors,
            round_id,
            durability,
            request_id,
            policy,
            keep_updates,
            publish_partial,
            owners,
        )
        answer = await self._transport.unary("CreateRound", request)
        created = Round(self._transport, self._server, answer.name, round_from_proto(answer))
        created._leaves = RoundLeaves(answer)
        return created

    def round(self, name: str) -> Round:
        """Returns a handle of a round that someone opened. Asks the server nothing yet."""
        return Round(self._transport, self._server, _requests.full_name(name))

    async def rounds(self, page_size: SupportsIndex = 50) -> AsyncIterator[RoundInfo]:
        """Yields every round by name, ascending; fetched page by page."""
        request = _requests.list_rounds(page_size)
        while True:
            page = await self._transport.unary("ListRounds", request)
            for message in page.rounds:
                yield round_from_proto(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    @property
    def tasks(self) -> Tasks:
        """The task service of the server; see `sparseagg.Client.tasks`."""
        return Tasks(self._transport)

    def pipeline(
        self,
        tensors: Iterable[TensorSpec],
        *,
        pool: str,
        goal: SupportsIndex,
        rounds: SupportsIndex | None = None,
        prepared: SupportsIndex = 2,
        payload: bytes | Callable[[int], bytes | Awaitable[bytes]] = b"",
        percent_of_goal: SupportsIndex = 100,
        name: str | None = None,
        start: SupportsIndex = 1,
        layout: str = "sparse",
        return_exceptions: bool = False,
        keep_rounds: bool = False,
        durability: str | None = None,
        min_contributors: SupportsIndex = 1,
        deadline: SupportsFloat | timedelta | datetime | None = None,
        grace: SupportsFloat | timedelta | None = None,
        keep_updates: bool = False,
        required_capabilities: Sequence[str] = (),
        lease: SupportsFloat | timedelta | None = None,
        attempts_max: SupportsIndex | None = None,
    ) -> Pipeline:
        """Rounds with their tasks, prepared ahead. The function `payload` may be a coroutine function, too. See
        `sparseagg.Client.pipeline`.

            async with client.pipeline(specs, pool="train", goal=100, payload=payload) as pipeline:
                async for done in pipeline:
                    model.apply(done.result["emb"])
        """
        plan = PipelinePlan(
            tensors,
            pool=pool,
            goal=goal,
            rounds=rounds,
            prepared=prepared,
            payload=payload,
            percent_of_goal=percent_of_goal,
            name=name,
            start=start,
            layout=layout,
            return_exceptions=return_exceptions,
            keep_rounds=keep_rounds,
            durability=durability,
            min_contributors=min_contributors,
            deadline=deadline,
            grace=grace,
            keep_updates=keep_updates,
            required_capabilities=required_capabilities,
            lease=lease,
            attempts_max=attempts_max,
        )
        return Pipeline(self, plan)

    async def reduce(
        self,
        tensors: Iterable[TensorSpec],
        updates: Iterable[Any],
        *,
        weights: Iterable[SupportsFloat] | None = None,
        layout: str = "sparse",
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> Result:
        """The stateless operator; see `sparseagg.Client.reduce`."""
        specs = tuple(_arguments.items("tensors", tensors))
        start = _requests.reduce_start(specs, layout)
        server = await self._server()
        options = EncodeOptions(encoding, values).for_server(
            server.encodings, self._transport.upload_rate.bytes_per_second
        )
        encoded = []
        for read in _requests.read_for_reduce(specs, updates, weights, options):
            encoded.append(await encode(read, _requests.may_fill_arrays_again(updates)))

        async def messages() -> AsyncIterator[object]:
            yield start
            begin = time.monotonic()
            for update in encoded:
                async for message in messages_of_reduce(update, server.message_bytes_max):
                    yield message
            size = sum(update.payload.size for update in encoded)
            self._transport.upload_rate.record(size, time.monotonic() - begin)

        async def call() -> Result:
            reader = ResultReader(layout)
            async for message in self._transport.stream(
                "Reduce", messages(), idle_timeout=self._transport.timeout, for_update=True
            ):
                reader.add(message)
            return reader.finish()

        return await self._transport.repeat(call)

    async def _server(self, limit: _requests.TimeLimit | None = None) -> _requests.Server:
        if self._known_server is None:
            info = await self._info(_requests.question_seconds(limit))
            self._known_server = _requests.Server.of(info)
        return self._known_server
