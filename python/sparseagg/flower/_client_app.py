"""The client side: the mod that uploads updates, and a ClientApp that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flwr import clientapp
from flwr.app import ConfigRecord, Context, Message, MessageType

from sparseagg._net.retry import RetryPolicy
from sparseagg.client import Client
from sparseagg.flower._numpy_client import numpy_client_mod
from sparseagg.flower._records import KEY, id_of, only_key, sparse_record, update_of, weight_in


class SparseUpload:
    """The mod for ClientApp(mods=[SparseUpload()]): uploads the trained arrays to the server that the strategy names.

    target: the server's address for this client, if it differs from the strategy's. client_options: options of
    `sparseagg.Client`; the timeout is the strategy's unless it is given here.

    Messages of other strategies pass unchanged. An update that the server refuses raises, which Flower reports to the
    ServerApp as the failure of this client.
    """

    def __init__(self, target: str | None = None, **client_options: Any) -> None:
        self._target = target
        self._client_options = client_options

    def __call__(self, message: Message, context: Any, call_next: Any) -> Message:
        """Trains, uploads, and replies with a receipt in place of the arrays."""
        order = message.content.config_records.get(KEY) if message.has_content() else None
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
            reply.content[KEY] = ConfigRecord({"rounded": rounded})
            return reply
        with self._client(order) as client:
            receipt = client.round(order["round"]).submit(
                tensors,
                contributor=str(message.metadata.dst_node_id),
                weight=weight,
                update_id=id_of(message.metadata),
            )
        del reply.content[key]
        reply.content[KEY] = ConfigRecord(
            {
                "round": receipt.round,
                "update-id": receipt.update_id,
                "digest": receipt.digest,
                "durability": receipt.durability,
                "rounded": rounded,
            }
        )
        return reply

    def _client(self, order: Any) -> Client:
        """Returns a connection that waits for an unreachable server as long as the strategy's calls do, because the
        strategy has reached the server."""
        timeout = order["timeout"]
        retry = RetryPolicy(connect_timeout=timeout)
        options = {"timeout": timeout, "retry": retry, **self._client_options}
        return Client(self._target or order["target"], **options)


class ClientApp(clientapp.ClientApp):  # type: ignore[misc]  # flwr may be absent where types are checked
    """Flower's ClientApp with the mod SparseUpload before its other mods, so that the import is all that changes.

    client_fn, mods: as in Flower. The NumPyClients or Clients that `client_fn` makes work unchanged with SparseFedAvg,
        and with Flower's FedAvg (`numpy_client_mod`).
    upload: `SparseUpload(...)` with options, if the defaults do not suit.
    """

    def __init__(
        self,
        client_fn: Callable[[Context], Any] | None = None,
        mods: Iterable[Any] | None = None,
        *,
        upload: SparseUpload | None = None,
    ) -> None:
        before = [upload or SparseUpload(), *([numpy_client_mod] if client_fn else [])]
        super().__init__(client_fn, [*before, *(mods or [])])
