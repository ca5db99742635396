"""`LeasedTask`: a task in the hands of a worker."""

from __future__ import annotations

from typing import Any, SupportsFloat

from sparseagg._requests import Update
from sparseagg.client import Client
from sparseagg.errors import SparseAggError, TaskFencedError
from sparseagg.round import Round
from sparseagg.tasks import Task, TaskLease


class TaskCancelledError(TaskFencedError):
    """The worker no longer holds the task: its lease has ended, or its owner has cancelled it."""


class LeasedTask:
    """A task that this worker holds: what the function of `run` gets.

    info: the task when it was acquired: `sparseagg.Task`, with `pool`, `attempts`, `deadline` and more.
    client: a connection to the server, for example to read parameters from the result of another round.
    round: the round that takes the update.
    """

    def __init__(self, info: Task, client: Client, round: Round) -> None:
        assert info.lease is not None  # an acquired task has one
        self.info = info
        self.client = client
        self.round = round
        self._lease = info.lease
        self._ended: SparseAggError | None = None

    @property
    def name(self) -> str:
        """The name of the task, "taskgroups/{group}/tasks/{number}"."""
        return self.info.name

    @property
    def payload(self) -> bytes:
        """The owner's bytes, the same for all tasks of a group. `unpack` reads what `pack` made."""
        return self.info.payload

    @property
    def contributor(self) -> str:
        """The contributor of the update. It belongs to the task, not to the worker."""
        return self.info.contributor

    @property
    def lease(self) -> TaskLease:
        """The lease under which the worker holds the task, as it was when the task was acquired."""
        return self._lease

    @property
    def update_id(self) -> str:
        """The id of the update, derived from the fencing token: a repetition within the lease is recognised."""
        return f"lease-{self._lease.token}"

    def update(self, tensors: Any, *, weight: SupportsFloat | None = None) -> Update:
        """Returns an update for the function to return, where it has a weight.

        tensors: whatever `Round.submit` takes.
        weight: finite and not negative; 1 when left out.
        """
        return Update(tensors, self.contributor, weight, self.update_id)

    @property
    def cancelled(self) -> bool:
        """True as soon as it is known that the worker no longer holds the task, so that going on is of no use. Known by the
        heartbeat, which is sent three times in a lease."""
        return self._ended is not None

    def raise_if_cancelled(self) -> None:
        """Raises TaskCancelledError where `cancelled` is true: for the function to call now and then."""
        ended = self._ended
        if ended is not None:
            raise TaskCancelledError(
                ended.message, code=ended.code, reason=ended.reason, metadata=ended.metadata
            )

    def _end(self, why: SparseAggError) -> None:
        """The worker no longer holds the task. why: what the server says."""
        self._ended = why

    def __repr__(self) -> str:
        return f"LeasedTask({self.name!r})"
