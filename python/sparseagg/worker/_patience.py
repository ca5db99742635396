"""Calls that are made again while there is no server, or no token."""

from __future__ import annotations

import logging
import random
from typing import Callable, TypeVar

from sparseagg._net.retry import is_retryable
from sparseagg.errors import CredentialFileError, DeadlineExceededError, SparseAggError
from sparseagg.worker._stop import StopSignals

_LOG = logging.getLogger("sparseagg.worker")
_T = TypeVar("_T")
# Between two attempts, beyond those that the client makes.
_PAUSE_SECONDS = 1.0


class Patience:
    """Waits for the server, and for a token, as long as the worker is not asked to stop."""

    def __init__(self, stop: StopSignals) -> None:
        self._stop = stop

    def call(self, action: Callable[[], _T]) -> _T:
        """Returns what `action` returns, done again while there is no server or no token; only once where the worker is to
        stop.

        Raises SparseAggError for what waiting does not help, and where the time is over (`is_over`).
        """
        while True:
            try:
                return action()
            except SparseAggError as error:
                if self._stop.received or not is_transient(error):
                    raise
                _LOG.warning("%s (trying again until the %s is there)", error, _missing(error))
            self._stop.pause(_PAUSE_SECONDS * random.uniform(0.5, 1.0))

    def is_over(self, error: Exception) -> bool:
        """Returns True for an error that `call` raised because the worker is to stop."""
        return bool(self._stop.received) and is_transient(error)


def is_transient(error: Exception) -> bool:
    """Returns True where the server may answer another time, also where there is no token: its file is empty while it is
    renewed, and a token service may be away."""
    return isinstance(error, SparseAggError) and (
        is_retryable(error) or isinstance(error, (DeadlineExceededError, CredentialFileError))
    )


def _missing(error: SparseAggError) -> str:
    return "token" if isinstance(error, CredentialFileError) else "server"
