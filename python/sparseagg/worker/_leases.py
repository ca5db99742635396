"""The thread that renews the lease of the task at hand, over a client of its own, which no large update delays."""

from __future__ import annotations

import logging
import threading
import time

from sparseagg.client import Client
from sparseagg.errors import CredentialFileError, SparseAggError
from sparseagg.tasks import TaskLease
from sparseagg.worker._patience import is_transient
from sparseagg.worker._task import LeasedTask

_LOG = logging.getLogger("sparseagg.worker")
_RENEWALS = 3  # of a lease
_RENEW_SECONDS_MIN = 0.3  # that one renewal may take
# A lease may have little time left when the server is back, so the next attempt follows soon.
_RETRY_SECONDS_MAX = 1.0
_JOIN_SECONDS = 5.0  # a call that is under way ends when its client is closed


class LeaseKeeper:
    """Renews one lease at a time. The end of the `with` block closes the client and ends the thread, which needs no time
    while there is no task.

    client: one that nobody uses for large updates.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._task: LeasedTask | None = None
        self._due = 0.0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="sparseagg-leases", daemon=True)

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._client.close()
        self._thread.join(_JOIN_SECONDS)

    def keep(self, task: LeasedTask) -> None:
        """Renews the lease of `task` from now on, until it has ended or `release` is called."""
        with self._changed:
            self._task = task
            self._due = _next_renewal(task.lease)
            self._changed.notify()

    def release(self) -> None:
        """The worker is done with the task. A renewal under way does no harm."""
        with self._changed:
            self._task = None
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                task = self._task
                wait = None if task is None else self._due - time.monotonic()
                if task is None or (wait is not None and wait > 0):
                    self._changed.wait(wait)
                    continue
            self._renew(task)

    def _renew(self, task: LeasedTask) -> None:
        duration = task.lease.duration
        begin = time.monotonic()
        try:
            (outcome,) = self._client.tasks.renew(
                task.lease, timeout=max(duration / _RENEWALS, _RENEW_SECONDS_MIN)
            )
        except Exception as error:  # nobody would renew after the end of this thread
            # Whether the lease has ended is for the server to say: while it is down, time stands still for leases.
            is_told = is_transient(error) and not isinstance(error, CredentialFileError)
            level = logging.DEBUG if is_told else logging.WARNING
            unknown = None if isinstance(error, SparseAggError) else error
            _LOG.log(level, "%s: the lease is not renewed: %s", task.name, error, exc_info=unknown)
            due = time.monotonic() + min(duration / (2 * _RENEWALS), _RETRY_SECONDS_MAX)
        else:
            if not isinstance(outcome, TaskLease):
                task._end(outcome)
                _LOG.info("%s: %s", task.name, outcome)
                self._forget(task)
                return
            due = begin + duration / _RENEWALS
        with self._changed:
            if self._task is task:
                self._due = due

    def _forget(self, task: LeasedTask) -> None:
        with self._changed:
            if self._task is task:
                self._task = None


def _next_renewal(lease: TaskLease) -> float:
    """Returns the time of the first renewal: sooner where a part of the lease is over already."""
    return time.monotonic() + max(0.0, lease.time_left - lease.duration * (1 - 1 / _RENEWALS))
