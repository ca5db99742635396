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
_PULL_SECONDS = 1.0  # between two looks for replies, where the grid does not say
_REPLY_SECONDS = 10.0  # that a reply may take after the update that it tells of


class TrainingRound:
    """The replies of one round of training.

    round: takes the updates. arrays: what was sent out. sparse: the names of tables. weight_key: the metric that is the
    weight. direct: clients are meant to upload themselves. tell_once: logs a warning (what about, text, arguments of the
    text), at most once for each `what`.
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
        self._counts: dict[str, bool] = {}  # by what a reply answers: whether it counts
        self._first_refusal = ""
        self._carried = 0  # bytes of arrays in replies
        self._passed_on = 0  # bytes of these that were sent to the sparseagg server from here
        self._whole = 0  # replies that have a table of all rows

    def collect(
        self, grid: Any, messages: Sequence[Message], timeout: float | None
    ) -> list[Message]:
        """Sends the messages; the replies of those clients that are in time."""
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
        """Those of the replies whose updates count: uploaded by the clients, or submitted here, each once."""
        carried = [reply for reply in replies if self._is_new(reply) and self._has_arrays(reply)]
        submitted = []

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

        outcomes = self.round.submit_many(updates(), return_exceptions=True)
        for reply, outcome in zip(submitted, outcomes):
            if isinstance(outcome, Receipt):
                self._counts[answered(reply)] = True
                self._passed_on += sum(sent.nbytes for sent in outcome.encodings.values())
            else:
                self._refuse(reply, outcome)
        return [reply for reply in replies if self._counts[answered(reply)]]

    def check(self, info: RoundInfo, replies: int, failed: Sequence[Message]) -> None:
        """Raises InvalidUpdateError where there are replies and not one of them counts."""
        for reply in failed:
            self._note(reply, reply.error.reason + hint_for(reply.error.reason))
        if self._first_refusal and info.state is RoundState.OPEN and not info.contributors:
            raise InvalidUpdateError(
                f"{self.name}: none of {replies + len(failed)} replies counts; {self._first_refusal}"
            )

    def finish(self, replies: int) -> Result | None:
        """The aggregate; None where nobody, or too few, contributed, or only such as weigh nothing.

        replies: how many came whose updates count.
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
            # Their mean would be zeros, in the place of the arrays.
            _LOG.warning(
                '%s has no mean: "%s" of all %d is 0', self.name, self._weight_key, counted
            )
            return None
        return result if counted else None

    def bytes_received(self, info: RoundInfo) -> int:
        """Bytes of updates from the clients, by either path."""
        return info.bytes_received - self._passed_on + self._carried

    def warn_of_carried(self) -> None:
        """Says once that clients without the mod sent what they were not meant to send."""
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
        """True for a reply without a receipt; what a receipt says is noted."""
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
