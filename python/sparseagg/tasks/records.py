"""What the server tells about tasks, as plain immutable records."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sparseagg._net.proto_values import enum_name, seconds_of, time_of
from sparseagg._proto import tasks_pb2
from sparseagg.errors import SparseAggError
from sparseagg.records import durability_name
from sparseagg.result import Result


class TaskState(str, enum.Enum):
    """The state of a task: AVAILABLE <-> LEASED -> COMPLETED, FAILED or CANCELLED.

    An AVAILABLE task waits for a worker, a LEASED one is held by one. The round of a COMPLETED one has counted its update.
    UNSPECIFIED comes from no server of this version. A state equals its name: `task.state == "LEASED"`.
    """

    UNSPECIFIED = "UNSPECIFIED"
    AVAILABLE = "AVAILABLE"
    LEASED = "LEASED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def final(self) -> bool:
        """True where nothing changes any more."""
        return self in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED)


@dataclass(frozen=True)
class TaskLease:
    """One lease of a task. Two are equal if they are of the same task and have the same token.

    task: name of the task.
    token: the fencing token; each lease of a task has a larger one than the lease before it.
    time_left: seconds from the answer that brought this until the lease ends.
    duration: seconds that the lease has again after it is renewed.
    """

    task: str
    token: int
    time_left: float = field(default=0.0, compare=False)
    duration: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Task:
    """A task at one moment. Times are in UTC; a time is None until it is known.

    name: "taskgroups/{group}/tasks/{number}", numbers from 1.
    pool: the pool from which workers get it.
    round: name of the round to which its update goes, "rounds/...".
    contributor: whose update completes the task: what the worker gives to `Round.submit`.
    payload: the owner's bytes, the same for all tasks of a group; b"" in lists.
    state: where it stands.
    lease: the lease of a LEASED task, in answers to the worker that holds it and to owners; None otherwise.
    worker: who holds it, or held it last; "" before the first lease.
    attempts: leases that count: all but those whose worker handed the task back.
    attempts_max: after this number of attempts without an update the task is FAILED.
    leases: leases so far.
    create_time, end_time: when it was created, and when it entered a final state.
    deadline: when it becomes FAILED; None: never.
    end_reason: why a FAILED or CANCELLED task ended: "ATTEMPTS_EXHAUSTED", "NOT_RETRYABLE", "DEADLINE", "REQUESTED" or
        "ROUND_CLOSED".
    last_failure: what the last failure said, or that a lease ended; "": nothing failed.
    """

    name: str
    pool: str
    round: str
    contributor: str
    payload: bytes
    state: TaskState
    lease: TaskLease | None
    worker: str
    attempts: int
    attempts_max: int
    leases: int
    create_time: datetime | None
    end_time: datetime | None
    deadline: datetime | None
    end_reason: str
    last_failure: str


@dataclass(frozen=True)
class TaskGroup:
    """The tasks of one round that were created together, counted by state.

    name: "taskgroups/{group}".
    pool: the pool from which workers get the tasks.
    round: name of the round, "rounds/...".
    tasks: number of all tasks; those of the following five states add up to it.
    available, leased, completed, failed, cancelled: number of the tasks in each state.
    leases: leases so far, of all tasks.
    revision: a number from 1 on that grows with each task that enters a final state.
    create_time: in UTC.
    deadline: when tasks that are not finished become FAILED; None: never.
    durability: "memory" or "durable", that of the round.
    """

    name: str
    pool: str
    round: str
    tasks: int
    available: int
    leased: int
    completed: int
    failed: int
    cancelled: int
    leases: int
    revision: int
    create_time: datetime | None
    deadline: datetime | None
    durability: str

    @property
    def finished(self) -> bool:
        """True where every task is in a final state."""
        return self.available == 0 and self.leased == 0


@dataclass(frozen=True)
class AcquiredTasks:
    """The answer to a worker that asks for tasks.

    tasks: each with its lease and payload; empty: there is none that this worker can do.
    retry_min, retry_max: without tasks, seconds after which the worker asks again: drawn uniformly from between them, so
        that those who wait do not ask at the same time.
    """

    tasks: tuple[Task, ...]
    retry_min: float
    retry_max: float

    def pause(self) -> float:
        """Returns the seconds to wait before asking again, drawn again in each call."""
        return random.uniform(self.retry_min, self.retry_max)


@dataclass(frozen=True)
class PipelineRound:
    """A round of a pipeline that is over.

    number: of the round, from the pipeline's `start` on.
    round: its handle, for a part of the result or `verify`; the pipeline deletes the round when the next one is asked for.
    group: its tasks, counted by state; None where the server had forgotten them.
    result: the published aggregate; None of a round that failed.
    error: why it failed, with `return_exceptions`; None of one with a result.
    """

    number: int
    round: Any
    group: TaskGroup | None
    result: Result | None
    error: SparseAggError | None


def lease_from_proto(message: Any) -> TaskLease:
    """Returns `sparseagg.v1.TaskLease` as a record."""
    return TaskLease(
        task=message.task,
        token=message.token,
        time_left=seconds_of(message, "time_left") or 0.0,
        duration=seconds_of(message, "duration") or 0.0,
    )


def task_from_proto(message: Any) -> Task:
    """Returns `sparseagg.v1.Task` as a record."""
    return Task(
        name=message.name,
        pool=message.pool,
        round=message.round,
        contributor=message.contributor,
        payload=message.payload,
        state=TaskState(enum_name(tasks_pb2.TaskState, message.state, "TASK_STATE_")),
        lease=lease_from_proto(message.lease) if message.HasField("lease") else None,
        worker=message.worker,
        attempts=message.attempts,
        attempts_max=message.attempts_max,
        leases=message.leases,
        create_time=time_of(message, "create_time"),
        end_time=time_of(message, "end_time"),
        deadline=time_of(message, "deadline"),
        end_reason=message.end_reason,
        last_failure=message.last_failure,
    )


def group_from_proto(message: Any) -> TaskGroup:
    """Returns `sparseagg.v1.TaskGroup` as a record."""
    return TaskGroup(
        name=message.name,
        pool=message.pool,
        round=message.round,
        tasks=message.tasks,
        available=message.available,
        leased=message.leased,
        completed=message.completed,
        failed=message.failed,
        cancelled=message.cancelled,
        leases=message.leases,
        revision=message.revision,
        create_time=time_of(message, "create_time"),
        deadline=time_of(message, "deadline"),
        durability=durability_name(message.durability),
    )


def acquired_from_proto(message: Any) -> AcquiredTasks:
    """Returns `sparseagg.v1.AcquireTasksResponse` as a record."""
    return AcquiredTasks(
        tasks=tuple(task_from_proto(task) for task in message.tasks),
        retry_min=seconds_of(message.retry, "min") or 0.0,
        retry_max=seconds_of(message.retry, "max") or 0.0,
    )
