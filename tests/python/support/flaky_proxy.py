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
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.connections = 0
        self.bytes_from_client = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def target(self) -> str:
        """Returns the address for clients."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def lose(self) -> None:
        """From now on keeps the connections and passes nothing on, as when a router on the way is switched off."""
        self._lost.set()

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            far = socket.create_connection(("127.0.0.1", self._port))
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
                if not self._lost.is_set():
                    sink.sendall(data)
                passed += len(data)
                if counted:
                    with self._lock:
                        self.bytes_from_client += len(data)
                if cut is not None and passed >= cut:
                    break
        except OSError:
            pass  # the other direction was cut
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
