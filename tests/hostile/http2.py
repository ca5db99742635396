"""The part of HTTP/2 and gRPC that a client needs to violate them. No library is used, because it would not violate them."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0,
    1,
    3,
    4,
    6,
    7,
    8,
    9,
)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
SERVICE = "/sparseagg.v1.AggregationService/"
TIMEOUT_S = 120


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value: int, prefix_bits: int, first: int = 0) -> bytes:
    """An integer of HPACK (RFC 7541, 5.1)."""
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes([first | value])
    out = bytearray([first | limit])
    value -= limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    out.append(value)
    return bytes(out)


def header_block(headers: list[tuple[str, str]]) -> bytes:
    """Literals without indexing: no state on either side."""
    block = b""
    for name, value in headers:
        block += b"\0"
        for text in (name.encode(), value.encode()):
            block += integer(len(text), 7) + text
    return block


def request_headers(method: str, extra: list[tuple[str, str]] | None = None) -> bytes:
    return header_block(
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "hostile.test"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        + (extra or [])
    )


def message(payload: bytes, compressed: bool = False) -> bytes:
    return struct.pack(">BI", int(compressed), len(payload)) + payload


def address_of(target: str) -> tuple[str, int]:
    host, port = target.rsplit(":", 1)
    return host, int(port)


def connect(target: str) -> socket.socket:
    connection = socket.create_connection(address_of(target), timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Frames:
    """Cuts what a connection receives into frames, and frames' data into gRPC messages, by stream."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._data: dict[int, bytearray] = {}

    def feed(self, data: bytes) -> list[tuple[int, int, int, bytes]]:
        self._bytes += data
        frames = []
        while len(self._bytes) >= 9:
            size = int.from_bytes(self._bytes[:3], "big")
            if len(self._bytes) < 9 + size:
                break
            kind, flags, stream = struct.unpack(">BBI", self._bytes[3:9])
            frames.append((kind, flags, stream, bytes(self._bytes[9 : 9 + size])))
            del self._bytes[: 9 + size]
        return frames

    def messages(self, stream: int, data: bytes) -> list[bytes]:
        """The messages that this data of the stream completes."""
        buffer = self._data.setdefault(stream, bytearray())
        buffer += data
        found = []
        while len(buffer) >= 5:
            size = int.from_bytes(buffer[1:5], "big")
            if len(buffer) < 5 + size:
                break
            found.append(bytes(buffer[5 : 5 + size]))
            del buffer[: 5 + size]
        return found


class Connection:
    """One that waits: for calls that are answered."""

    def __init__(self, target: str) -> None:
        self._socket = connect(target)
        self._frames = Frames()
        self._stream = -1
        self._window = 65_535  # bytes of data that the server takes on this connection
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0))

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> list[tuple[int, int, int, bytes]]:
        """The next frames; [] at the end of the connection. Answers SETTINGS and PING, opens windows."""
        while True:
            data = self._socket.recv(1 << 16)
            if not data:
                return []
            frames = self._frames.feed(data)
            for kind, flags, stream, payload in frames:
                if kind == SETTINGS and not flags & ACK:
                    self.send(frame(SETTINGS, ACK, 0))
                if kind == PING and not flags & ACK:
                    self.send(frame(PING, ACK, 0, payload))
                if kind == WINDOW_UPDATE and stream == 0:
                    self._window += struct.unpack(">I", payload)[0]
                if kind == DATA and payload:
                    grant = struct.pack(">I", len(payload))
                    self.send(
                        frame(WINDOW_UPDATE, 0, 0, grant) + frame(WINDOW_UPDATE, 0, stream, grant)
                    )
            if frames:
                return frames

    def start(self, method: str, requests: list[bytes]) -> None:
        """Sends all messages of a call. Together they must fit a stream's first window, 65,535 bytes."""
        self._stream += 2
        self.send(frame(HEADERS, END_HEADERS, self._stream, request_headers(SERVICE + method)))
        data = b"".join(message(request) for request in requests)
        while self._window < len(data) and self.receive():
            pass
        self._window -= len(data)
        for at in range(0, len(data), 16_000):
            last = END_STREAM if at + 16_000 >= len(data) else 0
            self.send(frame(DATA, last, self._stream, data[at : at + 16_000]))

    def call(self, method: str, requests: list[bytes]) -> list[bytes]:
        """The same; the answers until the server ends the stream or the connection."""
        self.start(method, requests)
        answers: list[bytes] = []
        while True:
            frames = self.receive()
            if not frames:
                return answers
            for kind, flags, stream, payload in frames:
                if stream != self._stream:
                    continue
                if kind == DATA:
                    answers += self._frames.messages(stream, payload)
                if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
                    return answers
