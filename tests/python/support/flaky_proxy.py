"""A TCP proxy in front of a server that cuts connections, or falls silent."""

from __future__ import annotations

import socket
import threading


class FlakyProxy:
    """Forwards to `port`; the first `cuts` connections are cut after `cut_after_bytes` from the client."""

    def __init__(self, port: int, cut_after_bytes: int | None = None, cuts: int = 1) -> None:
        self._port = port
        self._cut_after_bytes = cut_after_bytes
        self._cuts_left = cuts
        self._lost = threading.Event()
        self._answers_lost = threading.Event()
        self._answer_bytes_left: int | None = None
        self._request_bytes_left: int | None = None
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.connections = 0
        self.bytes_from_client = 0
        self.bytes_from_server = 0
        self.requests: bytearray | None = None  # set to one, it takes what clients send
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def target(self) -> str:
        """Returns the address for clients."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def lose(self) -> None:
        """From now on keeps the connections and passes nothing on, as when a router on the way is switched off."""
        self._lost.set()

    def lose_answers(self, after_bytes: int = 0, after_request_bytes: int | None = None) -> None:
        """From now on passes what clients send, and of what servers answer only that many bytes more.

        after_request_bytes: answers are lost from the moment on when clients have sent so many.
        """
        with self._lock:
            self._request_bytes_left = after_request_bytes
            if after_request_bytes is None:
                self._answer_bytes_left = after_bytes
                self._lose_when_used_up(after_bytes)

    def _lose_when_used_up(self, left: int) -> None:
        if left <= 0:
            self._answers_lost.set()

    @property
    def has_lost_answers(self) -> bool:
        """Whether the bytes of `lose_answers` are used up."""
        return self._answers_lost.is_set()

    def forward_to(self, port: int) -> None:
        """Connections that come later go to this server."""
        self._port = port

    def cut(self) -> None:
        """Ends all connections; those that come later pass everything."""
        with self._lock:
            ends, self._open = self._open, []
            self._answer_bytes_left = self._request_bytes_left = None
            for end in ends:
                shut(end)
            self._answers_lost.clear()

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                far = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                near.close()  # there is no server
                continue
            with self._lock:
                self._open += [near, far]
            cut = self._cut_after_bytes if self._cuts_left > 0 else None
            self._cuts_left -= 1
            self.connections += 1
            threading.Thread(target=self._forward, args=(near, far, cut, True), daemon=True).start()
            threading.Thread(
                target=self._forward, args=(far, near, None, False), daemon=True
            ).start()

    def _forward(
        self, source: socket.socket, sink: socket.socket, cut: int | None, counted: bool
    ) -> None:
        passed = 0
        try:
            while data := source.recv(1 << 16):
                if self._passes(data, counted, passed == 0):
                    sink.sendall(data)
                passed += len(data)
                if cut is not None and passed >= cut:
                    break
        except OSError:
            pass  # the other direction was cut
        for end in (source, sink):
            shut(end)
            end.close()

    def _passes(self, data: bytes, from_client: bool, is_greeting: bool) -> bool:
        # A client of HTTP/2 sends nothing before the server has sent its settings.
        with self._lock:
            if from_client:
                self.bytes_from_client += len(data)
                if self.requests is not None:
                    self.requests += data
                if self._request_bytes_left is not None:
                    self._request_bytes_left -= len(data)
                    self._lose_when_used_up(self._request_bytes_left)
            else:
                self.bytes_from_server += len(data)
                if self._answer_bytes_left is not None:
                    self._answer_bytes_left -= len(data)
                    self._lose_when_used_up(self._answer_bytes_left)
        may_answer = is_greeting or not self._answers_lost.is_set()
        return not self._lost.is_set() and (from_client or may_answer)


def shut(end: socket.socket) -> None:
    """Ends both directions of a connection."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended, or is closed
