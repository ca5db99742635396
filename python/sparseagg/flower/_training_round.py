"""One round of training: its replies become updates of a round of the sparseagg server, each counted once."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

from flwr.app import Array, Message

from sparseagg._arguments import listed
from sparseagg._requests import Update
from sparseagg.errors import InvalidUpdateError, SparseAggError
from sparseagg.flower._numpy_client import hint_for
from sparseagg.flower._records import (
    KEY,
    answered,
    bytes_of_arrays,
    id_of,
    only,
    update_of,
    weight_in,
)
from sparseagg.records import Receipt, RoundInfo, RoundState
from sparseagg.result import Result
from sparseagg.round import Round

_LOG = logging.getLogger("flwr")
_PULL_SECONDS = 1.0  # between two requests for replies, if the grid has no interval of its own
_REPLY_SECONDS = 10.0  # that a reply may arrive after its update


class TrainingRound:
    """Collects the replies of one round of training.

    round: takes the updates. arrays: the arrays that were sent to clients. sparse: the names of tables. weight_key: the
    metric that is the weight. direct: whether clients should upload themselves. tell_once: logs a warning (topic, text,
    arguments of the text), at most once for each topic.
    """

    def __init__(
        self,
        round: Round,
        arrays: Mapping[str, Array],
        sparse: Sequence[str],
        weight_key: str,
        direct: bool,
        tell_once: Callable[..., None],
    ) -> None:
        self.round, self.name = round, round.name
        self._arrays, self._sparse, self._weight_key = arrays, sparse, weight_key
        self._direct, self._tell_once = direct, tell_once
        self._counts: dict[str, bool] = {}  # by id of a message: whether its reply counts
        self._first_refusal = ""
        self._carried = 0  # bytes of arrays in replies
        self._passed_on = 0  # bytes of these arrays that were submitted from here
        self._whole = 0  # replies that contain all rows of a table

    def collect(
        self, grid: Any, messages: Sequence[Message], timeout: float | None
    ) -> list[Message]:
        """Sends the messages, and returns the replies that arrive in time."""
        missing = set(grid.push_messages(messages))
        end = math.inf if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        while missing and time.monotonic() < end:
            new = list(grid.pull_messages(missing))
            replies += new
            missing.difference_update(message.metadata.reply_to_message_id for message in new)
            if not missing:
                break
            counting = self.submit([m for m in replies if not m.has_error()])
            info = self.round.info()
            if info.state is not RoundState.OPEN:
                # A client replies after its upload, so a reply for each counted update is still expected.
                if len(counting) >= info.contributors:
                    break
                end = min(end, time.monotonic() + _REPLY_SECONDS)
            time.sleep(getattr(grid, "pull_interval", _PULL_SECONDS))
        if missing:
            _LOG.warning(
                "%s: %d of %d clients did not reply", self.name, len(missing), len(messages)
            )
        return replies

    def submit(self, replies: Sequence[Message]) -> list[Message]:
        """Submits the updates in replies that have arrays, each once, and returns the replies whose updates count."""
        carried = [reply for reply in replies if self._is_new(reply) and self._has_arrays(reply)]
        submitted = []

        def updates() -> Iterator[Update]:
            for reply in carried:
                try:
                    update = self._update_in(reply)
                # A client decides what its reply contains; a bad one must not end the round of the others.
                except Exception as refusal:
                    self._refuse(reply, refusal)
                    continue
                submitted.append(reply)
                yield update

        outcomes = self.round.submit_many(updates(), return_exceptions=True)
        for reply, outcome in zip(submitted, outcomes):
            if isinstance(outcome, Receipt):
                self._counts[answered(reply)] = True
                self._passed_on += sum(sent.nbytes for sent in outcome.encodings.values())
            else:
                self._refuse(reply, outcome)
        return [reply for reply in replies if self._counts[answered(reply)]]

    def check(self, info: RoundInfo, replies: int, failed: Sequence[Message]) -> None:
        """Raises InvalidUpdateError if there are replies and none of them counts."""
        for reply in failed:
            self._note(reply, reply.error.reason + hint_for(reply.error.reason))
        if self._first_refusal and info.state is RoundState.OPEN and not info.contributors:
            raise InvalidUpdateError(
                f"{self.name}: none of {replies + len(failed)} replies counts; {self._first_refusal}"
            )

    def finish(self, replies: int) -> Result | None:
        """Returns the aggregate, or None if too few clients contributed, or only clients whose weight is 0.

        replies: the number of replies whose updates count.
        """
        try:
            self.round.seal()
            result = self.round.result()
        except SparseAggError as refusal:
            is_short = refusal.reason == "INSUFFICIENT_CONTRIBUTORS"
            if not is_short and self.round.info().state is not RoundState.ABORTED:
                raise
            _LOG.warning("%s has no aggregate: %s", self.name, refusal)
            return None
        counted = result.manifest.contributors
        if counted != replies:
            _LOG.warning("%s counts %d updates, %d replies came", self.name, counted, replies)
        if counted and not result.manifest.total_weight:
            # Zeros would replace the arrays.
            _LOG.warning(
                '%s has no mean: "%s" of all %d is 0', self.name, self._weight_key, counted
            )
            return None
        return result if counted else None

    def bytes_received(self, info: RoundInfo) -> int:
        """Returns the bytes of updates from the clients, by either path."""
        return info.bytes_received - self._passed_on + self._carried

    def warn_of_carried(self) -> None:
        """Warns once that clients without the mod sent arrays that the mod would not have sent."""
        if not (self._carried and (self._direct or self._whole)):
            return
        self._tell_once(
            "mod",
            "%s: %.1f MB of arrays came in Flower's messages, %d replies with whole tables. The result is the same, but the "
            "ClientApp lacks the mod that sends the rows that changed%s: write `from sparseagg.flower import ClientApp` "
            "in the place of Flower's, or ClientApp(mods=[SparseUpload()])",
            self.name,
            self._carried / 1e6,
            self._whole,
            ", straight to the sparseagg server" if self._direct else "",
        )

    def _is_new(self, reply: Message) -> bool:
        return answered(reply) not in self._counts

    def _has_arrays(self, reply: Message) -> bool:
        """Returns whether the reply has arrays in the place of a receipt; a receipt is recorded."""
        self._carried += bytes_of_arrays(reply.content)
        receipt = reply.content.config_records.get(KEY, {})
        self._warn_of_rounding(reply, receipt.get("rounded", ()))
        if "update-id" not in receipt:
            return True
        if receipt.get("round") == self.name:
            self._counts[answered(reply)] = True
        else:
            self._refuse(reply, "its receipt is of another round")
        return False

    def _update_in(self, reply: Message) -> Update:
        record = only(reply.content.array_records, "ArrayRecord")
        weight = weight_in(reply.content, self._weight_key)
        if any(name in record for name in self._sparse):
            self._whole += 1
        tensors, rounded = update_of(record, self._arrays, self._sparse)
        self._warn_of_rounding(reply, rounded)
        return Update(tensors, str(reply.metadata.src_node_id), weight, id_of(reply.metadata))

    def _warn_of_rounding(self, reply: Message, rounded: Sequence[str]) -> None:
        if rounded:
            self._tell_once(
                "rounding",
                "%s: node %d replies arrays of wider types than it was sent, which are rounded to these: %s",
                self.name,
                reply.metadata.src_node_id,
                listed(rounded),
            )

    def _refuse(self, reply: Message, why: object) -> None:
        self._note(reply, why)
        _LOG.warning("node %d does not count: %s", reply.metadata.src_node_id, why)

    def _note(self, reply: Message, why: object) -> None:
        self._counts[answered(reply)] = False
        self._first_refusal = self._first_refusal or f"node {reply.metadata.src_node_id}: {why}"
