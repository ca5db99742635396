"""`Tasks`: the calls of owners and workers of the task service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsFloat, SupportsIndex

from sparseagg import _arguments, _requests
from sparseagg._net.transport import Transport
from sparseagg._proto import tasks_pb2
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
    """The task service of a client's server: `Client.tasks`. Thread-safe.

    An owner:

        first, second = client.tasks.create(
            [NewTaskGroup("train", round_1, percent_of_goal=130), NewTaskGroup("train", round_2, count=100)])
        client.tasks.wait(first)

    A worker, which renews its lease from another client, where no large update delays it:

        for task in client.tasks.acquire("worker-1", ["train"]).tasks:
            receipt = client.round(task.round).submit(train(task.payload), contributor=task.contributor)
            client.tasks.complete(task.lease, receipt)

    Names of groups are "taskgroups/g" or "g", of tasks "taskgroups/g/tasks/1" or "g/1"; a `TaskGroup` or a `Task` will do in
    their place. Every call is safe to repeat, and is repeated while the server is unavailable. Raises SparseAggError:
    NotFoundError (TASK_NOT_FOUND, TASK_GROUP_NOT_FOUND: a group is forgotten when its round is deleted), TaskFencedError,
    and what else docs/tasks.md names.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        groups: NewTaskGroup | Iterable[NewTaskGroup],
        *,
        request_id: str | None = None,
    ) -> tuple[TaskGroup, ...]:
        """Creates groups of tasks, all or none; returns them in the order of `groups`.

        groups: one, or at most 100. Groups of several rounds prepare these ahead: workers get the tasks of a pool in the
            order of their creation.
        request_id: at most 64 characters; a second call with the same id and content returns the first call's groups, which
            makes creating safe over a restart of the caller. Made up when left out.

        Raises InvalidArgumentError (INVALID_TASK_GROUP), AlreadyExistsError (TASK_GROUP_EXISTS), NotFoundError
        (ROUND_NOT_FOUND), RoundNotOpenError, ResourceExhaustedError.
        """
        answer = self._transport.unary("CreateTasks", requests.create_tasks(groups, request_id))
        return tuple(group_from_proto(group) for group in answer.groups)

    def get(self, task: str | Task) -> Task:
        """Returns a task as it is now, with its payload.

        task: "g/1", "taskgroups/g/tasks/1" or the task.
        """
        request = tasks_pb2.GetTaskRequest(name=requests.task_name(task))
        return task_from_proto(self._transport.unary("GetTask", request))

    def list(
        self,
        group: str | TaskGroup | None = None,
        *,
        pool: str | None = None,
        state: TaskState | str | None = None,
        page_size: SupportsIndex = 1000,
    ) -> Iterator[Task]:
        """Yields tasks without their payloads, by group and then by number; fetched page by page.

        group, pool, state: only those of this group, pool and state; all when left out.
        page_size: tasks of one answer, at most 1,000.
        """
        request = requests.list_tasks(group, pool, state, page_size)
        while True:
            page = self._transport.unary("ListTasks", request)
            for message in page.tasks:
                yield task_from_proto(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def cancel(self, names: Any) -> int:
        """Ends tasks that are not finished, and their leases; returns how many. With an unknown name it changes nothing.

        names: of a group (all of its tasks) or a task, or at most 1,000 of these.
        """
        answer = self._transport.unary("CancelTasks", requests.cancel_tasks(names))
        return int(answer.cancelled)

    def group(self, group: str | TaskGroup) -> TaskGroup:
        """Returns a group as it is now: its tasks, counted by state.

        group: "g", "taskgroups/g" or the group.
        """
        request = requests.wait_tasks(requests.group_name(group), 0, 0.0)
        return group_from_proto(self._transport.unary("WaitTasks", request))

    def wait(
        self,
        group: str | TaskGroup,
        *,
        after_revision: SupportsIndex = 0,
        timeout: SupportsFloat | None = None,
    ) -> TaskGroup:
        """Waits until all tasks of a group are finished; returns the group.

        group: "g", "taskgroups/g" or the group.
        after_revision: returns also when the group's revision is larger than this, which every task raises that ends; 0
            waits for the end of the last task.
        timeout: seconds; None waits for ever.

        Raises DeadlineExceededError when the time is over.
        """
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
                answer = self._transport.unary("WaitTasks", request, timeout=call_seconds)
            except DeadlineExceededError as silence:
                requests.check_time_left(name, limit, silence)
                continue
            found = group_from_proto(answer)
            if requests.is_wait_over(found, after_revision, limit):
                return found

    def watch(self, group: str | TaskGroup) -> Iterator[TaskGroup]:
        """Yields a group now and after tasks have ended, until all are finished. A lease alone is no news.

        group: "g", "taskgroups/g" or the group.
        """
        found = self.group(group)
        yield found
        while not found.finished:
            found = self.wait(found, after_revision=found.revision)
            yield found

    def acquire(
        self,
        worker: str,
        pools: str | Sequence[str],
        *,
        capabilities: Sequence[str] = (),
        tasks_max: SupportsIndex = 1,
        request_id: str | None = None,
        timeout: SupportsFloat | None = None,
    ) -> AcquiredTasks:
        """Leases tasks to a worker. Without one that it can do, the answer says when to ask again.

        worker: who asks: 1 to 128 characters of [A-Za-z0-9._:@|/-]. With credentials it is the caller's principal, or below
            it ("phone-1/app" for "phone-1").
        pools: a pool, or up to 16 in the order of preference.
        capabilities: what the worker can do, at most 64.
        tasks_max: at most this number of tasks, up to 100. Payloads beyond 3 MiB in all wait for the next call.
        request_id: at most 64 characters; a second call with the same worker and id returns the leases of the first that are
            still valid. Made up when left out; a retry within this call repeats it, so that a lost answer holds up no task.
        timeout: seconds for the call with its retries; default: the client's.
        """
        request = requests.acquire_tasks(worker, pools, capabilities, tasks_max, request_id)
        return acquired_from_proto(self._call("AcquireTasks", request, timeout))

    def renew(
        self,
        leases: TaskLease | Iterable[TaskLease | None],
        *,
        timeout: SupportsFloat | None = None,
    ) -> tuple[RenewedLease, ...]:
        """The heartbeat: lets leases begin again; returns what became of each, in their order: the renewed lease, or a
        SparseAggError (TaskFencedError, NotFoundError), whose task the worker abandons. It revives no lease that has ended.

        Send it three times in a lease, over another client than the one that sends updates.

        leases: one, or at most 100.
        timeout: seconds for the call with its retries; default: the client's.
        """
        answer = self._call("RenewTasks", requests.renew_tasks(leases), timeout)
        return requests.renewed_leases(answer)

    def complete(
        self, lease: TaskLease | None, receipt: Receipt, *, timeout: SupportsFloat | None = None
    ) -> Task:
        """Completes a task whose update is counted; returns it.

        lease: the lease under which the worker holds it.
        receipt: of the update of the task's contributor in the task's round, as `Round.submit` gave it.
        timeout: seconds for the call with its retries; default: the client's.

        Raises TaskFencedError: another worker has the task, or the update has completed it already. InvalidArgumentError
        (RECEIPT_MISMATCH), SparseAggError (UPDATE_NOT_COUNTED).
        """
        request = requests.complete_task(lease, receipt)
        return task_from_proto(self._call("CompleteTask", request, timeout))

    def fail(
        self,
        lease: TaskLease | None,
        reason: str = "",
        *,
        retryable: bool = True,
        timeout: SupportsFloat | None = None,
    ) -> Task:
        """Ends a lease without an update; returns the task.

        lease: the lease under which the worker holds it.
        reason: for people; at most 1,000 bytes.
        retryable: the task becomes AVAILABLE again, unless it has had its `attempts_max`; False: it is FAILED.
        timeout: seconds for the call with its retries; default: the client's.

        Raises TaskFencedError.
        """
        request = requests.fail_task(lease, reason, retryable)
        return task_from_proto(self._call("FailTask", request, timeout))

    def hand_back(self, lease: TaskLease | None, *, timeout: SupportsFloat | None = None) -> Task:
        """Gives a task back, which becomes AVAILABLE: for a worker that stops. The lease does not count as an attempt.

        lease: the lease under which the worker holds it.
        timeout: seconds for the call with its retries; default: the client's.

        Raises TaskFencedError.
        """
        return task_from_proto(self._call("FailTask", requests.hand_back(lease), timeout))

    def _call(self, method: str, request: Any, timeout: SupportsFloat | None) -> Any:
        seconds = None if timeout is None else _arguments.seconds("timeout", timeout)
        return self._transport.unary(method, request, timeout=seconds)
