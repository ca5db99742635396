"""A server with its HTTP edge, and calls to it with the standard library alone."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import struct
from pathlib import Path

SERVICE = "/sparseagg.v1.AggregationService/"
JSON = {"Content-Type": "application/json"}


class HttpError(Exception):
    """An error in Connect's form: its HTTP status, code, reason and headers."""

    def __init__(self, status: int, headers: http.client.HTTPMessage, body: bytes) -> None:
        answer = json.loads(body)
        super().__init__(f"{status}: {answer}")
        self.status, self.headers = status, headers
        self.code, self.message = answer["code"], answer["message"]
        debugs = [detail["debug"] for detail in answer.get("details", [])]
        self.reason = next((debug["reason"] for debug in debugs if "reason" in debug), "")


class Edge:
    """Calls over one connection at a time, which is kept alive."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        if tls is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        else:
            self.connection = http.client.HTTPSConnection(
                "localhost", port, timeout=60, context=tls
            )

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        self.connection.close()

    def request(self, method: str, body: bytes, headers: dict, verb: str = "POST"):
        """Status, headers and body of the answer to a request."""
        self.connection.request(verb, SERVICE + method, body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def call(self, method: str, message: dict | None = None, **headers: str) -> dict:
        """The answer of a call in JSON. HttpError."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        status, head, body = self.request(method, json.dumps(message or {}).encode(), JSON | given)
        if status != 200:
            raise HttpError(status, head, body)
        return json.loads(body)


def start(own_server, tmp_path: Path, *flags: str):
    """A server of the test's own, and the port of its HTTP edge."""
    port_file = tmp_path / "http_port"
    server = own_server("--http-listen=127.0.0.1:0", f"--http-port-file={port_file}", *flags)
    return server, int(port_file.read_text())


def frame(message: bytes, flags: int = 0) -> bytes:
    """A frame of gRPC-Web."""
    return struct.pack(">BI", flags, len(message)) + message


def frames(body: bytes) -> list[tuple[int, bytes]]:
    """The frames of an answer of gRPC-Web: flags and content."""
    found = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        found.append((flags, body[5 : 5 + size]))
        body = body[5 + size :]
    return found


def base64_of(data: bytes) -> str:
    """Bytes as JSON has them."""
    return base64.b64encode(data).decode()


def tensor(name: str, rows: int, nnz: int) -> dict:
    """The header of an f32 vector."""
    return {
        "name": name,
        "valueType": "VALUE_TYPE_F32",
        "denseShape": [rows],
        "sparseDim": 1,
        "nnz": nnz,
        "indicesBytes": 8 * nnz,
        "valuesBytes": 4 * nnz,
    }


def spec(rows: int, **more) -> dict:
    """The specification of a round with one f32 vector "t"."""
    vector = {"name": "t", "valueType": "VALUE_TYPE_F32", "denseShape": [rows], "sparseDim": 1}
    return {"tensors": [vector], **more}
