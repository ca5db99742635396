"""One attempt at a task: the function, its update, and what the server is told."""

from __future__ import annotations

import enum
import logging
from typing import Any, Callable

from sparseagg import _arguments
from sparseagg._encode.encodings import ValuesChoice
from sparseagg._requests import Update
from sparseagg.errors import (
    AlreadyCountedError,
    InvalidUpdateError,
    NotFoundError,
    RoundNotOpenError,
    SparseAggError,
    TaskFencedError,
)
from sparseagg.records import Receipt, RoundState
from sparseagg.tasks import Tasks, TaskState
from sparseagg.worker._patience import Patience
from sparseagg.worker._stop import StopSignals, WorkerStopped
from sparseagg.worker._task import LeasedTask, TaskCancelledError

_LOG = logging.getLogger("sparseagg.worker")
_REASON_BYTES_MAX = 1000  # of a failure
# Another worker would fare no better, and later the server may have memory.
_NO_MEMORY = ("AGGREGATION_FULL", "OUT_OF_MEMORY")
# The lease is no longer this worker's, or the task went with its round.
_GONE = (TaskFencedError, NotFoundError)

Function = Callable[[LeasedTask], Any]


class Outcome(enum.Enum):
    """What became of a task in the hands of this worker; see `WorkerReport`."""

    COMPLETED = "completed"
    FAILED = "failed"
    HANDED_BACK = "handed back"
    ABANDONED = "abandoned"


class Submitter:
    """Makes an update of what a function returned, and submits it."""

    def __init__(self, encoding: str, values: ValuesChoice) -> None:
        self._encoding, self._values = encoding, values

    def update(self, task: LeasedTask, returned: Any) -> Update:
        """Returns the update of the task's contributor. Raises InvalidUpdateError for what is none."""
        if returned is None:
            raise InvalidUpdateError("the function returned None, not an update")
        update = returned if isinstance(returned, Update) else task.update(returned)
        if update.contributor != task.contributor:
            raise InvalidUpdateError(
                f'the function returned an update of contributor "{update.contributor}"; the task is that of '
                f'"{task.contributor}"'
            )
        return update

    def submit(self, task: LeasedTask, update: Update) -> Receipt:
        """Submits it once. Raises TaskCancelledError where that is of no use any more."""
        task.raise_if_cancelled()
        return task.round.submit(
            update.tensors,
            contributor=update.contributor,
            weight=update.weight,
            update_id=update.update_id or task.update_id,
            encoding=self._encoding,
            values=self._values,
        )


class Attempts:
    """Makes attempts at tasks, one at a time. Raises SparseAggError for what waiting does not help.

    not_retryable: exceptions after which no other worker shall try.
    """

    def __init__(
        self,
        function: Function,
        not_retryable: tuple[type[Exception], ...],
        submitter: Submitter,
        tasks: Tasks,
        stop: StopSignals,
    ) -> None:
        self._function = function
        self._not_retryable = not_retryable
        self._submitter = submitter
        self._tasks = tasks
        self._stop = stop
        self._patience = Patience(stop)

    def make(self, task: LeasedTask) -> Outcome:
        """Calls the function, and submits what it returns."""
        try:
            with self._stop.interrupting():
                returned = self._function(task)
        except WorkerStopped:
            return self._hand_back(task)
        except Exception as error:
            if isinstance(error, TaskCancelledError) and task.cancelled:
                return Outcome.ABANDONED
            return self._fail(task, error, retryable=self._is_retryable(error))
        except BaseException:  # the function ends the process
            self._hand_back(task)
            raise
        return self._submit(task, returned)

    def _submit(self, task: LeasedTask, returned: Any) -> Outcome:
        try:
            if isinstance(returned, Receipt):
                return self._complete(task, returned)
            update = self._submitter.update(task, returned)
            receipt = self._patience.call(lambda: self._submitter.submit(task, update))
        except AlreadyCountedError:
            return self._counted_before(task)
        except (RoundNotOpenError, NotFoundError) as error:
            if error.metadata.get("state") == RoundState.ABORTED:
                # The server has ended the task, or keeps it for its next start, which may restore the round.
                return self._hand_back(task, error)
            # No worker can do it. The server knows, unless the round is full.
            self._fail(task, error, retryable=False)
            return Outcome.ABANDONED
        except TaskCancelledError:
            return Outcome.ABANDONED
        except Exception as error:
            if self._patience.is_over(error):
                return self._hand_back(task)
            if getattr(error, "reason", "") in _NO_MEMORY:
                return self._hand_back(task, error)
            if getattr(error, "reason", "") == "DIGEST_CONFLICT":
                # It was counted, the answer was lost, and rounding at random has made other bytes of it.
                return self._counted_before(task)
            return self._fail(task, error, retryable=self._is_retryable(error))
        return self._complete(task, receipt)

    def _is_retryable(self, error: Exception) -> bool:
        return not isinstance(error, self._not_retryable)

    def _complete(self, task: LeasedTask, receipt: Receipt) -> Outcome:
        try:
            self._patience.call(lambda: self._tasks.complete(task.lease, receipt))
        except _GONE as gone:
            # The update is counted, which completes the task for any worker that holds it.
            _LOG.debug("%s: %s", task.name, gone)
        except SparseAggError as error:
            if error.reason in ("RECEIPT_MISMATCH", "UPDATE_NOT_COUNTED"):
                return self._fail(task, error, retryable=self._is_retryable(error))
            if not self._patience.is_over(error):
                raise
            _LOG.warning("%s: its update is counted; its lease will end: %s", task.name, error)
        return Outcome.COMPLETED

    def _counted_before(self, task: LeasedTask) -> Outcome:
        """The update has been counted without a receipt for this worker. The end of the lease completes the task."""
        _LOG.info("%s: its update was counted before", task.name)
        try:
            self._patience.call(lambda: self._tasks.hand_back(task.lease))
        except SparseAggError as error:
            if not (isinstance(error, _GONE) or self._patience.is_over(error)):
                raise
        return Outcome.COMPLETED

    def _fail(self, task: LeasedTask, error: Exception, *, retryable: bool) -> Outcome:
        reason = _reason(error)
        _LOG.warning(
            "%s: attempt %d of %d failed: %s",
            task.name,
            task.info.attempts,
            task.info.attempts_max,
            reason,
            exc_info=None if isinstance(error, SparseAggError) else error,
        )
        try:
            after = self._patience.call(
                lambda: self._tasks.fail(task.lease, reason, retryable=retryable)
            )
        except _GONE:
            return Outcome.ABANDONED
        except SparseAggError as refusal:
            if not self._patience.is_over(refusal):
                raise
            return Outcome.FAILED
        return Outcome.COMPLETED if after.state is TaskState.COMPLETED else Outcome.FAILED

    def _hand_back(self, task: LeasedTask, why: Exception | None = None) -> Outcome:
        """Ends the lease, which is no attempt then: the worker is to stop, or the server does not take the update (`why`)."""
        if why is not None:
            _LOG.warning("%s is handed back: %s", task.name, why)
        try:
            after = self._patience.call(lambda: self._tasks.hand_back(task.lease))
        except _GONE as gone:
            _LOG.debug("%s: %s", task.name, gone)
            return Outcome.ABANDONED
        except SparseAggError as error:
            _LOG.warning("%s is not handed back; its lease will end: %s", task.name, error)
            return Outcome.ABANDONED
        is_completed = after.state is TaskState.COMPLETED
        return Outcome.COMPLETED if is_completed else Outcome.HANDED_BACK


def _reason(error: Exception) -> str:
    """Returns what people read about a failure, as short as the server wants it."""
    kind, text = type(error).__name__, _arguments.words_of(error)
    if not text.startswith(kind):
        text = f"{kind}: {text}"
    return text.encode(errors="replace")[:_REASON_BYTES_MAX].decode(errors="ignore")
