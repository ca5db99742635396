"""Decides whether a failed call is made again, and how long to wait before."""

from __future__ import annotations

import logging
import math
import random
import time
from dataclasses import dataclass
from typing import Callable

from sparseagg import _arguments
from sparseagg._net.transport_errors import LASTING, NOBODY_THERE
from sparseagg.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    SparseAggError,
    UnavailableError,
)

_LOG = logging.getLogger("sparseagg")
# A server that restarts is back before a warning says that it is gone.
_SILENT_SECONDS = 2.0
# For a client that was never connected: how long it goes on, and how long it waits between two attempts.
_CONNECT_SECONDS = 10.0
_CONNECT_DELAY_MAX = 1.0
_DOUBLINGS_MAX = 60  # of a delay, which is a float
# Why a server ends a stream on which nothing is under way: another one may be opened at once.
STREAM_IDLE = "STREAM_IDLE"


@dataclass(frozen=True)
class RetryPolicy:
    """When a failed call is made again. Every call is safe to repeat: updates and new rounds carry an id.

    attempts: calls at most while the server is unavailable; None: as many as the timeout allows; 1 never retries. A server
        that says when to come back (RetryInfo) is asked again until the timeout is over.
    initial_delay, max_delay: seconds before the second call, and at most; doubling, with jitter.
    connect_timeout: seconds after which a client that never had an answer gives up where its name is unknown, nothing
        listens, or each connection is closed: most often a wrong address. One that was connected before goes on as long
        as its timeout. None: 10, and no limit where the timeout is None.
    """

    attempts: int | None = None
    initial_delay: float = 0.1
    max_delay: float = 5.0
    connect_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.attempts is not None:
            _arguments.whole("attempts", self.attempts, 1, 2**63 - 1)
        for name in ("initial_delay", "max_delay"):
            delay = getattr(self, name)
            if not 0 <= _arguments.seconds(name, delay) < math.inf:
                raise InvalidArgumentError(f"{name} is {delay}, not a number of seconds from 0 on")
        if self.connect_timeout is not None:
            _arguments.seconds("connect_timeout", self.connect_timeout)


class Backoff:
    """The pauses of one operation. `wait` and `pause` raise the error instead where another attempt makes no sense.

    timeout: seconds that the operation may take; from its first failure since the last progress on with `since_failure`.
    was_connected: tells whether the server has ever answered.
    away_seconds: of a server that may have moved: the error after so long without it is raised, and says so.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        timeout: float | None,
        *,
        since_failure: bool = False,
        was_connected: Callable[[], bool] = lambda: True,
        away_seconds: float | None = None,
    ) -> None:
        self._away_seconds = away_seconds
        self._policy = policy
        self._was_connected = was_connected
        self._timeout = _arguments.finite(timeout)
        self._since_failure = since_failure
        self._deadline = None if since_failure else self._deadline_from_now()
        self._failures = 0
        self._first_failure = 0.0
        self._nobody_there: SparseAggError | None = None
        self._was_told = False

    def _deadline_from_now(self) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout

    def remaining(self) -> float | None:
        """Returns the seconds left, None for no limit. Never negative."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def progress(self) -> None:
        """Something went well: the next failure is a first one."""
        self._failures = 0

    def wait(self, error: SparseAggError) -> None:
        """Sleeps before the next attempt, or raises `error`."""
        time.sleep(self.pause(error))

    def pause(self, error: SparseAggError) -> float:
        """Returns the seconds to sleep before the next attempt; raises `error` where there is none."""
        self._failures += 1
        if self._failures == 1:
            self._first_failure = time.monotonic()
            self._nobody_there = None
            self._was_told = False
            if self._since_failure:
                self._deadline = self._deadline_from_now()
        nobody_there = error.reason in NOBODY_THERE and not self._was_connected()
        if nobody_there:
            self._nobody_there = error
        elif isinstance(error, DeadlineExceededError) and self._nobody_there is not None:
            # The last attempt was cut short while it connected: the one before says why there is no answer.
            raise self._nobody_there
        attempts = self._policy.attempts
        if not is_retryable(error) or attempts == 1:
            raise error
        unavailable = isinstance(error, UnavailableError)
        if unavailable and attempts is not None and self._failures >= attempts:
            raise error
        doublings = min(self._failures - 1, _DOUBLINGS_MAX)
        delay: float = min(self._policy.max_delay, self._policy.initial_delay * 2**doublings)
        left = self.remaining()
        if nobody_there:
            delay = min(delay, _CONNECT_DELAY_MAX)
            left = self._connect_seconds_left(left)
        delay = max(delay * random.uniform(0.5, 1.0), error.retry_after or 0.0)
        if left is not None and delay >= left:
            raise error
        if unavailable and self._is_away_too_long(delay):
            error._may_have_moved = True
            raise error
        if unavailable:
            self._tell(error, left)
        return delay

    def _is_away_too_long(self, delay: float) -> bool:
        if self._away_seconds is None:
            return False
        return time.monotonic() + delay >= self._first_failure + self._away_seconds

    def _connect_seconds_left(self, left: float | None) -> float | None:
        """Of `left` seconds those in which a first connection has to come about."""
        limit = _arguments.finite(self._policy.connect_timeout)
        if self._policy.connect_timeout is None:
            limit = None if self._timeout is None else _CONNECT_SECONDS
        if limit is None:
            return left
        until_limit = self._first_failure + limit - time.monotonic()
        return until_limit if left is None else min(left, until_limit)

    def _tell(self, error: SparseAggError, left: float | None) -> None:
        """Once for each time without a server, where a caller may begin to wonder."""
        if self._was_told or time.monotonic() - self._first_failure < _SILENT_SECONDS:
            return
        self._was_told = True
        limit = "until it is there" if left is None else f"for {left:.0f} s more"
        _LOG.warning("%s (trying again %s)", error.message, limit)


def is_retryable(error: SparseAggError) -> bool:
    """Returns True for a server that is unavailable and may come back, that tells when, or that ended a silent
    stream."""
    if error.reason in LASTING:
        return False
    return (
        error.retry_after is not None
        or isinstance(error, UnavailableError)
        or error.reason == STREAM_IDLE
    )
