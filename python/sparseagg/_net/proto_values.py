"""Values of protobuf messages as Python has them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any


def enum_name(enum_type: Any, number: int, prefix: str) -> str:
    """Returns the name of an enum's number without the prefix."""
    if number not in enum_type.values():
        return f"{prefix[:-1]} {number}"  # a word of a newer server
    return str(enum_type.Name(number))[len(prefix) :]


def time_of(message: Any, field: str) -> datetime | None:
    """Returns a Timestamp field in UTC; None where it is not set."""
    if not message.HasField(field):
        return None
    return datetime.fromtimestamp(getattr(message, field).ToNanoseconds() / 1e9, tz=timezone.utc)


def seconds_of(message: Any, field_name: str) -> float | None:
    """Returns a Duration field; None where it is not set."""
    if not message.HasField(field_name):
        return None
    return float(getattr(message, field_name).ToNanoseconds() / 1e9)
