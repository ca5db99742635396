"""`Tasks`: the calls of owners and workers of the task service, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, SupportsFloat, SupportsIndex

from sparseagg import _arguments, _requests
from sparseagg._proto import tasks_pb2
from sparseagg.aio._transport import Transport
from sparseagg.errors import DeadlineExceededError
from sparseagg.records import Receipt
from sparseagg.tasks import requests
from sparseagg.tasks.records import (
    AcquiredTasks,
    Task,
    TaskGroup,
    TaskLease,
    TaskState,
    acquired_from_proto,
    group_from_proto,
    task_from_proto,
)
from sparseagg.tasks.requests import NewTaskGroup, RenewedLease


class Tasks:
    """The task service of a client's server: `Client.tasks`. See `sparseagg.Tasks`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        groups: NewTaskGroup | Iterable[NewTaskGroup],
        *,
        request_id: str | None = None,
    ) -> tuple[TaskGroup, ...]:
        """Creates groups of tasks, all or none. See `sparseagg.Tasks.create`."""
        request = requests.create_tasks(groups, request_id)
        answer = await self._transport.unary("CreateTasks", request)
        return tuple(group_from_proto(group) for group in answer.groups)

    async def get(self, task: str | Task) -> Task:
        """Returns a task as it is now, with its payload."""
        request = tasks_pb2.GetTaskRequest(name=requests.task_name(task))
        return task_from_proto(await self._transport.unary("GetTask", request))

    async def list(
        self,
        group: str | TaskGroup | None = None,
        *,
        pool: str | None = None,
        state: TaskState | str | None = None,
        page_size: SupportsIndex = 1000,
    ) -> AsyncIterator[Task]:
        """Yields tasks without their payloads, by group and then by number; fetched page by page."""
        request = requests.list_tasks(group, pool, state, page_size)
        while True:
            page = await self._transport.unary("ListTasks", request)
            for message in page.tasks:
                yield task_from_proto(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def cancel(self, names: Any) -> int:
        """Ends tasks that are not finished; returns how many. See `sparseagg.Tasks.cancel`."""
        answer = await self._transport.unary("CancelTasks", requests.cancel_tasks(names))
        return int(answer.cancelled)

    async def group(self, group: str | TaskGroup) -> TaskGroup:
        """Returns a group as it is now: its tasks, counted by state."""
        request = requests.wait_tasks(requests.group_name(group), 0, 0.0)
        return group_from_proto(await self._transport.unary("WaitTasks", request))

    async def wait(
        self,
        group: str | TaskGroup,
        *,
        after_revision: SupportsIndex = 0,
        timeout: SupportsFloat | None = None,
    ) -> TaskGroup:
        """Waits until all tasks of a group are finished; returns the group. See `sparseagg.Tasks.wait`."""
        limit = (
            None if timeout is None else _requests.TimeLimit(_arguments.seconds("timeout", timeout))
        )
        name = requests.group_name(group)
        is_first = True
        while True:
            left = None if limit is None else limit.left()
            call_seconds = _requests.wait_call_seconds(
                limit, self._transport.timeout, is_first=is_first
            )
            is_first = False
            request = requests.wait_tasks(name, after_revision, left)
            try:
                answer = await self._transport.unary("WaitTasks", request, timeout=call_seconds)
            except DeadlineExceededError as silence:
                requests.check_time_left(name, limit, silence)
                continue
            found = group_from_proto(answer)
            if requests.is_wait_over(found, after_revision, limit):
                return found

    async def watch(self, group: str | TaskGroup) -> AsyncIterator[TaskGroup]:
        """Yields a group now and after tasks have ended, until all are finished. See `sparseagg.Tasks.watch`."""
        found = await self.group(group)
        yield found
        while not found.finished:
            found = await self.wait(found, after_revision=found.revision)
            yield found

    async def acquire(
        self,
        worker: str,
        pools: str | Sequence[str],
        *,
        capabilities: Sequence[str] = (),
        tasks_max: SupportsIndex = 1,
        request_id: str | None = None,
        timeout: SupportsFloat | None = None,
    ) -> AcquiredTasks:
        """Leases tasks to a worker, or says when to ask again. See `sparseagg.Tasks.acquire`."""
        request = requests.acquire_tasks(worker, pools, capabilities, tasks_max, request_id)
        return acquired_from_proto(await self._call("AcquireTasks", request, timeout))

    async def renew(
        self,
        leases: TaskLease | Iterable[TaskLease | None],
        *,
        timeout: SupportsFloat | None = None,
    ) -> tuple[RenewedLease, ...]:
        """The heartbeat: lets leases begin again; returns what became of each. See `sparseagg.Tasks.renew`."""
        answer = await self._call("RenewTasks", requests.renew_tasks(leases), timeout)
        return requests.renewed_leases(answer)

    async def complete(
        self, lease: TaskLease | None, receipt: Receipt, *, timeout: SupportsFloat | None = None
    ) -> Task:
        """Completes a task whose update is counted; returns it. See `sparseagg.Tasks.complete`."""
        request = requests.complete_task(lease, receipt)
        return task_from_proto(await self._call("CompleteTask", request, timeout))

    async def fail(
        self,
        lease: TaskLease | None,
        reason: str = "",
        *,
        retryable: bool = True,
        timeout: SupportsFloat | None = None,
    ) -> Task:
        """Ends a lease without an update; returns the task. See `sparseagg.Tasks.fail`."""
        request = requests.fail_task(lease, reason, retryable)
        return task_from_proto(await self._call("FailTask", request, timeout))

    async def hand_back(
        self, lease: TaskLease | None, *, timeout: SupportsFloat | None = None
    ) -> Task:
        """Gives a task back, for a worker that stops. See `sparseagg.Tasks.hand_back`."""
        return task_from_proto(await self._call("FailTask", requests.hand_back(lease), timeout))

    async def _call(self, method: str, request: Any, timeout: SupportsFloat | None) -> Any:
        seconds = None if timeout is None else _arguments.seconds("timeout", timeout)
        return await self._transport.unary(method, request, timeout=seconds)
