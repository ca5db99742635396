"""Ray: a tree of servers whose root and leaves are actors (docs/trees.md). Import it where ray is installed.

    with sparseagg.ray.start(4, gpus=1, data_dir="/data/sparseagg") as tree, tree.client() as client:
        round = client.create_round([TensorSpec("emb", [50000, 64])])

Each actor is a process of the program `sparseagg` and a Python process that ends with it. Ray decides where they run, keeps
the processors and GPUs for them (one placement group), and starts an actor again that has ended, on the same data and at the
same address. The data of clients does not pass through Ray.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from typing import Any, SupportsFloat, SupportsIndex

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sparseagg import _arguments
from sparseagg._local_server import flags_of
from sparseagg.client import Client
from sparseagg.ray._actors import Folder, Root, Server, failed, name_of, place_for

__all__ = ["Tree", "start"]

_SETTINGS = {
    "admin-listen": "none",  # several servers on a machine would want the same port
    "log-level": "warning",
    "drain-delay-ms": 0,  # no load balancer has to notice the stop
    "drain-timeout-ms": 5000,
}
_OWN_SETTINGS = ("listen", "port-file", "stop-at-eof", "data-dir", "leaves", "peers", "config")
_LEAVES_MAX = 256  # of a round
_STOP_SECONDS = 15.0
_YEAR = 365 * 86400.0


def start(
    nodes: SupportsIndex,
    *,
    gpus: SupportsFloat = 0,
    cpus: SupportsIndex = 1,
    data_dir: str | os.PathLike[str] | None = None,
    settings: Mapping[str, object] | None = None,
    root_settings: Mapping[str, object] | None = None,
    strategy: str = "SPREAD",
    start_timeout: SupportsFloat = 120.0,
) -> Tree:
    """Starts a root and `nodes` leaves as actors of the cluster that this program is connected to; returns when all serve.

    gpus: of each leaf. With any, a leaf uses the back end "cuda", and does not start where its GPU is missing.
    cpus: of each leaf, and its threads. The root has one. With 0, all servers use the processors beside what Ray counts.
    data_dir: a folder on every machine; each server keeps its durable rounds in a folder of its own there ("root",
        "leaf-0" and so on), and a later `start` goes on with them. None takes one in the machine's folder for temporary
        files, which `Tree.stop` removes.
    settings: of all servers, by the names that `sparseagg serve --help` lists. root_settings: of the root, on top.
    strategy: of the placement group. "SPREAD" puts the servers on different machines as far as there are some.
    start_timeout: seconds until Ray has a place for all of them and they serve.

    Servers listen on the address that Ray has for their machine, in plain text, as Ray itself does; set tls-cert, tls-key and
    credentials where others can reach it.

    Raises SparseAggError (NO_PLACEMENT where the cluster has not got the processors or GPUs; RAY_SERVER_FAILED, with what the
    server's log says).
    """
    leaves = _arguments.whole("nodes", nodes, 1, _LEAVES_MAX)
    threads = _arguments.whole("cpus", cpus, 0, 1 << 20)
    limit = time.monotonic() + min(_arguments.seconds("start_timeout", start_timeout), _YEAR)
    defaults: dict[str, object] = {
        **_SETTINGS,
        "threads": threads,
    }  # 0: of the machine's processors
    if float(gpus) > 0:
        defaults["backend"] = "cuda"
    given = dict(settings or {})
    if not _names(given) & {"tls-cert", "allow-plaintext"}:
        defaults["allow-plaintext"] = True
    leaf_flags = flags_of(given, defaults, _OWN_SETTINGS, "sparseagg.ray.start")
    for_root = {**given, **dict(root_settings or {})}
    root_defaults = {**defaults, "threads": min(1, threads), "backend": "cpu"}
    root_flags = flags_of(for_root, root_defaults, _OWN_SETTINGS, "sparseagg.ray.start")
    resources: dict[str, float] = {"CPU": threads, "GPU": float(gpus)}
    of_root: dict[str, float] = {"CPU": min(1, threads)}
    group = placement_group(
        [_bundle(one) for one in (of_root, *[resources] * leaves)], strategy=strategy
    )
    tree = Tree(group)
    try:
        if not group.wait(max(0.0, limit - time.monotonic())):
            raise failed(
                f"Ray has no place for a root ({_text(of_root)}) and {leaves} leaves ({_text(resources)} each) within start_timeout; "
                f"the cluster has {_text(ray.cluster_resources())}, of which are free {_text(ray.available_resources())}",
                "NO_PLACEMENT",
            )
        folder = None if data_dir is None else os.path.abspath(os.fspath(data_dir))
        tree._start(leaf_flags, root_flags, folder, (resources, of_root), limit)
    except BaseException:
        tree.stop()
        raise
    return tree


class Tree:
    """Actors of a root and of leaves. A context manager, which stops them."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._actors: list[Any] = []  # the root is the last

    @property
    def target(self) -> str:
        """The address of the root, for clients."""
        address: str = ray.get(self._actors[-1].address.remote())
        return address

    @property
    def leaves(self) -> list[str]:
        """The addresses of the leaves."""
        addresses: list[str] = ray.get([leaf.address.remote() for leaf in self._actors[:-1]])
        return addresses

    @property
    def actors(self) -> list[Any]:
        """The handles of the actors: leaves in their order, then the root."""
        return list(self._actors)

    def client(self, **options: Any) -> Client:
        """Returns a client of the root. options: parameters of `Client` other than the target."""
        return Client(self.target, **options)

    def stop(self) -> None:
        """Stops all servers, the root first, and gives their places back. Does nothing the second time."""
        if self._group is None or not ray.is_initialized():
            return
        for actor in reversed(self._actors):
            try:
                ray.get(actor.stop.remote(), timeout=_STOP_SECONDS)
            except (RayError, GetTimeoutError):
                pass  # it ends with its actor
            ray.kill(actor)
        remove_placement_group(self._group)
        self._group = None

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(
        self,
        leaf_flags: list[str],
        root_flags: list[str],
        data_dir: str | None,
        resources: tuple[Mapping[str, float], Mapping[str, float]],
        limit: float,
    ) -> None:
        count = self._group.bundle_count - 1
        names = [*(f"leaf-{number}" for number in range(count)), "root"]
        # The bundle of the root is the first.
        places = [self._place(number) for number in (*range(1, count + 1), 0)]
        run = secrets.token_hex(4)
        probe = ray.remote(num_cpus=0, max_retries=3)(place_for)
        folders = [Folder(data_dir, run, name) for name in names]
        found = _within(
            limit,
            [
                probe.options(scheduling_strategy=place).remote(folder)
                for place, folder in zip(places, folders)
            ],
        )
        addresses = {name: address for name, (_, address) in zip(names[:count], found)}
        ports = [port for port, _ in found]
        for number, (name, place, folder, port) in enumerate(zip(names, places, folders, ports)):
            is_root = number == count
            actor = ray.remote(max_restarts=-1, max_task_retries=-1)(Root if is_root else Server)
            placed = actor.options(
                name=name_of(run, name),
                num_cpus=resources[is_root]["CPU"],
                num_gpus=resources[is_root].get("GPU", 0),
                scheduling_strategy=place,
            )
            if is_root:
                self._wait_until_they_serve(limit)
            flags = root_flags if is_root else leaf_flags
            self._actors.append(placed.remote(port, folder, flags, addresses))
        self._wait_until_they_serve(limit)

    def _wait_until_they_serve(self, limit: float) -> list[str]:
        """Returns the addresses of all actors that there are."""
        for problem in _within(limit, [actor.problem.remote() for actor in self._actors]):
            if problem:
                raise failed(problem)
        return _within(limit, [actor.address.remote() for actor in self._actors])

    def _place(self, bundle: int) -> Any:
        return PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle)


def _within(limit: float, answers: list[Any]) -> list[Any]:
    """Returns what actors or tasks answer."""
    try:
        found: list[Any] = ray.get(answers, timeout=max(0.0, limit - time.monotonic()))
    except GetTimeoutError:
        raise failed("the servers do not serve within start_timeout") from None
    except RayError as error:
        raise failed(f"an actor did not start: {error}") from error
    return found


def _bundle(resources: Mapping[str, float]) -> dict[str, float]:
    """Returns the resources of a bundle, which must have some."""
    return {kind: number for kind, number in resources.items() if number} or {"memory": 1 << 20}


def _names(settings: Mapping[str, object]) -> set[str]:
    return {str(name).replace("_", "-") for name in settings}


def _text(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{resources.get(kind, 0):g} {kind}" for kind in ("CPU", "GPU"))
