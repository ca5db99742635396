"""`Round`: one aggregation, from open to published, for asyncio."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Literal, SupportsFloat, overload

from sparseagg import _arguments, _requests
from sparseagg._encode.encodings import RAW, EncodeOptions, ValuesChoice
from sparseagg._encode.wire import EncodedUpdate
from sparseagg._handles import RoundBase
from sparseagg._net.leaves import LeafSearch, RoundLeaves
from sparseagg._net.partials import PartialReader, partial_update
from sparseagg._progress import Meter, Progress
from sparseagg._proto import aggregation_pb2
from sparseagg._requests import ReadUpdate, Update
from sparseagg._uploads import Outcome
from sparseagg.aio import _many
from sparseagg.aio._many import ManyUpdates, Submission
from sparseagg.aio._transport import Transport
from sparseagg.aio._uploads import ChunkedUpload, encode
from sparseagg.errors import (
    DeadlineExceededError,
    NotFoundError,
    SparseAggError,
    UnavailableError,
)
from sparseagg.records import (
    Receipt,
    RoundInfo,
    Verification,
    receipt_from_proto,
    round_from_proto,
    verification_from_proto,
)
from sparseagg.result import Result, ResultReader
from sparseagg.tensors import TensorSpec

if TYPE_CHECKING:
    from sparseagg.reduction import Partial


def _is_wrong_leaf(outcome: Outcome) -> bool:
    return isinstance(outcome, SparseAggError) and outcome.reason == "WRONG_LEAF"


class Round(RoundBase):
    """A handle of one round; made by `Client.create_round` and `Client.round`. The errors are those of
    `sparseagg.Round`."""

    _transport: Transport
    _server: Callable[..., Awaitable[_requests.Server]]

    async def info(self) -> RoundInfo:
        """Returns the round as it is now."""
        return await self._info(None)

    async def _info(self, timeout: float | None) -> RoundInfo:
        request = aggregation_pb2.GetRoundRequest(name=self.name)
        answer = await self._call("GetRound", request, timeout=timeout)
        info = round_from_proto(answer)
        self._leaves = RoundLeaves(answer)
        self._asks_leaves = False
        self._was_born(info.durability, info.epoch)
        return info

    async def specs(self) -> Mapping[str, TensorSpec]:
        """Returns the round's tensors by name; asked from the server once."""
        return await self._specs_within(None)

    async def _specs_within(self, limit: _requests.TimeLimit | None) -> Mapping[str, TensorSpec]:
        if self._specs is None or self._asks_leaves:
            info = await self._info(_requests.question_seconds(limit))
            self._specs = {spec.name: spec for spec in info.tensors}
        return self._specs

    async def leaf_of(self, contributor: str) -> str | None:
        """Returns the address of the leaf that takes this contributor's updates; None for a round without leaves, and at
        a leaf. `submit` sends there by itself; tasks are created there (docs/trees.md).

        contributor: its name, as `submit` gets it.
        """
        await self._specs_within(None)
        return self._leaf_address(contributor)

    async def given_up(self, contributors: Iterable[str]) -> tuple[str, ...]:
        """As `given_up` of the client for threads."""
        return self._given_up(await self.info(), contributors)

    async def submit(
        self,
        tensors: Any,
        *,
        contributor: str,
        weight: SupportsFloat | None = None,
        update_id: str | None = None,
        timeout: SupportsFloat | None = None,
        progress: Progress = False,
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> Receipt:
        """Submits one contributor's update; returns when it is counted. See `sparseagg.Round.submit`."""
        limit = _requests.TimeLimit(self._time_limit(timeout))
        read = await self._reader(encoding, values, limit)
        left = limit.left()
        update = await encode(read(Update(tensors, contributor, weight, update_id)), False)
        return await self._send(update, limit.seconds, left, progress)

    @overload
    async def submit_many(
        self,
        updates: Iterable[Update],
        *,
        return_exceptions: Literal[False] = False,
        timeout: SupportsFloat | None = None,
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> list[Receipt]: ...

    @overload
    async def submit_many(
        self,
        updates: Iterable[Update],
        *,
        return_exceptions: bool,
        timeout: SupportsFloat | None = None,
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> list[Outcome]: ...

    async def submit_many(
        self,
        updates: Iterable[Update],
        *,
        return_exceptions: bool = False,
        timeout: SupportsFloat | None = None,
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> list[Any]:
        """Submits many updates, small ones together; returns their receipts in the order of `updates`.

        An update that is refused does not stop the others. Afterwards the first refusal is raised; one of an update's
        content names its position in `updates`.

        updates: a generator may fill the same arrays for each: those of large ones are copied, unless this is a sequence.

        Raises UnavailableError and DeadlineExceededError, also with `return_exceptions`: then updates with an `update_id` of
        their own are safe to submit again.
        """
        limit = self._time_limit(timeout)
        read = await self._reader(encoding, values, _requests.TimeLimit(limit))
        message_bytes_max = (await self._server()).message_bytes_max

        async def send(submission: Submission) -> Receipt:
            return await self._send(submission.update, limit, limit, False, submission.message)

        async def send_together(batch: Mapping[str, Submission]) -> dict[str, Outcome]:
            by_leaf: dict[Any, dict[str, Submission]] = {}
            for update_id, submission in batch.items():
                by_leaf.setdefault(self._at_leaf(submission.update), {})[update_id] = submission
            answered: dict[str, Outcome] = {}
            for leaf, part in by_leaf.items():
                answered.update(await _many.send_together(leaf._transport, part, limit))
            # Those are sent alone then.
            answered = {key: one for key, one in answered.items() if not _is_wrong_leaf(one)}
            for outcome in answered.values():
                if isinstance(outcome, Receipt):
                    self._was_born(outcome.durability, outcome.epoch)
            return answered

        many = ManyUpdates(
            _arguments.items("updates", updates),
            read,
            send,
            send_together,
            message_bytes_max=message_bytes_max,
            may_fill_arrays_again=_requests.may_fill_arrays_again(updates),
        )
        ordered = await many.run()
        if not return_exceptions:
            self._raise_first_refusal(ordered)
        return ordered

    async def seal(self) -> RoundInfo:
        """Fixes the set of accepted updates and starts the rest of the computation. Idempotent."""
        request = aggregation_pb2.SealRoundRequest(name=self.name)
        return round_from_proto(await self._call("SealRound", request))

    async def wait(self, timeout: SupportsFloat | None = None) -> RoundInfo:
        """Waits until the round is published. Does not seal: someone has to. See `sparseagg.Round.wait`."""
        limit = (
            None if timeout is None else _requests.TimeLimit(_arguments.seconds("timeout", timeout))
        )
        return await self._wait(limit)

    async def _wait(
        self,
        limit: _requests.TimeLimit | None,
        on_unpublished: Callable[[float], Awaitable[None]] | None = None,
    ) -> RoundInfo:
        """See `wait`. on_unpublished: called once, with the seconds it may take, where the round is not published yet, before
        the time goes into waiting for that."""
        is_first = True
        while True:
            left = None if limit is None else limit.left()
            call_seconds = _requests.wait_call_seconds(
                limit, self._transport.timeout, is_first=is_first
            )
            is_first = False
            try:
                answer = await self._call(
                    "WaitRound",
                    _requests.wait_round(self.name, left if on_unpublished is None else 0.0),
                    timeout=call_seconds,
                )
            except DeadlineExceededError as silence:
                _requests.check_time_left(self.name, limit, silence)
                continue
            info = round_from_proto(answer)
            if _requests.is_published(info, limit):
                return info
            if on_unpublished is not None:
                await on_unpublished(_requests.look_seconds(limit, self._transport.timeout))
                on_unpublished = None

    async def watch(
        self, min_interval: float | timedelta | None = None
    ) -> AsyncIterator[RoundInfo]:
        """Yields the round now and after every change, until a final state. See `sparseagg.Round.watch`."""
        request = _requests.watch_round(self.name, min_interval)
        backoff = self._transport.new_backoff(since_failure=True)
        while True:
            try:
                async for message in self._transport.stream(
                    "WatchRound", request, idle_timeout=None
                ):
                    backoff.progress()
                    info = round_from_proto(message)
                    yield info
                    if info.state.final:
                        return
                raise UnavailableError("the server ended the stream before the round was final")
            except UnavailableError as failure:
                await asyncio.sleep(backoff.pause(failure))
            except NotFoundError as missing:
                raise await self._explained(missing) from None

    async def result(
        self,
        layout: str = "sparse",
        tensors: Iterable[str] | None = None,
        indices: Mapping[str, Any] | None = None,
        timeout: SupportsFloat | None = None,
        progress: Progress = False,
        encoding: str = RAW,
    ) -> Result:
        """Returns the published aggregate. Waits for the publication; does not seal. See `sparseagg.Round.result`."""
        limit = (
            None if timeout is None else _requests.TimeLimit(_arguments.seconds("timeout", timeout))
        )
        specs = await self._specs_within(limit) if indices else {}
        request = _requests.get_aggregate(self.name, layout, tensors, indices, encoding, specs)
        await self._wait(limit, lambda seconds: self._check_access(request, seconds))

        async def receive() -> Result:
            reader = ResultReader(layout, tuple(indices or ()), progress)
            async for message in self._transport.stream(
                "GetAggregate", request, idle_timeout=self._transport.timeout
            ):
                reader.add(message)
            return reader.finish()

        try:
            return await self._transport.repeat(receive)
        except NotFoundError as missing:
            raise await self._explained(missing) from None

    async def parts(self) -> tuple[Round, ...]:
        """Returns a handle for each part of a published result that the leaves keep; see `sparseagg.Round.parts`."""
        return self._transport.part_handles((await self.info()).manifest)

    async def _check_access(self, request: Any, seconds: float) -> None:
        """Raises what the server has against this caller's reading, published or not."""
        messages = self._transport.stream("GetAggregate", request, idle_timeout=seconds)
        try:
            async for _ in messages:
                break
        except _requests.REFUSED_FOR_EVER:
            raise
        except SparseAggError:
            pass  # not published, as is known; what else there is, the call for the result meets again
        finally:
            await messages.aclose()

    async def partial(self, timeout: SupportsFloat | None = None) -> bytes:
        """Returns the partial aggregate of a round that was created with `publish_partial`. See `sparseagg.Round.partial`."""
        await self.wait(timeout)
        reader = PartialReader(self.name)

        async def receive() -> bytes:
            async for message in self._transport.stream(
                "GetPartial", reader.request(), idle_timeout=self._transport.timeout
            ):
                reader.add(message)
            return reader.finish()

        try:
            return await self._transport.repeat(receive)
        except NotFoundError as missing:
            raise await self._explained(missing) from None

    async def submit_partial(
        self,
        partial: bytes | Partial,
        *,
        node: str,
        update_id: str | None = None,
        timeout: SupportsFloat | None = None,
    ) -> Receipt:
        """Merges a partial aggregate of the same tensors into the round. See `sparseagg.Round.submit_partial`."""
        limit = _requests.TimeLimit(self._time_limit(timeout))
        update = partial_update(self.name, partial, node, update_id)
        if update.message_bytes > (await self._server(limit)).message_bytes_max:
            return await self._send(update, limit.seconds, limit.left(), False)
        answer = await self._call(
            "SubmitPartial", update.request(), timeout=limit.left(), for_update=True
        )
        receipt = receipt_from_proto(answer, {})
        self._was_born(receipt.durability, receipt.epoch)
        return receipt

    async def abort(self) -> RoundInfo:
        """Gives an open or sealed round up and erases its data. Idempotent."""
        request = aggregation_pb2.AbortRoundRequest(name=self.name)
        return round_from_proto(await self._call("AbortRound", request))

    async def verify(self, timeout: SupportsFloat | None = None) -> Verification:
        """Computes the published round again from its updates and compares every bit.

        timeout: seconds; None waits as long as it takes, as for `wait`.

        Raises SparseAggError: reason RESULT_MISMATCH when they differ, UPDATES_NOT_KEPT for a round that was created
        without `keep_updates` (its stored result has the digest of its manifest).
        """
        limit = math.inf if timeout is None else _arguments.seconds("timeout", timeout)
        request = aggregation_pb2.VerifyRoundRequest(name=self.name)
        return verification_from_proto(await self._call("VerifyRound", request, timeout=limit))

    async def delete(self) -> None:
        """Erases a published or aborted round and its result. Its name is not given again for a while (by default a
        week), so that late retries cannot count in another round. Idempotent."""
        await self._call("DeleteRound", aggregation_pb2.DeleteRoundRequest(name=self.name))

    async def _reader(
        self, encoding: str, values: ValuesChoice, limit: _requests.TimeLimit
    ) -> Callable[[Update], ReadUpdate]:
        """Reads updates, to be encoded; what it takes to know for that is asked here, within the limit."""
        specs = await self._specs_within(limit)
        server = await self._server(limit)
        options = EncodeOptions(encoding, values)
        options.check_names(specs)
        options = options.for_server(server.encodings, self._transport.upload_rate.bytes_per_second)
        return lambda update: _requests.read_update(self.name, specs, update, options)

    async def _send(
        self,
        update: EncodedUpdate,
        idle_timeout: float,
        call_timeout: float,
        progress: Progress,
        message: Any = None,
    ) -> Receipt:
        """Sends one update. message: the update as a whole, if it is made already. call_timeout: of an update in one
        message; idle_timeout: without progress, of one in chunks."""
        with Meter(progress, update.payload.size, "sending") as meter:
            receipt = await self._send_metered(update, idle_timeout, call_timeout, meter, message)
            meter.finish()
        return receipt

    async def _send_metered(
        self,
        update: EncodedUpdate,
        idle_timeout: float,
        call_timeout: float,
        meter: Meter,
        message: Any,
    ) -> Receipt:
        leaf = self._at_leaf(update)
        if leaf is not self:
            search = LeafSearch(call_timeout)
            while True:
                try:
                    receipt: Receipt = await leaf._send_metered(
                        update, idle_timeout, search.left(), meter, message
                    )
                    return receipt
                except SparseAggError as error:
                    leaf = await self._find_leaf(search, error, update, leaf)
        message_bytes_max = (await self._server()).message_bytes_max
        if update.message_bytes <= message_bytes_max:
            message = update.whole() if message is None else message
            begin = time.monotonic()
            answer = await self._call(
                "SubmitUpdate", message, timeout=call_timeout, for_update=True
            )
            self._transport.upload_rate.record(update.payload.size, time.monotonic() - begin)
            receipt = receipt_from_proto(answer, update.encodings)
            self._was_born(receipt.durability, receipt.epoch)
            return receipt
        upload = ChunkedUpload(self._transport, update, message_bytes_max, idle_timeout, meter)
        try:
            return await upload.run()
        except NotFoundError as missing:
            raise await self._explained(missing) from None

    async def _find_leaf(
        self, search: LeafSearch, error: SparseAggError, update: EncodedUpdate, leaf: Any
    ) -> Any:
        """Asks for the leaves again after `error` at `leaf`; returns the handle to which the update goes now."""
        self._ask_leaves_again(error)
        search.begin(error)
        try:
            await self._info(_requests.look_seconds(None, self._transport.timeout))
        except (UnavailableError, DeadlineExceededError):
            return search.end(error, leaf, leaf)  # it tries the leaf again
        return search.end(error, leaf, self._at_leaf(update))

    async def _call(self, method: str, request: Any, **options: Any) -> Any:
        try:
            return await self._transport.unary(method, request, **options)
        except NotFoundError as missing:
            raise await self._explained(missing) from None

    async def _explained(self, error: SparseAggError) -> SparseAggError:
        """Returns `error`; of a round that went with the server's memory or data, one that says so."""
        if not self._may_be_lost(error):
            return error
        try:
            server = await self._transport.unary(
                "GetServerInfo",
                aggregation_pb2.GetServerInfoRequest(),
                timeout=_requests.look_seconds(None, self._transport.timeout),
            )
        except SparseAggError:
            return error  # what is known already
        return self._why_lost(error, server)
