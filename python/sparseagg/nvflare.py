"""NVFlare: a ModelAggregator that hands each result to a sparseagg server as it arrives. Import it where nvflare is.

    recipe = FedAvgRecipe(..., aggregator=SparseAggregator("host:50061"), aggregator_data_kind=DataKind.WEIGHT_DIFF)

A client returns FLModel(params_type=DIFF, params={...}, meta={NUM_STEPS_CURRENT_ROUND: n}) in which a table's change is
a dictionary of arrays, because NVFlare's transport takes no sparse tensors:

    params = {"emb.weight": changed_rows(after, before).to_dict(), "bias": after_bias - before_bias}

With dense params only, FULL or DIFF, it averages as NVFlare's own aggregation does: each over the clients that have it.
"""

from __future__ import annotations

import math
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from nvflare.apis.dxo import MetaKey
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator

from sparseagg._abandoned import erase_abandoned, round_id_of_this_process, with_deadline
from sparseagg._erase import erase
from sparseagg._means import averageable, is_of_torch
from sparseagg.client import Client
from sparseagg.convert import as_tensor, specs_of
from sparseagg.errors import InvalidUpdateError, SparseAggError
from sparseagg.kinds import kind_of
from sparseagg.round import Round
from sparseagg.tensors import SparseTensor


class SparseAggregator(ModelAggregator):  # type: ignore[misc]  # nvflare may be absent where types are checked
    """Weighted means by a sparseagg server: exact, and the same in whatever order results arrive.

    target: address of the sparseagg server.
    op: for sparse tensors: "weighted_mean" (absent rows count as unchanged), or "mean_of_contributors". Dense ones are
        always averaged over the results that have them.
    round_options: of the rounds, see `Client.create_round`: goal, grace, deadline, min_contributors, max_contributors,
        durability, keep_updates. How long NVFlare waits for its clients is its controller's business; a result that comes
        after the round was closed raises RoundNotOpenError, which the controller logs, and is not accepted. The deadline is a
        day unless it is given here; a job that starts erases the rounds of processes of the same user on this machine that
        died.
    client_options: for `sparseagg.Client`: timeout, credentials, ...

    The first result that is accepted in a round tells which tensors there are. The memory of the server process does not
    grow with the number of clients. The aggregate is dense, because NVFlare adds it to the global model; each
    tensor is of the kind and the type that this result has: a torch.bfloat16 tensor where that
    has one. Whole numbers and truth values become float64; tensors without values stay as they are.
    """

    def __init__(
        self,
        target: str | None = None,
        op: str = "weighted_mean",
        round_options: dict[str, Any] | None = None,
        client_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        # NVFlare copies and serialises its components before it runs them: no connection before the first round.
        self._running: _State | None = None
        self.target = target
        self.op = op
        self.round_options = round_options
        self.client_options = client_options

    def accept_model(self, model: FLModel) -> None:
        """Submits one result. Raises InvalidUpdateError (with tensor and position) when it cannot be aggregated."""
        state = self._state()
        given = {name: _materialized(value) for name, value in model.params.items()}
        params = {
            n: averageable(value) for n, value in given.items() if not _is_without_values(value)
        }
        # Others wait for the first: what it has is what is asked of them, unless it is refused.
        with state.opening:
            if state.collection is None:
                empty = {name: value for name, value in given.items() if name not in params}
                state.collection = self._opened(state.client, model, params, empty)
                return
            collection = state.collection
        collection.add(model, params)

    def aggregate_model(self) -> FLModel:
        """Returns the aggregate of the round; metrics are averaged with the same weights.

        Raises a SparseAggError: with the reason INSUFFICIENT_CONTRIBUTORS where fewer than its
        minimum have contributed, which ends the round. An error that tells of the connection leaves
        it as it is, so that calling again goes on.
        """
        state = self._state()
        collection = state.collection
        if collection is None:
            raise InvalidUpdateError("no result was accepted in this round")
        try:
            collection.round.seal()
            result = collection.round.result("dense")
        except SparseAggError as refusal:
            if _is_without_result(refusal):
                state.end(collection)
            raise
        params = {
            name: kind_of(example).restore(result[name], example)
            for name, example in collection.examples.items()
        }
        params.update(collection.empty)
        state.end(collection)
        return FLModel(
            params_type=collection.params_type,
            params=params,
            metrics=_mean_of_metrics(list(collection.metrics)),
            current_round=collection.number,
        )

    def reset_stats(self) -> None:
        """Starts a new round; one that was not aggregated is given up."""
        state = self._state()
        collection = state.collection
        if collection is not None:
            state.end(collection)

    def _state(self) -> _State:
        """Made by the first call, which the controller makes before clients answer."""
        if self._running is None:
            self._running = _State(Client(self.target, **(self.client_options or {})))
            erase_abandoned(self._running.client, "nvflare")
        return self._running

    def _opened(
        self, client: Client, model: FLModel, params: Mapping[str, Any], empty: dict[str, Any]
    ) -> _Collection:
        """Returns a collection that begins with `model`, whose averageable params are `params`, and `empty` those
        without values."""
        updates = {name: as_tensor(value) for name, value in params.items()}
        ops = {
            name: self.op if isinstance(tensor, SparseTensor) else "mean_of_contributors"
            for name, tensor in updates.items()
        }
        specs = specs_of(updates, ops)
        if model.params_type != ParamsType.DIFF and any(spec.sparse_dim for spec in specs):
            raise InvalidUpdateError(
                "sparse params are changes: return them with params_type=ParamsType.DIFF"
            )
        round = client.create_round(
            specs, round_id_of_this_process("nvflare"), **with_deadline(self.round_options)
        )
        examples = {name: _example(value) for name, value in params.items()}
        collection = _Collection(round, model.params_type, model.current_round, examples, empty)
        try:
            collection.add(model, params)
        except BaseException:
            erase(round)
            raise
        return collection


@dataclass
class _Collection:
    """The results of one round. The first one decides which tensors the others must have."""

    round: Round
    params_type: ParamsType
    number: int | None
    examples: dict[str, Any]  # of each tensor, see _example
    empty: dict[str, Any]  # params without values, which no round has
    metrics: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def add(self, model: FLModel, params: Mapping[str, Any]) -> None:
        """Submits a result, whose averageable params are `params`."""
        if model.params_type != self.params_type:
            raise InvalidUpdateError(
                f"params_type is {model.params_type}, the first result's is {self.params_type}"
            )
        meta = model.meta or {}
        # Not the id() of a model without a name: the next one may get the same.
        name = meta.get("client_name") or meta.get("site_name") or f"result-{uuid.uuid4().hex}"
        weight = _weight_of(model)
        self.round.submit(params, contributor=str(name), weight=weight)
        self.metrics.append((weight, dict(model.metrics or {})))


class _State:
    """The state of a running job."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.opening = threading.Lock()  # held until the first result of a round is accepted
        self.collection: _Collection | None = None
        self._ending = threading.Lock()

    def end(self, collection: _Collection) -> None:
        """Nothing more is wanted of it."""
        with self._ending:
            if self.collection is collection:
                self.collection = None
        erase(collection.round)


def _weight_of(model: FLModel) -> float:
    """Returns the number of steps, read and used as NVFlare does; 1 where a client does not tell."""
    steps = (model.meta or {}).get(MetaKey.NUM_STEPS_CURRENT_ROUND)
    weight = None if isinstance(steps, bool) else _number(steps)
    return weight if weight is not None and math.isfinite(weight) and weight > 0 else 1.0


def _number(value: Any) -> float | None:
    """Reads a number of Python, numpy or torch, or its text. Returns None if it is anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last by torch
        return None


def _materialized(value: Any) -> Any:
    """Loads the tensor if `value` is a lazy reference to a tensor on disk."""
    return value.materialize() if hasattr(value, "materialize") else value


def _is_without_values(value: Any) -> bool:
    """Returns True for an empty buffer, as a state_dict may have: there is nothing to average."""
    return 0 in tuple(getattr(value, "shape", ()))


def _example(value: Any) -> Any:
    """What the aggregate of `value` is to look like: a dense tensor of its kind, type and device.

    Empty where that can be made, so that no client's result stays in memory until the round is
    over.
    """
    if isinstance(value, Mapping):
        value = value["values"]
    elif isinstance(value, SparseTensor):
        value = value.values
    elif isinstance(value, tuple):
        value = value[1]
    if is_of_torch(value):
        shape = () if value.dim() == 0 else (0,)
        return sys.modules["torch"].empty(shape, dtype=value.dtype, device=value.device)
    if isinstance(value, (np.ndarray, np.generic)):
        return np.empty(() if value.ndim == 0 else (0,), value.dtype)
    return value


def _is_without_result(refusal: SparseAggError) -> bool:
    """Returns True where the round has none and never will: too few contributed, or it is aborted."""
    is_over = refusal.reason in ("INSUFFICIENT_CONTRIBUTORS", "ROUND_ABORTED")
    return is_over or refusal.metadata.get("state") == "ABORTED"


def _mean_of_metrics(metrics: list[tuple[float, dict[str, Any]]]) -> dict[str, float]:
    """Returns the weighted mean of those metrics that every client gave as a number."""
    shared = set.intersection(*(set(given) for _, given in metrics)) if metrics else set()
    means = {}
    for name in sorted(shared):
        values = [(weight, _number(given[name])) for weight, given in metrics]
        numbers = [weight * value for weight, value in values if value is not None]
        if len(numbers) == len(values):
            means[name] = math.fsum(numbers) / math.fsum(weight for weight, _ in values)
    return means
