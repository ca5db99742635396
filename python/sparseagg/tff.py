"""TensorFlow Federated: sparse sums as federated operators and factories, and whole rounds on a sparseagg server.

Import it where tensorflow_federated is. A sparse tensor is a structure <indices, values> of two tensors: indices
`int64[?]` or `int64[?, sparse_dim]`, values `[?, row...]`. TFF's own sums would add the indices up; these do not:

    sparse_sum(value), sparse_min(value), sparse_max(value), sparse_weighted_mean(value, weight),
    sparse_mean_of_contributors(value, weight)
        operators for use inside a tff.federated_computation; result: ascending, distinct indices
    SparseSumFactory, SparseWeightedMeanFactory, SparseMeanOfContributorsFactory
        the same, wherever TFF takes an aggregation factory

These run in TFF's own runtime, whose workers execute TensorFlow graphs and cannot call a server: they add in float64, in
the order in which TFF goes through the clients. For deployments, `SparseRound` runs the same round in the form that TFF's
MapReduce back end gives it - broadcast, client work, aggregation, server update - with the aggregation on a sparseagg
server: clients' work runs anywhere and uploads from there, and the result is exact. `client_worker` makes the work of a
client the function of a worker (`sparseagg.worker`), which comes for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from sparseagg import _arguments
from sparseagg._abandoned import erase_abandoned, round_id_of_this_process, with_deadline
from sparseagg._erase import erase
from sparseagg._means import check_weight
from sparseagg._tff_examples import (
    components,
    feature_statistics,
    local_features,
    sparse_batches,
    sparse_tensor,
    sparse_tensor_type,
)
from sparseagg._tff_sums import aggregate, at, is_sparse, leaves, numpy_dtype
from sparseagg.client import Client
from sparseagg.convert import as_tensor
from sparseagg.errors import InvalidArgumentError
from sparseagg.records import Receipt
from sparseagg.result import Result
from sparseagg.tensors import SparseTensor, TensorSpec
from sparseagg.worker._tff import broadcast_payload, client_worker

__all__ = [
    "SparseMeanOfContributorsFactory",
    "SparseRound",
    "SparseSumFactory",
    "SparseWeightedMeanFactory",
    "client_worker",
    "components",
    "feature_statistics",
    "local_features",
    "sparse_batches",
    "sparse_max",
    "sparse_mean_of_contributors",
    "sparse_min",
    "sparse_sum",
    "sparse_tensor",
    "sparse_tensor_type",
    "sparse_weighted_mean",
]


def sparse_sum(value: Any) -> Any:
    """Sum of sparse and dense tensors of the clients; equal indices are added.

    value: placed at CLIENTS; nested structures whose leaves are <indices, values> or dense tensors.
    """
    ones = tff.federated_value(1.0, tff.CLIENTS)
    return aggregate(value, ones, "sum")


def sparse_min(value: Any) -> Any:
    """Smallest value of those clients that hold the index; entries of equal indices of one client are added first.

    value: as in `sparse_sum`.
    """
    return aggregate(value, tff.federated_value(1.0, tff.CLIENTS), "min")


def sparse_max(value: Any) -> Any:
    """Largest value of those clients that hold the index, as `sparse_min`."""
    return aggregate(value, tff.federated_value(1.0, tff.CLIENTS), "max")


def sparse_weighted_mean(value: Any, weight: Any) -> Any:
    """Sum of weight times value, divided by the weight of all clients; an absent row counts as zero."""
    return aggregate(value, weight, "weighted_mean")


def sparse_mean_of_contributors(value: Any, weight: Any) -> Any:
    """Each row is divided by the weight of the clients that hold it. Dense tensors are averaged over all."""
    return aggregate(value, weight, "mean_of_contributors")


class SparseSumFactory(tff.aggregators.UnweightedAggregationFactory):  # type: ignore[misc]
    """`sparse_sum` as a factory."""

    def create(self, value_type: Any) -> Any:
        """The tff.templates.AggregationProcess for values of this type."""

        @tff.federated_computation
        def initialize() -> Any:
            return tff.federated_value((), tff.SERVER)

        @tff.federated_computation(
            initialize.type_signature.result, tff.types.FederatedType(value_type, tff.CLIENTS)
        )
        def next_fn(state: Any, value: Any) -> Any:
            return _output(state, sparse_sum(value))

        return tff.templates.AggregationProcess(initialize, next_fn)


class _WeightedFactory(tff.aggregators.WeightedAggregationFactory):  # type: ignore[misc]
    """A weighted operator as a factory."""

    operator: Callable[[Any, Any], Any]

    def create(self, value_type: Any, weight_type: Any) -> Any:
        """The tff.templates.AggregationProcess for values and weights of these types."""
        operator = type(self).operator

        @tff.federated_computation
        def initialize() -> Any:
            return tff.federated_value((), tff.SERVER)

        @tff.federated_computation(
            initialize.type_signature.result,
            tff.types.FederatedType(value_type, tff.CLIENTS),
            tff.types.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state: Any, value: Any, weight: Any) -> Any:
            return _output(state, operator(value, weight))

        return tff.templates.AggregationProcess(initialize, next_fn)


class SparseWeightedMeanFactory(_WeightedFactory):
    """`sparse_weighted_mean` as a factory."""

    operator = staticmethod(sparse_weighted_mean)


class SparseMeanOfContributorsFactory(_WeightedFactory):
    """`sparse_mean_of_contributors` as a factory."""

    operator = staticmethod(sparse_mean_of_contributors)


_MEANS = frozenset(["weighted_mean", "mean_of_contributors"])


class SparseRound:
    """Federated rounds whose aggregation is done by a sparseagg server.

        round = SparseRound(client_work, server_update, {"emb": [50000, 64]}, target="host:50061")
        state = round.next(state, [data_of_one_client, data_of_another])

    client_work: a tff.federated_computation (state@SERVER, data@CLIENTS) -> <update, weight>@CLIENTS, or the
        tff.backends.mapreduce.BroadcastForm of one. TFF's compiler splits it into what is broadcast and what a client
        does; anything it cannot split is refused there.
    server_update: (state, aggregate) -> new state: a tff.tensorflow.computation or any function. The aggregate has the
        structure of an update.
    dense_shapes: the shape of each sparse tensor by name (keys on the way to it, joined by "/").
    op: "weighted_mean" or "mean_of_contributors" for the sparse tensors; dense ones are averaged over all. "sum" for all.
        Or the operator of each tensor by name, any of `TensorSpec`.
    target, client_options: of the sparseagg server, see `sparseagg.Client`.
    round_options: of the rounds, see `Client.create_round`: goal, grace, deadline, min_contributors, max_contributors,
        durability, keep_updates. The deadline is a day unless it is given here. `next` erases the rounds of processes of
        the same user on this machine that died in it.

    Where clients run elsewhere, the parts are: `broadcast(state)`, `run_client(...)` in each worker, `open` and `finish`
    on the server. A worker needs this object (or one made alike), what was broadcast, and the name of the round.

    Where workers come for the work (docs/tasks.md), the owner leaves tasks with `payload(state)`, and a worker runs
    `client_worker(client_work, data)`:

        name = round.open()
        client.tasks.create(NewTaskGroup("train", name, contributors=names, payload=round.payload(state)))
        state = server_update(state, round.finish(name, seal=False))     # sealed by the policy in `round_options`
    """

    def __init__(
        self,
        client_work: Any,
        server_update: Callable[[Any, Any], Any],
        dense_shapes: Mapping[str, Sequence[int]],
        *,
        op: str | Mapping[str, str] = "weighted_mean",
        target: str | None = None,
        round_options: Mapping[str, Any] | None = None,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        form = client_work
        if not isinstance(form, tff.backends.mapreduce.BroadcastForm):
            form = tff.backends.mapreduce.get_broadcast_form_for_computation(client_work)
        self._form = form
        self._server_update = server_update
        self._shapes = {name: tuple(shape) for name, shape in dense_shapes.items()}
        self._round_options = with_deadline(round_options)
        self._has_looked = False  # for rounds that others have left
        self._client = Client(target, **(client_options or {}))
        result_type = form.client_processing.type_signature.result
        if len(result_type) != 2:
            raise InvalidArgumentError(f"client_work gives {result_type}, not <update, weight>")
        self._leaves = dict(leaves(result_type[0]))
        sparse = {"/".join(path): is_sparse(leaf) for path, leaf in self._leaves.items()}
        _arguments.names("dense_shapes", self._shapes, sparse)
        self._ops = _operators(op, sparse)
        missing = [name for name in sparse if sparse[name] and name not in self._shapes]
        if missing:
            raise InvalidArgumentError(f"dense_shapes has none for {_arguments.listed(missing)}")
        for path, leaf in self._leaves.items():
            if is_sparse(leaf):
                _check_indices("/".join(path), leaf, self._shapes["/".join(path)])

    def next(self, state: Any, client_data: Sequence[Any]) -> Any:
        """One round: broadcast, the work of every client in this process, aggregation, server update."""
        if not self._has_looked:
            erase_abandoned(self._client, "tff")
            self._has_looked = True
        name = self._open(round_id_of_this_process("tff"))
        try:
            context = self.broadcast(state)
            for number, data in enumerate(client_data):
                self.run_client(name, context, data, contributor=str(number))
            aggregate = self.finish(name)
        except BaseException:  # nobody else knows the round's name, so it would stay
            erase(self._client.round(name))
            raise
        return self._server_update(state, aggregate)

    def broadcast(self, state: Any) -> Any:
        """Returns the part of the state that clients get."""
        return self._form.compute_server_context(state)

    def payload(self, state: Any) -> bytes:
        """Returns the part of the state that clients get as the payload of tasks, for workers with `client_worker`.

        state: as in `broadcast`.
        """
        broadcast_type = self._form.client_processing.type_signature.parameter[0]
        return broadcast_payload(broadcast_type, self.broadcast(state))

    def open(self) -> str:
        """Opens a round and returns its name, which clients and the caller of `finish` need."""
        return self._open(None)

    def _open(self, round_id: str | None) -> str:
        specs = []
        for path, leaf in self._leaves.items():
            name = "/".join(path)
            tensor = leaf["values"] if is_sparse(leaf) else leaf
            if is_sparse(leaf):
                shape = self._shapes[name]
                sparse_dim = len(shape) - (len(tensor.shape) - 1)
            else:
                shape, sparse_dim = tuple(tensor.shape) or (1,), 0
            specs.append(TensorSpec(name, shape, numpy_dtype(tensor), sparse_dim, self._ops[name]))
        return self._client.create_round(specs, round_id, **self._round_options).name

    def run_client(self, round_name: str, context: Any, data: Any, *, contributor: str) -> Receipt:
        """Does one client's work on what was broadcast and uploads its update."""
        update, weight = self._form.client_processing(context, data)
        tensors = {}
        for path, leaf in self._leaves.items():
            name, value = "/".join(path), at(update, path)
            if is_sparse(leaf):
                value = SparseTensor(value["indices"], value["values"], self._shapes[name])
            tensors[name] = as_tensor(value)
        return self._client.round(round_name).submit(
            tensors, contributor=contributor, weight=float(weight)
        )

    def finish(self, round_name: str, *, seal: bool = True) -> Any:
        """Seals the round, or waits until its policy has (seal=False); the aggregate in the
        structure of an update.

        The round is deleted once its aggregate is here, unless it was opened with `keep_updates`,
        which is for who verifies it. Raises a SparseAggError without deleting anything, so that
        calling again goes on: as `Round.seal` and `Round.result` do, and for a mean of updates that all
        weigh 0.
        """
        round = self._client.round(round_name)
        if seal:
            round.seal()
        result = round.result()
        if _MEANS.intersection(self._ops.values()):
            check_weight(result.manifest)
        aggregate = self._structured(result)
        if not self._round_options.get("keep_updates"):
            erase(round)
        return aggregate

    def _structured(self, result: Result) -> Any:
        """A result in the structure of an update."""
        aggregate: Any = OrderedDict()
        for path, leaf in self._leaves.items():
            tensor = result["/".join(path)]
            value: Any = tensor
            if isinstance(tensor, SparseTensor):
                indices = tensor.indices.astype(numpy_dtype(leaf["indices"]))
                rank = len(leaf["indices"].shape)
                value = OrderedDict(
                    indices=indices[:, 0] if rank == 1 else indices, values=tensor.values
                )
            else:
                value = np.reshape(tensor, tuple(leaf.shape))
            if not path:
                return value
            inner = aggregate
            for key in path[:-1]:
                inner = inner.setdefault(key, OrderedDict())
            inner[path[-1]] = value
        return aggregate


def _output(state: Any, value: Any) -> Any:
    measurements = tff.federated_value((), tff.SERVER)
    return tff.templates.MeasuredProcessOutput(state, value, measurements)


def _operators(op: str | Mapping[str, str], sparse: Mapping[str, bool]) -> dict[str, str]:
    """The operator of each tensor. sparse: by name, whether it is a sparse one."""
    if isinstance(op, str):
        of_dense = "sum" if op == "sum" else "weighted_mean"
        return {name: op if its_sparse else of_dense for name, its_sparse in sparse.items()}
    ops = _arguments.mapping("op", op)
    _arguments.names("op", ops, sparse)
    missing = [name for name in sparse if name not in ops]
    if missing:
        raise InvalidArgumentError(f"op has none for {_arguments.listed(missing)}")
    return dict(ops)


def _check_indices(name: str, leaf: Any, shape: Sequence[int]) -> None:
    """Raises InvalidArgumentError for indices of a type in which a row of `shape` has no number."""
    dtype = numpy_dtype(leaf["indices"])
    sparse_dim = len(shape) - (len(leaf["values"].shape) - 1)
    if any(size - 1 > np.iinfo(dtype).max for size in shape[:sparse_dim]):
        raise InvalidArgumentError(
            f'tensor "{name}": indices of {dtype} do not reach all of the shape {list(shape)}; take int64'
        )
