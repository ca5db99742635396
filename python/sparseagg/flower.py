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

The round has the types of the arrays that were sent out. A reply of another type is rounded to them once, to nearest, which
is logged; whole numbers and truth values are averaged in float64, as by FedAvg; arrays without values stay as they are.
"""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import validate_message_reply_consistency

from sparseagg._abandoned import (
    DEADLINE_SECONDS,
    erase_abandoned,
    round_id_of_this_process,
    with_deadline,
)
from sparseagg._arguments import list_of_names, listed
from sparseagg._erase import erase
from sparseagg._flower_records import (
    answered,
    averaged_dtype,
    bytes_of_arrays,
    id_of,
    is_without_values,
    only,
    only_key,
    sparse_record,
    tensors_of,
    update_of,
    weight_in,
)
from sparseagg._means import averageable
from sparseagg._requests import Update
from sparseagg.client import Client
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError, SparseAggError
from sparseagg.records import Receipt, RoundState
from sparseagg.result import Result
from sparseagg.round import Round
from sparseagg.tensors import SparseTensor, TensorSpec

__all__ = ["SparseFedAvg", "SparseUpload", "sparse_record", "tensors_of"]
_LOG = logging.getLogger("flwr")
_KEY = "sparseagg"  # of our ConfigRecord in messages and replies
_PULL_SECONDS = 1.0  # between two looks for replies, where the grid does not say
_REPLY_SECONDS = 10.0  # that a reply may take after the update that it tells of
# From when Flower waits no longer until the server closes a round of which nobody knows any more.
_DEADLINE_MARGIN_SECONDS = 600.0


class SparseFedAvg(FedAvg):  # type: ignore[misc]  # flwr may be absent where types are checked
    """FedAvg whose arrays are averaged by a sparseagg server, exactly and independent of the order of replies.

    target: address of the sparseagg server; client_target: the one that clients use, when it differs.
    sparse: names of the tables `[rows, ...]` of which clients change only some rows.
    op: for the tables: "weighted_mean", FedAvg's, or "mean_of_contributors", which averages a row over the clients that
        changed it. Dense arrays are always averaged over all.
    direct: clients upload straight to the server (they need the mod SparseUpload); otherwise the arrays come with the
        replies, as sparse records or whole.
    round_options: of the rounds, see `Client.create_round`: goal, grace, deadline, min_contributors, max_contributors,
        durability, keep_updates. A round that its deadline finds below the minimum leaves the arrays as they are. The
        deadline is ten minutes after the `timeout` of `start` unless it is given here.
    client_options: for `sparseagg.Client`: timeout, credentials, ...
    Everything else is FedAvg's. `weighted_by_key` gives the weight; metrics are aggregated by FedAvg.

    bytes_sent, bytes_received: by round, the bytes of arrays to all clients, which are the whole model for each as with
    FedAvg, and of updates from them, be it to the sparseagg server or in Flower's messages.

    Where clients reply and not one of their updates counts, the round raises InvalidUpdateError with the first reason. A
    strategy that starts erases the rounds of ServerApps of the same user on this machine that died.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        sparse: Iterable[str] = (),
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
        self._sparse = list_of_names("sparse", sparse)
        self._op = op
        self._direct = direct
        self._round_options = dict(round_options or {})
        self._deadline = DEADLINE_SECONDS
        self._arrays = ArrayRecord()
        self._round: Round | None = None
        self._replies = _Replies()
        self._told: set[str] = set()  # what is logged once
        self.bytes_sent: dict[int, int] = {}
        self.bytes_received: dict[int, int] = {}

    def start(self, grid: Any, *arguments: Any, **options: Any) -> Any:
        """FedAvg's rounds; in each, training is over when every client has replied or the round is closed."""
        given = inspect.signature(super().start).bind(grid, *arguments, **options)
        given.apply_defaults()
        timeout = given.arguments.get("timeout")
        self._deadline = DEADLINE_SECONDS if timeout is None else timeout + _DEADLINE_MARGIN_SECONDS
        erase_abandoned(self._client, "flower")
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
        self._replies = _Replies()
        self._round = self._client.create_round(
            self._specs(arrays),
            round_id_of_this_process("flower"),
            **with_deadline(self._round_options, self._deadline),
        )
        self.bytes_sent[server_round] = len(messages) * arrays.count_bytes()
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
        valid, failed = self._check_and_log_replies(replies, is_train=True, validate=False)
        round, self._round = self._round, None
        if round is None:
            return None, None
        try:
            contents = [message.content for message in self._submit(round, valid)]
            if contents:
                validate_message_reply_consistency(contents, self.weighted_by_key, False)
            info = round.info()
            taken = self._replies
            self.bytes_received[server_round] = (
                info.bytes_received - taken.passed_on + taken.carried
            )
            self._warn_of_carried(round)
            for reply in failed:
                taken.refuse(reply, reply.error.reason)
            if taken.first_refusal and info.state is RoundState.OPEN and not info.contributors:
                raise InvalidUpdateError(
                    f"{round.name}: none of {len(valid) + len(failed)} replies counts; {taken.first_refusal}"
                )
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
                averaged_dtype(array),
                sparse_dim=1 if name in self._sparse else 0,
                op=self._op if name in self._sparse else "weighted_mean",
            )
            for name, array in arrays.items()
            if not is_without_values(array)
        ]

    def _submit(self, round: Round, replies: Sequence[Message]) -> list[Message]:
        """Those of the replies whose updates count: uploaded by the clients, or submitted here, each once."""
        taken = self._replies
        new = [reply for reply in replies if answered(reply) not in taken.counts]
        carried, submitted = [], []
        for reply in new:
            taken.carried += bytes_of_arrays(reply.content)
            receipt = reply.content.config_records.get(_KEY, {})
            self._warn_of_rounding(round, reply, receipt.get("rounded", ()))
            if "update-id" not in receipt:
                carried.append(reply)
            elif receipt.get("round") == round.name:
                taken.counts[answered(reply)] = True
            else:
                self._refuse(reply, "its receipt is of another round")

        def updates() -> Iterator[Update]:
            for reply in carried:
                try:
                    update = self._update_in(round, reply)
                # What is in a reply is up to its client, and must not end the rounds of the others.
                except Exception as refusal:
                    self._refuse(reply, refusal)
                    continue
                submitted.append(reply)
                yield update

        outcomes = round.submit_many(updates(), return_exceptions=True)
        for reply, outcome in zip(submitted, outcomes):
            if isinstance(outcome, Receipt):
                taken.counts[answered(reply)] = True
                taken.passed_on += sum(sent.nbytes for sent in outcome.encodings.values())
            else:
                self._refuse(reply, outcome)
        return [reply for reply in replies if taken.counts[answered(reply)]]

    def _refuse(self, reply: Message, why: object) -> None:
        self._replies.refuse(reply, why)
        _LOG.warning("node %d does not count: %s", reply.metadata.src_node_id, why)

    def _update_in(self, round: Round, reply: Message) -> Update:
        record = only(reply.content.array_records, "ArrayRecord")
        weight = weight_in(reply.content, self.weighted_by_key)
        if any(name in record for name in self._sparse):
            self._replies.whole += 1
        tensors, rounded = update_of(record, self._arrays, self._sparse)
        self._warn_of_rounding(round, reply, rounded)
        return Update(tensors, str(reply.metadata.src_node_id), weight, id_of(reply.metadata))

    def _warn_of_carried(self, round: Round) -> None:
        """Says once that clients without the mod sent what they were not meant to send."""
        taken = self._replies
        if not (taken.carried and (self._direct or taken.whole)):
            return
        self._warn_once(
            "mod",
            "%s: %.1f MB of arrays came in Flower's messages, %d replies with whole tables: the ClientApp lacks the mod that "
            "sends the rows that changed%s; write ClientApp(mods=[SparseUpload()])",
            round.name,
            taken.carried / 1e6,
            taken.whole,
            ", straight to the sparseagg server" if self._direct else "",
        )

    def _warn_of_rounding(self, round: Round, reply: Message, rounded: Sequence[str]) -> None:
        if rounded:
            self._warn_once(
                "rounding",
                "%s: node %d replies arrays of wider types than it was sent, which are rounded to these: %s",
                round.name,
                reply.metadata.src_node_id,
                listed(rounded),
            )

    def _warn_once(self, what: str, message: str, *arguments: Any) -> None:
        if what not in self._told:
            self._told.add(what)
            _LOG.warning(message + " (this is logged once)", *arguments)

    def _apply(self, result: Mapping[str, Any]) -> ArrayRecord:
        averaged = {}
        for name, array in self._arrays.items():
            if is_without_values(array):
                averaged[name] = array
                continue
            tensor = result[name]
            if isinstance(tensor, SparseTensor):
                table = np.array(averageable(array.numpy()))
                table[tensor.indices[:, 0]] += tensor.values
                averaged[name] = Array(table)
            else:
                averaged[name] = Array(tensor.reshape(array.shape))
        return ArrayRecord(averaged)


class _Replies:
    """What became of the replies of one round."""

    def __init__(self) -> None:
        self.counts: dict[str, bool] = {}  # by what a reply answers: whether it counts
        self.first_refusal = ""
        self.carried = 0  # bytes of arrays in them
        self.passed_on = 0  # bytes of these that the strategy sent to the sparseagg server
        self.whole = 0  # that have a table of all rows

    def refuse(self, reply: Message, why: object) -> None:
        """Notes that a reply does not count."""
        self.counts[answered(reply)] = False
        self.first_refusal = self.first_refusal or f"node {reply.metadata.src_node_id}: {why}"


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
        key = only_key(reply.content.array_records, "ArrayRecord")
        weight = weight_in(reply.content, order["weight-key"])
        tensors, rounded = update_of(reply.content[key], before, order["sparse"])
        if not order["direct"]:
            reply.content[key] = sparse_record(tensors)
            reply.content[_KEY] = ConfigRecord({"rounded": rounded})
            return reply
        with Client(self._target or order["target"], **self._client_options) as client:
            receipt = client.round(order["round"]).submit(
                tensors,
                contributor=str(message.metadata.dst_node_id),
                weight=weight,
                update_id=id_of(message.metadata),
            )
        del reply.content[key]
        reply.content[_KEY] = ConfigRecord(
            {
                "round": receipt.round,
                "update-id": receipt.update_id,
                "digest": receipt.digest,
                "durability": receipt.durability,
                "rounded": rounded,
            }
        )
        return reply
