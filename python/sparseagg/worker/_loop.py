"""`run`: the loop of a worker.

    acquire --> the function --> submit --> complete --> acquire ...
       |            |               |
       |            |               +-- counted before, or the round is closed: the lease ends
       |            +-- exception: the task fails; SIGTERM: it is handed back
       +-- no task: wait as long as the server says

The calls about tasks, the heartbeat among them, have a connection of their own; the function and its update use another one.
"""

from __future__ import annotations

import logging
import math
import os
import random
import re
import socket
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, SupportsFloat, SupportsIndex, TypeVar

from sparseagg import _arguments
from sparseagg._encode.encodings import EncodeOptions, ValuesChoice
from sparseagg._net.retry import RetryPolicy, is_retryable
from sparseagg._requests import Update
from sparseagg.client import Client
from sparseagg.errors import (
    AlreadyCountedError,
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidUpdateError,
    NotFoundError,
    RoundNotOpenError,
    SparseAggError,
    TaskFencedError,
)
from sparseagg.records import Receipt
from sparseagg.tasks import Tasks, TaskState
from sparseagg.worker._leases import LeaseKeeper
from sparseagg.worker._stop import StopSignals, WorkerStopped
from sparseagg.worker._task import LeasedTask, TaskCancelledError

_LOG = logging.getLogger("sparseagg.worker")
_T = TypeVar("_T")
# A call about tasks; a worker that is to stop waits no longer for a server that is not there.
_CALL_SECONDS = 10.0
# Between two attempts to reach the server, beyond those that the client makes.
_SERVER_PAUSE_SECONDS = 1.0
# After failures in a row: a worker on which everything fails must not use up the attempts of all tasks.
_FAILURE_PAUSE_SECONDS_MAX = 60.0
_DOUBLINGS_MAX = 6
_REASON_BYTES_MAX = 1000  # of a failure
_NAME_MAX = 128
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._:@|/-]")
# The lease is no longer this worker's, or the task went with its round.
_GONE = (TaskFencedError, NotFoundError)

Function = Callable[[LeasedTask], Any]


@dataclass(frozen=True)
class WorkerReport:
    """What a worker has done.

    completed: tasks whose round has counted an update, this worker's or an earlier one.
    failed: tasks whose function raised an exception, or returned what the round refuses.
    handed_back: tasks that it gave back because it was to stop.
    abandoned: tasks that it lost: the lease ended, the owner cancelled the task, the round was closed.
    ended_by: "SIGTERM", "SIGINT", "TASKS_MAX" or "IDLE".
    """

    completed: int
    failed: int
    handed_back: int
    abandoned: int
    ended_by: str


def run(
    function: Function,
    pools: str | Sequence[str],
    target: str | None = None,
    *,
    name: str | None = None,
    capabilities: Sequence[str] = (),
    not_retryable: type[Exception] | Iterable[type[Exception]] = (),
    encoding: str = "auto",
    values: ValuesChoice = "auto",
    tasks_max: SupportsIndex | None = None,
    idle_timeout: SupportsFloat | None = None,
    client_options: Mapping[str, Any] | None = None,
) -> WorkerReport:
    """Does tasks, one at a time, until SIGTERM or SIGINT comes.

    For each task it calls `function`, submits what this returns as the update of the task's contributor, and completes the
    task. While the function runs, a thread renews the lease over a connection of its own. A server that is not there is
    waited for, with a warning in the log "sparseagg.worker".

    function: gets a `LeasedTask`; returns tensors (whatever `Round.submit` takes), or `task.update(tensors, weight=...)`, or
        the receipt of an update that it has submitted itself. It is called in this thread. An exception that it raises fails
        the task: another worker gets it, until its `attempts_max` are used up. After failures in a row the worker pauses for
        1, 2, 4 ... 60 s.
    pools: a pool, or up to 16 in the order of preference.
    target: the server's address, as for `Client`.
    name: the worker's, 1 to 128 characters of [A-Za-z0-9._:@|/-]; made of the host's name and the number of this process when
        left out. With credentials it is the caller's principal, or below it ("phone-1/app" for "phone-1").
    capabilities: what this worker can do; it gets tasks that require no others.
    not_retryable: exceptions of the function after which the task is FAILED at once, because no other worker would succeed.
    encoding, values: what updates travel as, as in `Round.submit`.
    tasks_max: ends after this number of tasks, however they ended.
    idle_timeout: ends when there was no task for this number of seconds; 0: as soon as there is none. Without it the worker
        waits for ever.
    client_options: parameters of `Client` other than the target.

    SIGTERM and SIGINT interrupt the function (`WorkerStopped`) and hand its task back, which is then AVAILABLE at once;
    what the function has returned by then is submitted first. In other threads than the main one no signal comes.

    Raises SparseAggError for what waiting does not help: InvalidArgumentError, UnauthenticatedError,
    PermissionDeniedError. An exception of the function that is no Exception, as SystemExit, hands the task back and is raised.

        def train(task):
            model = task.client.round(task.payload.decode()).result()
            ...
            return task.update({"emb": (rows, changes, shape)}, weight=examples)

        worker.run(train, ["words"], "host:50061")
    """
    if not callable(function):
        raise InvalidArgumentError(f"function is {function!r}, which cannot be called")
    EncodeOptions(encoding, values)  # refuses here what each task would fail for
    kinds = _exceptions(not_retryable)
    limit = None if tasks_max is None else _arguments.whole("tasks_max", tasks_max, 1, 2**63)
    idle = None if idle_timeout is None else _arguments.seconds("idle_timeout", idle_timeout)
    options = dict(_arguments.mapping("client_options", client_options or {}))
    client = Client(target, **{"retry": RetryPolicy(connect_timeout=math.inf), **options})
    control = Client(target, **{**options, "timeout": _CALL_SECONDS})
    acquisition = _Acquisition(control.tasks, pools, capabilities, name)
    with client, control, StopSignals() as stop, LeaseKeeper(control) as leases:
        submitter = _Submitter(encoding, values)
        worker = _Worker(function, kinds, submitter, client, control.tasks, leases, stop)
        return worker.run(acquisition, limit, idle)


def _exceptions(given: Any) -> tuple[type[Exception], ...]:
    kinds = (given,) if isinstance(given, type) else tuple(_arguments.items("not_retryable", given))
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise InvalidArgumentError(
                f"not_retryable has {kind!r}, which is no class of exceptions"
            )
    return kinds


def _own_name() -> str:
    """Returns the name of a worker that has none: of this process, so that it can be found."""
    name = f"{socket.gethostname()}/{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return _NOT_IN_NAMES.sub("-", name)[-_NAME_MAX:]


class _Acquisition:
    """What this worker asks for."""

    def __init__(
        self,
        tasks: Tasks,
        pools: str | Sequence[str],
        capabilities: Sequence[str],
        name: str | None,
    ) -> None:
        self._tasks = tasks
        self._pools, self._capabilities = pools, capabilities
        self.name = _own_name() if name is None else name

    def new(self) -> Callable[[], Any]:
        """Returns a call that may be repeated: again it returns the leases of the first time."""
        request_id = uuid.uuid4().hex
        return lambda: self._tasks.acquire(
            self.name, self._pools, capabilities=self._capabilities, request_id=request_id
        )


class _Submitter:
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


class _Worker:
    """The loop, and what becomes of a task."""

    def __init__(
        self,
        function: Function,
        not_retryable: tuple[type[Exception], ...],
        submitter: _Submitter,
        client: Client,
        tasks: Tasks,
        leases: LeaseKeeper,
        stop: StopSignals,
    ) -> None:
        self._function = function
        self._not_retryable = not_retryable
        self._submitter = submitter
        self._client = client
        self._tasks = tasks
        self._leases = leases
        self._stop = stop
        self._counts = {"completed": 0, "failed": 0, "handed_back": 0, "abandoned": 0}
        self._failures = 0  # in a row

    def run(
        self, acquisition: _Acquisition, tasks_max: int | None, idle_timeout: float | None
    ) -> WorkerReport:
        """See `run` of this module."""
        _LOG.info("worker %s waits for tasks", acquisition.name)
        left = tasks_max
        idle_since = time.monotonic()
        ended_by = ""
        while not ended_by:
            task, pause = self._acquire(acquisition)
            if task is not None:
                self._do(task)
                left = None if left is None else left - 1
                idle_since = time.monotonic()
                pause = self._pause_after_failures()
            if self._stop.received:
                ended_by = self._stop.received
            elif left == 0:
                ended_by = "TASKS_MAX"
            elif task is None and idle_timeout is not None:
                idle_left = idle_since + idle_timeout - time.monotonic()
                pause = min(pause, idle_left)
                if idle_left <= 0:
                    ended_by = "IDLE"
            if not ended_by and pause > 0:
                self._stop.pause(pause)
                ended_by = self._stop.received
        report = WorkerReport(**self._counts, ended_by=ended_by)
        _LOG.info("worker %s has ended: %s", acquisition.name, report)
        return report

    def _acquire(self, acquisition: _Acquisition) -> tuple[LeasedTask | None, float]:
        """Returns a task, or none and the seconds until the next question."""
        try:
            acquired = self._patiently(acquisition.new())
        except SparseAggError:
            if not self._stop.received:
                raise
            return None, 0.0
        for info in acquired.tasks:  # one at most
            return LeasedTask(info, self._client), 0.0
        return None, acquired.pause()

    def _do(self, task: LeasedTask) -> None:
        """Does one task, whatever comes of it."""
        _LOG.debug("%s: attempt %d of %d", task.name, task.info.attempts, task.info.attempts_max)
        begin = time.monotonic()
        self._leases.keep(task)
        try:
            outcome = self._outcome(task)
        finally:
            self._leases.release()
        self._counts[outcome] += 1
        if outcome != "handed_back":
            self._failures = self._failures + 1 if outcome == "failed" else 0
        seconds = time.monotonic() - begin
        _LOG.info(
            "%s %s (%s, contributor %s, %.1f s)",
            task.name,
            outcome.replace("_", " "),
            task.info.round,
            task.contributor,
            seconds,
        )

    def _outcome(self, task: LeasedTask) -> str:
        try:
            with self._stop.interrupting():
                returned = self._function(task)
        except WorkerStopped:
            return self._hand_back(task)
        except Exception as error:
            if isinstance(error, TaskCancelledError) and task.cancelled:
                return "abandoned"
            return self._fail(task, error, retryable=self._is_retryable(error))
        except BaseException:  # the function ends the process
            self._hand_back(task)
            raise
        try:
            receipt = self._receipt(task, returned)
        except AlreadyCountedError:
            return self._counted_before(task)
        except (RoundNotOpenError, NotFoundError) as error:
            # Nobody can do it. The server knows, unless the round is full.
            self._fail(task, error, retryable=False)
            return "abandoned"
        except TaskCancelledError:
            return "abandoned"
        except Exception as error:
            if self._stop.received and _is_transient(error):
                return self._hand_back(task)
            if getattr(error, "reason", "") == "DIGEST_CONFLICT":
                # It was counted, the answer was lost, and rounding at random has made other bytes of it.
                return self._counted_before(task)
            return self._fail(task, error, retryable=self._is_retryable(error))
        return self._complete(task, receipt)

    def _is_retryable(self, error: Exception) -> bool:
        return not isinstance(error, self._not_retryable)

    def _receipt(self, task: LeasedTask, returned: Any) -> Receipt:
        """Submits what the function returned; returns the receipt."""
        if isinstance(returned, Receipt):
            return returned
        update = self._submitter.update(task, returned)
        return self._patiently(lambda: self._submitter.submit(task, update))

    def _complete(self, task: LeasedTask, receipt: Receipt) -> str:
        try:
            self._patiently(lambda: self._tasks.complete(task.lease, receipt))
        except _GONE as gone:
            # The update is counted, which completes the task whoever holds it.
            _LOG.debug("%s: %s", task.name, gone)
        except SparseAggError as error:
            if self._stop.received and _is_transient(error):
                _LOG.warning("%s: its update is counted, but not told: %s", task.name, error)
                return "completed"
            if error.reason not in ("RECEIPT_MISMATCH", "UPDATE_NOT_COUNTED"):
                raise
            return self._fail(task, error, retryable=True)
        return "completed"

    def _counted_before(self, task: LeasedTask) -> str:
        """The update has been counted without a receipt for this worker. The end of the lease completes the task."""
        _LOG.info("%s: its update was counted before", task.name)
        try:
            self._patiently(lambda: self._tasks.hand_back(task.lease))
        except SparseAggError as error:
            if not (isinstance(error, _GONE) or self._stop.received):
                raise
        return "completed"

    def _fail(self, task: LeasedTask, error: Exception, *, retryable: bool) -> str:
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
            after = self._patiently(
                lambda: self._tasks.fail(task.lease, reason, retryable=retryable)
            )
        except _GONE:
            return "abandoned"
        except SparseAggError as refusal:
            if not (self._stop.received and _is_transient(refusal)):
                raise
            return "failed"
        return "completed" if after.state is TaskState.COMPLETED else "failed"

    def _hand_back(self, task: LeasedTask) -> str:
        """The worker is to stop."""
        try:
            self._patiently(lambda: self._tasks.hand_back(task.lease))
        except SparseAggError as error:
            _LOG.warning("%s is not handed back, its lease will end: %s", task.name, error)
            return "abandoned"
        return "handed_back"

    def _patiently(self, call: Callable[[], _T]) -> _T:
        """Returns what `call` returns, called again while there is no server. A worker that is to stop tries once."""
        while True:
            try:
                return call()
            except SparseAggError as error:
                if self._stop.received or not _is_transient(error):
                    raise
                _LOG.warning("%s (trying again until the server is there)", error)
            self._stop.pause(_SERVER_PAUSE_SECONDS * random.uniform(0.5, 1.0))

    def _pause_after_failures(self) -> float:
        if not self._failures:
            return 0.0
        doublings = min(self._failures - 1, _DOUBLINGS_MAX)
        return min(2.0**doublings, _FAILURE_PAUSE_SECONDS_MAX) * random.uniform(0.5, 1.0)


def _is_transient(error: Exception) -> bool:
    """Returns True where the server may answer another time."""
    return isinstance(error, SparseAggError) and (
        is_retryable(error) or isinstance(error, DeadlineExceededError)
    )


def _reason(error: Exception) -> str:
    """Returns what people read about a failure, as short as the server wants it."""
    kind, text = type(error).__name__, _arguments.words_of(error)
    if not text.startswith(kind):
        text = f"{kind}: {text}"
    return text.encode(errors="replace")[:_REASON_BYTES_MAX].decode(errors="ignore")
