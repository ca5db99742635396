"""Very many slow uploads at a time, each on a connection of its own, driven by one thread."""

import selectors
import time

import http2
import uploads
from _proto import aggregation_pb2 as api


class Client:
    """A connection with one upload."""

    def __init__(self, target: str, opening: bytes) -> None:
        self.socket = http2.connect(target)
        self.frames = http2.Frames()
        self.progress = 0  # answers to begin
        self.receipts = 0
        self.errors: list[str] = []
        self.closed = False
        self.socket.sendall(
            http2.PREFACE
            + http2.frame(http2.SETTINGS, 0, 0)
            + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, uploads.OPEN_STREAM)
            + opening
        )
        self.socket.setblocking(False)

    def on_readable(self) -> None:
        try:
            data = self.socket.recv(1 << 14)
        except (BlockingIOError, ConnectionResetError):
            data = b""
            self.closed = True
        if not data:
            self.closed = True
        for kind, flags, stream, payload in self.frames.feed(data):
            if kind == http2.SETTINGS and not flags & http2.ACK:
                self.socket.send(http2.frame(http2.SETTINGS, http2.ACK, 0))
            if kind == http2.PING and not flags & http2.ACK:
                self.socket.send(http2.frame(http2.PING, http2.ACK, 0, payload))
            if kind == http2.DATA:
                for body in self.frames.messages(stream, payload):
                    self._take(api.StreamUpdatesResponse.FromString(body))

    def _take(self, response: api.StreamUpdatesResponse) -> None:
        if response.HasField("receipt"):
            self.receipts += 1
        elif response.HasField("error"):
            self.errors.append(response.error.reason)
        else:
            self.progress += 1


class Swarm:
    def __init__(self, target: str, round_name: str, rows: int, entries: int, number: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._data = uploads.payload(entries)
        self.clients: list[Client] = []
        for n in range(number):
            opening = uploads.begin(round_name, f"{round_name}-{n}", rows, entries)
            client = Client(target, uploads.data_frames(1, opening))
            self._selector.register(client.socket, selectors.EVENT_READ, client)
            self.clients.append(client)

    def _read(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data.on_readable()
            if key.data.closed:
                self._selector.unregister(key.data.socket)

    def wait_for(self, what: str) -> bool:
        """Until each client has a progress or receipt, or an error."""
        end = time.monotonic() + http2.TIMEOUT_S
        while time.monotonic() < end:
            if all(getattr(c, what) or c.errors or c.closed for c in self.clients):
                return all(getattr(c, what) for c in self.clients)
            self._read(0.1)
        return False

    def send_slowly(self, seconds: float, rate: int, period_s: float) -> tuple[int, float]:
        """Each client sends a chunk of rate * period_s bytes once in a period, one after the other. Returns the offset that
        all reached, and the rate of each that came of it."""
        offset, step = 0, int(rate * period_s)
        start = time.monotonic()
        while time.monotonic() - start < seconds and offset + step < len(self._data):
            sent = uploads.data_frames(1, uploads.chunk(self._data[offset : offset + step], offset))
            begin = time.monotonic()
            for number, client in enumerate(self.clients):
                client.socket.send(sent)
                due = begin + (number + 1) * period_s / len(self.clients)
                while time.monotonic() < due:
                    self._read(due - time.monotonic())
            offset += step
        return offset, offset / (time.monotonic() - start)

    def finish(self, offset: int) -> None:
        rest = uploads.data_frames(1, uploads.chunk(self._data[offset:], offset), last=True)
        for number, client in enumerate(self.clients):
            client.socket.setblocking(True)
            client.socket.sendall(rest)
            client.socket.setblocking(False)
            if number % 50 == 0:
                self._read(0)

    def close(self) -> None:
        for client in self.clients:
            client.socket.close()
        self._selector.close()
