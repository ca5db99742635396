"""SIGTERM and SIGINT: a request to stop, which interrupts the function of a worker and nothing else."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class WorkerStopped(KeyboardInterrupt):
    """Raised in the function of `run` where it stands when SIGTERM or SIGINT comes. Its task is handed back.

    A KeyboardInterrupt, which libraries let pass: `finally` and `with` do their work, `except Exception` does not see it.
    """


class StopSignals:
    """Receives both signals inside a `with` block. A second signal does what it did before the block.

    Outside the main thread, where Python receives no signals, and for a signal that the process ignores, it changes nothing.
    """

    def __init__(self) -> None:
        self.received = ""  # name of the signal that came
        self._interrupts = False
        # Its `put` may be called while the same thread is inside `get`, as a handler does.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            signal.signal(number, before)

    def _handle(self, number: int, _: object) -> None:
        self.received = signal.Signals(number).name
        self._restore()
        self._wake.put(None)
        if self._interrupts:
            self._interrupts = False
            raise WorkerStopped(self.received)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """A signal raises WorkerStopped inside this block, also one that came before it."""
        try:
            self._interrupts = True
            if self.received:
                raise WorkerStopped(self.received)
            yield
        finally:
            self._interrupts = False

    def pause(self, seconds: float) -> None:
        """Sleeps; a signal ends it."""
        if not self.received:
            try:
                self._wake.get(timeout=seconds)
            except queue.Empty:
                pass
