"""How the client for threads sends to leaves, also to one that has moved since the round was opened (docs/trees.md)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Callable

from sparseagg import _requests
from sparseagg._encode.wire import EncodedUpdate
from sparseagg._net.leaves import LeafSearch
from sparseagg._progress import Meter
from sparseagg._uploads import Outcome, UpdateStream
from sparseagg.errors import DeadlineExceededError, SparseAggError, UnavailableError
from sparseagg.records import Receipt


def send_to_leaf(
    round: Any,
    leaf: Any,
    update: EncodedUpdate,
    idle_timeout: float,
    call_timeout: float,
    meter: Meter,
) -> Receipt:
    """`Round._send` of the handle at the leaf. round: the handle at the root."""
    search = LeafSearch(call_timeout)
    while True:
        try:
            receipt: Receipt = leaf._send(update, idle_timeout, search.left(), meter)
            return receipt
        except SparseAggError as error:
            leaf = _find_leaf(round, search, error, update, leaf)


def _find_leaf(
    round: Any, search: LeafSearch, error: SparseAggError, update: EncodedUpdate, leaf: Any
) -> Any:
    """Asks for the leaves again after `error` at `leaf`; returns the handle to which the update goes now."""
    round._ask_leaves_again(error)
    search.begin(error)
    try:
        round._info(_requests.look_seconds(None, round._transport.timeout))
    except (UnavailableError, DeadlineExceededError):
        return search.end(error, leaf, leaf)  # it tries the leaf again
    return search.end(error, leaf, round._at_leaf(update))


class LeafStreams:
    """A stream for each leaf to which updates of `round` go. Of a leaf that has moved, what it has not answered is sent to
    its new address.
    """

    def __init__(
        self,
        round: Any,
        stack: ExitStack,
        on_answer: Callable[[EncodedUpdate, Outcome], None],
        timeout: float,
        meter: Meter,
    ) -> None:
        self._round = round
        self._stack = stack  # ends the streams
        self._tell = on_answer
        self._timeout = timeout
        self._meter = meter
        self._search = LeafSearch(timeout)
        self._streams: dict[Any, UpdateStream] = {}  # by the handle at the leaf

    def _on_answer(self, update: EncodedUpdate, outcome: Outcome) -> None:
        self._search.progress()
        self._tell(update, outcome)

    def _new_stream(self, leaf: Any) -> UpdateStream:
        limit = leaf._server().message_bytes_max
        return self._stack.enter_context(
            UpdateStream(leaf._transport, limit, self._on_answer, self._timeout, self._meter)
        )

    def submit(self, update: EncodedUpdate) -> None:
        """Sends `update` to its leaf."""
        self._submit_all([(update, None)])

    def finish(self) -> None:
        """Waits until every update is answered."""
        while self._streams:
            leaf, stream = next(iter(self._streams.items()))
            try:
                stream.finish()
                del self._streams[leaf]
            except SparseAggError as error:
                self._submit_all(self._drop(leaf, error, None))

    def _submit_all(self, updates: list[tuple[EncodedUpdate, Any]]) -> None:
        while updates:
            update, message = updates[0]
            leaf = self._round._at_leaf(update)
            try:
                if leaf not in self._streams:
                    self._streams[leaf] = self._new_stream(leaf)
                self._streams[leaf].submit(update, message)
                del updates[0]
            except SparseAggError as error:
                unanswered = self._drop(leaf, error, update)
                was_taken = any(other is update for other, _ in unanswered)
                updates = [*unanswered, *updates[was_taken:]]

    def _drop(
        self, leaf: Any, error: SparseAggError, update: EncodedUpdate | None
    ) -> list[tuple[EncodedUpdate, Any]]:
        """Ends the stream of a leaf that may have moved; returns what it has not answered. update: one that it did not
        take."""
        stream = self._streams.pop(leaf, None)
        unanswered = [] if stream is None else stream.unanswered()
        one = unanswered[0][0] if update is None and unanswered else update
        if leaf is self._round or one is None:
            raise error
        _find_leaf(self._round, self._search, error, one, leaf)
        if stream is not None:
            stream.close()
        return unanswered
