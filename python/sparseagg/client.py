"""`Client`: a connection to a sparseagg server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Callable, SupportsFloat, SupportsIndex

from sparseagg import _arguments, _requests
from sparseagg._encode.encodings import EncodeOptions, ValuesChoice
from sparseagg._handles import ClientBase
from sparseagg._local_server import LocalServer
from sparseagg._net.leaves import RoundLeaves
from sparseagg._net.transport import Transport
from sparseagg._proto import aggregation_pb2
from sparseagg._uploads import reduce_messages
from sparseagg.records import RoundInfo, ServerInfo, info_from_proto, round_from_proto
from sparseagg.result import ANSWERS_MAX, Result, ResultReader, receive_result
from sparseagg.round import Round
from sparseagg.tasks.client import Tasks
from sparseagg.tasks.pipeline import Pipeline
from sparseagg.tasks.pipeline_plan import PipelinePlan
from sparseagg.tensors import TensorSpec


class Client(ClientBase):
    """A connection to one server. Thread-safe; a context manager, which closes it.

    target: "host:port" (50061 where there is no port), "https://host", "unix:/path"; when left out, what the environment
        variable SPARSEAGG_SERVER says, or this machine's default port.
    timeout: seconds for one call with its retries; for streams, seconds without any progress; for `Round.wait` and
        `Round.watch` without an end, how long they go on without a server; None for no limit. Until the server has
        answered once, a call ends after 10 s where nobody is at the address (`RetryPolicy(connect_timeout=...)`).
    retry: when failed calls are made again; `RetryPolicy(attempts=1)` never does.
    tls: `Tls(ca=...)`, or True for the authorities that come with gRPC; None asks the environment (see `Tls`), and is
        plain text where that says nothing.
    token: the bearer token, or a callable that gives it, asked for every call so that it can be renewed
        (`TokenFile(path)` is one); None asks the environment. Over plain text only to this machine.
    credentials: `grpc.ssl_channel_credentials(...)`, instead of `tls`.
    metadata: sent with every call.
    channel_options: gRPC channel arguments on top of the package's.
    connections: the most connections that concurrent streams of updates share. Every hundred calls that wait for a round
        have one more.

    A Client does not work in a forked child, nor does a new one there: both raise SparseAggError (CLIENT_FORKED). Start
    processes with multiprocessing's "spawn" or "forkserver", and make a client in each.

        with Client("127.0.0.1:50061") as client:
            round = client.create_round([TensorSpec("emb", [50000, 64])])
            round.submit({"emb": SparseTensor(rows, values, [50000, 64])}, contributor="phone-17", weight=128)
            round.seal()
            aggregate = round.result()["emb"]
    """

    _transport_type = Transport
    _transport: Transport

    @classmethod
    def local(
        cls,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
        start_timeout: SupportsFloat = 60.0,
        **options: Any,
    ) -> Client:
        """A client with a server of its own: a child of this process, which nobody else can reach.

        The server ends with `close`, with the `with` block, when nothing refers to the client and its rounds any more, and
        with this process, even if that is killed. It leaves nothing behind but `data_dir`.

        data_dir: keeps durable rounds there, for a later server; None keeps all rounds in memory.
        settings: of the server, by the names that `sparseagg serve --help` lists: {"threads": 2}.
        start_timeout: seconds until it has to serve, which take longer where `data_dir` holds much.
        options: parameters of `Client` other than the target and what protects a connection.

        The program is the one that SPARSEAGG_BINARY names, the one in the wheel, or the first `sparseagg` on PATH.

        Raises SparseAggError (NO_PROGRAM; LOCAL_SERVER_FAILED, with what the server's log says).

            with Client.local() as client:
                round = client.create_round([TensorSpec("emb", [50000, 64])])
        """
        server = LocalServer(data_dir, settings)
        try:
            server.wait_until_it_serves(start_timeout)
            client = cls(server.target, tls=False, **options)
        except BaseException:
            server.stop()
            raise
        client._owns(server)
        return client

    def close(self) -> None:
        """Closes the connection; calls under way fail. A server that is this client's own ends."""
        self._transport.close()
        if self._transport.local_server is not None:
            self._transport.local_server.stop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def info(self) -> ServerInfo:
        """Returns version, back ends, operators, encodings and limits of the server."""
        return self._info(None)

    def _info(self, timeout: float | None) -> ServerInfo:
        request = aggregation_pb2.GetServerInfoRequest()
        return info_from_proto(self._transport.unary("GetServerInfo", request, timeout=timeout))

    def create_round(
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
        """Opens a round.

        tensors: one `TensorSpec` for each tensor of an update; `specs_of` makes them from an example.
        round_id: 1 to 63 characters of [a-z0-9-], starting with a letter; the server makes one up when left out.
        durability: "memory" or "durable"; the server's default when left out.
        request_id: at most 64 characters; a second call with the same id and content returns the first round, which
            makes opening safe over a restart of the caller. Made up when left out.
        goal, grace: the round is sealed when `goal` updates are accepted, after `grace` more seconds (a number or a
            timedelta) in which further ones count. Without a grace exactly `goal` are counted.
        deadline: when the round is sealed at the latest: seconds (or a timedelta) after its creation, or a datetime with
            a time zone. It counts on while the server is down.
        min_contributors: with fewer at the deadline the round is aborted (INSUFFICIENT_CONTRIBUTORS) and erased; sealing
            it before is refused.
        max_contributors: further ones are refused (ROUND_FULL).
        keep_updates: raw updates stay until the round is deleted instead of being erased at publication, so that
            `Round.verify` can compute the result again. For durable rounds.
        publish_partial: the result is the partial aggregate, which is not rounded: `Round.partial` reads it, and
            `Round.submit_partial` merges it into a round of the same tensors, here or on another server.
        leaf_wait: of a server with leaves: how long (seconds or a timedelta) after the seal it waits for one that does
            not answer, before it gives that up with all updates sent to it; for ever when left out.
        owners: of a server with leaves that have peers: the leaves keep the result, each a range of its rows. Reading it
            here reads them all; `Round.parts` reads them from their owners.

        Raises InvalidArgumentError (the message names tensor and limit), AlreadyExistsError (round_id is taken).
        """
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
        answer = self._transport.unary("CreateRound", request)
        created = Round(self._transport, self._server, answer.name, round_from_proto(answer))
        created._leaves = RoundLeaves(answer)
        return created

    def round(self, name: str) -> Round:
        """Returns a handle of a round that someone opened. Asks the server nothing yet.

        name: "rounds/r1" or just "r1".
        """
        return Round(self._transport, self._server, _requests.full_name(name))

    def rounds(self, page_size: SupportsIndex = 50) -> Iterator[RoundInfo]:
        """Yields every round by name, ascending; fetched page by page.

        page_size: rounds of one answer; at most 1,000, and fewer of large ones.
        """
        request = _requests.list_rounds(page_size)
        while True:
            page = self._transport.unary("ListRounds", request)
            for message in page.rounds:
                yield round_from_proto(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    @property
    def tasks(self) -> Tasks:
        """The task service of the server: work that an owner leaves for workers that come for it."""
        return Tasks(self._transport)

    def pipeline(
        self,
        tensors: Iterable[TensorSpec],
        *,
        pool: str,
        goal: SupportsIndex,
        rounds: SupportsIndex | None = None,
        prepared: SupportsIndex = 2,
        payload: bytes | Callable[[int], bytes] = b"",
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
        """Rounds with their tasks, prepared ahead: workers train for a round while an earlier one is reduced. Yields results
        in the order of the rounds, in a `with` block:

            with client.pipeline(specs, pool="train", goal=100, rounds=50, payload=payload) as pipeline:
                for done in pipeline:
                    model.apply(done.result["emb"])

        Training is asynchronous by `prepared` - 1 rounds: round n is prepared, and its payload made, when the body of the loop
        is done with round n - `prepared`. With `prepared=1` nothing is ahead, and workers wait while a round is reduced.

        A round ends when its goal is reached, or with the last of its tasks: then it is sealed below its goal, or aborted
        below `min_contributors`. A round that fails (also: whose deadline is missed, or that was lost with the memory of a
        server that started again) raises its error: RoundAbortedError, RoundLostError, NotFoundError. Another call of `next`
        goes on with the round after it.

        When the `with` block ends, nothing is left: rounds that are not over are aborted, and all are deleted, `keep_rounds`
        aside. With a `name`, an exception in the block leaves everything in place. A pipeline that begins with the same
        arguments and `start` takes the rounds up again, also in another process: updates that are counted stay so. Without a
        name, rounds of a process that was killed are erased by the next pipeline on its machine.

        tensors: one `TensorSpec` for each tensor, as in `create_round`.
        pool: from which workers get the tasks.
        goal: the updates of a round.
        rounds: number of the last round; None goes on until the loop is left.
        prepared: rounds that are open or being reduced at a time, 1 to 100.
        payload: what workers get with a task: bytes, at most 1 MiB, or a function that makes them from the number of a round.
        percent_of_goal: tasks of a round; 130 creates 130 for a goal of 100, so that the slowest workers are not waited for.
        name: of the pipeline: round n is "rounds/{name}-{n}", its tasks are "taskgroups/{name}-{n}". For one owner at a time. A
            number that was prepared is spent: the server gives the name of a deleted round to no other one for a while (by
            default a week).
        start: number of the first round; with a name, the one after the last whose result was taken. The round before it is
            deleted if an earlier owner did not come to that.
        layout: of the results, as in `Round.result`.
        return_exceptions: True yields a round that fails, with its `error`, instead of raising it.
        keep_rounds: True leaves rounds that were yielded on the server.
        durability, min_contributors, grace, keep_updates: as in `create_round`.
        deadline: as in `create_round`, from the moment when a round is prepared, which is `prepared` - 1 rounds before its
            turn; 24 h when left out.
        required_capabilities, lease, attempts_max: as in `NewTaskGroup`.
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

    def reduce(
        self,
        tensors: Iterable[TensorSpec],
        updates: Iterable[Any],
        *,
        weights: Iterable[SupportsFloat] | None = None,
        layout: str = "sparse",
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> Result:
        """The stateless operator: aggregates `updates` in one call, without a round; the server stores nothing.

        tensors: what is aggregated, and how.
        updates: one mapping from tensor names to tensors (as in `Round.submit`, all of them) for each contributor. A
            generator may fill the same arrays for each.
        weights: one for each update; 1 each when left out.
        layout: "sparse" or "dense", as in `Round.result`.
        encoding, values: what the updates travel as, as in `Round.submit`.

        Raises InvalidUpdateError, OutOfRangeError (overflow of a checked integer sum).
        """
        specs = tuple(_arguments.items("tensors", tensors))
        start = _requests.reduce_start(specs, layout)
        server = self._server()
        options = EncodeOptions(encoding, values).for_server(
            server.encodings, self._transport.upload_rate.bytes_per_second
        )
        encoded = []
        for read in _requests.read_for_reduce(specs, updates, weights, options):
            encoded.append(_requests.encode(read, _requests.may_fill_arrays_again(updates)))

        def call() -> Result:
            with self._transport.stream(
                "Reduce",
                idle_timeout=self._transport.timeout,
                answers_max=ANSWERS_MAX,
                for_update=True,
            ) as stream:
                stream.send(start)
                begin = time.monotonic()
                for update in encoded:
                    for message in reduce_messages(update, server.message_bytes_max):
                        stream.send(message)
                size = sum(update.payload.size for update in encoded)
                self._transport.upload_rate.record(size, time.monotonic() - begin)
                stream.sent_all()
                return receive_result(stream, ResultReader(layout))

        return self._transport.repeat(call)

    def _server(self, limit: _requests.TimeLimit | None = None) -> _requests.Server:
        if self._known_server is None:  # two threads may ask; the answer is the same
            info = self._info(_requests.question_seconds(limit))
            self._known_server = _requests.Server.of(info)
        return self._known_server
