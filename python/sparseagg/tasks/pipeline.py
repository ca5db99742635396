"""`Pipeline`: rounds that are prepared ahead, with their tasks, so that workers train while an earlier round is reduced."""

from __future__ import annotations

from collections import deque
from typing import Any

from sparseagg._abandoned import erase_abandoned
from sparseagg._erase import erase
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


class Pipeline:
    """Rounds with their tasks, several of them prepared at a time; made by `Client.pipeline`. A context manager, in which one
    thread iterates over it: it yields a `PipelineRound` for each round, in the order of their numbers.

    Each step prepares what is to be prepared, deletes the round of the step before, and waits for the next result.
    """

    def __init__(self, client: Any, plan: PipelinePlan) -> None:
        self._client = client
        self._plan = plan
        self._prepared: deque[PreparedRound] = deque()  # in the order of their numbers
        self._next = plan.first  # number of the round to be prepared next
        self._taken: PreparedRound | None = None  # the caller has had its result
        self._is_first = True
        self._is_open = False

    def __enter__(self) -> Pipeline:
        self._is_open = True
        return self

    def __exit__(self, kind: object, error: object, _traceback: object) -> None:
        self._is_open = False
        if self._plan.name is not None and kind is not None:
            return  # for a later pipeline of this name
        if isinstance(error, (UnavailableError, DeadlineExceededError)):
            self._plan.log_left(self._prepared)
            return
        while self._prepared:  # the last first, so that workers do not go on with it
            erase(self._prepared.pop().round)
        self._delete_taken()

    def __iter__(self) -> Pipeline:
        return self

    def __next__(self) -> PipelineRound:
        """Returns the next round that is over. After an error, another call goes on: with the same round, if the error was not
        the round's own."""
        self._plan.check_open(self._is_open)
        self._prepare()
        self._delete_taken()
        if not self._prepared:
            raise StopIteration
        over = self._finish(self._prepared[0])
        self._taken = self._prepared.popleft()
        if over.error is not None and not self._plan.return_exceptions:
            raise over.error
        return over

    def _prepare(self) -> None:
        """Creates rounds, and then their tasks in one call, until `prepared` of them are there."""
        if self._is_first:
            self._erase_earlier()
            self._is_first = False
        new: list[PreparedRound] = []
        try:
            for number in self._plan.numbers(self._next, len(self._prepared)):
                round = self._client.create_round(**self._plan.round_arguments(number))
                new.append(PreparedRound(number, round))
            self._create_tasks(new)
        except BaseException:
            if self._plan.name is None:
                for prepared in new:
                    erase(prepared.round)
            raise
        self._prepared += new
        self._next += len(new)

    def _erase_earlier(self) -> None:
        """Erases what earlier owners have left and nobody takes up."""
        if self._plan.name is None:
            erase_abandoned(self._client, ADAPTER)
        before = self._plan.round_before_start()
        if before is not None:
            erase(self._client.round(before))

    def _create_tasks(self, new: list[PreparedRound]) -> None:
        groups = [self._plan.new_group(one, self._payload(one.number)) for one in new]
        if not groups:
            return
        try:
            created = self._client.tasks.create(groups)
        except (AlreadyExistsError, RoundNotOpenError):
            if self._plan.name is None:
                raise
            self._find_tasks(new, groups)
            return
        for prepared, group in zip(new, created):
            prepared.group = group.name

    def _find_tasks(self, new: list[PreparedRound], groups: list[NewTaskGroup]) -> None:
        """Creates the tasks that an earlier owner has not created."""
        for prepared, group in zip(new, groups):
            prepared.group = group.group_id
            try:
                self._client.tasks.create(group)
            except (AlreadyExistsError, RoundNotOpenError):
                pass  # it has created them, or the round has gone on

    def _payload(self, number: int) -> bytes:
        payload = self._plan.payload
        return self._plan.as_bytes(payload(number) if callable(payload) else payload)

    def _finish(self, prepared: PreparedRound) -> PipelineRound:
        """Waits for the end of a round."""
        group = result = error = None
        try:
            group = self._wait_for_tasks(prepared)
            self._seal(prepared, group)
            result = prepared.round.result(self._plan.layout)
        except OF_THE_ROUND as failure:
            error = failure
        return PipelineRound(prepared.number, prepared.round, group, result, error)

    def _wait_for_tasks(self, prepared: PreparedRound) -> TaskGroup | None:
        """Returns the tasks, which end with the round at the latest; None where the server no longer knows them. Those of a
        round that the next start of the server may restore do not end when it fails."""
        if prepared.group is None:
            return None
        group: TaskGroup
        try:
            while True:
                try:
                    group = self._client.tasks.wait(prepared.group, timeout=LOOK_SECONDS)
                    return group
                except (DeadlineExceededError, UnavailableError):
                    # Whether the server is there is for this call to say, which has the client's timeout.
                    state = prepared.round.info().state
                if state is RoundState.ABORTED:
                    group = self._client.tasks.group(prepared.group)
                    return group
        except NotFoundError:
            return None  # the round tells why

    def _seal(self, prepared: PreparedRound, group: TaskGroup | None) -> None:
        """Ends a round that is still open though nobody works for it any more."""
        if prepared.round.info().state is not RoundState.OPEN:
            return
        try:
            prepared.round.seal()
        except RoundNotOpenError:
            pass  # its deadline was faster; its result tells more
        except SparseAggError as refusal:
            if refusal.reason != "INSUFFICIENT_CONTRIBUTORS":
                raise
            prepared.round.abort()
            raise self._plan.not_enough(prepared, group, self._failed_task(group)) from None

    def _failed_task(self, group: TaskGroup | None) -> Task | None:
        if group is None or group.failed == 0:
            return None
        failed = self._client.tasks.list(group, state=TaskState.FAILED, page_size=1)
        found: Task | None = next(failed, None)
        return found

    def _delete_taken(self) -> None:
        taken, self._taken = self._taken, None
        if taken is not None and not self._plan.keep_rounds:
            erase(taken.round)
