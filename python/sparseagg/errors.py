"""Errors of the server and of this package. Every one carries the gRPC code, a stable reason and a one-line message.

`str(error)` is the message; `error.reason` is what a program acts on ("INDEX_OUT_OF_RANGE", "ROUND_NOT_OPEN", ...);
docs/api.md has the table of reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from sparseagg._net.status_details import StatusDetails, parse_status_details

__all__ = [
    "AlreadyCountedError",
    "AlreadyExistsError",
    "CredentialFileError",
    "DeadlineExceededError",
    "InvalidArgumentError",
    "InvalidUpdateError",
    "NotFoundError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "RoundAbortedError",
    "RoundExpiredError",
    "RoundLostError",
    "RoundNotOpenError",
    "RoundNotPublishedError",
    "SparseAggError",
    "TaskFencedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnknownTensorError",
]


class SparseAggError(Exception):
    """Base of every error of this package.

    code: the `grpc.StatusCode`.
    reason: stable UPPER_SNAKE_CASE word; empty when the server gave none.
    message: one line that names tensor, position and limit.
    metadata: more facts by name, as the server gave them.
    retry_after: seconds after which a retry may help, or None.
    """

    default_code = grpc.StatusCode.UNKNOWN
    # Set where the server has been away for so long that it may be found elsewhere (_net/leaves.py).
    _may_have_moved = False

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode | None = None,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.reason = reason
        self.metadata: dict[str, str] = dict(metadata or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.message  # a KeyError's would be its repr

    def __reduce__(self) -> Any:
        # Exceptions with keyword arguments do not survive pickling by themselves; workers in processes need it.
        return _rebuild, (
            type(self),
            self.message,
            self.code,
            self.reason,
            self.metadata,
            self.retry_after,
        )


class InvalidArgumentError(SparseAggError, ValueError, TypeError):
    """The request can never succeed as it is. Both of what Python itself raises about arguments, so that either catches it."""

    default_code = grpc.StatusCode.INVALID_ARGUMENT


class InvalidUpdateError(InvalidArgumentError):
    """An update was refused for what it contains; nothing of it was counted."""


class UnknownTensorError(InvalidArgumentError, KeyError):
    """A mapping of tensors has none of this name; the message lists those that it has."""


class OutOfRangeError(SparseAggError):
    """A checked integer sum left the range of its type; the message names tensor and index."""

    default_code = grpc.StatusCode.OUT_OF_RANGE


class NotFoundError(SparseAggError, LookupError):
    """There is no such round, task or group of tasks."""

    default_code = grpc.StatusCode.NOT_FOUND


class RoundExpiredError(NotFoundError):
    """The round was deleted a while ago. What it had accepted was counted: do not send it to another round."""


class RoundLostError(NotFoundError):
    """The round went with the server's memory, or with its data: `message` says how. It has to be made again."""


class AlreadyExistsError(SparseAggError):
    """The name is taken."""

    default_code = grpc.StatusCode.ALREADY_EXISTS


class AlreadyCountedError(AlreadyExistsError):
    """Another update of this contributor has been counted in the round."""


class RoundNotOpenError(SparseAggError):
    """The round is sealed, published, aborted or full, and takes no update; `metadata["closed_by"]` may say why."""

    default_code = grpc.StatusCode.FAILED_PRECONDITION


class RoundNotPublishedError(SparseAggError):
    """The result is not readable yet."""

    default_code = grpc.StatusCode.FAILED_PRECONDITION


class RoundAbortedError(SparseAggError):
    """The round was aborted, or failed; there is no result."""

    default_code = grpc.StatusCode.ABORTED


class TaskFencedError(SparseAggError):
    """The lease has ended: abandon the task. Another worker has it or gets it, or its update has completed it;
    `metadata["state"]` says which state it is in."""

    default_code = grpc.StatusCode.FAILED_PRECONDITION


class ResourceExhaustedError(SparseAggError):
    """A limit of the server is reached. With `retry_after` (seconds), waiting helps."""

    default_code = grpc.StatusCode.RESOURCE_EXHAUSTED


class UnauthenticatedError(SparseAggError):
    """The server does not know who calls: no credential, or one that is not good (any more)."""

    default_code = grpc.StatusCode.UNAUTHENTICATED


class CredentialFileError(SparseAggError, OSError):
    """A file of `Tls` or `TokenFile` cannot be read, or is not what it should be."""

    default_code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDeniedError(SparseAggError, PermissionError):
    """The caller is known and may not do this; the message names the role that may."""

    default_code = grpc.StatusCode.PERMISSION_DENIED


class UnavailableError(SparseAggError, ConnectionError):
    """The server cannot be reached, or is shutting down."""

    default_code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceededError(SparseAggError, TimeoutError):
    """The time given by `timeout` is over."""

    default_code = grpc.StatusCode.DEADLINE_EXCEEDED


_BY_REASON: dict[str, type[SparseAggError]] = {
    "CONTRIBUTOR_ALREADY_COUNTED": AlreadyCountedError,
    "ROUND_EXPIRED": RoundExpiredError,
    "ROUND_FULL": RoundNotOpenError,
    "ROUND_NOT_OPEN": RoundNotOpenError,
    "ROUND_NOT_PUBLISHED": RoundNotPublishedError,
    "TASK_FENCED": TaskFencedError,
}
_BY_CODE: dict[grpc.StatusCode, type[SparseAggError]] = {
    kind.default_code: kind
    for kind in (
        InvalidArgumentError,
        OutOfRangeError,
        NotFoundError,
        AlreadyExistsError,
        ResourceExhaustedError,
        UnauthenticatedError,
        PermissionDeniedError,
        UnavailableError,
        DeadlineExceededError,
    )
}
_CODE_OF_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


def make_error(
    code: grpc.StatusCode, message: str, details: StatusDetails, *, for_update: bool = False
) -> SparseAggError:
    """Returns the exception for a status; `for_update` tells that an update was what it is about."""
    kind = _BY_REASON.get(details.reason) or _BY_CODE.get(code, SparseAggError)
    if for_update and kind is InvalidArgumentError:
        kind = InvalidUpdateError
    return kind(
        message,
        code=code,
        reason=details.reason,
        metadata=details.metadata,
        retry_after=details.retry_after,
    )


def from_rpc_error(error: Any, *, for_update: bool = False) -> SparseAggError:
    """Returns the exception for a failed call (`grpc.RpcError`, which is a call as well)."""
    details = StatusDetails()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            details = parse_status_details(value)
    return make_error(
        error.code(), error.details() or error.code().name, details, for_update=for_update
    )


def from_error_message(error: Any, *, for_update: bool = True) -> SparseAggError:
    """Returns the exception for a `sparseagg.v1.Error`, the answer to one of many; `for_update`: to an update of a stream."""
    details = StatusDetails(
        reason=error.reason,
        metadata=dict(error.metadata),
        retry_after=error.retry_after_ms / 1000 if error.retry_after_ms else None,
    )
    code = _CODE_OF_NUMBER.get(error.code, grpc.StatusCode.UNKNOWN)
    return make_error(code, error.message, details, for_update=for_update)


def _rebuild(
    kind: type[SparseAggError],
    message: str,
    code: grpc.StatusCode,
    reason: str,
    metadata: dict[str, str],
    retry_after: float | None,
) -> SparseAggError:
    return kind(message, code=code, reason=reason, metadata=metadata, retry_after=retry_after)
