"""The requests of the task service, made from what a caller says; shared by the blocking and the asyncio client."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, SupportsFloat, SupportsIndex, Union

from sparseagg import _arguments, _requests
from sparseagg._proto import tasks_pb2, types_pb2
from sparseagg.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    SparseAggError,
    from_error_message,
)
from sparseagg.records import Receipt
from sparseagg.tasks.records import TaskGroup, TaskLease, TaskState, lease_from_proto

_UINT32_MAX = 2**32 - 1
_UINT64_MAX = 2**64 - 1
# With less time left no further answer is asked for.
_LAST_CALL_SECONDS = 0.05

RenewedLease = Union[TaskLease, SparseAggError]


@dataclass(frozen=True)
class NewTaskGroup:
    """Tasks to be created together, for one round. One of count, percent_of_goal and contributors says how many.

    pool: 1 to 63 characters of [a-z0-9-], starting with a letter; pools need not be created.
    round: name of an open round, or its handle.
    count: this number of tasks, at most 100,000. The contributor of task n is "{group}/n".
    percent_of_goal: this percentage of the round's `goal`, rounded up: 130 creates 130 tasks for a goal of 100. Tasks that are
        left when the round is sealed end (CANCELLED).
    contributors: one task for each of these names, which must be distinct; as in `Round.submit`.
    payload: the owner's own bytes, at most 1 MiB, which each worker gets with its task: hyperparameters, a reference to a
        model.
    required_capabilities: workers get a task only if they have all of these: at most 16, each 1 to 63 characters of
        [A-Za-z0-9._-].
    lease: seconds (or a timedelta) for which a worker holds a task without renewing, 1 s to 24 h; the server's default
        when left out (60).
    attempts_max: after this number of attempts without an update a task is FAILED, at most 1,000; the server's default when
        left out (3).
    deadline: when tasks that are not finished become FAILED: seconds (or a timedelta) after their creation, or a datetime
        with a time zone.
    group_id: 1 to 63 characters of [a-z0-9-], starting with a letter; the server makes one up when left out.
    """

    pool: str
    round: Any
    count: SupportsIndex | None = None
    percent_of_goal: SupportsIndex | None = None
    contributors: Sequence[str] | None = None
    payload: bytes = b""
    required_capabilities: Sequence[str] = ()
    lease: SupportsFloat | timedelta | None = None
    attempts_max: SupportsIndex | None = None
    deadline: SupportsFloat | timedelta | datetime | None = None
    group_id: str | None = None


def group_name(group: str | TaskGroup) -> str:
    """ "g", "taskgroups/g" and a group as "taskgroups/g"."""
    name = _name("the group's name", group)
    return name if "/" in name else f"taskgroups/{name}"


def task_name(task: Any) -> str:
    """ "g/1", "taskgroups/g/tasks/1" and a task as "taskgroups/g/tasks/1". Another name stays as it is: the server says what
    is wrong with it."""
    name = _name("the task's name", task)
    group, slash, number = name.partition("/")
    return f"taskgroups/{group}/tasks/{number}" if slash and group != "taskgroups" else name


def create_tasks(
    groups: NewTaskGroup | Iterable[NewTaskGroup], request_id: str | None
) -> tasks_pb2.CreateTasksRequest:
    """See `Tasks.create`."""
    given = [groups] if isinstance(groups, NewTaskGroup) else _arguments.items("groups", groups)
    return tasks_pb2.CreateTasksRequest(
        groups=[_group(position, group) for position, group in enumerate(given)],
        request_id=_request_id(request_id),
    )


def _group(position: int, group: Any) -> tasks_pb2.TaskGroupSpec:
    if not isinstance(group, NewTaskGroup):
        raise InvalidArgumentError(
            f"group {position} is a {type(group).__name__}, not a NewTaskGroup"
        )
    with _arguments.refusing(f"group {position}"):
        return _group_spec(group)


def _group_spec(group: NewTaskGroup) -> tasks_pb2.TaskGroupSpec:
    ways = (group.count, group.percent_of_goal, group.contributors)
    if sum(way is not None for way in ways) != 1:
        raise InvalidArgumentError(
            "give one of count, percent_of_goal and contributors", reason="INVALID_TASK_GROUP"
        )
    if not isinstance(group.payload, (bytes, bytearray, memoryview)):
        raise InvalidArgumentError(f"payload is a {type(group.payload).__name__}, not bytes")
    spec = tasks_pb2.TaskGroupSpec(
        group_id=_arguments.text("group_id", group.group_id or ""),
        pool=_arguments.text("pool", group.pool),
        round=_requests.full_name(_name("the round's name", group.round)),
        payload=bytes(group.payload),
        required_capabilities=_texts("required_capabilities", group.required_capabilities),
    )
    if group.count is not None:
        spec.count = _arguments.whole("count", group.count, 0, _UINT32_MAX)
    elif group.percent_of_goal is not None:
        percent = _arguments.whole("percent_of_goal", group.percent_of_goal, 0, _UINT32_MAX)
        spec.percent_of_goal = percent
    elif group.contributors is not None:
        spec.contributors.contributors.extend(_texts("contributors", group.contributors))
        spec.contributors.SetInParent()  # also of an empty list, which the server refuses
    if group.lease is not None:
        spec.lease.CopyFrom(_requests.duration("lease", group.lease))
    if group.attempts_max is not None:
        spec.attempts_max = _arguments.whole("attempts_max", group.attempts_max, 0, _UINT32_MAX)
    _requests.set_deadline(spec, group.deadline)
    return spec


def list_tasks(
    group: str | TaskGroup | None,
    pool: str | None,
    state: TaskState | str | None,
    page_size: SupportsIndex,
) -> tasks_pb2.ListTasksRequest:
    """See `Tasks.list`."""
    request = tasks_pb2.ListTasksRequest(
        group="" if group is None else group_name(group),
        pool=_arguments.text("pool", pool or ""),
        page_size=_arguments.whole("page_size", page_size, -(2**31), 2**31 - 1),
    )
    if state is not None:
        with _arguments.refusing("state"):
            word = TaskState(state).value
        request.state = tasks_pb2.TaskState.Value(f"TASK_STATE_{word}")
    return request


def cancel_tasks(names: Any) -> tasks_pb2.CancelTasksRequest:
    """See `Tasks.cancel`."""
    is_one = isinstance(names, str) or hasattr(names, "name")
    given = [names] if is_one else _arguments.items("names", names)
    texts = [_name("a name of names", one) for one in given]
    return tasks_pb2.CancelTasksRequest(
        names=[task_name(text) if "/" in text else group_name(text) for text in texts]
    )


def wait_tasks(
    group: str, after_revision: SupportsIndex, left: float | None
) -> tasks_pb2.WaitTasksRequest:
    """Returns the request of one slice of waiting, with `left` seconds until the caller's deadline; None: there is none."""
    request = tasks_pb2.WaitTasksRequest(
        group=group,
        after_revision=_arguments.whole("after_revision", after_revision, 0, _UINT64_MAX),
    )
    request.timeout.CopyFrom(_requests.wait_slice(left))
    return request


def is_wait_over(
    group: TaskGroup, after_revision: SupportsIndex, limit: _requests.TimeLimit | None
) -> bool:
    """Returns whether what the caller waits for is there. Raises if it is not and no time is left."""
    revision = operator.index(after_revision)
    if group.finished or (revision and group.revision > revision):
        return True
    if limit is not None and limit.left() <= _LAST_CALL_SECONDS:
        left = group.available + group.leased
        raise DeadlineExceededError(
            f"{left} of {group.tasks} tasks of {group.name} are not finished after {limit.seconds:g} s"
        )
    return False


def check_time_left(
    group: str, limit: _requests.TimeLimit | None, silence: DeadlineExceededError
) -> None:
    """After a slice that brought no answer (`silence`): raises DeadlineExceededError where the caller's time is over, too."""
    if limit is not None and limit.left() <= _LAST_CALL_SECONDS:
        raise DeadlineExceededError(
            f"the server did not say within {limit.seconds:g} s whether the tasks of {group} are finished"
        ) from silence


def acquire_tasks(
    worker: str,
    pools: str | Sequence[str],
    capabilities: Sequence[str],
    tasks_max: SupportsIndex,
    request_id: str | None,
) -> tasks_pb2.AcquireTasksRequest:
    """See `Tasks.acquire`."""
    return tasks_pb2.AcquireTasksRequest(
        worker=_arguments.text("worker", worker),
        pools=[pools] if isinstance(pools, str) else _texts("pools", pools),
        capabilities=_texts("capabilities", capabilities),
        max=_arguments.whole("tasks_max", tasks_max, 1, _UINT32_MAX),
        request_id=_request_id(request_id),
    )


def renew_tasks(leases: TaskLease | Iterable[TaskLease | None]) -> tasks_pb2.RenewTasksRequest:
    """See `Tasks.renew`."""
    given = [leases] if isinstance(leases, TaskLease) else _arguments.items("leases", leases)
    return tasks_pb2.RenewTasksRequest(leases=[_lease(lease) for lease in given])


def renewed_leases(response: Any) -> tuple[RenewedLease, ...]:
    """Returns the outcome of each lease."""
    return tuple(
        from_error_message(one.error, for_update=False)
        if one.HasField("error")
        else lease_from_proto(one.lease)
        for one in response.leases
    )


def complete_task(lease: TaskLease | None, receipt: Receipt) -> tasks_pb2.CompleteTaskRequest:
    """See `Tasks.complete`."""
    if not isinstance(receipt, Receipt):
        raise InvalidArgumentError(f"a {type(receipt).__name__} is no Receipt")
    return tasks_pb2.CompleteTaskRequest(lease=_lease(lease), receipt=_receipt(receipt))


def _receipt(receipt: Receipt) -> types_pb2.Receipt:
    return types_pb2.Receipt(
        round=receipt.round,
        contributor=receipt.contributor,
        update_id=receipt.update_id,
        duplicate=receipt.duplicate,
        sequence=receipt.sequence,
        digest=receipt.digest,
    )


def fail_task(lease: TaskLease | None, reason: str, retryable: bool) -> tasks_pb2.FailTaskRequest:
    """See `Tasks.fail`."""
    return tasks_pb2.FailTaskRequest(
        lease=_lease(lease),
        reason=_arguments.text("reason", reason),
        retryable=bool(retryable),
    )


def hand_back(lease: TaskLease | None) -> tasks_pb2.FailTaskRequest:
    """See `Tasks.hand_back`."""
    return tasks_pb2.FailTaskRequest(lease=_lease(lease), handed_back=True)


def _lease(lease: Any) -> tasks_pb2.TaskLease:
    if lease is None:
        raise InvalidArgumentError("there is no lease: nobody holds the task")
    if not isinstance(lease, TaskLease):
        raise InvalidArgumentError(f"a {type(lease).__name__} is no TaskLease")
    token = _arguments.whole("token", lease.token, 0, _UINT64_MAX)
    return tasks_pb2.TaskLease(task=task_name(lease.task), token=token)


def _request_id(request_id: str | None) -> str:
    return _arguments.text("request_id", request_id or uuid.uuid4().hex)


def _name(what: str, thing: Any) -> str:
    """Returns a name, or that of a record or handle."""
    return _arguments.text(what, getattr(thing, "name", thing))


def _texts(what: str, value: Iterable[Any]) -> list[str]:
    """Returns a list of words. One string is refused, whose letters would be the words."""
    if isinstance(value, (str, bytes)):
        raise InvalidArgumentError(f"{what} is {value!r}; give a list: [{value!r}]")
    return [_arguments.text(f"one of {what}", one) for one in _arguments.items(what, value)]
