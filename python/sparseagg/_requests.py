"""The requests of the protocol, made from what a caller says; shared by the blocking and the asyncio client."""

from __future__ import annotations

import itertools
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, SupportsFloat, SupportsIndex, Union, cast

from google.protobuf import duration_pb2

from sparseagg import _arguments
from sparseagg._encode.encodings import EncodeOptions
from sparseagg._encode.wire import EncodedUpdate, selection_to_proto, spec_to_proto
from sparseagg._proto import aggregation_pb2, types_pb2
from sparseagg.convert import check_is_list, read_tensors
from sparseagg.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidUpdateError,
    PermissionDeniedError,
    RoundAbortedError,
    UnauthenticatedError,
)
from sparseagg.records import RoundInfo, RoundState, ServerInfo
from sparseagg.result import layout_number
from sparseagg.tensors import AnyTensor, TensorSpec, empty_tensor

# Answers of one long poll; the server allows up to 300 s, and proxies cut calls that are silent for a minute.
WAIT_SLICE_SECONDS = 30.0
# The seconds that a question may take which the server answers at once: on a slow network, with a new connection.
_LOOK_SECONDS = 5.0
# The first call of a wait has this time even where the caller's timeout is shorter: an answer needs some.
_FIRST_CALL_SECONDS = 1.0
# A server is asked to wait for the caller's time less this share of it, one second at most, so that its answer is here in time.
_ANSWER_SHARE, _ANSWER_SECONDS_MAX = 0.2, 1.0
# With less time left no further answer is asked for.
_LAST_CALL_SECONDS = 0.05
_MESSAGE_BYTES_MAX = 16 << 20  # the server's default, used when it does not tell
_NO_MORE: Any = object()
# Weights play no part in their results; the server takes any that is finite and not negative.
_OPS_WITHOUT_WEIGHTS = frozenset({"count", "max", "min"})
# Errors that remain, however long a caller waits for the publication.
REFUSED_FOR_EVER = (PermissionDeniedError, UnauthenticatedError)


@dataclass(frozen=True)
class Server:
    """What a client needs to know of its server before it sends: asked once."""

    message_bytes_max: int
    encodings: frozenset[str]

    @classmethod
    def of(cls, info: ServerInfo) -> Server:
        """Reads the answer of GetServerInfo."""
        message_bytes_max = info.limits.get("message-bytes-max", _MESSAGE_BYTES_MAX)
        return cls(message_bytes_max, frozenset(info.encodings))


@dataclass(frozen=True)
class Update:
    """One contributor's tensors for one round, for `Round.submit_many`.

    tensors: by name, whatever `as_tensor` takes.
    contributor: 1 to 128 characters; each is counted once.
    weight: finite and not negative; 1 when left out.
    update_id: 1 to 64 characters; made up when left out.

    `Round.submit` describes these further.
    """

    tensors: Any
    contributor: str
    weight: SupportsFloat | None = None
    update_id: str | None = None


Seconds = Union[SupportsFloat, timedelta]


def duration(field: str, time: Seconds) -> duration_pb2.Duration:
    """Returns seconds, or a timedelta, as a message; `field` is how an error names them."""
    message = duration_pb2.Duration()
    try:
        message.FromTimedelta(
            time if isinstance(time, timedelta) else timedelta(seconds=float(time))
        )
    except (OverflowError, ValueError, TypeError) as bad:
        raise InvalidArgumentError(f"{field}: {time!r} is no number of seconds ({bad})") from None
    return message


def set_deadline(message: Any, deadline: Seconds | datetime | None) -> None:
    """Sets `open_for` or `open_until` of a message that has both: seconds from now, or a moment."""
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise InvalidArgumentError(f"deadline: {deadline} has no time zone")
        message.open_until.FromDatetime(deadline)
    elif deadline is not None:
        message.open_for.CopyFrom(duration("deadline", deadline))


def _count(field: str, count: SupportsIndex | None) -> int:
    return 0 if count is None else _arguments.whole(field, count, 0, 2**64 - 1)


def round_policy(
    goal: SupportsIndex | None,
    min_contributors: SupportsIndex | None,
    max_contributors: SupportsIndex | None,
    deadline: Seconds | datetime | None,
    grace: Seconds | None,
    leaf_wait: Seconds | None = None,
) -> types_pb2.RoundPolicy:
    """See `Client.create_round`; what contradicts itself is refused by the server."""
    policy = types_pb2.RoundPolicy(
        goal_contributors=_count("goal", goal),
        min_contributors=_count("min_contributors", min_contributors),
        max_contributors=_count("max_contributors", max_contributors),
    )
    if grace:
        policy.grace.CopyFrom(duration("grace", grace))
    if leaf_wait is not None:
        policy.leaf_wait.CopyFrom(duration("leaf_wait", leaf_wait))
    set_deadline(policy, deadline)
    return policy


def create_round(
    tensors: Iterable[TensorSpec],
    round_id: str | None,
    durability: str | None,
    request_id: str | None,
    policy: types_pb2.RoundPolicy,
    keep_updates: bool,
    publish_partial: bool,
    owners: bool = False,
) -> aggregation_pb2.CreateRoundRequest:
    """See `Client.create_round`."""
    flags = {"keep_updates": keep_updates, "publish_partial": publish_partial, "owners": owners}
    for name, flag in flags.items():
        if flag not in (True, False):
            raise InvalidArgumentError(f"{name} is {flag!r}, not True or False")
    spec = types_pb2.RoundSpec(
        tensors=[spec_to_proto(tensor) for tensor in _arguments.items("tensors", tensors)],
        keep_updates_until_deleted=bool(keep_updates),
        publish_partial=bool(publish_partial),
    )
    if owners:
        spec.tree.owners = True
    if policy.ByteSize():
        spec.policy.CopyFrom(policy)
    if durability is not None:
        if durability not in ("memory", "durable"):
            raise InvalidArgumentError(f'no durability "{durability}", only "memory" and "durable"')
        spec.durability = types_pb2.Durability.Value(f"DURABILITY_{durability.upper()}")
    return aggregation_pb2.CreateRoundRequest(
        round_id=_arguments.text("round_id", round_id or ""),
        spec=spec,
        request_id=_arguments.text("request_id", request_id or uuid.uuid4().hex),
    )


def full_name(round_name: str) -> str:
    """ "r1" and "rounds/r1" as "rounds/r1"."""
    name = _arguments.text("the round's name", round_name)
    return name if name.startswith("rounds/") else f"rounds/{name}"


def list_rounds(page_size: SupportsIndex) -> aggregation_pb2.ListRoundsRequest:
    """See `Client.rounds`."""
    size = _arguments.whole("page_size", page_size, -(2**31), 2**31 - 1)  # the server has limits
    return aggregation_pb2.ListRoundsRequest(page_size=size)


class _UpdateIds:
    """Makes ids of updates: one that is random for each process, and a number. To ask the system for each takes longer than to
    encode a small update."""

    def __init__(self) -> None:
        self._process = 0
        self._prefix = ""
        self._numbers = itertools.count()

    def new(self) -> str:
        """Returns an id that no other update has."""
        # A forked child must not go on with the numbers of its parent.
        if self._process != os.getpid():
            self._prefix, self._process = uuid.uuid4().hex, os.getpid()
        return f"{self._prefix}-{next(self._numbers):x}"


_UPDATE_IDS = _UpdateIds()


class ReadUpdate:
    """An update whose tensors are read, and which is still to be encoded: both raise SparseAggError for what is wrong with
    it. nbytes: of its tensors."""

    def __init__(self, tensors: dict[str, AnyTensor], **header: Any) -> None:
        self.tensors = tensors
        self._header = header
        self.nbytes = sum(tensor.nbytes for tensor in tensors.values())

    @property
    def update_id(self) -> str:
        """The id that it is sent with."""
        return str(self._header["update_id"])

    @property
    def weight(self) -> SupportsFloat | None:
        """Returns the weight that the caller gave; None means 1."""
        return cast("SupportsFloat | None", self._header["weight"])

    def encode(self) -> EncodedUpdate:
        """Takes long for a large one."""
        return EncodedUpdate(self.tensors, **self._header)


def read_update(
    round_name: str,
    specs: Mapping[str, TensorSpec],
    update: Update,
    options: EncodeOptions,
) -> ReadUpdate:
    """Returns an update for a round; a tensor of the round that is left out counts as not touched."""
    options.check_names(specs)
    if not isinstance(update, Update):
        raise InvalidUpdateError(f"a {type(update).__name__} is no Update")
    tensors = read_tensors(update.tensors, specs)
    for name, spec in specs.items():
        if name not in tensors:
            tensors[name] = empty_tensor(spec)
    _check_weight(update.weight, specs.values())
    return ReadUpdate(
        tensors,
        round_name=round_name,
        contributor=update.contributor,
        update_id=update.update_id or _UPDATE_IDS.new(),
        weight=update.weight,
        options=options,
    )


def encode_update(
    round_name: str,
    specs: Mapping[str, TensorSpec],
    update: Update,
    options: EncodeOptions,
) -> EncodedUpdate:
    """Returns `read_update`, encoded."""
    return read_update(round_name, specs, update, options).encode()


def _check_weight(weight: SupportsFloat | None, specs: Iterable[TensorSpec]) -> None:
    """Of an update of these tensors; where the operator does not use it, as with max, any weight will do."""
    if weight is not None and any(
        spec.value_type[0] in "iu" and spec.op not in _OPS_WITHOUT_WEIGHTS for spec in specs
    ):
        _arguments.weight_of_integers(weight)


class TimeLimit:
    """The seconds of one operation, which may be infinite; counted from when this is made."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Returns the seconds left; never negative."""
        return max(0.0, self._end - time.monotonic())


def wait_round(round_name: str, left: float | None) -> aggregation_pb2.WaitRoundRequest:
    """Returns the request of one slice of waiting, with `left` seconds until the caller's deadline (None: there is
    none), of which the answer needs a part."""
    request = aggregation_pb2.WaitRoundRequest(name=round_name)
    request.timeout.CopyFrom(wait_slice(left))
    return request


def wait_slice(left: float | None) -> duration_pb2.Duration:
    """Returns how long the server is asked to wait in one call; `left` as in `wait_round`."""
    seconds = WAIT_SLICE_SECONDS
    if left is not None:
        seconds = min(seconds, left - min(_ANSWER_SHARE * left, _ANSWER_SECONDS_MAX))
    return duration_pb2.Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))


def wait_call_seconds(limit: TimeLimit | None, timeout: float, *, is_first: bool) -> float:
    """Returns the seconds that the call of one slice may take, with the client's `timeout` for a call: no more than the
    caller's `limit` leaves. The first one of a short limit has the time that an answer needs."""
    seconds = WAIT_SLICE_SECONDS + timeout
    if limit is None:
        return seconds
    needed = 0.0
    if is_first:
        needed = min(timeout, _FIRST_CALL_SECONDS if limit.seconds > 0 else _LOOK_SECONDS)
    return min(seconds, max(limit.left(), needed))


def look_seconds(limit: TimeLimit | None, timeout: float) -> float:
    """Returns the seconds that a question may take which is answered at once, with what the caller's `limit` leaves and
    the client's `timeout` for a call. A limit of 0 is for no question: the caller wants to know without waiting."""
    seconds = min(timeout, _LOOK_SECONDS)
    return seconds if limit is None or limit.seconds <= 0 else min(seconds, limit.left())


def question_seconds(limit: TimeLimit | None) -> float | None:
    """Returns the seconds for a request before the operation of this limit; None means the client's timeout."""
    return None if limit is None or limit.seconds <= 0 else limit.left()


def check_time_left(
    round_name: str, limit: TimeLimit | None, silence: DeadlineExceededError
) -> None:
    """After a slice that brought no answer (`silence`): raises DeadlineExceededError where the caller's time is over, too.
    Without a limit the next slice may bring one, however many it takes."""
    if limit is not None and limit.left() <= _LAST_CALL_SECONDS:
        raise DeadlineExceededError(
            f"the server did not say within {limit.seconds:g} s whether {round_name} is published"
        ) from silence


def is_published(info: RoundInfo, limit: TimeLimit | None) -> bool:
    """Returns whether the wait is over. Raises if there will be no result, or if no time is left."""
    if info.state is RoundState.ABORTED:
        raise RoundAbortedError(info.failure or f"{info.name} was aborted", reason="ROUND_ABORTED")
    if info.state.final:
        return True
    if limit is not None and limit.left() <= _LAST_CALL_SECONDS:
        why = info.stall or ("someone has to seal it" if info.state is RoundState.OPEN else "")
        raise DeadlineExceededError(
            f"{info.name} is {info.state.value} after {limit.seconds:g} s" + (why and f"; {why}")
        )
    return False


def watch_round(round_name: str, min_interval: Seconds | None) -> aggregation_pb2.WatchRoundRequest:
    """See `Round.watch`."""
    request = aggregation_pb2.WatchRoundRequest(name=round_name)
    if min_interval is not None:
        request.min_interval.CopyFrom(duration("min_interval", min_interval))
    return request


def get_aggregate(
    round_name: str,
    layout: str,
    tensors: Iterable[str] | None,
    indices: Mapping[str, Any] | None,
    encoding: str,
    specs: Mapping[str, TensorSpec],
) -> aggregation_pb2.GetAggregateRequest:
    """See `Round.result`. `specs`: of the round, where `indices` are given."""
    selections = _arguments.mapping("indices", indices or {})
    _arguments.names("indices", selections, specs)
    return aggregation_pb2.GetAggregateRequest(
        name=round_name,
        tensors=() if tensors is None else _arguments.some_names("tensors", tensors),
        layout=layout_number(layout),
        encoding=_arguments.text("encoding", encoding),
        selections=[
            selection_to_proto(name, wanted, specs[name]) for name, wanted in selections.items()
        ],
    )


def reduce_start(specs: Sequence[TensorSpec], layout: str) -> aggregation_pb2.ReduceRequest:
    """Returns the first message of Reduce."""
    tensors = [spec_to_proto(tensor) for tensor in _arguments.items("tensors", specs)]
    spec = types_pb2.RoundSpec(tensors=tensors)
    start = aggregation_pb2.ReduceStart(spec=spec, layout=layout_number(layout))
    return aggregation_pb2.ReduceRequest(start=start)


def read_for_reduce(
    specs: Sequence[TensorSpec],
    updates: Iterable[Any],
    weights: Iterable[SupportsFloat] | None,
    options: EncodeOptions,
) -> Iterator[ReadUpdate]:
    """Yields the updates of one Reduce; error messages name an update by its place in the list, those of `encode`,
    too."""
    by_name = {spec.name: spec for spec in specs}
    options.check_names(by_name)
    check_is_list("updates", updates)
    given = _arguments.items("updates", updates)
    factors = None if weights is None else _arguments.one_of_each("weights", weights)
    position = -1
    for position, update in enumerate(given):
        weight = None
        if factors is not None:  # one by one: there may be no end of them
            weight = next(factors, _NO_MORE)
            if weight is _NO_MORE:
                raise InvalidArgumentError(
                    f"{position} weights for the updates, of which there are more"
                )
        yield read_one_for_reduce(by_name, position, update, weight, options)
    if factors is not None and next(factors, _NO_MORE) is not _NO_MORE:
        raise InvalidArgumentError(f"more weights than the {position + 1} updates")


def read_one_for_reduce(
    specs: Mapping[str, TensorSpec],
    position: int,
    update: Any,
    weight: SupportsFloat | None,
    options: EncodeOptions,
) -> ReadUpdate:
    """Returns the update at this place of a reduction, by which error messages name it."""
    with _arguments.refusing(f"update {position}", InvalidUpdateError):
        _check_weight(weight, specs.values())
        return _ReduceUpdate(
            read_tensors(update, specs),
            contributor=str(position),
            update_id=str(position),
            weight=weight,
            options=options,
        )


def encode(update: ReadUpdate, may_fill_arrays_again: bool) -> EncodedUpdate:
    """Returns the update, which no longer needs the caller's arrays where they may be filled again."""
    encoded = update.encode()
    if may_fill_arrays_again:
        encoded.keep()
    return encoded


class _ReduceUpdate(ReadUpdate):
    """An update of Reduce, which is named by its place."""

    def encode(self) -> EncodedUpdate:
        with _arguments.refusing(f"update {self.update_id}", InvalidUpdateError):
            return super().encode()


def may_fill_arrays_again(updates: Iterable[Any]) -> bool:
    """Returns True for what makes an update when it is asked for it, as a generator, which may take the same arrays for
    each."""
    return not isinstance(updates, Sequence)
