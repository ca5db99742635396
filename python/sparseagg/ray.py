"""Ray: a tree of servers whose root and leaves are actors (docs/trees.md). Import it where ray is installed.

    with sparseagg.ray.start(4, gpus=1, data_dir="/data/sparseagg") as tree, tree.client() as client:
        round = client.create_round([TensorSpec("emb", [50000, 64])])

Each actor is a process of the program `sparseagg` and a Python process that ends with it. Ray decides where they run, keeps
the processors and GPUs for them (one placement group), and starts an actor again that has ended, on the same data and at the
same address. The data of clients does not pass through Ray.
"""

from __future__ import annotations

import collections
import os
import random
import secrets
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat, SupportsIndex

import grpc
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sparseagg import _arguments, _program
from sparseagg._local_server import flags_of
from sparseagg.client import Client
from sparseagg.errors import SparseAggError

_SETTINGS = {
    "admin-listen": "none",  # several servers on a machine would want the same port
    "log-level": "warning",
    "drain-delay-ms": 0,  # no load balancer has to notice the stop
    "drain-timeout-ms": 5000,
}
_OWN_SETTINGS = ("listen", "port-file", "stop-at-eof", "data-dir", "leaves", "config")
# Ports below those that Linux gives to connections, so that none is taken while a server is away, and above Ray's own.
_PORTS = range(20_000, 32_768)
# What a server meets that is started again before the one before it has ended.
_PASSING = ("STORE_IN_USE", "CANNOT_LISTEN")
_LEAVES_MAX = 256  # of a round
_POLL_SECONDS = 0.05
_PORT_FILE = "ray_port"  # beside the data, from one start to the next
_STOP_SECONDS = 15.0
_AGAIN_SECONDS = 10.0
_FOLLOW_SECONDS = 5.0
_LOG_LINES_SHOWN = 3


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
    cpus: of each leaf, and its threads. The root has one.
    data_dir: a folder on every machine; each server keeps its durable rounds in a folder of its own there ("root",
        "leaf-0" and so on), and a later `start` goes on with them. None keeps all rounds in memory, where they are lost
        with their server.
    settings: of all servers, by the names that `sparseagg serve --help` lists. root_settings: of the root, on top.
    strategy: of the placement group. "SPREAD" puts the servers on different machines as far as there are some.
    start_timeout: seconds until Ray has a place for all of them and they serve.

    Servers listen on the address that Ray has for their machine, in plain text, as Ray itself does; set tls-cert, tls-key and
    credentials where others can reach it.

    Raises SparseAggError (NO_PLACEMENT where the cluster has not got the processors or GPUs; RAY_SERVER_FAILED, with what the
    server's log says).
    """
    leaves = _arguments.whole("nodes", nodes, 1, _LEAVES_MAX)
    threads = _arguments.whole("cpus", cpus, 1, 1 << 20)
    limit = time.monotonic() + _arguments.seconds("start_timeout", start_timeout)
    defaults: dict[str, object] = {**_SETTINGS, "threads": threads}
    if float(gpus) > 0:
        defaults["backend"] = "cuda"
    given = dict(settings or {})
    if not _names(given) & {"tls-cert", "allow-plaintext"}:
        defaults["allow-plaintext"] = True
    leaf_flags = flags_of(given, defaults, _OWN_SETTINGS, "sparseagg.ray.start")
    for_root = {**given, **dict(root_settings or {})}
    root_defaults = {**defaults, "threads": 1, "backend": "auto"}
    root_flags = flags_of(for_root, root_defaults, _OWN_SETTINGS, "sparseagg.ray.start")
    resources = {"CPU": threads, **({"GPU": float(gpus)} if float(gpus) > 0 else {})}
    group = placement_group([{"CPU": 1}, *[resources] * leaves], strategy=strategy)
    tree = Tree(group)
    try:
        if not group.wait(max(0.0, limit - time.monotonic())):
            raise _failed(
                f"Ray has no place for a root (1 CPU) and {leaves} leaves ({_text(resources)} each) within start_timeout; "
                f"the cluster has {_text(ray.cluster_resources())}, of which are free {_text(ray.available_resources())}",
                "NO_PLACEMENT",
            )
        folder = None if data_dir is None else os.path.abspath(os.fspath(data_dir))
        tree._start(leaf_flags, root_flags, folder, resources, limit)
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
        folder: str | None,
        resources: Mapping[str, float],
        limit: float,
    ) -> None:
        count = self._group.bundle_count - 1
        names = [*(f"leaf-{number}" for number in range(count)), "root"]
        # The bundle of the root is the first.
        places = [self._place(number) for number in (*range(1, count + 1), 0)]
        folders = [None if folder is None else os.path.join(folder, name) for name in names]
        probe = ray.remote(num_cpus=0, max_retries=3)(_port_for)
        ports = _within(
            limit,
            [
                probe.options(scheduling_strategy=place).remote(data)
                for place, data in zip(places, folders)
            ],
        )
        run = secrets.token_hex(4)  # the names of actors are those of the whole cluster
        for number, (name, place, data, port) in enumerate(zip(names, places, folders, ports)):
            is_root = number == count
            actor = ray.remote(max_restarts=-1, max_task_retries=-1)(_Root if is_root else _Server)
            placed = actor.options(
                name=f"sparseagg-{run}-{name}",
                num_cpus=1 if is_root else resources["CPU"],
                num_gpus=0 if is_root else resources.get("GPU", 0),
                scheduling_strategy=place,
            )
            if is_root:
                addresses = dict(zip(names, self._wait_until_they_serve(limit)))
                self._actors.append(placed.remote(port, data, root_flags, run, addresses))
            else:
                self._actors.append(placed.remote(port, data, leaf_flags))
        self._wait_until_they_serve(limit)

    def _wait_until_they_serve(self, limit: float) -> list[str]:
        """Returns the addresses of all actors that there are."""
        for problem in _within(limit, [actor.problem.remote() for actor in self._actors]):
            if problem:
                raise _failed(problem)
        return _within(limit, [actor.address.remote() for actor in self._actors])

    def _place(self, bundle: int) -> Any:
        return PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle)


class _Server:
    """An actor: the program as a child, which ends with this process, and this process with it."""

    def __init__(self, port: int, folder: str | None, flags: Sequence[str]) -> None:
        """folder: for durable rounds; None keeps all in memory."""
        address = ray.util.get_node_ip_address()
        self._address = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        self._folder = folder
        self._flags = [*flags, *([] if folder is None else [f"--data-dir={folder}"])]
        self._problem = ""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._last_lines: collections.deque[str] = collections.deque(maxlen=_LOG_LINES_SHOWN)
        self._begin()

    def address(self) -> str:
        """Where it serves."""
        return self._address

    def problem(self) -> str:
        """Why the server did not start; empty if it did."""
        return self._problem

    def stop(self) -> None:
        """Stops the server in good order."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            _stop(process)

    def _begin(self) -> None:
        """Starts the server. If it does not start, `start` asks why, and a while later this process ends, for Ray to try again:
        Ray would not start an actor again whose constructor has failed."""
        try:
            self._start(self._more_flags())
        except (SparseAggError, OSError) as error:
            self._problem = str(error)
            threading.Timer(_AGAIN_SECONDS, os._exit, (1,)).start()

    def _more_flags(self) -> list[str]:
        return []

    def _start(self, more_flags: list[str]) -> None:
        """Returns when it serves. The one before it may still be ending."""
        if self._folder is not None:
            os.makedirs(self._folder, exist_ok=True)
        deadline = time.monotonic() + 60.0
        while True:
            process = self._start_once(more_flags)
            if process is not None:
                with self._lock:
                    self._process = process
                threading.Thread(target=self._end_with, args=(process,), daemon=True).start()
                return
            words = "; ".join(self._last_lines)
            passing = any(reason in words for reason in _PASSING)
            if not passing or time.monotonic() > deadline:
                raise _failed(f"the server at {self._address} did not start: {words}")
            time.sleep(_POLL_SECONDS)

    def _start_once(self, more_flags: list[str]) -> subprocess.Popen[str] | None:
        """Returns the process when it serves, or None if it has ended."""
        with tempfile.TemporaryDirectory(prefix="sparseagg-") as folder:
            port_file = Path(folder, "port")
            options = [f"--listen={self._address}", f"--port-file={port_file}", "--stop-at-eof"]
            process = subprocess.Popen(
                [_program.find(), "serve", *options, *self._flags, *more_flags],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                # The environment's settings may be meant for another server.
                env={k: v for k, v in os.environ.items() if not k.startswith("SPARSEAGG_")},
            )
            reader = threading.Thread(target=self._pass_on, args=(process,), daemon=True)
            reader.start()
            while not (port_file.exists() and port_file.read_text().strip()):
                if _ended_within(process, _POLL_SECONDS):
                    reader.join()
                    return None
        return process

    def _pass_on(self, process: subprocess.Popen[str]) -> None:
        """Prints the server's log, which Ray keeps with its own."""
        assert process.stdout is not None
        for line in process.stdout:
            self._last_lines.append(line.strip())
            print(line, end="", flush=True)

    def _end_with(self, process: subprocess.Popen[str]) -> None:
        """Ends this process when the server has ended, so that Ray starts both again."""
        code = process.wait()
        with self._lock:
            wanted = self._process is not process
        if not wanted:
            print(f"the server has ended with {code}", flush=True)
            os._exit(1)


class _Root(_Server):
    """The actor of the root. It knows the leaves' actors: one that is started again elsewhere has another address."""

    def __init__(
        self,
        port: int,
        folder: str | None,
        flags: Sequence[str],
        run: str,
        addresses: Mapping[str, str],
    ) -> None:
        """The leaves by name, not as handles: arguments of an actor that are in Ray's object store can be lost."""
        self._run = run
        self._leaf_addresses = dict(addresses)
        self._stopped = threading.Event()
        super().__init__(port, folder, flags)
        threading.Thread(target=self._follow, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        super().stop()

    def _more_flags(self) -> list[str]:
        self._leaf_addresses = self._found()
        return [f"--leaves={','.join('='.join(leaf) for leaf in self._leaf_addresses.items())}"]

    def _found(self) -> dict[str, str]:
        """The address of each leaf; the last known one where its actor does not answer."""
        found = dict(self._leaf_addresses)
        asked = {}
        for leaf in found:
            try:
                asked[leaf] = ray.get_actor(f"sparseagg-{self._run}-{leaf}").address.remote()
            except ValueError:  # there is none
                pass
        ready, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=_FOLLOW_SECONDS)
        for leaf, answer in asked.items():
            if answer in ready:
                try:
                    found[leaf] = ray.get(answer)
                except RayActorError:
                    pass
        return found

    def _follow(self) -> None:
        """Starts the server again when a leaf has moved."""
        while not self._stopped.wait(_FOLLOW_SECONDS):
            if self._found() != self._leaf_addresses:
                super().stop()
                self._begin()


def _port_for(folder: str | None) -> int:
    """Returns the port that the data in `folder` was served on, which its open rounds have, or a free one."""
    if folder is None:
        return _free_port()
    os.makedirs(folder, exist_ok=True)
    remembered = Path(folder, _PORT_FILE)
    if not remembered.exists():
        remembered.write_text(f"{_free_port()}\n")
    return int(remembered.read_text())


def _free_port() -> int:
    """Returns a port of this machine on which nobody listens."""
    address = ray.util.get_node_ip_address()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    while True:
        port = random.choice(_PORTS)
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
        return port


def _within(limit: float, answers: list[Any]) -> list[Any]:
    """Returns what actors or tasks answer."""
    try:
        found: list[Any] = ray.get(answers, timeout=max(0.0, limit - time.monotonic()))
    except GetTimeoutError:
        raise _failed("the servers do not serve within start_timeout") from None
    except RayError as error:
        raise _failed(f"an actor did not start: {error}") from error
    return found


def _ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    if not _ended_within(process, _STOP_SECONDS - 5.0):
        process.kill()
        process.wait()


def _names(settings: Mapping[str, object]) -> set[str]:
    return {str(name).replace("_", "-") for name in settings}


def _text(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{resources.get(kind, 0):g} {kind}" for kind in ("CPU", "GPU"))


def _failed(message: str, reason: str = "RAY_SERVER_FAILED") -> SparseAggError:
    return SparseAggError(message, code=grpc.StatusCode.FAILED_PRECONDITION, reason=reason)
