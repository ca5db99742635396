"""Connections of a client. The calls of a channel share one connection, whose bytes go through one thread at a time at
either end: large uploads side by side are faster over several."""

from __future__ import annotations

import threading
from typing import Any, Callable


class Connection:
    """A channel with a connection of its own, and how many uploads use it."""

    def __init__(self, channel: Any, methods: dict[str, Any]) -> None:
        self.channel = channel
        self.methods = methods  # by name
        self.uploads = 0


class Connections:
    """One connection, and more for uploads that run at the same time: `most` in all. Thread-safe."""

    def __init__(self, connect: Callable[[], Connection], most: int) -> None:
        self._connect = connect
        self._most = most
        self._lock = threading.Lock()
        self._all: list[Connection] = []

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

    def channels(self) -> list[Any]:
        """Those of all connections."""
        with self._lock:
            return [connection.channel for connection in self._all]
