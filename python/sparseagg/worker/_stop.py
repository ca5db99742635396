"""SIGTERM and SIGINT: a request to stop, which interrupts the function of a worker and nothing else."""

from __future__ import annotations

import queue
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# It interrupts a wait of the main thread and means nothing: programs must expect it at any time, and ignore it by default.
# None where the system has no such signal.
_NUDGE: signal.Signals | None = getattr(signal, "SIGURG", None)
_NUDGE_SECONDS = 0.05


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
        self._nudger: _Nudger | None = None

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._handle)
            if self._before and _NUDGE is not None:
                self._nudger = _Nudger(_NUDGE, self._is_awaited)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        if self._nudger is not None:
            self._nudger.close()

    def _is_awaited(self, number: int) -> bool:
        """Returns whether `_handle` is to be called for a signal of this number, and has not been called yet."""
        return not self.received and signal.getsignal(number) == self._handle

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
        if self._nudger is not None:
            self._nudger.watch()
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


class _Nudger:
    """Interrupts a wait of the main thread that a signal did not interrupt. REQUIRES: it is made in the main thread.

    Python notes a signal at once, and calls its handler between two steps of the main thread. A main thread that was just
    about to wait for a lock goes on waiting, as does one whose signal the system gave to another thread.
    """

    def __init__(self, nudge: signal.Signals, is_awaited: Callable[[int], bool]) -> None:
        self._nudge = nudge
        self._is_awaited = is_awaited
        self._main = threading.get_ident()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._handles = signal.getsignal(nudge) == signal.SIG_DFL
        if self._handles:
            signal.signal(nudge, lambda *_: None)
        self.watch()
        self._thread = threading.Thread(target=self._run, name="sparseagg-signals", daemon=True)
        self._thread.start()

    def watch(self) -> None:
        """Has Python report signals here. An event loop that has ended since the last time has put an end to that."""
        self._report_to(self._writer.fileno())

    def _report_to(self, fd: int) -> None:
        before = signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
        if before not in (-1, self._writer.fileno()):  # of an event loop that waits for signals
            signal.set_wakeup_fd(before)

    def _run(self) -> None:
        while numbers := self._reader.recv(64):
            for number in numbers:
                while self._is_awaited(number):
                    time.sleep(_NUDGE_SECONDS)
                    if self._is_awaited(number):
                        signal.pthread_kill(self._main, self._nudge)

    def close(self) -> None:
        self._report_to(-1)
        self._writer.close()
        self._thread.join()
        self._reader.close()
        if self._handles:
            signal.signal(self._nudge, signal.SIG_DFL)
