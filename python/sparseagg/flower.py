"""Flower: federated averaging through a sparseagg server. Import it where flwr is installed (tested
with 1.41 and 1.23).

    ServerApp:  strategy = SparseFedAvg("host:50061", sparse=["emb.weight"], fraction_train=0.5)    instead of FedAvg(...)
    ClientApp:  app = ClientApp(mods=[SparseUpload()])

The client's training function stays as it is: it gets all arrays and returns all arrays. For the tables named in
`sparse`, the mod takes the rows that changed; these and the dense arrays go straight to the server, and a receipt takes
their place in the reply. The result is FedAvg's: for a table, arrays + weighted mean of the changes, which is the
weighted mean of the changed tables.

    configure_train   opens a round; a ConfigRecord "sparseagg" tells clients which and what is sparse
    SparseUpload      trains, uploads, replies with metrics and a receipt
    start             collects the replies until all are there, or the round's policy has closed it
    aggregate_train   seals the round, fetches the aggregate, adds the changes to the arrays of the round

With `direct=False` the arrays travel in Flower's messages (indices, values and dense_shape of each table as three
arrays) and the strategy submits them as they arrive: for clients that cannot reach the sparseagg server.

Flower waits for every client, an hour by default. `round_options={"goal": 40, "grace": 10, "deadline": 600}` ends a round
10 s after 40 updates, or after 600 s, whatever became of the other clients; an update that comes later is refused, which
Flower reports as the failure of its client.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import validate_message_reply_consistency

from sparseagg._arguments import listed, refusing
from sparseagg._erase import erase
from sparseagg._means import averageable
from sparseagg._requests import Update
from sparseagg.client import Client
from sparseagg.convert import as_tensor, flatten
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError, SparseAggError
from sparseagg.records import Receipt, RoundState
from sparseagg.result import Result
from sparseagg.round import Round
from sparseagg.sparsify import changed_rows
from sparseagg.tensors import SparseTensor, TensorSpec, value_type_of

_LOG = logging.getLogger("flwr")
_KEY = "sparseagg"  # of our ConfigRecord in messages and replies
_PULL_SECONDS = 1.0  # between two looks for replies, where the grid does not say
_REPLY_SECONDS = 10.0  # that a reply may take after the update that it tells of
_PARTS = ("indices", "values", "dense_shape")


class SparseFedAvg(FedAvg):  # type: ignore[misc]  # flwr may be absent where types are checked
    """FedAvg whose arrays are averaged by a sparseagg server, exactly and independent of the order of replies.

    target: address of the sparseagg server; client_target: the one that clients use, when it differs.
    sparse: names of the tables `[rows, ...]` of which clients change only some rows.
    op: for the tables: "weighted_mean", FedAvg's, or "mean_of_contributors", which averages a row over the clients that
        changed it. Dense arrays are always averaged over all.
    direct: clients upload straight to the server (they need the mod SparseUpload); otherwise the arrays come with the
        replies, as sparse records or whole.
    round_options: of the rounds, see `Client.create_round`: goal, grace, deadline, min_contributors, max_contributors,
        durability, keep_updates. A round that its deadline finds below the minimum leaves the arrays as they are.
    client_options: for `sparseagg.Client`: timeout, credentials, ...
    Everything else is FedAvg's. `weighted_by_key` gives the weight; metrics are aggregated by FedAvg.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        sparse: Sequence[str] = (),
        op: str = "weighted_mean",
        direct: bool = True,
        client_target: str | None = None,
        round_options: Mapping[str, Any] | None = None,
        client_options: Mapping[str, Any] | None = None,
        **fedavg: Any,
    ) -> None:
        super().__init__(**fedavg)
        self._client = Client(target, **(client_options or {}))
        self._client_target = client_target or self._client.target
        self._sparse = tuple(sparse)
        self._op = op
        self._direct = direct
        self._round_options = dict(round_options or {})
        self._arrays = ArrayRecord()
        self._round: Round | None = None
        self._taken: dict[str, bool] = {}  # by what a reply answers: whether it counts
        self.bytes_received: dict[int, int] = {}  # by the sparseagg server, for each round

    def start(self, grid: Any, *arguments: Any, **options: Any) -> Any:
        """FedAvg's rounds; in each, training is over when every client has replied or the round is closed."""
        try:
            return super().start(_ClosingGrid(grid, self._collect), *arguments, **options)
        finally:
            if self._round is not None:  # what ended the training came before its aggregate
                erase(self._round)
                self._round = None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
    ) -> Iterable[Message]:
        """FedAvg's messages, which also name the round that takes the updates."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        if not messages:
            return messages
        self._arrays = arrays
        self._taken = {}
        self._round = self._client.create_round(self._specs(arrays), **self._round_options)
        order = ConfigRecord(
            {
                "target": self._client_target,
                "round": self._round.name,
                "sparse": list(self._sparse),
                "direct": self._direct,
                "arrays-key": self.arrayrecord_key,
                "weight-key": self.weighted_by_key,
            }
        )
        for message in messages:
            message.content[_KEY] = order
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, Any]:
        """The averaged arrays and metrics, as FedAvg's."""
        valid, _ = self._check_and_log_replies(replies, is_train=True, validate=False)
        round, self._round = self._round, None
        if round is None:
            return None, None
        try:
            contents = [message.content for message in self._submit(round, valid)]
            if contents:
                validate_message_reply_consistency(contents, self.weighted_by_key, False)
            self.bytes_received[server_round] = round.info().bytes_received
            result = self._finish(round, len(contents))
        finally:
            erase(round)
        if result is None:
            return None, None
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key) if contents else None
        return self._apply(result), metrics

    def _finish(self, round: Round, replies: int) -> Result | None:
        """The aggregate; None where nobody, or too few, contributed, or only such as weigh nothing."""
        try:
            round.seal()
            result = round.result()
        except SparseAggError as refusal:
            is_short = refusal.reason == "INSUFFICIENT_CONTRIBUTORS"
            if not is_short and round.info().state is not RoundState.ABORTED:
                raise
            _LOG.warning("%s has no aggregate: %s", round.name, refusal)
            return None
        counted = result.manifest.contributors
        if counted != replies:
            _LOG.warning("%s counts %d updates, %d replies came", round.name, counted, replies)
        if counted and not result.manifest.total_weight:
            # Their mean would be zeros, in the place of the arrays.
            _LOG.warning(
                '%s has no mean: "%s" of all %d is 0', round.name, self.weighted_by_key, counted
            )
            return None
        return result if counted else None

    def _collect(
        self, grid: Any, messages: Sequence[Message], timeout: float | None
    ) -> list[Message]:
        """Sends the messages; the replies of those clients that are in time."""
        round = self._round
        assert round is not None  # opened by configure_train
        missing = set(grid.push_messages(messages))
        end = math.inf if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        while missing and time.monotonic() < end:
            new = list(grid.pull_messages(missing))
            replies += new
            missing.difference_update(message.metadata.reply_to_message_id for message in new)
            if not missing:
                break
            counting = self._submit(round, [m for m in replies if not m.has_error()])
            info = round.info()
            if info.state is not RoundState.OPEN:
                # A client replies after its upload: so many replies are still on their way.
                if len(counting) >= info.contributors:
                    break
                end = min(end, time.monotonic() + _REPLY_SECONDS)
            time.sleep(getattr(grid, "pull_interval", _PULL_SECONDS))
        if missing:
            _LOG.warning(
                "%s: %d of %d clients did not reply", round.name, len(missing), len(messages)
            )
        return replies

    def _specs(self, arrays: ArrayRecord) -> list[TensorSpec]:
        missing = set(self._sparse) - set(arrays)
        if missing:
            raise InvalidArgumentError(
                f"sparse names {sorted(missing)}; the arrays are {list(arrays)}"
            )
        return [
            TensorSpec(
                name,
                tuple(array.shape) or (1,),
                _averaged_type(array),
                sparse_dim=1 if name in self._sparse else 0,
                op=self._op if name in self._sparse else "weighted_mean",
            )
            for name, array in arrays.items()
        ]

    def _submit(self, round: Round, replies: Sequence[Message]) -> list[Message]:
        """Those of the replies whose updates count: uploaded by the clients, or submitted here, each once."""
        new = [reply for reply in replies if _answered(reply) not in self._taken]
        carried, submitted = [], []
        for reply in new:
            receipt = reply.content.config_records.get(_KEY, {})
            if "update-id" in receipt:
                self._taken[_answered(reply)] = receipt.get("round") == round.name
            else:
                carried.append(reply)

        def updates() -> Iterator[Update]:
            for reply in carried:
                try:
                    update = self._update_in(reply)
                # What is in a reply is up to its client, and must not end the rounds of the others.
                except Exception as refusal:
                    self._refuse(reply, refusal)
                    continue
                submitted.append(reply)
                yield update

        outcomes = round.submit_many(updates(), return_exceptions=True)
        for reply, outcome in zip(submitted, outcomes):
            if isinstance(outcome, Receipt):
                self._taken[_answered(reply)] = True
            else:
                self._refuse(reply, outcome)
        return [reply for reply in replies if self._taken[_answered(reply)]]

    def _refuse(self, reply: Message, why: Exception) -> None:
        self._taken[_answered(reply)] = False
        _LOG.warning("node %d does not count: %s", reply.metadata.src_node_id, why)

    def _update_in(self, reply: Message) -> Update:
        record = _only(reply.content.array_records, "ArrayRecord")
        weight = _weight_in(reply.content, self.weighted_by_key)
        tensors = _update_of(record, self._arrays, self._sparse)
        return Update(tensors, str(reply.metadata.src_node_id), weight, _id_of(reply.metadata))

    def _apply(self, result: Mapping[str, Any]) -> ArrayRecord:
        averaged = {}
        for name, array in self._arrays.items():
            tensor = result[name]
            if isinstance(tensor, SparseTensor):
                table = np.array(averageable(array.numpy()))
                table[tensor.indices[:, 0]] += tensor.values
                averaged[name] = Array(table)
            else:
                averaged[name] = Array(tensor.reshape(array.shape))
        return ArrayRecord(averaged)


class _ClosingGrid:
    """Flower's grid, whose training messages are collected by `collect`."""

    def __init__(self, grid: Any, collect: Callable[[Any, Sequence[Message], float | None], Any]):
        self._grid = grid
        self._collect = collect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Any:
        """The replies."""
        messages = list(messages)
        if not any(m.metadata.message_type == MessageType.TRAIN for m in messages):
            return self._grid.send_and_receive(messages, timeout=timeout)
        return self._collect(self._grid, messages, timeout)


class SparseUpload:
    """The mod for ClientApp(mods=[SparseUpload()]): uploads the trained arrays to the server that the strategy names.

    target: another address of the server than the strategy gives. client_options: for `sparseagg.Client`.

    Messages of other strategies pass unchanged. An update that the server refuses raises, which Flower reports to the
    ServerApp as the failure of this client.
    """

    def __init__(self, target: str | None = None, **client_options: Any) -> None:
        self._target = target
        self._client_options = client_options

    def __call__(self, message: Message, context: Any, call_next: Any) -> Message:
        """Trains, uploads, and replies with a receipt in place of the arrays."""
        order = message.content.config_records.get(_KEY) if message.has_content() else None
        if order is None or message.metadata.message_type != MessageType.TRAIN:
            return call_next(message, context)
        # Arrays are bytes that nobody changes, so keeping them costs nothing while the client trains.
        before = dict(message.content[order["arrays-key"]])
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        key = _only_key(reply.content.array_records, "ArrayRecord")
        weight = _weight_in(reply.content, order["weight-key"])
        tensors = _update_of(reply.content[key], before, order["sparse"])
        if not order["direct"]:
            reply.content[key] = sparse_record(tensors)
            return reply
        with Client(self._target or order["target"], **self._client_options) as client:
            receipt = client.round(order["round"]).submit(
                tensors,
                contributor=str(message.metadata.dst_node_id),
                weight=weight,
                update_id=_id_of(message.metadata),
            )
        del reply.content[key]
        reply.content[_KEY] = ConfigRecord(
            {
                "round": receipt.round,
                "update-id": receipt.update_id,
                "digest": receipt.digest,
                "durability": receipt.durability,
            }
        )
        return reply


def sparse_record(tensors: Any) -> ArrayRecord:
    """Tensors as an ArrayRecord: a sparse one as the three arrays NAME/indices, NAME/values, NAME/dense_shape.

    tensors: nested mappings of whatever `as_tensor` takes; bfloat16 travels as uint16 bit patterns.
    """
    arrays = {}
    for name, value in flatten(tensors).items():
        tensor = as_tensor(value)
        if isinstance(tensor, SparseTensor):
            # The shape is an array of its own, because Flower's shapes are int32.
            for part, array in zip(_PARTS, (tensor.indices, tensor.values, tensor.dense_shape)):
                arrays[f"{name}/{part}"] = Array(np.asarray(array))
        else:
            arrays[name] = Array(tensor.values)
    return ArrayRecord(arrays)


def tensors_of(record: ArrayRecord) -> dict[str, Any]:
    """The tensors by name of a record that `sparse_record` made: SparseTensor, or numpy array where it is dense."""
    tensors: dict[str, Any] = {}
    for name, array in record.items():
        table, _, part = name.rpartition("/")
        if table and all(f"{table}/{other}" in record for other in _PARTS) and part in _PARTS:
            if part == _PARTS[0]:
                indices, values, shape = (record[f"{table}/{other}"].numpy() for other in _PARTS)
                # Bit patterns of bfloat16: sparse tensors have no other values of that type.
                value_type = "bf16" if values.dtype == np.uint16 else None
                tensors[table] = SparseTensor(indices, values, shape, value_type)
        else:
            tensors[name] = array.numpy()
    return tensors


def _update_of(
    record: ArrayRecord, before: Mapping[str, Array], sparse: Sequence[str]
) -> dict[str, Any]:
    """A client's arrays as the update for a round: changes of the tables, values of the dense arrays.

    Raises InvalidUpdateError for a dense array that is missing: it would count as zeros. A table is then as it was.
    """
    tensors = tensors_of(record)
    missing = [name for name in before if name not in tensors and name not in sparse]
    if missing:
        raise InvalidUpdateError(f"the arrays of the reply lack {listed(missing)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, SparseTensor):
            tensors[name] = averageable(tensor)
            if name in sparse:
                with refusing(f'tensor "{name}"', InvalidUpdateError):
                    tensors[name] = changed_rows(tensors[name], averageable(before[name].numpy()))
    return tensors


def _averaged_type(array: Array) -> str:
    """The value type of an array's average."""
    return value_type_of(averageable(np.empty(0, array.dtype)).dtype)


def _weight_in(content: Any, key: str) -> float:
    metrics = _only(content.metric_records, "MetricRecord")
    if key not in metrics:
        raise SparseAggError(f'a reply has no metric "{key}", which is its weight')
    return float(metrics[key])


def _answered(reply: Message) -> str:
    """The id of the message that it answers."""
    return str(reply.metadata.reply_to_message_id)


def _id_of(metadata: Any) -> str:
    """The id of an update: that of the message that asked for it, so that a repetition is recognised."""
    return str(metadata.reply_to_message_id or metadata.message_id)[:64]


def _only_key(records: Mapping[str, Any], what: str) -> str:
    if len(records) != 1:
        raise SparseAggError(f"a reply has {len(records)} {what}s; it must have one")
    return str(next(iter(records)))


def _only(records: Mapping[str, Any], what: str) -> Any:
    return records[_only_key(records, what)]
