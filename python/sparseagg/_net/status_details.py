"""Reads the "grpc-status-details-bin" trailer of an error: a serialised google.rpc.Status.

The four messages of interest are read by hand. Generated google.rpc code in the default descriptor pool would clash
with the copies that other packages of the same process bring along.

    Status    { int32 code = 1; string message = 2; repeated Any details = 3; }
    Any       { string type_url = 1; bytes value = 2; }
    ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
    RetryInfo { Duration retry_delay = 1; }        Duration { int64 seconds = 1; int32 nanos = 2; }
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5


@dataclass
class StatusDetails:
    """The contents of the trailer beyond code and message."""

    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None  # seconds


def parse_status_details(data: bytes) -> StatusDetails:
    """Returns the details in a trailer. Bytes that are no google.rpc.Status give what could be read before the
    fault."""
    result = StatusDetails()
    try:
        for number, value in _fields(data):
            if number == 3 and isinstance(value, bytes):
                _read_detail(value, result)
    except (ValueError, UnicodeDecodeError):
        pass  # the code and the message of the call still stand
    return result


def _read_detail(data: bytes, result: StatusDetails) -> None:
    kind, payload = _strings(data)
    if kind.endswith(b"/google.rpc.ErrorInfo"):
        for number, value in _fields(payload):
            if number == 1 and isinstance(value, bytes):
                result.reason = value.decode()
            elif number == 3 and isinstance(value, bytes):
                key, text = _strings(value)
                result.metadata[key.decode()] = text.decode()
    elif kind.endswith(b"/google.rpc.RetryInfo"):
        for number, value in _fields(payload):
            if number == 1 and isinstance(value, bytes):
                duration = dict(_fields(value))
                result.retry_after = int(duration.get(1, 0)) + int(duration.get(2, 0)) / 1e9


def _strings(data: bytes) -> tuple[bytes, bytes]:
    """Fields 1 and 2 of a message where both are strings."""
    found: dict[int, bytes] = {n: v for n, v in _fields(data) if isinstance(v, bytes)}
    return found.get(1, b""), found.get(2, b"")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields (field number, value) of every field; numbers as int, everything else as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire_type == _LENGTH_DELIMITED:
            length, at = _varint(data, at)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if length > len(data) - at:
            raise ValueError("truncated field")
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("truncated varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("varint of more than 10 bytes")
