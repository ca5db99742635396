"""What the server tells about rounds, updates and itself, as plain immutable records."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sparseagg._net.proto_values import enum_name, seconds_of, time_of
from sparseagg._net.result_parts import ResultPart, parts_from_proto
from sparseagg._proto import aggregation_pb2, types_pb2
from sparseagg.tensors import TensorSpec


class RoundState(str, enum.Enum):
    """The state of a round: OPEN -> SEALED -> PUBLISHED -> RETIRED, or ABORTED.

    An OPEN round takes updates. A SEALED one is being computed, a PUBLISHED one has its result. An ABORTED one was given up,
    or has failed. UNSPECIFIED comes from no server of this version. A state equals its name: `info.state == "OPEN"`.
    """

    UNSPECIFIED = "UNSPECIFIED"
    OPEN = "OPEN"
    SEALED = "SEALED"
    PUBLISHED = "PUBLISHED"
    RETIRED = "RETIRED"
    ABORTED = "ABORTED"

    @property
    def final(self) -> bool:
        """True where nothing changes any more but by deletion."""
        return self in (RoundState.PUBLISHED, RoundState.RETIRED, RoundState.ABORTED)


@dataclass(frozen=True)
class TensorEncoding:
    """The encoding in which a tensor was sent (docs/wire_format.md).

    encoding: "coo.raw" or "coo.packed".
    values_encoding: how the values travelled: "raw" as they are, "bf16", "f16", "int8", ...
    nnz: number of entries.
    nbytes: bytes of payload, indices and values together.
    """

    encoding: str
    values_encoding: str
    nnz: int
    nbytes: int


@dataclass(frozen=True)
class StoreEpoch:
    """A life of a server on its data: what was kept in memory ends with it.

    store_id: of the data directory; of the process, where there is none.
    epoch: raised at every start, from 1.
    """

    store_id: str = ""
    epoch: int = 0


_NO_EPOCH = StoreEpoch()  # of a server that does not tell


@dataclass(frozen=True)
class RoundPolicy:
    """When a round ends by itself, and how many contributors it takes; see `Client.create_round`. 0 or None: no limit.

    goal: the round is sealed when this number of updates is accepted.
    min_contributors, max_contributors: with fewer at the deadline the round is aborted; further ones are refused.
    grace: seconds after the goal in which further updates count.
    open_for: seconds from the round's creation to its deadline.
    open_until: the deadline as a moment, in UTC.
    leaf_wait: seconds after the seal in which a leaf that does not answer is waited for; None: for ever.
    """

    goal: int = 0
    min_contributors: int = 0
    max_contributors: int = 0
    grace: float = 0.0
    open_for: float | None = None
    open_until: datetime | None = None
    leaf_wait: float | None = None


_NO_POLICY = RoundPolicy()


@dataclass(frozen=True)
class Receipt:
    """The acknowledgement: the update is counted exactly once.

    round: name of the round, "rounds/...".
    contributor: who has sent the update.
    update_id: the id of the update, also where the package has made it up.
    duplicate: True for a resend; the update had been counted before.
    sequence: position in the order of acceptance of the round, from 1.
    digest: 32 bytes over weight and content of the update; SHA-256 in a durable round, XXH3 in memory.
    durability: "memory" or "durable": what the acknowledgement survives.
    encodings: what each tensor travelled as, by name: a `TensorEncoding` each. It does not count for equality.
    epoch: in which it was given; an update in memory is lost when the server's is another one.
    """

    round: str
    contributor: str
    update_id: str
    duplicate: bool
    sequence: int
    digest: bytes
    durability: str
    encodings: Mapping[str, TensorEncoding] = field(default_factory=dict, compare=False)
    epoch: StoreEpoch = _NO_EPOCH


@dataclass(frozen=True)
class Manifest:
    """The facts about the updates from which a published result was computed.

    contributors: number of accepted updates.
    total_weight: the exact sum of their weights, rounded once.
    rejected: number of refused submissions by reason, for example "INDEX_OUT_OF_RANGE".
    duplicates: number of resends, each answered with the first receipt.
    updates_digest: SHA-256 over the accepted updates, 32 bytes; the same for the same updates in any order.
    result_digest: SHA-256 over the indices and values of the result, 32 bytes; in memory, over their checksums.
    infinite_values: number of values of the result whose exact sum is beyond the range of the type.
    publish_time: in UTC; None for a stateless reduction.
    seal_reason: "REQUESTED", "GOAL" or "DEADLINE"; "" for a stateless reduction.
    late: those of `rejected` that came when no more were accepted, by cause: a reason to seal, or "FULL".
    given_up_leaves: ids of the leaves that were given up: nothing that was sent to them is counted.
    parts: of a round with owners: where the rows are, in their order: a `ResultPart` each.
    """

    contributors: int
    total_weight: float
    rejected: dict[str, int] = field(hash=False)
    duplicates: int
    updates_digest: bytes
    result_digest: bytes
    infinite_values: int
    publish_time: datetime | None
    seal_reason: str = ""
    late: dict[str, int] = field(default_factory=dict, hash=False)
    given_up_leaves: tuple[str, ...] = ()
    parts: tuple[ResultPart, ...] = ()


@dataclass(frozen=True)
class TensorStatus:
    """The progress and the plan of one tensor's reduction.

    name: of the tensor.
    backend: "cpu", "cuda" or "reference".
    plan: the algorithm used last; before the first reduction, the one that is meant.
    plan_reason: why the planner chose it.
    nnz_received: number of entries accepted so far, repeated indices included.
    nnz_result: number of entries of the result; 0 before publication.
    predicted_seconds: what the planner expected the reductions so far to take; 0 where nothing is reduced yet, or the
        back end does not tell.
    measured_seconds: what they took. Where the two are far apart, another plan might have been better.
    """

    name: str
    backend: str
    plan: str
    plan_reason: str
    nnz_received: int
    nnz_result: int
    predicted_seconds: float
    measured_seconds: float


@dataclass(frozen=True)
class RoundInfo:
    """A round at one moment. Times are in UTC; a time is None until it is known.

    name: "rounds/...".
    state: where it stands.
    tensors: its tensors, in the order in which they were given.
    durability: "memory" or "durable".
    create_time, seal_time, publish_time: when it was opened, its set of updates was fixed, its result became readable.
    contributors, bytes_received: the accepted updates, one for each contributor, and the bytes of their payload.
    tensor_status: how each tensor is being reduced: a `TensorStatus` each.
    manifest: what the result was computed from; None before publication.
    failure: why an aborted round failed; "" for one that was aborted by request.
    revision: a number that grows with each change that `Round.watch` shows.
    policy: when it ends by itself.
    keep_updates: True where raw updates stay until the round is deleted, for `Round.verify`.
    publish_partial: True where the result is a partial aggregate, for `Round.partial`.
    seal_reason: why no more updates are accepted: "REQUESTED", "GOAL" or "DEADLINE"; "" while they are.
    close_time, time_left: when its policy closes an open round at the latest, and the seconds until then.
    goal_reached: True from the update on that reaches the policy's goal.
    epoch: the life of the server that answered.
    may_be_restored: an "ABORTED" round that lacked memory: the next start of the server may restore it.
    stall: why it is not sealed or published, though it should be ("STORE_FULL: ..."); "" while nothing is in the way.
    """

    name: str
    state: RoundState
    tensors: tuple[TensorSpec, ...]
    durability: str
    create_time: datetime | None
    seal_time: datetime | None
    publish_time: datetime | None
    contributors: int
    bytes_received: int
    tensor_status: tuple[TensorStatus, ...]
    manifest: Manifest | None
    failure: str
    revision: int
    policy: RoundPolicy = _NO_POLICY
    keep_updates: bool = False
    publish_partial: bool = False
    seal_reason: str = ""
    close_time: datetime | None = None
    time_left: float | None = None
    goal_reached: bool = False
    epoch: StoreEpoch = _NO_EPOCH
    may_be_restored: bool = False
    stall: str = ""


@dataclass(frozen=True)
class Verification:
    """A published round was computed again from its updates and has the same bits.

    contributors: number of updates that were added again.
    bytes_read: bytes of their payload.
    updates_digest: as computed again; equal to the manifest's.
    result_digest: as computed again; equal to the manifest's.
    backend: which one computed the result again.
    """

    contributors: int
    bytes_read: int
    updates_digest: bytes
    result_digest: bytes
    backend: str


@dataclass(frozen=True)
class BackendInfo:
    """An implementation on one kind of processor.

    name: "cpu", "cuda" or "reference".
    description: the processor, or the device.
    available: True where it can be used on this machine.
    unavailable_reason: why not; "" where it can.
    plans: names of its algorithms.
    selected: True where new rounds use it.
    devices: the GPUs that it uses, each with its number ("0: NVIDIA H200").
    """

    name: str
    description: str
    available: bool
    unavailable_reason: str
    plans: tuple[str, ...]
    selected: bool
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServerInfo:
    """Version, capabilities and limits of a server.

    version: of the program.
    backends: the implementations that it has, a `BackendInfo` each.
    operators: what a tensor's `op` may be.
    encodings: what updates may travel as.
    values_encodings: how coo.packed may hold values.
    value_types: names of the types of values.
    limits: by name, in the unit that the command `sparseagg info` shows.
    default_durability: of rounds that do not say one.
    durabilities: those that rounds may have; without a data directory only "memory".
    epoch: the life of the server.
    """

    version: str
    backends: tuple[BackendInfo, ...]
    operators: tuple[str, ...]
    encodings: tuple[str, ...]
    values_encodings: tuple[str, ...]
    value_types: tuple[str, ...]
    limits: dict[str, int] = field(hash=False)
    default_durability: str
    durabilities: tuple[str, ...]
    epoch: StoreEpoch = _NO_EPOCH


def value_type_name(number: int) -> str:
    """1 -> "f16"; a number of a newer server -> "type 99"."""
    return enum_name(types_pb2.ValueType, number, "VALUE_TYPE_").lower()


def durability_name(number: int) -> str:
    """1 -> "memory"."""
    return enum_name(types_pb2.Durability, number, "DURABILITY_").lower()


def epoch_from_proto(message: Any) -> StoreEpoch:
    """Returns `sparseagg.v1.StoreEpoch` as a record."""
    return StoreEpoch(message.store_id, message.epoch)


def receipt_from_proto(message: Any, encodings: Mapping[str, TensorEncoding]) -> Receipt:
    """Returns `sparseagg.v1.Receipt` as a record, with what the client knows of the update."""
    return Receipt(
        round=message.round,
        contributor=message.contributor,
        update_id=message.update_id,
        duplicate=message.duplicate,
        sequence=message.sequence,
        digest=message.digest,
        durability=durability_name(message.durability),
        encodings=encodings,
        epoch=epoch_from_proto(message.epoch),
    )


def manifest_from_proto(message: Any) -> Manifest:
    """Returns `sparseagg.v1.Manifest` as a record."""
    return Manifest(
        contributors=message.contributors,
        total_weight=message.total_weight,
        rejected=dict(message.rejected),
        duplicates=message.duplicates,
        updates_digest=message.updates_digest,
        result_digest=message.result_digest,
        infinite_values=message.infinite_values,
        publish_time=time_of(message, "publish_time"),
        seal_reason=_seal_reason(message),
        late=dict(message.late),
        given_up_leaves=tuple(message.given_up_leaves),
        parts=parts_from_proto(message),
    )


def spec_from_proto(message: Any) -> TensorSpec:
    """Returns `sparseagg.v1.TensorSpec` as a record."""
    return TensorSpec(
        name=message.name,
        dense_shape=tuple(message.dense_shape),
        value_type=value_type_name(message.value_type),
        sparse_dim=message.sparse_dim,
        op=message.op or "sum",
        integer_overflow=enum_name(
            types_pb2.IntegerOverflow, message.integer_overflow or 1, "INTEGER_OVERFLOW_"
        ).lower(),
        plan=message.plan,
    )


def _tensor_status_from_proto(message: Any) -> TensorStatus:
    return TensorStatus(
        name=message.name,
        backend=message.backend,
        plan=message.plan,
        plan_reason=message.plan_reason,
        nnz_received=message.nnz_received,
        nnz_result=message.nnz_result,
        predicted_seconds=message.predicted_seconds,
        measured_seconds=message.measured_seconds,
    )


def round_from_proto(message: Any) -> RoundInfo:
    """Returns `sparseagg.v1.Round` as a record."""
    return RoundInfo(
        name=message.name,
        state=RoundState(enum_name(types_pb2.RoundState, message.state, "ROUND_STATE_")),
        tensors=tuple(spec_from_proto(tensor) for tensor in message.spec.tensors),
        durability=durability_name(message.spec.durability),
        create_time=time_of(message, "create_time"),
        seal_time=time_of(message, "seal_time"),
        publish_time=time_of(message, "publish_time"),
        contributors=message.contributors,
        bytes_received=message.bytes_received,
        tensor_status=tuple(_tensor_status_from_proto(tensor) for tensor in message.tensors),
        manifest=manifest_from_proto(message.manifest) if message.HasField("manifest") else None,
        failure=message.failure,
        revision=message.revision,
        policy=_policy_from_proto(message.spec.policy),
        keep_updates=message.spec.keep_updates_until_deleted,
        publish_partial=message.spec.publish_partial,
        seal_reason=_seal_reason(message),
        close_time=time_of(message, "close_time"),
        time_left=seconds_of(message, "time_left"),
        goal_reached=message.goal_reached,
        epoch=epoch_from_proto(message.epoch),
        may_be_restored=message.may_be_restored,
        stall=message.stall,
    )


def _policy_from_proto(message: Any) -> RoundPolicy:
    return RoundPolicy(
        goal=message.goal_contributors,
        min_contributors=message.min_contributors,
        max_contributors=message.max_contributors,
        grace=seconds_of(message, "grace") or 0.0,
        open_for=seconds_of(message, "open_for"),
        open_until=time_of(message, "open_until"),
        leaf_wait=seconds_of(message, "leaf_wait"),
    )


def verification_from_proto(message: Any) -> Verification:
    """Returns `sparseagg.v1.VerifyRoundResponse` as a record."""
    return Verification(
        contributors=message.contributors,
        bytes_read=message.bytes_read,
        updates_digest=message.updates_digest,
        result_digest=message.result_digest,
        backend=message.backend,
    )


def info_from_proto(message: aggregation_pb2.ServerInfo) -> ServerInfo:
    """Returns `sparseagg.v1.ServerInfo` as a record."""
    return ServerInfo(
        version=message.version,
        backends=tuple(
            BackendInfo(
                b.name,
                b.description,
                b.available,
                b.unavailable_reason,
                tuple(b.plans),
                b.selected,
                tuple(b.devices),
            )
            for b in message.backends
        ),
        operators=tuple(message.operators),
        encodings=tuple(message.encodings),
        values_encodings=tuple(message.values_encodings),
        value_types=tuple(value_type_name(number) for number in message.value_types),
        limits={limit.name: limit.value for limit in message.limits},
        default_durability=durability_name(message.default_durability),
        durabilities=tuple(durability_name(number) for number in message.durabilities),
        epoch=epoch_from_proto(message.epoch),
    )


def _seal_reason(message: Any) -> str:
    reason = message.seal_reason
    return enum_name(types_pb2.SealReason, reason, "SEAL_REASON_") if reason else ""
