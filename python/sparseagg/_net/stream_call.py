"""One call that streams, with a thread of its own that takes the answers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable

import grpc

from sparseagg import _arguments
from sparseagg._net import forks as _forks
from sparseagg.errors import DeadlineExceededError, SparseAggError, UnavailableError

Take = Callable[["deque[Any]"], Any]


class StreamCall:
    """One stream. A background thread takes the answers, so that sending never waits for reading.

    One thread may use it. Instead of a deadline for the whole, which depends on the size, there is one for standing
    still: DeadlineExceededError when nothing has moved in either direction for `idle_timeout` seconds (None: wait for
    ever). At most `answers_max` answers are kept unread (None: no limit); then the server is slowed down.
    `take(unsent)` takes what is sent next from the front of the messages that wait: one, or several as one.
    """

    # The most messages, or bytes of messages, that the stream has and gRPC has not taken yet.
    _UNSENT_MAX = 2
    _UNSENT_BYTES_MAX = 64 << 10

    def __init__(
        self,
        start: Callable[[Iterator[Any]], Any],
        end: Callable[[], None],
        error_of: Callable[[grpc.RpcError], SparseAggError],
        on_answer: Callable[[], None],
        idle_timeout: float | None,
        answers_max: int | None,
        take: Take | None,
    ) -> None:
        self._idle_timeout = _arguments.finite(idle_timeout)
        self._answers_max = answers_max
        self._error_of = error_of
        self._on_answer = on_answer
        self._end = end
        self._changed = threading.Condition()
        self._unsent: deque[Any] = deque()
        self._unsent_bytes = 0
        self._take = take or deque.popleft
        self._answers: deque[Any] = deque()
        self._sending_done = False
        self._ended = False
        self._error: SparseAggError | None = None
        self._moves = 0
        self._made_in = _forks.generation()
        self._call = start(self._requests())
        self._reader = threading.Thread(target=self._read, name="sparseagg-stream", daemon=True)
        self._reader.start()

    def send(self, message: Any) -> None:
        """Hands `message` over; blocks while the connection is busy. Raises when the stream has ended."""
        _forks.check_process(self._made_in)
        with self._changed:
            self._wait(lambda: self._ended or self._has_room())
            if self._ended:
                raise self._error or UnavailableError("the server ended the stream early")
            self._unsent.append(message)
            self._unsent_bytes += message.ByteSize()
            self._changed.notify_all()

    def sent_all(self) -> None:
        """Nothing more will be sent."""
        with self._changed:
            self._sending_done = True
            self._changed.notify_all()

    def receive(self) -> Any:
        """Returns the next answer, or None at the end of the stream. Blocks. Raises when the stream has failed."""
        _forks.check_process(self._made_in)
        with self._changed:
            self._wait(lambda: self._ended or bool(self._answers))
            if self._answers:
                self._changed.notify_all()
                return self._answers.popleft()
            if self._error is not None:
                raise self._error
            return None

    def poll(self) -> Any:
        """Returns an answer that is here already, or None. Never blocks, never raises."""
        with self._changed:
            return self._answers.popleft() if self._answers else None

    def cancel(self) -> None:
        """Ends the stream, wherever it is. May be called from any thread and more than once."""
        if self._made_in != _forks.generation():
            return  # it is the parent's
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._call.cancel()

    def join(self, timeout: float, why: SparseAggError) -> None:
        """Waits at most `timeout` seconds for the end of the thread, after the call was ended; its users hear `why`."""
        with self._changed:
            if not self._ended:
                self._error = self._error or why
            self._ended = True
            self._changed.notify_all()
        self._reader.join(timeout)

    def __enter__(self) -> StreamCall:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def _has_room(self) -> bool:
        return len(self._unsent) < self._UNSENT_MAX or self._unsent_bytes < self._UNSENT_BYTES_MAX

    def _wait(self, ready: Callable[[], bool]) -> None:
        moves, since = self._moves, time.monotonic()
        while not ready():
            self._changed.wait(self._idle_timeout)
            now = time.monotonic()
            if self._moves != moves:
                moves, since = self._moves, now
            elif (
                self._idle_timeout is not None and now - since >= self._idle_timeout and not ready()
            ):
                self._call.cancel()
                raise DeadlineExceededError(f"no progress for {self._idle_timeout:g} s")

    def _requests(self) -> Iterator[Any]:
        while True:
            with self._changed:
                while not (self._unsent or self._sending_done or self._ended):
                    self._changed.wait()
                if self._ended or not self._unsent:
                    return
                message = self._take(self._unsent)
                self._unsent_bytes = sum(other.ByteSize() for other in self._unsent)
                self._moves += 1
                self._changed.notify_all()
            yield message

    def _read(self) -> None:
        error: SparseAggError | None = None
        try:
            for answer in self._call:
                self._on_answer()
                with self._changed:
                    while not self._ended and self._is_full():
                        self._changed.wait()
                    self._answers.append(answer)
                    self._moves += 1
                    self._changed.notify_all()
        except grpc.RpcError as failure:
            error = self._error_of(failure)
        self._end()
        with self._changed:
            self._error = self._error or error
            self._ended = True
            self._changed.notify_all()

    def _is_full(self) -> bool:
        return self._answers_max is not None and len(self._answers) >= self._answers_max
