"""`Reduction`: a sum that is built up step by step in this process. `merge_partials`: several such sums made one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat

from sparseagg import _local
from sparseagg._encode.encodings import EncodeOptions
from sparseagg._encode.partial_head import read_specs
from sparseagg._local import LocalReduction
from sparseagg._requests import read_one_for_reduce
from sparseagg.convert import specs_of
from sparseagg.errors import InvalidArgumentError, SparseAggError
from sparseagg.result import Result
from sparseagg.tensors import TensorSpec

if TYPE_CHECKING:
    from sparseagg import _native

_OPTIONS = EncodeOptions()
_BYTES = (bytes, bytearray, memoryview)


class Partial:
    """The exact state of a reduction at one moment, for `Reduction.merge`: what `Reduction.snapshot` gives, and what a
    server's round has published (`Round.partial`). It can be copied and pickled, so it travels through multiprocessing,
    Spark, Ray and mpi4py; docs/partials.md describes its bytes."""

    def __init__(self, snapshot: _native.Snapshot, specs: Sequence[TensorSpec]) -> None:
        self._snapshot = snapshot
        self._specs = specs
        self._lock = threading.Lock()

    @classmethod
    def from_bytes(cls, data: bytes) -> Partial:
        """Returns a partial aggregate.

        data: what `to_bytes` or `Round.partial` gave.

        Raises InvalidArgumentError, whose message names tensor and position, for anything else.
        """
        if not isinstance(data, _BYTES):
            raise InvalidArgumentError(f"a {type(data).__name__} is no bytes")
        data = bytes(data)
        snapshot = _local.read_snapshot(data)
        return cls(snapshot, read_specs(data))

    def to_bytes(self) -> bytes:
        """Returns the state in its wire format. The same updates give the same bytes, in any order and however they were merged."""
        with self._lock:
            return self._snapshot.write()

    def __reduce__(self) -> Any:  # of copies, too
        return Partial.from_bytes, (self.to_bytes(),)


class Reduction:
    """An exact reduction in this process, without a server. Thread-safe: several threads may add to it at the same time.

    tensors: what is aggregated, and how: TensorSpecs, or an example of the updates (a model, a tensor), which is described
        by `specs_of` and is not added.
    op: the operator of an example's tensors, or of each by name; TensorSpecs have theirs.

    The order of updates and of merged partials changes no bit of the result. What `add` and `merge` refuse is not counted.

        reduction = Reduction([TensorSpec("emb", [50_000, 64], op="weighted_mean")])
        reduction.add({"emb": (rows, values, [50_000, 64])}, weight=128)
        mean = reduction.result()["emb"]
    """

    def __init__(self, tensors: Any, op: str | Mapping[str, str] | None = None) -> None:
        if isinstance(tensors, Iterator):
            tensors = list(tensors)
        specs = [tensors] if isinstance(tensors, TensorSpec) else tensors
        if not _are_specs(specs):
            specs = specs_of(tensors, "sum" if op is None else op)
        elif op is not None:
            raise InvalidArgumentError("op is for an example; TensorSpecs have theirs")
        self._specs = {spec.name: spec for spec in specs}
        self._reduction = LocalReduction(specs, _OPTIONS, at_once=False)
        self._positions = itertools.count()

    def add(self, update: Any, weight: SupportsFloat = 1.0) -> None:
        """Adds one contributor's update.

        update: a mapping from names to tensors, all of them, as in `Client.reduce`. Its arrays are copied, and may be
            filled again.
        weight: finite and not negative.

        Raises InvalidUpdateError, whose message names the update by the number of calls before; nothing of it is counted.
        """
        position = next(self._positions)
        self._reduction.add(read_one_for_reduce(self._specs, position, update, weight, _OPTIONS))

    def snapshot(self) -> Partial:
        """Returns the exact state so far, to be merged into another reduction. Takes memory of its own: about 24 bytes
        for each row with a value of 4 bytes. The reduction goes on."""
        return Partial(self._reduction.snapshot(), tuple(self._specs.values()))

    def merge(self, partial: Partial) -> None:
        """Adds what another reduction of the same tensors had at one moment, as if its updates were added here.

        partial: the `snapshot` of that moment, perhaps of another process; or what a server's round published.

        Raises SparseAggError (SPEC_MISMATCH, which names what differs) for other tensors.
        """
        if not isinstance(partial, Partial):
            raise InvalidArgumentError(f"a {type(partial).__name__} is no Partial")
        self._reduction.merge(partial._snapshot)

    def result(self, layout: str = "sparse") -> Result:
        """Returns the aggregate, rounded once; ends the reduction. The manifest has no digests.

        layout: "sparse" or "dense", as in `Round.result`.

        Raises OutOfRangeError (overflow of a checked integer sum), SparseAggError (REDUCTION_ENDED) at a second call.
        """
        return self._reduction.result(layout)


def merge_partials(partials: Iterable[Partial | bytes]) -> Partial:
    """Returns the partial aggregate of all updates of several, as if one reduction had added them: for the step of a tree
    that MPI, Spark or Ray walks.

    partials: Partials or their bytes, at least one, in any order; each is needed only until the next one is taken. How
        they are grouped changes no bit. A named one (of a server's round) loses the names of its updates.

    Raises InvalidArgumentError if there is none or one is no partial aggregate, SparseAggError (SPEC_MISMATCH, which
    names what differs) where they are of different tensors. The message says which one, counted from 0.

        total = functools.reduce(lambda a, b: merge_partials([a, b]), partials)
    """
    if isinstance(partials, (Partial, *_BYTES)) or not isinstance(partials, Iterable):
        raise InvalidArgumentError(f"a {type(partials).__name__} is no list of partial aggregates")
    reduction = None
    for number, one in enumerate(partials):
        try:
            partial = one if isinstance(one, Partial) else Partial.from_bytes(one)
            if reduction is None:
                reduction = Reduction(partial._specs)
            reduction.merge(partial)
        except SparseAggError as bad:
            bad.message = f"partial aggregate {number}: {bad.message}"
            raise
    if reduction is None:
        raise InvalidArgumentError("there is no partial aggregate to merge")
    return reduction.snapshot()


def _are_specs(tensors: Any) -> bool:
    return (
        isinstance(tensors, (list, tuple))
        and len(tensors) > 0
        and all(isinstance(tensor, TensorSpec) for tensor in tensors)
    )
