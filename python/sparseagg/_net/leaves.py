"""The leaves of a round: servers to which its contributors send (docs/trees.md)."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from sparseagg._net.rendezvous import choose_leaf
from sparseagg.errors import SparseAggError, UnavailableError

# A leaf that has been away for so long may have moved: its root is asked for its address.
AWAY_SECONDS = 3.0


class Leaf(NamedTuple):
    """A leaf, as its round tells."""

    id: str
    address: str


class RoundLeaves:
    """The leaves of one round, and a handle of its round at each.

    message: `sparseagg.v1.Round`.
    """

    def __init__(self, message: Any) -> None:
        tree = message.spec.tree
        self._round = message.name
        # Only a root says where to send. An owner may put any leaves, and their addresses, into the round of another server.
        leaves = () if tree.self else tree.leaves
        self._leaves = [Leaf(leaf.id, leaf.address) for leaf in leaves]
        self._ids = [leaf.id for leaf in self._leaves]
        self._handles: dict[str, Any] = {}

    def leaf_of(self, contributor: str) -> Leaf | None:
        """Returns the contributor's leaf; None where the asked server takes its updates."""
        if not self._leaves:
            return None
        return self._leaves[choose_leaf(self._round, contributor, self._ids)]

    def handle(self, own: Any, contributor: str) -> Any:
        """Returns the handle of the round at the contributor's leaf; `own`, the asked server's, where it has no others.

        Two threads may make a handle at a time; both work.
        """
        leaf = self.leaf_of(contributor)
        if leaf is None:
            return own
        handle = self._handles.get(leaf.id)
        if handle is None:
            client = own._transport.leaf_client(leaf.address)
            handle = client.round(self._round)
            handle._specs = own._specs
            self._handles[leaf.id] = handle
        return handle


class LeafClients:
    """The clients of leaves that a client's connections have, by address; made when first needed. Part of `Channel`."""

    # Makes a client of an address like the one that this connection is of.
    new_client: Any = None
    # Set in the client of a leaf (retry.py).
    away_seconds: float | None = None

    def leaf_client(self, address: str) -> Any:
        """Returns the client of a leaf."""
        clients = self.__dict__.setdefault("_leaf_clients", {})
        client = clients.get(address) or clients.setdefault(address, self.new_client(address))
        client._transport.away_seconds = AWAY_SECONDS
        return client

    def part_handles(self, manifest: Any) -> tuple[Any, ...]:
        """Returns handles of the rounds of the owners of a result."""
        parts = () if manifest is None else manifest.parts
        return tuple(self.leaf_client(part.address).round(part.round) for part in parts)

    def leaf_clients(self) -> list[Any]:
        """Returns all that were made, to be closed."""
        return list(self.__dict__.get("_leaf_clients", {}).values())


class LeafSearch:
    """What becomes of an update that its leaf does not take: whether the root is asked where the leaf is now, and whether the
    update is sent there again.

    seconds: from the first failure on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end: float | None = None

    def progress(self) -> None:
        """Something was answered: the next failure is a first one."""
        self._end = None

    def left(self) -> float:
        """Returns the seconds that are left."""
        return self._seconds if self._end is None else max(0.0, self._end - time.monotonic())

    def begin(self, error: SparseAggError) -> None:
        """Raises `error` where the leaf is where it was."""
        if self._end is None:
            self._end = time.monotonic() + self._seconds
        if not (error._may_have_moved or error.reason == "WRONG_LEAF") or self.left() <= 0:
            raise error

    def end(self, error: SparseAggError, leaf: Any, now: Any) -> Any:
        """Returns the handle to which the update is sent; raises `error` where that makes no sense.

        leaf, now: the handles of the contributor's leaf before and after the root was asked.
        """
        has_moved = now._transport is not leaf._transport
        if not has_moved and not isinstance(error, UnavailableError):
            raise error
        return now
