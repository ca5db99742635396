"""The leaves of a round: servers to which its contributors send (docs/trees.md)."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparseagg._net.rendezvous import choose_leaf


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

    def leaf_client(self, address: str) -> Any:
        """Returns the client of a leaf."""
        clients = self.__dict__.setdefault("_leaf_clients", {})
        return clients.get(address) or clients.setdefault(address, self.new_client(address))

    def part_handles(self, manifest: Any) -> tuple[Any, ...]:
        """Returns handles of the rounds of the owners of a result."""
        parts = () if manifest is None else manifest.parts
        return tuple(self.leaf_client(part.address).round(part.round) for part in parts)

    def leaf_clients(self) -> list[Any]:
        """Returns all that were made, to be closed."""
        return list(self.__dict__.get("_leaf_clients", {}).values())
