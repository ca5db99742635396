"""What may stand between a client and its server, each for real on a socket: an HTTP proxy, a reverse proxy that answers
by itself, a server of HTTP/1."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from typing import Callable

import grpc

Handler = Callable[[socket.socket], None]


class Listener:
    """Takes connections and hands each to `handler`, with TLS where a context is given."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            self._handler(connection)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass  # the client has gone
        finally:
            connection.close()


class ConnectProxy(Listener):
    """An HTTP proxy: passes on what is asked for by CONNECT, or refuses all of it with `status`."""

    def __init__(self, status: int | None = None) -> None:
        self.asked: list[str] = []  # for HOST:PORT
        self._status = status
        super().__init__(self._connect)

    def _connect(self, near: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += near.recv(1) or b"\r\n\r\n"
        place = head.split(b" ", 2)[1].decode()
        self.asked.append(place)
        if self._status is not None:
            near.sendall(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % self._status)
            return
        host, _, port = place.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port))) as far:
            near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other direction has ended


def http1(status: int) -> Handler:
    """A server of HTTP/1 that answers everything with `status`."""

    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 %d Any\r\nContent-Length: 5\r\n\r\nhello" % status)

    return answer


def http2(status: int, calls: list[int] | None = None) -> Handler:
    """A reverse proxy of HTTP/2 that answers each call with `status` and a page, and notes its stream in `calls`."""
    head = _literal(b":status", b"%d" % status)
    if not _FORGETS_STATUS:
        head += _literal(b"content-type", b"text/html")

    def answer(connection: socket.socket) -> None:
        _exactly(connection, 24)  # the preface
        connection.sendall(_frame(_SETTINGS, 0, 0))
        while True:
            size, kind, flags, stream = _head(connection)
            payload = _exactly(connection, size)
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                connection.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
            elif kind == _HEADERS:
                if calls is not None:
                    calls.append(stream)
                connection.sendall(_frame(_HEADERS, _END_HEADERS, stream, head))
                connection.sendall(_frame(_DATA, _END_STREAM, stream, b"<html>No</html>"))

    return answer


# gRPC of these versions says "Stream removed" of a page, whatever its status; it keeps that of an answer without a type.
_FORGETS_STATUS = (1, 52) <= tuple(int(part) for part in grpc.__version__.split(".")[:2]) < (1, 62)
_DATA, _HEADERS, _SETTINGS, _PING = 0, 1, 4, 6
_ACK = _END_STREAM = 1
_END_HEADERS = 4


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _head(connection: socket.socket) -> tuple[int, int, int, int]:
    """Size, kind, flags and stream of the next frame."""
    head = _exactly(connection, 9)
    return (int.from_bytes(head[:3], "big"), *struct.unpack(">BBI", head[3:]))


def _literal(name: bytes, value: bytes) -> bytes:
    """A header field of HPACK, in plain."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data
