"""`Pipeline`: rounds that are prepared ahead, with their tasks, for asyncio."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from typing import Any

from sparseagg.aio._abandoned import erase, erase_abandoned
from sparseagg.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    NotFoundError,
    RoundNotOpenError,
    SparseAggError,
    UnavailableError,
)
from sparseagg.records import RoundState
from sparseagg.tasks.pipeline_plan import (
    ADAPTER,
    LOOK_SECONDS,
    OF_THE_ROUND,
    PipelinePlan,
    PreparedRound,
)
from sparseagg.tasks.records import PipelineRound, Task, TaskGroup, TaskState
from sparseagg.tasks.requests import NewTaskGroup

_LOG = logging.getLogger("sparseagg")


class Pipeline:
    """Rounds with their tasks, several of them prepared at a time; made by `Client.pipeline`. An async context manager, in which
    one task iterates over it with `async for`. See `sparseagg.Pipeline`."""

    def __init__(self, client: Any, plan: PipelinePlan) -> None:
        self._client = client
        self._plan = plan
        self._prepared: deque[PreparedRound] = deque()  # in the order of their numbers
        self._next = plan.first  # number of the round to be prepared next
        self._taken: PreparedRound | None = None  # the caller has had its result
        self._is_first = True
        self._is_open = False

    async def __aenter__(self) -> Pipeline:
        self._is_open = True
        return self

    async def __aexit__(self, kind: object, error: object, _traceback: object) -> None:
        self._is_open = False
        if self._plan.name is not None and kind is not None:
            return  # for a later pipeline of this name
        if isinstance(error, (UnavailableError, DeadlineExceededError)):
            self._plan.log_left(self._prepared)
            return
        while self._prepared:  # the last first, so that workers do not go on with it
            await erase(self._prepared.pop().round)
        await self._delete_taken()

    def __aiter__(self) -> Pipeline:
        return self

    async def __anext__(self) -> PipelineRound:
        """Returns the next round that is over; see `sparseagg.Pipeline`."""
        self._plan.check_open(self._is_open)
        await self._prepare()
        await self._delete_taken()
        if not self._prepared:
            raise StopAsyncIteration
        over = await self._finish(self._prepared[0])
        self._taken = self._prepared.popleft()
        if over.error is not None and not self._plan.return_exceptions:
            raise over.error
        return over

    async def _prepare(self) -> None:
        if self._is_first:
            await self._erase_earlier()
            self._is_first = False
        new: list[PreparedRound] = []
        try:
            for number in self._plan.numbers(self._next, len(self._prepared)):
                round = await self._client.create_round(**self._plan.round_arguments(number))
                new.append(PreparedRound(number, round))
            await self._create_tasks(new)
        except BaseException:
            if self._plan.name is None:
                for prepared in new:
                    await erase(prepared.round)
            raise
        self._prepared += new
        self._next += len(new)

    async def _erase_earlier(self) -> None:
        if self._plan.name is None:
            await erase_abandoned(self._client, ADAPTER)
        before = self._plan.round_before_start()
        if before is not None:
            await erase(self._client.round(before))

    async def _create_tasks(self, new: list[PreparedRound]) -> None:
        groups = [self._plan.new_group(one, await self._payload(one.number)) for one in new]
        if not groups:
            return
        try:
            created = await self._client.tasks.create(groups)
        except (AlreadyExistsError, RoundNotOpenError):
            if self._plan.name is None:
                raise
            await self._find_tasks(new, groups)
            return
        for prepared, group in zip(new, created):
            prepared.group = group.name

    async def _find_tasks(self, new: list[PreparedRound], groups: list[NewTaskGroup]) -> None:
        """Creates the tasks that an earlier owner has not created."""
        for prepared, group in zip(new, groups):
            prepared.group = group.group_id
            try:
                await self._client.tasks.create(group)
            except (AlreadyExistsError, RoundNotOpenError):
                pass  # it has created them, or the round has gone on

    async def _payload(self, number: int) -> bytes:
        payload = self._plan.payload
        made = payload(number) if callable(payload) else payload
        return self._plan.as_bytes(await made if inspect.isawaitable(made) else made)

    async def _finish(self, prepared: PreparedRound) -> PipelineRound:
        """Waits for the end of a round."""
        group = result = error = None
        try:
            group = await self._wait_for_tasks(prepared)
            await self._seal(prepared, group)
            result = await prepared.round.result(self._plan.layout)
        except OF_THE_ROUND as failure:
            error = failure
        return PipelineRound(prepared.number, prepared.round, group, result, error)

    async def _wait_for_tasks(self, prepared: PreparedRound) -> TaskGroup | None:
        """Returns the tasks, which end with the round at the latest; None where the server no longer knows them. Those of a
        round that the next start of the server may restore do not end when it fails."""
        if prepared.group is None:
            return None
        group: TaskGroup
        try:
            while True:
                try:
                    group = await self._client.tasks.wait(prepared.group, timeout=LOOK_SECONDS)
                    return group
                except (DeadlineExceededError, UnavailableError):
                    # Whether the server is there is for this call to say, which has the client's timeout.
                    state = (await prepared.round.info()).state
                if state is RoundState.ABORTED:
                    group = await self._client.tasks.group(prepared.group)
                    return group
        except NotFoundError:
            return None  # the round tells why

    async def _seal(self, prepared: PreparedRound, group: TaskGroup | None) -> None:
        """Ends a round that is still open though nobody works for it any more."""
        if (await prepared.round.info()).state is not RoundState.OPEN:
            return
        try:
            await prepared.round.seal()
        except RoundNotOpenError:
            pass  # its deadline was faster; its result tells more
        except SparseAggError as refusal:
            if refusal.reason != "INSUFFICIENT_CONTRIBUTORS":
                raise
            await prepared.round.abort()
            failed = await self._failed_task(group)
            raise self._plan.not_enough(prepared, group, failed) from None

    async def _failed_task(self, group: TaskGroup | None) -> Task | None:
        if group is None or group.failed == 0:
            return None
        async for task in self._client.tasks.list(group, state=TaskState.FAILED, page_size=1):
            found: Task = task
            return found
        return None

    async def _delete_taken(self) -> None:
        taken, self._taken = self._taken, None
        if taken is not None and not self._plan.keep_rounds:
            await erase(taken.round)
