"""`Round`: one aggregation, from open to published."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Callable, Literal, SupportsFloat, overload

from sparseagg import _arguments, _requests
from sparseagg._encode.encodings import RAW, EncodeOptions, ValuesChoice
from sparseagg._encode.wire import EncodedUpdate
from sparseagg._net.leaf_streams import LeafStreams, send_to_leaf
from sparseagg._net.leaves import RoundLeaves
from sparseagg._net.partials import PartialRound
from sparseagg._net.transport import Transport
from sparseagg._progress import Meter, Progress
from sparseagg._proto import aggregation_pb2
from sparseagg._requests import Update
from sparseagg._uploads import Outcome
from sparseagg.errors import (
    DeadlineExceededError,
    NotFoundError,
    SparseAggError,
    UnavailableError,
)
from sparseagg.records import (
    Receipt,
    RoundInfo,
    Verification,
    receipt_from_proto,
    round_from_proto,
    verification_from_proto,
)
from sparseagg.result import ANSWERS_MAX, Result, ResultReader, receive_result
from sparseagg.tensors import TensorSpec


class Round(PartialRound):
    """A handle of one round; made by `Client.create_round` and `Client.round`. Thread-safe.

    Every method raises a SparseAggError: NotFoundError when there is no such round, UnavailableError when the server
    stays unreachable through all retries, DeadlineExceededError when `timeout` is over.
    """

    _transport: Transport
    _server: Callable[..., _requests.Server]

    def info(self) -> RoundInfo:
        """Returns the round as it is now."""
        return self._info(None)

    def _info(self, timeout: float | None) -> RoundInfo:
        request = aggregation_pb2.GetRoundRequest(name=self.name)
        answer = self._call("GetRound", request, timeout=timeout)
        info = round_from_proto(answer)
        self._leaves = RoundLeaves(answer)
        self._asks_leaves = False
        self._was_born(info.durability, info.epoch)
        return info

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        """The round's tensors by name; asked from the server once."""
        return self._specs_within(None)

    def _specs_within(self, limit: _requests.TimeLimit | None) -> Mapping[str, TensorSpec]:
        if self._specs is None or self._asks_leaves:
            info = self._info(_requests.question_seconds(limit))
            self._specs = {spec.name: spec for spec in info.tensors}
        return self._specs

    def leaf_of(self, contributor: str) -> str | None:
        """Returns the address of the leaf that takes this contributor's updates; None for a round without leaves, and at
        a leaf. `submit` sends there by itself; tasks are created there (docs/trees.md).

        contributor: its name, as `submit` gets it.
        """
        self._specs_within(None)
        return self._leaf_address(contributor)

    def given_up(self, contributors: Iterable[str]) -> tuple[str, ...]:
        """Returns those of these contributors whose leaf was given up (`leaf_wait`): whatever receipts they have, their
        updates are not in the result.

        contributors: names, as `submit` gets them.

        Raises RoundNotPublishedError before the publication, which decides.
        """
        return self._given_up(self.info(), contributors)

    def submit(
        self,
        tensors: Any,
        *,
        contributor: str,
        weight: SupportsFloat | None = None,
        update_id: str | None = None,
        timeout: SupportsFloat | None = None,
        progress: Progress = False,
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> Receipt:
        """Submits one contributor's update; returns when it is counted.

        tensors: by name, whatever `as_tensor` takes: SparseTensor, (indices, values, dense_shape), a sparse tensor of
            scipy, torch, TensorFlow or JAX; an array of the full shape for those with sparse_dim 0. Nested mappings and
            lists are flattened (`flatten`). A tensor of the round that is left out counts as not touched. uint16 values
            are bfloat16 bits where the round says so.
        contributor: 1 to 128 characters of [A-Za-z0-9._:@|/-]. Each is counted once.
        weight: finite and not negative; 1 when left out. Rounded to f32, as which it travels; one that is 0 or infinite
            there is refused. For integer tensors a whole number up to 2^24, unless the operator is count, min or max.
        update_id: 1 to 64 characters of [A-Za-z0-9._-]; made up when left out. Give your own, and keep it, to make
            submitting safe over a restart of the contributor: the same id with the same bytes is counted once, and an
            interrupted large update is resumed.
        timeout: seconds, with what has to be asked of the server before; for an update beyond the server's message limit,
            which goes in chunks, seconds without any progress. Default: the client's.
        progress: True shows a bar where tqdm is installed; a function is called with (bytes sent, of all). An update
            that goes in one message has one step. What the function raises ends the upload and is raised here.

        encoding: "coo.raw", "coo.packed" (fewer bytes; unsorted entries are sorted), or "auto": for each tensor the one that
            should be there sooner. A sample of the tensor tells what packing saves, earlier uploads how long that takes to
            send (docs/python.md); coo.raw for a tensor below 1 KiB.
        values: how values travel in coo.packed (docs/wire_format.md); for all tensors, or by name. "auto": in as few
            bytes as change nothing, where that is sooner there. "bf16", "f16", "int8", "int8.stochastic", "int4", "int4.stochastic" round f32 and
            f64 values here, before they are sent; others stay as they are.

        The receipt's `encodings` say what was chosen.

        Raises InvalidUpdateError (the message names tensor and position; nothing was counted), RoundNotOpenError,
        AlreadyCountedError, ResourceExhaustedError.
        """
        limit = _requests.TimeLimit(self._time_limit(timeout))
        options = EncodeOptions(encoding, values)
        specs = self._specs_within(limit)
        options = options.for_server(
            self._server(limit).encodings, self._transport.upload_rate.bytes_per_second
        )
        left = limit.left()
        update = _requests.encode_update(
            self.name, specs, Update(tensors, contributor, weight, update_id), options
        )
        with Meter(progress, update.payload.size, "sending") as meter:
            receipt = self._send(update, limit.seconds, left, meter)
            meter.finish()
        return receipt

    def _send(
        self, update: EncodedUpdate, idle_timeout: float, call_timeout: float, meter: Meter
    ) -> Receipt:
        """Sends one update, whole or in chunks, none of which may take longer than `idle_timeout`."""
        leaf = self._at_leaf(update)
        if leaf is not self:
            return send_to_leaf(self, leaf, update, idle_timeout, call_timeout, meter)
        if update.message_bytes <= self._server().message_bytes_max:
            message = update.whole()
            begin = time.monotonic()
            answer = self._call("SubmitUpdate", message, timeout=call_timeout, for_update=True)
            self._transport.upload_rate.record(update.payload.size, time.monotonic() - begin)
            receipt = receipt_from_proto(answer, update.encodings)
            self._was_born(receipt.durability, receipt.epoch)
            return receipt
        [outcome] = self._submit_stream([update], idle_timeout, meter)
        if isinstance(outcome, Receipt):
            return outcome
        raise outcome

    @overload
    def submit_many(
        self,
        updates: Iterable[Update],
        *,
        return_exceptions: Literal[False] = False,
        timeout: SupportsFloat | None = None,
        progress: Progress = False,
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> list[Receipt]: ...

    @overload
    def submit_many(
        self,
        updates: Iterable[Update],
        *,
        return_exceptions: bool,
        timeout: SupportsFloat | None = None,
        progress: Progress = False,
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> list[Outcome]: ...

    def submit_many(
        self,
        updates: Iterable[Update],
        *,
        return_exceptions: bool = False,
        timeout: SupportsFloat | None = None,
        progress: Progress = False,
        encoding: str = "auto",
        values: ValuesChoice = "auto",
    ) -> list[Any]:
        """Submits many updates over one stream; returns their receipts in the order of `updates`.

        An update that is refused, by the server or already here, does not stop the others.
        Afterwards the first refusal is raised; one of an update's content names its position in `updates`.

        updates: read as fast as the server takes them. A generator may fill the same arrays for each of them; those of an
            update beyond the server's message limit must stay as they are until it is answered.
        return_exceptions: True puts a refusal into the list, in the place of its receipt, instead of raising it.
        timeout: seconds without any progress.
        progress: as in `submit`; the size of all is None, because nobody knows it before the end.
        encoding, values: as in `submit`.

        Raises UnavailableError and DeadlineExceededError, also with `return_exceptions`: then updates with an `update_id` of
        their own are safe to submit again.
        """
        limit = _requests.TimeLimit(self._time_limit(timeout))
        # What has to be known is asked here, so that below a refusal is one of the update.
        specs = self._specs_within(limit)
        options = EncodeOptions(encoding, values)
        options.check_names(specs)
        options = options.for_server(
            self._server(limit).encodings, self._transport.upload_rate.bytes_per_second
        )
        given = _arguments.items("updates", updates)
        encoded = (self._encoded_or_refusal(specs, update, options) for update in given)
        with Meter(progress, None, "sending") as meter:
            outcomes = self._submit_stream(encoded, limit.seconds, meter)
        if not return_exceptions:
            self._raise_first_refusal(outcomes)
        return outcomes

    def seal(self) -> RoundInfo:
        """Fixes the set of accepted updates and starts the rest of the computation. Returns at once; idempotent."""
        request = aggregation_pb2.SealRoundRequest(name=self.name)
        return round_from_proto(self._call("SealRound", request))

    def wait(self, timeout: SupportsFloat | None = None) -> RoundInfo:
        """Waits until the round is published (or retired). Does not seal: someone has to.

        timeout: seconds; None waits for ever.

        Raises RoundAbortedError when the round is given up or fails (the message says why), DeadlineExceededError when the
        time is over.
        """
        limit = (
            None if timeout is None else _requests.TimeLimit(_arguments.seconds("timeout", timeout))
        )
        return self._wait(limit)

    def _wait(
        self,
        limit: _requests.TimeLimit | None,
        on_unpublished: Callable[[float], None] | None = None,
    ) -> RoundInfo:
        """See `wait`. on_unpublished: called once, with the seconds it may take, where the round is not published yet, before
        the time goes into waiting for that."""
        is_first = True
        while True:
            left = None if limit is None else limit.left()
            call_seconds = _requests.wait_call_seconds(
                limit, self._transport.timeout, is_first=is_first
            )
            is_first = False
            try:
                answer = self._call(
                    "WaitRound",
                    _requests.wait_round(self.name, left if on_unpublished is None else 0.0),
                    timeout=call_seconds,
                )
            except DeadlineExceededError as silence:
                _requests.check_time_left(self.name, limit, silence)
                continue
            info = round_from_proto(answer)
            if _requests.is_published(info, limit):
                return info
            if on_unpublished is not None:
                on_unpublished(_requests.look_seconds(limit, self._transport.timeout))
                on_unpublished = None

    def watch(self, min_interval: float | timedelta | None = None) -> Iterator[RoundInfo]:
        """Yields the round now and after every change.

        min_interval: seconds (or a timedelta) between two answers at least; the server's default is 0.1.

        Ends after a final state. A broken connection is taken up again.
        """
        request = _requests.watch_round(self.name, min_interval)
        backoff = self._transport.new_backoff(since_failure=True)
        while True:
            try:
                with self._transport.stream("WatchRound", request, idle_timeout=None) as stream:
                    while True:
                        message = stream.receive()
                        if message is None:
                            raise UnavailableError(
                                "the server ended the stream before the round was final"
                            )
                        backoff.progress()
                        info = round_from_proto(message)
                        yield info
                        if info.state.final:
                            return
            except UnavailableError as failure:
                backoff.wait(failure)
            except NotFoundError as missing:
                raise self._explained(missing) from None

    def result(
        self,
        layout: str = "sparse",
        tensors: Iterable[str] | None = None,
        indices: Mapping[str, Any] | None = None,
        timeout: SupportsFloat | None = None,
        progress: Progress = False,
        encoding: str = RAW,
    ) -> Result:
        """Returns the published aggregate. Waits for the publication (`wait`); does not seal.

        layout: "sparse": SparseTensor with the coordinates that some contributor touched, ascending. "dense": numpy
            arrays of the full shape, absent values 0. Tensors with sparse_dim 0 are arrays in both.
        tensors: names; all when left out.
        indices: by tensor name, integers `[n, sparse_dim]` (or `[n]`): only these rows. Sparse: those of them that were
            touched. Dense: an array `[n, *row shape]` in the order asked.
        timeout: seconds to wait for the publication, also of a server that says nothing; 0 does not wait for it, and 5 s
            for the server's answer. How long receiving may go without progress is the client's timeout.
        progress: True shows a bar where tqdm is installed; a function is called with (bytes received, of all).
        encoding: "coo.packed" lets indices travel as bits, a sixth of the bytes; unpacking takes longer than a local
            network saves.

        `result.like(model)` gives the tensors in the kinds and the nesting of a model.

        bfloat16 values come as uint16 bit patterns. Raises as `wait` does; InvalidArgumentError for an unknown tensor;
        PermissionDeniedError, without waiting, for a caller who may not read results.
        """
        limit = (
            None if timeout is None else _requests.TimeLimit(_arguments.seconds("timeout", timeout))
        )
        specs = self._specs_within(limit) if indices else {}
        request = _requests.get_aggregate(self.name, layout, tensors, indices, encoding, specs)
        self._wait(limit, lambda seconds: self._check_access(request, seconds))

        def receive() -> Result:
            reader = ResultReader(layout, tuple(indices or ()), progress)
            with self._transport.stream(
                "GetAggregate",
                request,
                idle_timeout=self._transport.timeout,
                answers_max=ANSWERS_MAX,
            ) as stream:
                return receive_result(stream, reader)

        try:
            return self._transport.repeat(receive)
        except NotFoundError as missing:
            raise self._explained(missing) from None

    def _check_access(self, request: Any, seconds: float) -> None:
        """Raises what the server has against this caller's reading, published or not."""
        try:
            with self._transport.stream(
                "GetAggregate", request, idle_timeout=seconds, answers_max=1
            ) as stream:
                stream.receive()
        except _requests.REFUSED_FOR_EVER:
            raise
        except SparseAggError:
            pass  # not published, as is known; what else there is, the call for the result meets again

    def abort(self) -> RoundInfo:
        """Gives an open or sealed round up and erases its data. Idempotent."""
        request = aggregation_pb2.AbortRoundRequest(name=self.name)
        return round_from_proto(self._call("AbortRound", request))

    def verify(self, timeout: SupportsFloat | None = None) -> Verification:
        """Computes the published round again from its updates and compares every bit.

        timeout: seconds; None waits as long as it takes, as for `wait`.

        Raises SparseAggError: reason RESULT_MISMATCH when they differ, UPDATES_NOT_KEPT for a round that was created
        without `keep_updates` (its stored result has the digest of its manifest).
        """
        limit = math.inf if timeout is None else _arguments.seconds("timeout", timeout)
        request = aggregation_pb2.VerifyRoundRequest(name=self.name)
        return verification_from_proto(self._call("VerifyRound", request, timeout=limit))

    def delete(self) -> None:
        """Erases a published or aborted round and its result. Its name is not given again for a while (by default a
        week), so that late retries cannot count in another round. Idempotent."""
        self._call("DeleteRound", aggregation_pb2.DeleteRoundRequest(name=self.name))

    def _call(self, method: str, request: Any, **options: Any) -> Any:
        try:
            return self._transport.unary(method, request, **options)
        except NotFoundError as missing:
            raise self._explained(missing) from None

    def _explained(self, error: SparseAggError) -> SparseAggError:
        """Returns `error`; of a round that went with the server's memory or data, one that says so."""
        if not self._may_be_lost(error):
            return error
        try:
            server = self._transport.unary(
                "GetServerInfo",
                aggregation_pb2.GetServerInfoRequest(),
                timeout=_requests.look_seconds(None, self._transport.timeout),
            )
        except SparseAggError:
            return error  # what is known already
        return self._why_lost(error, server)

    def _submit_stream(
        self,
        updates: Iterable[EncodedUpdate | SparseAggError],
        timeout: float,
        meter: Meter,
    ) -> list[Outcome]:
        """Returns the outcome of each update, in their order; an error among them is its own outcome."""
        outcomes: dict[int, Outcome] = {}
        positions: dict[int, int] = {}  # id of an update object -> its place

        def on_answer(update: EncodedUpdate, outcome: Outcome) -> None:
            outcomes[positions.pop(id(update))] = outcome

        with ExitStack() as stack:
            streams = LeafStreams(self, stack, on_answer, timeout, meter)
            for position, update in enumerate(updates):
                if isinstance(update, SparseAggError):
                    outcomes[position] = update
                    continue
                positions[id(update)] = position
                streams.submit(update)
            streams.finish()
        ordered = [outcomes[position] for position in range(len(outcomes))]
        return self._all_explained(ordered)

    def _all_explained(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Returns `outcomes`, in which a lost round is asked for once and not for each update."""
        why: SparseAggError | None = None
        for position, outcome in enumerate(outcomes):
            if isinstance(outcome, NotFoundError) and self._may_be_lost(outcome):
                why = why or self._explained(outcome)
                outcomes[position] = why
        return outcomes
