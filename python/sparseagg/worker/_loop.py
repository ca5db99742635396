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
from typing import Any, Callable, SupportsFloat, SupportsIndex

from sparseagg import _arguments
from sparseagg._encode.encodings import EncodeOptions, ValuesChoice
from sparseagg._net.retry import RetryPolicy
from sparseagg.client import Client
from sparseagg.errors import InvalidArgumentError, SparseAggError
from sparseagg.round import Round
from sparseagg.tasks import AcquiredTasks, Task, Tasks
from sparseagg.worker._attempt import Attempts, Function, Outcome, Submitter
from sparseagg.worker._leases import LeaseKeeper
from sparseagg.worker._patience import Patience
from sparseagg.worker._stop import StopSignals
from sparseagg.worker._task import LeasedTask

_LOG = logging.getLogger("sparseagg.worker")
# A call about tasks; a worker that is to stop waits no longer for a server that is not there.
_CALL_SECONDS = 5.0
# After failures in a row: a worker on which everything fails must not use up the attempts of all tasks. One that hands tasks
# back and goes on finds the server without memory.
_FAILURES = (Outcome.FAILED, Outcome.HANDED_BACK)
_FAILURE_PAUSE_SECONDS_MAX = 60.0
_DOUBLINGS_MAX = 6
_NAME_MAX = 128
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._:@|/-]")


@dataclass(frozen=True)
class WorkerReport:
    """What a worker has done.

    completed: tasks whose round has counted an update, this worker's or an earlier one.
    failed: tasks whose function raised an exception, or returned what the round refuses.
    handed_back: tasks that it gave back because it was to stop, or because the server had no memory for their updates.
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
    PermissionDeniedError, and CredentialFileError where there is no token at the start. Later on a token is waited for, as
    while its file is renewed. An exception of the function that is no Exception, as SystemExit, hands the task back and is
    raised.

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
        control._transport._access.metadata()  # raises for a wrong path, for which Patience waits
        submitter = Submitter(encoding, values)
        attempts = Attempts(function, kinds, submitter, control.tasks, stop)
        return _Loop(acquisition, attempts, client, leases, stop).run(limit, idle)


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

    def new(self) -> Callable[[], AcquiredTasks]:
        """Returns a call that may be repeated: again it returns the lease of the first time."""
        request_id = uuid.uuid4().hex
        return lambda: self._tasks.acquire(
            self.name, self._pools, capabilities=self._capabilities, request_id=request_id
        )


class _Loop:
    """Acquires tasks and has attempts made at them."""

    def __init__(
        self,
        acquisition: _Acquisition,
        attempts: Attempts,
        client: Client,
        leases: LeaseKeeper,
        stop: StopSignals,
    ) -> None:
        self._acquisition = acquisition
        self._attempts = attempts
        self._client = client
        self._leases = leases
        self._stop = stop
        self._patience = Patience(stop)
        self._round: Round | None = None  # of the last task
        self._round_key: tuple[Any, ...] = ()
        self._counts = dict.fromkeys(Outcome, 0)
        self._failures = 0  # in a row

    def run(self, tasks_max: int | None, idle_timeout: float | None) -> WorkerReport:
        """See `run` of this module."""
        _LOG.info("worker %s comes for tasks", self._acquisition.name)
        idle_since = time.monotonic()
        ended_by = ""
        while not ended_by:
            task, pause = self._acquire()
            if task is not None:
                self._do(task)
                pause = self._pause_after_failures()
                idle_since = time.monotonic()
            elif idle_timeout is not None:
                idle_left = idle_since + idle_timeout - time.monotonic()
                pause = min(pause, idle_left)
                if idle_left <= 0:
                    ended_by = "IDLE"
            if tasks_max is not None and sum(self._counts.values()) >= tasks_max:
                ended_by = "TASKS_MAX"
            if not ended_by and pause > 0:
                self._stop.pause(pause)
            ended_by = self._stop.received or ended_by
        report = self._report(ended_by)
        _LOG.info("worker %s has ended: %s", self._acquisition.name, report)
        return report

    def _report(self, ended_by: str) -> WorkerReport:
        return WorkerReport(
            completed=self._counts[Outcome.COMPLETED],
            failed=self._counts[Outcome.FAILED],
            handed_back=self._counts[Outcome.HANDED_BACK],
            abandoned=self._counts[Outcome.ABANDONED],
            ended_by=ended_by,
        )

    def _acquire(self) -> tuple[LeasedTask | None, float]:
        """Returns a task, or none and the seconds until the next question."""
        try:
            acquired = self._patience.call(self._acquisition.new())
        except SparseAggError as error:
            if not self._patience.is_over(error):
                raise
            return None, 0.0
        for info in acquired.tasks:  # one at most
            return LeasedTask(info, self._client, self._round_of(info)), 0.0
        return None, acquired.pause()

    def _round_of(self, info: Task) -> Round:
        """Returns the handle of the task's round: that of the task before, which knows its tensors, if it is the same."""
        # The tasks of another round of the same name were created at another time.
        key = (info.round, info.create_time)
        if self._round is None or self._round_key != key:
            self._round, self._round_key = self._client.round(info.round), key
        return self._round

    def _do(self, task: LeasedTask) -> None:
        """Makes an attempt at a task while its lease is renewed."""
        begin = time.monotonic()
        self._leases.keep(task)
        try:
            outcome = self._attempts.make(task)
        finally:
            self._leases.release()
        self._counts[outcome] += 1
        self._failures = self._failures + 1 if outcome in _FAILURES else 0
        seconds = time.monotonic() - begin
        _LOG.info(
            "%s %s (%s, contributor %s, %.1f s)",
            task.name,
            outcome.value,
            task.info.round,
            task.contributor,
            seconds,
        )

    def _pause_after_failures(self) -> float:
        if not self._failures:
            return 0.0
        doublings = min(self._failures - 1, _DOUBLINGS_MAX)
        return min(2.0**doublings, _FAILURE_PAUSE_SECONDS_MAX) * random.uniform(0.5, 1.0)
