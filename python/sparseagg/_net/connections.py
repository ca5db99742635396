"""Connections of a client. The calls of a channel share one connection, whose bytes go through one thread at a time at
either end: large uploads side by side are faster over several. A server lets a connection have 256 calls at a time
(docs/api.md), and gRPC keeps further ones back without a word: calls that wait for a round must not hold back the ones
that end it."""

from __future__ import annotations

import threading
from typing import Any, Callable

# The most calls that wait for a round on one connection.
WAITS_MAX = 100


class Connection:
    """A channel with a connection of its own, and how many uploads, and calls that wait for a round, use it."""

    def __init__(self, channel: Any, methods: dict[str, Any]) -> None:
        self.channel = channel
        self.methods = methods  # by name
        self.uploads = 0
        self.waits = 0


class Connections:
    """One connection, and more for uploads that run at the same time: `most` in all. Beside them, as many as it takes for
    the calls that wait for a round. Thread-safe."""

    def __init__(self, connect: Callable[[], Connection], most: int) -> None:
        self._connect = connect
        self._most = most
        self._lock = threading.Lock()
        self._all: list[Connection] = []
        self._for_waits: list[Connection] = []

    @property
    def first(self) -> Connection:
        """The one for everything else. Made when first asked for: a channel of grpc.aio belongs to the event loop that
        runs then, and a client may be made before there is one."""
        if not self._all:
            with self._lock:
                self._make_first()
        return self._all[0]

    def _make_first(self) -> None:
        if not self._all:
            self._all.append(self._connect())

    def take(self) -> Connection:
        """Takes a connection without an upload, or a new one, or else one with the fewest uploads. Give it back later."""
        with self._lock:
            self._make_first()
            least = min(self._all, key=lambda connection: connection.uploads)
            if least.uploads > 0 and len(self._all) < self._most:
                least = self._connect()
                self._all.append(least)
            least.uploads += 1
            return least

    def give_back(self, connection: Connection) -> None:
        """The upload has ended."""
        with self._lock:
            connection.uploads -= 1

    def take_for_wait(self) -> Connection:
        """Returns the first connection, or another one where a hundred calls wait for a round on it. `end_wait` gives it
        back."""
        with self._lock:
            self._make_first()
            for connection in (self._all[0], *self._for_waits):
                if connection.waits < WAITS_MAX:
                    break
            else:
                connection = self._connect()
                self._for_waits.append(connection)
            connection.waits += 1
            return connection

    def end_wait(self, connection: Connection) -> None:
        """The call has ended."""
        with self._lock:
            connection.waits -= 1

    def channels(self) -> list[Any]:
        """Those of all connections."""
        with self._lock:
            return [connection.channel for connection in (*self._all, *self._for_waits)]
