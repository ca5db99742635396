"""The actors of sparseagg.ray: one process of the program each."""

from __future__ import annotations

import collections
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import ray
from ray.exceptions import RayActorError

from sparseagg import _program
from sparseagg.errors import SparseAggError

# Ports below those that Linux gives to connections, so that none is taken while a server is away, and above Ray's own.
_PORTS = range(20_000, 32_768)
# What a server meets that is started again before the one before it has ended.
_PASSING = ("STORE_IN_USE", "CANNOT_LISTEN")
_PORT_FILE = "ray_port"  # beside the data, from one start to the next
_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0
_AGAIN_SECONDS = 10.0
_FOLLOW_SECONDS = 5.0
_LOG_LINES_SHOWN = 3


@dataclass(frozen=True)
class Folder:
    """Where a server keeps its rounds. data_dir: None for the machine's folder for temporary files, where `run` names it."""

    data_dir: str | None
    run: str
    server: str

    def path(self) -> Path:
        """The folder, on the machine that is asked."""
        if self.data_dir is not None:
            return Path(self.data_dir, self.server)
        return Path(tempfile.gettempdir(), f"sparseagg-ray-{self.run}-{self.server}")

    def remove_if_temporary(self) -> None:
        if self.data_dir is None:
            shutil.rmtree(self.path(), ignore_errors=True)


class Server:
    """An actor: the program as a child, which ends with this process, and this process with it. It knows the addresses of all
    leaves."""

    _LEAVES_SETTING = "peers"

    def __init__(
        self, port: int, folder: Folder, flags: Sequence[str], addresses: Mapping[str, str]
    ) -> None:
        """addresses: of the leaves by name, as they were when the tree was started."""
        self._address = address_of(port)
        self._leaf_addresses = dict(addresses)
        self._folder = folder
        self._flags = [f"--data-dir={folder.path()}", *flags]
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

    def meet(self, addresses: Mapping[str, str]) -> str:
        """Where it serves, with these addresses of the leaves: it starts again if it knows others."""
        if addresses != self._leaf_addresses:
            self._leaf_addresses = dict(addresses)
            self._end()
            self._begin()
        return self._address

    def stop(self) -> None:
        """Stops the server in good order, and removes data that nobody has asked for."""
        self._end()
        self._folder.remove_if_temporary()

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            _stop(process)

    def _begin(self) -> None:
        """Starts the server. If it does not start, `start` asks why, and a while later this process ends, for Ray to try again:
        Ray would not start an actor again whose constructor has failed."""
        try:
            self._start()
        except (SparseAggError, OSError) as error:
            self._problem = str(error)
            threading.Timer(_AGAIN_SECONDS, os._exit, (1,)).start()

    def _start(self) -> None:
        """Returns when it serves. The one before it may still be ending."""
        self._folder.path().mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + 60.0
        while True:
            process = self._start_once()
            if process is not None:
                with self._lock:
                    self._process = process
                threading.Thread(target=self._end_with, args=(process,), daemon=True).start()
                return
            words = "; ".join(self._last_lines)
            passing = any(reason in words for reason in _PASSING)
            if not passing or time.monotonic() > deadline:
                raise failed(f"the server at {self._address} did not start: {words}")
            time.sleep(_POLL_SECONDS)

    def _start_once(self) -> subprocess.Popen[str] | None:
        """Returns the process when it serves, or None if it has ended."""
        with tempfile.TemporaryDirectory(prefix="sparseagg-") as folder:
            port_file = Path(folder, "port")
            options = [f"--listen={self._address}", f"--port-file={port_file}", "--stop-at-eof"]
            leaves = ",".join("=".join(leaf) for leaf in self._leaf_addresses.items())
            options.append(f"--{self._LEAVES_SETTING}={leaves}")
            process = subprocess.Popen(
                [_program.find(), "serve", *options, *self._flags],
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


class Root(Server):
    """The actor of the root. It knows the leaves' actors: one that is started again elsewhere has another address, and
    it tells the others."""

    _LEAVES_SETTING = "leaves"

    def __init__(
        self,
        port: int,
        folder: Folder,
        flags: Sequence[str],
        addresses: Mapping[str, str],
    ) -> None:
        """The leaves by name, not as handles: arguments of an actor that are in Ray's object store can be lost."""
        self._stopped = threading.Event()
        super().__init__(port, folder, flags, addresses)
        threading.Thread(target=self._follow, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        super().stop()

    def _begin(self) -> None:
        self._leaf_addresses = self._found()
        super()._begin()

    def _found(self) -> dict[str, str]:
        """The address of each leaf, which hears of those of the others; the last known one where its actor does not answer."""
        found = dict(self._leaf_addresses)
        asked = {}
        for leaf in found:
            try:
                asked[leaf] = ray.get_actor(name_of(self._folder.run, leaf)).meet.remote(
                    self._leaf_addresses
                )
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
        """Starts the server again when a leaf has moved; the leaves do so when they are told."""
        while not self._stopped.wait(_FOLLOW_SECONDS):
            if self._found() != self._leaf_addresses:
                self._end()
                self._begin()


def name_of(run: str, server: str) -> str:
    """Returns the name of an actor; names are those of the whole cluster."""
    return f"sparseagg-{run}-{server}"


def address_of(port: int) -> str:
    """Returns the address of a port of this machine."""
    address = ray.util.get_node_ip_address()
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def place_for(folder: Folder) -> tuple[int, str]:
    """Returns the port for the server with the data in `folder`, and the address on this machine."""
    port = port_for(folder)
    return port, address_of(port)


def port_for(folder: Folder) -> int:
    """Returns the port that the data in `folder` was served on, which its open rounds have, or a free one."""
    if folder.data_dir is None:
        return _free_port()
    folder.path().mkdir(parents=True, exist_ok=True)
    remembered = folder.path() / _PORT_FILE
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


def _ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    if not _ended_within(process, _STOP_SECONDS):
        process.kill()
        process.wait()


def failed(message: str, reason: str = "RAY_SERVER_FAILED") -> SparseAggError:
    return SparseAggError(message, code=grpc.StatusCode.FAILED_PRECONDITION, reason=reason)
