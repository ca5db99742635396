"""What a caller says, checked where it comes in: Python, numpy, protobuf and the classes of other packages would refuse it
with errors of their own, which name no argument and are no SparseAggError.
"""

from __future__ import annotations

import itertools
import math
import operator
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sparseagg.errors import InvalidArgumentError, InvalidUpdateError, SparseAggError

# What Python, numpy and protobuf raise about an argument that they cannot take: their words say what is wrong, where those
# of other errors need the name of the class.
_REFUSALS = (TypeError, ValueError, OverflowError, AttributeError)
# What is not about the argument: it passes through.
_PASSING = (SparseAggError, MemoryError)
_NAMES_MAX = 20  # a model may have thousands
_INT64_MAX = (1 << 63) - 1
# Half of the smallest f32, which rounds to 0; the largest and half a unit of its last place, which rounds to infinity.
_ZERO_AS_F32, _INFINITE_AS_F32 = 2.0**-150, 2.0**128 - 2.0**103


class refusing:
    """For the conversion of one argument: whatever it raises names the argument and is a `kind`, also what comes out of a
    class of another package (its `__array__`, its properties). MemoryError passes through.

    A class, and no generator with `contextmanager`: each update passes several of these.
    """

    __slots__ = ("_kind", "_reason", "_what")

    def __init__(
        self,
        what: str,
        kind: type[InvalidArgumentError] = InvalidArgumentError,
        reason: str = "",
    ) -> None:
        self._what, self._kind, self._reason = what, kind, reason

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, bad: BaseException | None, _traceback: object) -> None:
        if isinstance(bad, InvalidArgumentError):
            inner = type(bad)
            raise (inner if issubclass(inner, self._kind) else self._kind)(
                f"{self._what}: {bad.message}", reason=bad.reason or self._reason
            ) from bad.__cause__
        if isinstance(bad, Exception) and not isinstance(bad, _PASSING):
            raise self._kind(f"{self._what}: {words_of(bad)}", reason=self._reason) from bad


def words_of(bad: Exception) -> str:
    """Returns the message of `bad` on one line, which its own class may fail to give."""
    kind = type(bad).__name__
    try:
        first, *more = str(bad).strip().splitlines() or [""]
    except Exception:  # __str__ of another package
        return kind
    words = f"{first} ..." if more else first
    return words if words and isinstance(bad, _REFUSALS) else f"{kind}: {words}".rstrip(": ")


def text(
    what: str, value: Any, kind: type[InvalidArgumentError] = InvalidArgumentError, reason: str = ""
) -> str:
    """Returns `value`, which has to be a string that UTF-8 can carry."""
    if not isinstance(value, str):
        raise kind(f"{what} is {value!r}, not a string", reason=reason)
    if not value.isascii():
        with refusing(what, kind, reason):
            value.encode()
    return value


def whole(what: str, value: Any, low: int, high: int) -> int:
    """Returns `value`, which has to be a whole number of [low, high]."""
    with refusing(what):
        number = operator.index(value)
    if not low <= number <= high:
        raise InvalidArgumentError(f"{what} is {number}, not from {low} to {high}")
    return number


def shape(value: Iterable[Any]) -> tuple[int, ...]:
    """Returns `value` as the dimensions of a tensor, below 2^63. To be called with `refusing`."""
    dimensions = tuple(operator.index(dimension) for dimension in value)
    for dimension in dimensions:
        if abs(dimension) > _INT64_MAX:
            raise InvalidArgumentError(f"{dimension} is not below 2^63")
    return dimensions


def unmasked(what: str, value: Any, kind: type[InvalidArgumentError], reason: str) -> None:
    """Refuses a masked array, of which numpy's asarray gives what is masked, too."""
    if isinstance(value, np.ma.MaskedArray):
        raise kind(
            f"{what} of a masked array: say what masked ones are with filled(), or leave them out",
            reason=reason,
        )


def items(what: str, value: Iterable[Any]) -> Iterator[Any]:
    """Returns an iterator over `value`. Exceptions that the iterator raises later are the caller's own."""
    with refusing(what):
        return iter(value)


def one_of_each(what: str, value: Iterable[Any]) -> Iterator[Any]:
    """Returns an iterator over a number for each update; a mapping would give its keys and a string its letters."""
    if isinstance(value, (str, bytes, Mapping)):
        raise InvalidArgumentError(f"{what} is a {type(value).__name__}; give a list of numbers")
    return items(what, value)


def list_of_names(what: str, value: Iterable[Any]) -> tuple[str, ...]:
    """Returns `value` as names of tensors or contributors. One string is refused, whose letters would be the names."""
    if isinstance(value, str):
        raise InvalidArgumentError(f'{what} is "{value}"; give a list of names: ["{value}"]')
    if isinstance(value, (bytes, Mapping)):
        raise InvalidArgumentError(f"{what} is a {type(value).__name__}; give a list of names")
    return tuple(text(f"a name of {what}", name) for name in items(what, value))


def some_names(what: str, value: Iterable[Any]) -> tuple[str, ...]:
    """Returns `list_of_names`, where no names would mean all."""
    names = list_of_names(what, value)
    if not names:
        raise InvalidArgumentError(f"{what} has no name; leave it out for all")
    return names


def seconds(what: str, value: Any) -> float:
    """Returns `value` as a time limit; infinite from where on no clock of the system can count (some 292 years)."""
    if isinstance(value, (str, bytes)):
        raise InvalidArgumentError(f"{what} is {value!r}, not a number of seconds")
    with refusing(what):
        limit = float(value)
    if math.isnan(limit):
        raise InvalidArgumentError(f"{what} is {limit}, not a number of seconds")
    return limit if limit < threading.TIMEOUT_MAX else math.inf


def finite(limit: float | None) -> float | None:
    """Returns a time limit as those want it who wait: None where there is none."""
    return None if limit is None or math.isinf(limit) else limit


def weight(value: Any) -> float:
    """Returns `value` as a weight. Weights travel as f32; one that would become 0 or infinite there would not count as
    what it is. NaN, infinity and negative ones are refused by the server."""
    if isinstance(value, (str, bytes)):
        raise InvalidUpdateError(f"the weight is {value!r}, not a number", reason="INVALID_WEIGHT")
    with refusing("the weight", InvalidUpdateError, "INVALID_WEIGHT"):
        number = float(value)
    size = abs(number)
    if 0 < size <= _ZERO_AS_F32 or _INFINITE_AS_F32 <= size < math.inf:
        single = "0" if size < 1 else "infinite"
        raise InvalidUpdateError(
            f"the weight is {number}, which is {single} as f32, as which weights travel",
            reason="INVALID_WEIGHT",
        )
    return number


def weight_of_integers(value: Any) -> None:
    """Refuses a weight of which f32, as which weights travel, would make another number: the server, which refuses weights
    of integers that are not whole or above 2^24, could not tell."""
    exact = value if isinstance(value, int) else weight(value)
    if abs(exact) < _INFINITE_AS_F32 and float(np.float32(exact)) != exact:
        raise InvalidUpdateError(
            f"the weight {exact} is not a number of f32, as which weights travel; "
            "integers take whole weights of at most 2^24",
            reason="INVALID_WEIGHT",
        )


def names(what: str, given: Iterable[Any], known: Collection[str]) -> None:
    """Refuses names of tensors that are not `known`: an option for a name with a typo would be without effect."""
    for name in given:
        if name not in known:
            raise InvalidArgumentError(
                f'{what}: no tensor "{name}", only {listed(known)}', reason="UNKNOWN_TENSOR"
            )


def listed(names: Collection[str]) -> str:
    """Names for a message of one line."""
    shown = ", ".join(itertools.islice(names, _NAMES_MAX))
    return shown if len(names) <= _NAMES_MAX else f"{shown}, ... ({len(names)} in all)"


def mapping(what: str, value: Any) -> Mapping[Any, Any]:
    """Returns `value`, which has to be a mapping."""
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{what} is a {type(value).__name__}, not a mapping from names")
    return value
