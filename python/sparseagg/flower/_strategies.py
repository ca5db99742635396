"""Flower's strategies with the exact mean: each has the arguments of Flower's strategy, and some of its own by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvgM, FedProx, FedYogi

from sparseagg._arguments import list_of_names
from sparseagg.client import Client
from sparseagg.errors import InvalidArgumentError
from sparseagg.flower._exact_mean import ExactMean


class _Signature:
    """The signature that `help` shows: the arguments of Flower's strategy, then those of `_Sparse`. None if a class of
    the user has its own `__init__`."""

    def __get__(self, _: object, strategy: type[_Sparse]) -> inspect.Signature | None:
        if strategy.__init__ is not _Sparse.__init__:
            return None
        flower = strategy.__mro__[strategy.__mro__.index(_Sparse) + 1]
        theirs = list(inspect.signature(flower).parameters.values())
        ours = inspect.signature(_Sparse.__init__).parameters.values()
        return inspect.Signature([*theirs, *(p for p in ours if p.kind is p.KEYWORD_ONLY)])


class _Sparse:
    """Takes the arguments that Flower's strategy does not have, and passes the others on. A subclass also derives from
    ExactMean, which comes later in its list of bases."""

    set_up: Any

    __signature__ = _Signature()

    def __init__(
        self,
        *arguments: Any,
        sparse: Iterable[str] = (),
        target: str | None = None,
        client: Client | None = None,
        client_target: str | None = None,
        direct: bool = True,
        op: str = "weighted_mean",
        round_options: Mapping[str, Any] | None = None,
        client_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if arguments and isinstance(arguments[0], str):
            raise InvalidArgumentError(
                f"the first argument is that of Flower's strategy; write target={arguments[0]!r}"
            )
        if client is None:
            client = Client(target, **(client_options or {}))
        elif target is not None or client_options:
            raise InvalidArgumentError(
                "client is a connection already; leave out target and client_options"
            )
        names = list_of_names("sparse", sparse)
        self.set_up(client, names, op, direct, client_target or client.target, round_options or {})
        super().__init__(*arguments, **options)


class SparseFedAvg(_Sparse, ExactMean):
    """FedAvg whose arrays are averaged by a sparseagg server, exactly and independent of the order of replies.

    The arguments are those of Flower's FedAvg, by position or by name, and these by name:

    sparse: names of the tables `[rows, ...]` of which clients change only some rows.
    target: the address of the sparseagg server; by default that of the environment variable SPARSEAGG_SERVER, or
        127.0.0.1:50061. client: a `sparseagg.Client` in place of a target; the caller closes it.
    client_target: the address that clients use, when it differs.
    direct: clients upload straight to the server (their ClientApp is that of `sparseagg.flower`, or has the mod
        SparseUpload); otherwise the arrays come with the replies, as sparse records or whole.
    op: the operator of the tables: "weighted_mean", as FedAvg, or "mean_of_contributors", which averages a row over the
        clients that changed it. Dense arrays are always averaged over all clients.
    round_options: options of the rounds (`Client.create_round`): goal, grace, deadline, min_contributors,
        max_contributors, durability, keep_updates. A round with fewer contributors than the minimum at its deadline
        leaves the arrays unchanged. The default deadline is ten minutes after the `timeout` of `start`.
    client_options: options of `sparseagg.Client`, such as timeout and credentials. Clients wait for the server as long
        as `timeout` says.

    `weighted_by_key` gives the weight; metrics are aggregated by Flower.

    bytes_sent, bytes_received: the bytes by round: of arrays to all clients for training (the whole model to each, as
    with FedAvg), and of updates from them, whether to the sparseagg server or in Flower's messages.

    If clients reply and none of their updates counts, the round raises InvalidUpdateError with the first reason. A
    strategy that starts erases the rounds of ServerApps that died, if they were of the same user on this machine.
    """


class SparseFedAvgM(_Sparse, FedAvgM, ExactMean):  # type: ignore[misc]  # as in _exact_mean.py
    """Flower's FedAvgM (momentum at the server) on the exact mean; other arguments as SparseFedAvg."""


class SparseFedProx(_Sparse, FedProx, ExactMean):  # type: ignore[misc]  # as in _exact_mean.py
    """Flower's FedProx (clients get "proximal-mu") with the exact mean; other arguments as SparseFedAvg."""


class SparseFedAdagrad(_Sparse, FedAdagrad, ExactMean):  # type: ignore[misc]  # as in _exact_mean.py
    """Flower's FedAdagrad on the exact mean; other arguments as SparseFedAvg."""


class SparseFedAdam(_Sparse, FedAdam, ExactMean):  # type: ignore[misc]  # as in _exact_mean.py
    """Flower's FedAdam on the exact mean; other arguments as SparseFedAvg.

    As with Flower, momentum moves a row also in the rounds after the one that touched it.
    """


class SparseFedYogi(_Sparse, FedYogi, ExactMean):  # type: ignore[misc]  # as in _exact_mean.py
    """Flower's FedYogi on the exact mean; other arguments as SparseFedAvg."""
