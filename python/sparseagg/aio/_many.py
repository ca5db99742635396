"""Many updates: small ones together in a message of StreamUpdates, large ones each in a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import Any, Callable, NamedTuple

from sparseagg._encode.wire import EncodedUpdate
from sparseagg._net.retry import is_retryable
from sparseagg._proto import aggregation_pb2
from sparseagg._requests import ReadUpdate, Update
from sparseagg._uploads import BATCH_BYTES_MAX, BATCH_UPDATES_MAX, Outcome, outcome_of
from sparseagg.aio._transport import Transport
from sparseagg.aio._uploads import encode
from sparseagg.errors import (
    DeadlineExceededError,
    NotFoundError,
    SparseAggError,
    UnavailableError,
)
from sparseagg.records import Receipt

# Calls that are under way at once.
_CONCURRENCY = 64


class Submission(NamedTuple):
    """An update to be sent. `message` is it as a whole, None of one that is sent in chunks."""

    position: int
    update: EncodedUpdate
    message: Any  # SubmitUpdateRequest


class ManyUpdates:
    """One submit_many().

    send: sends one by itself, with retries; its receipt, or raises the refusal.
    send_together: sends several in one message, without; outcomes by update_id, of those that are not to be sent again.
    """

    def __init__(
        self,
        updates: Iterator[Update],
        read: Callable[[Update], ReadUpdate],
        send: Callable[[Submission], Awaitable[Receipt]],
        send_together: Callable[[Mapping[str, Submission]], Awaitable[dict[str, Outcome]]],
        *,
        message_bytes_max: int,
        may_fill_arrays_again: bool,
    ) -> None:
        self._numbered = enumerate(updates)  # shared by all workers
        self._read = read
        self._send = send
        self._send_together = send_together
        self._message_bytes_max = message_bytes_max
        self._may_fill_arrays_again = may_fill_arrays_again
        self._ahead: Submission | None = None  # taken, and the call had no room for it
        # Of those who take updates: encoding a large one waits for a thread, and the iterable may fill the same arrays again.
        self._taking: asyncio.Lock | None = None
        self._outcomes: dict[int, Outcome] = {}

    async def run(self) -> list[Outcome]:
        """What became of each update, in their order. Raises when the server stays unreachable."""
        # Before Python 3.10 a lock belongs to the loop in which it is made.
        self._taking = asyncio.Lock()
        workers = [asyncio.ensure_future(self._work()) for _ in range(_CONCURRENCY)]
        try:
            await asyncio.gather(*workers)
        finally:  # where one has failed, the others would go on
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return [self._outcomes[position] for position in range(len(self._outcomes))]

    async def _work(self) -> None:
        while batch := await self._take_batch():
            answered = await self._send_together(batch) if len(batch) > 1 else {}
            for update_id, submission in batch.items():
                outcome = answered.get(update_id) or await self._send_alone(submission)
                self._outcomes[submission.position] = outcome

    async def _send_alone(self, submission: Submission) -> Outcome:
        try:
            return await self._send(submission)
        except (UnavailableError, DeadlineExceededError):
            raise
        except SparseAggError as refusal:
            return refusal

    async def _take_batch(self) -> dict[str, Submission]:
        """What goes in one call next, by update_id, as answers name nothing else; empty when nothing is left."""
        assert self._taking is not None  # run()
        async with self._taking:
            return await self._take_next()

    async def _take_next(self) -> dict[str, Submission]:
        batch: dict[str, Submission] = {}
        size = 0
        while (submission := await self._take()) is not None:
            size += submission.update.message_bytes
            fits = (
                submission.message is not None
                and size <= BATCH_BYTES_MAX
                and len(batch) < BATCH_UPDATES_MAX
                and submission.update.update_id not in batch
            )
            if batch and not fits:
                self._ahead = submission
                break
            batch[submission.update.update_id] = submission
            if not fits:
                break
        return batch

    async def _take(self) -> Submission | None:
        """Returns the next one, which no longer needs the caller's arrays where they may be filled again; None: there
        is none."""
        if self._ahead is not None:
            submission, self._ahead = self._ahead, None
            return submission
        for position, update in self._numbered:
            try:
                read = self._read(update)
                # A message is a copy by itself.
                is_large = read.nbytes > self._message_bytes_max
                encoded = await encode(read, self._may_fill_arrays_again and is_large)
            except SparseAggError as refusal:
                self._outcomes[position] = refusal
                continue
            if encoded.message_bytes <= self._message_bytes_max:
                return Submission(position, encoded, encoded.whole())
            if self._may_fill_arrays_again and not is_large:
                encoded.keep()
            return Submission(position, encoded, None)
        return None


async def send_together(
    transport: Transport, batch: Mapping[str, Submission], timeout: float
) -> dict[str, Outcome]:
    """What became of the updates, by update_id, in one message.

    Without those that are to be sent again, each by itself: the server said "come back later", or there is more to say
    of its error, or the call broke before they were answered.
    """
    outcomes: dict[str, Outcome] = {}

    async def messages() -> AsyncIterator[object]:
        updates = [submission.message for submission in batch.values()]
        yield aggregation_pb2.StreamUpdatesRequest(
            batch=aggregation_pb2.UpdateBatch(updates=updates), takes_more=True
        )

    def take(answer: Any) -> None:
        submission = batch.get(answer.update_id)
        if submission is None:
            return  # it is about the message as a whole
        outcome = outcome_of(answer, submission.update)
        if isinstance(outcome, NotFoundError) or (
            isinstance(outcome, SparseAggError) and is_retryable(outcome)
        ):
            return
        outcomes[answer.update_id] = outcome

    try:
        async for answer in transport.stream(
            "StreamUpdates", messages(), idle_timeout=timeout, for_update=True
        ):
            take(answer)
            for other in answer.more:
                take(other)
    except SparseAggError:
        pass  # an update that is sent again gets the error again
    return outcomes
