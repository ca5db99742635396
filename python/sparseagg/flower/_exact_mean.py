"""FedAvg whose mean comes from a sparseagg server: the base of all strategies of this package."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import validate_message_reply_consistency

from sparseagg._abandoned import (
    DEADLINE_SECONDS,
    erase_abandoned,
    round_id_of_this_process,
    with_deadline,
)
from sparseagg._erase import erase
from sparseagg.client import Client
from sparseagg.flower._model import apply_result, specs_of_arrays
from sparseagg.flower._records import KEY
from sparseagg.flower._training_round import TrainingRound
from sparseagg.tensors import TensorSpec

_LOG = logging.getLogger("flwr")
# The server ends an abandoned round this long after Flower has stopped waiting for its replies.
_DEADLINE_MARGIN_SECONDS = 600.0


class ExactMean(FedAvg):  # type: ignore[misc]  # flwr may be absent where types are checked
    """FedAvg's methods with the exact mean. In the order of base classes it stands between FedAvg and a strategy that
    derives from FedAvg, such as FedAdam, which so gets the exact mean from `super().aggregate_train`.

    Call `set_up` before `__init__`, which has FedAvg's arguments only.
    """

    def set_up(
        self,
        client: Client,
        sparse: tuple[str, ...],
        op: str,
        direct: bool,
        client_target: str,
        round_options: Mapping[str, Any],
    ) -> None:
        """Sets the options that FedAvg does not have; the strategies document them."""
        self._client, self._client_target = client, client_target
        self._sparse, self._op, self._direct = sparse, op, direct
        self._round_options = dict(round_options)
        self._deadline = DEADLINE_SECONDS
        self._arrays = ArrayRecord()
        self._round: TrainingRound | None = None
        self._told: set[str] = set()  # the warnings that have been logged
        self.bytes_sent: dict[int, int] = {}
        self.bytes_received: dict[int, int] = {}

    def start(self, grid: Any, *arguments: Any, **options: Any) -> Any:
        """Runs FedAvg's rounds. The training of a round ends when every client has replied or the round is closed."""
        given = inspect.signature(super().start).bind(grid, *arguments, **options)
        given.apply_defaults()
        timeout = given.arguments.get("timeout")
        self._deadline = DEADLINE_SECONDS if timeout is None else timeout + _DEADLINE_MARGIN_SECONDS
        erase_abandoned(self._client, "flower")
        try:
            return super().start(_ClosingGrid(grid, self._collect), *arguments, **options)
        finally:
            if self._round is not None:  # an exception ended the training before its aggregation
                erase(self._round.round)
                self._round = None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
    ) -> Iterable[Message]:
        """Returns FedAvg's messages, which also name the round that takes the updates."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        if not messages:
            return messages
        self._arrays = arrays
        round = self._client.create_round(
            self._specs(arrays),
            round_id_of_this_process("flower"),
            **with_deadline(self._round_options, self._deadline),
        )
        self._round = TrainingRound(
            round, arrays, self._sparse, self.weighted_by_key, self._direct, self._tell_once
        )
        self.bytes_sent[server_round] = len(messages) * arrays.count_bytes()
        return _ordering(messages, self._order(round.name))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
    ) -> Iterable[Message]:
        """Returns FedAvg's messages, which also say which metric is the weight."""
        messages = list(super().configure_evaluate(server_round, arrays, config, grid))
        return _ordering(messages, ConfigRecord({"weight-key": self.weighted_by_key}))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, Any]:
        """Returns the averaged arrays and metrics, as FedAvg does."""
        valid, failed = self._check_and_log_replies(replies, is_train=True, validate=False)
        training, self._round = self._round, None
        if training is None:
            return None, None
        try:
            contents = [message.content for message in training.submit(valid)]
            if contents:
                validate_message_reply_consistency(contents, self.weighted_by_key, False)
            info = training.round.info()
            self.bytes_received[server_round] = training.bytes_received(info)
            training.warn_of_carried()
            training.check(info, len(valid), failed)
            result = training.finish(len(contents))
        finally:
            erase(training.round)
        if result is None:
            return None, None
        _LOG.info(
            "aggregate_train: The mean of %d updates; %.3f MB of them from the clients, %.3f MB of arrays to these",
            result.manifest.contributors,
            self.bytes_received[server_round] / 1e6,
            self.bytes_sent[server_round] / 1e6,
        )
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key) if contents else None
        return apply_result(result, self._arrays), metrics

    def _collect(
        self, grid: Any, messages: Sequence[Message], timeout: float | None
    ) -> list[Message]:
        assert self._round is not None  # opened by configure_train
        return self._round.collect(grid, messages, timeout)

    def _order(self, name: str) -> ConfigRecord:
        """Returns what SparseUpload needs to know about a round."""
        return ConfigRecord(
            {
                "target": self._client_target,
                "round": name,
                "sparse": list(self._sparse),
                "direct": self._direct,
                "timeout": float(self._client._transport.timeout),
                "arrays-key": self.arrayrecord_key,
                "weight-key": self.weighted_by_key,
            }
        )

    def _specs(self, arrays: ArrayRecord) -> list[TensorSpec]:
        return specs_of_arrays(arrays, self._sparse, self._op)

    def _tell_once(self, what: str, message: str, *arguments: Any) -> None:
        if what not in self._told:
            self._told.add(what)
            _LOG.warning(message + " (this is logged once)", *arguments)


class _ClosingGrid:
    """Flower's grid, except that `collect` sends training messages and collects their replies."""

    def __init__(self, grid: Any, collect: Callable[[Any, Sequence[Message], float | None], Any]):
        self._grid = grid
        self._collect = collect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Any:
        """Returns the replies."""
        messages = list(messages)
        if not any(m.metadata.message_type == MessageType.TRAIN for m in messages):
            return self._grid.send_and_receive(messages, timeout=timeout)
        return self._collect(self._grid, messages, timeout)


def _ordering(messages: Sequence[Message], order: ConfigRecord) -> Sequence[Message]:
    for message in messages:
        message.content[KEY] = order
    return messages
