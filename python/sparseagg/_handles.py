"""What the clients for threads and for asyncio have in common: how they are made, and what a round's handle knows."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex

import grpc

from sparseagg import _arguments, _requests
from sparseagg._encode.encodings import EncodeOptions
from sparseagg._encode.wire import EncodedUpdate
from sparseagg._local_server import LocalServer
from sparseagg._lost_rounds import Birth, why_not_found
from sparseagg._net import address as _address
from sparseagg._net.leaves import RoundLeaves
from sparseagg._net.retry import RetryPolicy
from sparseagg._requests import Update
from sparseagg.errors import (
    InvalidArgumentError,
    InvalidUpdateError,
    NotFoundError,
    RoundNotPublishedError,
    SparseAggError,
    UnavailableError,
)
from sparseagg.records import RoundInfo, StoreEpoch, epoch_from_proto
from sparseagg.security import Access, Tls, Token
from sparseagg.tensors import TensorSpec

DEFAULT_TARGET = "127.0.0.1:50061"


class ClientBase:
    """The connection of a `Client`; its parameters are described at `sparseagg.Client`."""

    _transport_type: Any

    def __init__(
        self,
        target: str | None = None,
        *,
        timeout: SupportsFloat | None = 60.0,
        retry: RetryPolicy | None = None,
        tls: Tls | bool | None = None,
        token: Token | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        channel_options: Sequence[tuple[str, Any]] = (),
        connections: SupportsIndex = 4,
    ) -> None:
        text = os.environ.get("SPARSEAGG_SERVER") or DEFAULT_TARGET if target is None else target
        address = _address.parse(_arguments.text("target", text))
        self.target = address.target
        if not isinstance(retry, (RetryPolicy, type(None))):
            raise InvalidArgumentError(f"retry is {retry!r}, not a RetryPolicy")
        with _arguments.refusing("channel_options"):
            options = list(dict(channel_options).items())
            for key, value in options:
                _check_option(key, value)
        access = Access(address, tls=tls, token=token, credentials=credentials, metadata=metadata)
        self._transport = self._transport_type(
            address,
            access=access,
            options=options,
            timeout=math.inf if timeout is None else _arguments.seconds("timeout", timeout),
            retry=retry or RetryPolicy(),
            connections=_arguments.whole("connections", connections, 0, 1000),
        )
        self._known_server: _requests.Server | None = None

        kind = type(self)  # not `self`, which the connection must not keep alive

        def new_client(leaf_address: str) -> Any:
            return kind(
                leaf_address,
                timeout=timeout,
                retry=retry,
                tls=access.tls or tls,  # https:// of this address is for the leaves, too
                token=token,
                credentials=credentials,
                metadata=metadata,
                channel_options=channel_options,
                connections=connections,
            )

        self._transport.new_client = new_client

    def _owns(self, server: LocalServer) -> None:
        """Ends `server` with this client. Its rounds refer to it, and nothing else does that lives longer."""
        self._transport.local_server = server
        weakref.finalize(self, server.stop)

    def __repr__(self) -> str:
        return f"Client({self.target!r})"

    def __reduce__(self) -> Any:  # of copies, too
        raise InvalidArgumentError(
            "a Client cannot be copied or pickled: its connections are this process's; make one in each"
        )


class RoundBase:
    """A round's name, and what is known of it without asking: its tensors, and the start of the server that holds it.

    server: gives the server's limits and encodings; asked when first needed.
    """

    def __init__(
        self, transport: Any, server: Any, name: str, info: RoundInfo | None = None
    ) -> None:
        self._transport = transport
        self._server = server
        self.name = name
        self._specs: dict[str, TensorSpec] | None = None
        self._leaves: RoundLeaves | None = None
        self._asks_leaves = False  # before the next update
        self._birth: Birth | None = None
        if info is not None:
            self._specs = {spec.name: spec for spec in info.tensors}
            self._was_born(info.durability, info.epoch)

    def _at_leaf(self, update: EncodedUpdate) -> Any:
        """Returns the handle of the round at the server that takes the update; this one where the round has no leaves.
        Known once `_specs` are."""
        if self._leaves is None or update.is_partial:
            return self
        return self._leaves.handle(self, update.header.contributor)

    def _leaf_address(self, contributor: str) -> str | None:
        """Returns the address of the contributor's leaf; None without leaves. Known once `_specs` are."""
        leaf = None if self._leaves is None else self._leaves.leaf_of(contributor)
        return None if leaf is None else leaf.address

    def _given_up(self, info: RoundInfo, contributors: Iterable[str]) -> tuple[str, ...]:
        """Returns those of the contributors whose leaf was given up. info: of this round, just asked."""
        names = _arguments.list_of_names("contributors", contributors)
        if info.manifest is None:
            raise RoundNotPublishedError(
                f'round "{self.name}" is {info.state}: which leaves are given up is known once it is published',
                reason="ROUND_NOT_PUBLISHED",
            )
        assert self._leaves is not None  # it came with `info`
        leaves = ((name, self._leaves.leaf_of(name)) for name in names)
        lost = info.manifest.given_up_leaves
        return tuple(name for name, leaf in leaves if leaf is not None and leaf.id in lost)

    def _encoded_or_refusal(
        self, specs: Mapping[str, TensorSpec], update: Update, options: EncodeOptions
    ) -> EncodedUpdate | SparseAggError:
        try:
            return _requests.encode_update(self.name, specs, update, options)
        except SparseAggError as refusal:
            return refusal

    def _ask_leaves_again(self, error: SparseAggError) -> None:
        """After `error` of a leaf: the next update asks the root where the leaf is now."""
        self._asks_leaves = self._asks_leaves or isinstance(error, UnavailableError)

    def _was_born(self, durability: str, epoch: StoreEpoch) -> None:
        """Keeps the first that is told."""
        self._birth = self._birth or Birth(durability, epoch)

    def _time_limit(self, timeout: SupportsFloat | None) -> float:
        """Returns the seconds of a call; of the client where there are none."""
        if timeout is None:
            return float(self._transport.timeout)
        return _arguments.seconds("timeout", timeout)

    @staticmethod
    def _raise_first_refusal(outcomes: Iterable[object]) -> None:
        """Of many updates; what is wrong with one of them is told with its place."""
        for position, outcome in enumerate(outcomes):
            if isinstance(outcome, InvalidUpdateError):
                raise InvalidUpdateError(
                    f"update {position}: {outcome.message}",
                    code=outcome.code,
                    reason=outcome.reason,
                    metadata=outcome.metadata,
                    retry_after=outcome.retry_after,
                ) from outcome
            if isinstance(outcome, SparseAggError):
                raise outcome

    def _may_be_lost(self, error: SparseAggError) -> bool:
        """Returns True for a round that was there before: asked for its epoch, the server may tell why it no longer
        is."""
        return error.reason == "ROUND_NOT_FOUND" and self._birth is not None

    def _why_lost(self, error: SparseAggError, server: Any) -> SparseAggError:
        """What to raise instead of `error`; `server`: the answer of GetServerInfo."""
        assert isinstance(error, NotFoundError) and self._birth is not None  # _may_be_lost
        return why_not_found(error, self._birth, epoch_from_proto(server.epoch))

    def __repr__(self) -> str:
        return f"Round({self.name!r})"

    def __reduce__(self) -> Any:
        raise InvalidArgumentError(
            "a Round cannot be copied or pickled: it is one of its client; hand its name on, for Client.round(name)"
        )


def _check_option(key: Any, value: Any) -> None:
    """Of a channel: gRPC would refuse it with the first call, and take a float for an address."""
    is_value = isinstance(value, (str, bytes)) or (
        isinstance(value, int) and -(2**31) <= value < 2**31
    )
    if not (isinstance(key, str) and is_value):
        raise InvalidArgumentError(f"{key!r} is {value!r}, not a string or an int of 32 bits")
