"""A real server for the tests: the program itself, on a free port, with default settings unless a test says otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from sparseagg import IN_PROCESS, Client
from sparseagg._encode import native_packing
from sparseagg._local import is_possible
from support.trees import Tree

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("SPARSEAGG_BINARY") or ROOT / "build/dev/bin/sparseagg")
_START_SECONDS_MAX = 30


class Server:
    """A server process; `start` and `kill` may be called in turns, on the same port.

    prefix: a command that becomes the server, such as nsenter.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        host: str = "127.0.0.1",
        prefix: tuple = (),
        program: Path = BINARY,
    ) -> None:
        self._program = program
        self._host = host
        self._prefix = prefix
        self._port_file = folder / "port"
        self._log = folder / "server.log"
        self._flags = flags
        self._process: subprocess.Popen | None = None
        self.port = 0

    @property
    def target(self) -> str:
        """Returns the address for clients."""
        return f"{self._host}:{self.port}"

    @property
    def pid(self) -> int:
        """Returns the id of the process."""
        return self._process.pid

    def add_flags(self, *flags: str) -> None:
        """Adds to what it is started with."""
        self._flags += flags

    def start(self) -> None:
        """Starts it and waits until it serves."""
        self.launch()
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not self.serves():
            if self.has_ended_within(0.01) or time.monotonic() > deadline:
                pytest.fail(f"{self._program} did not start:\n{self._log.read_text()[-2000:]}")
        self.port = int(self._port_file.read_text())

    def launch(self, prefix: tuple = ()) -> None:
        """Starts it. prefix: another command that becomes the server."""
        self._port_file.unlink(missing_ok=True)
        command = [
            *self._prefix,
            *prefix,
            str(self._program),
            "serve",
            "--listen",
            self.target,
            "--port-file",
            str(self._port_file),
        ]
        if "--admin-port-file" not in self._flags:
            command.append("--admin-listen=none")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*command, *self._flags], stdout=log, stderr=log)

    def serves(self) -> bool:
        """Whether the start is over."""
        return self._port_file.exists() and bool(self._port_file.read_text().strip())

    def has_ended_within(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Ends it at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Lets it answer nothing from now on; its connections stay."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Lets it go on after a pause."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """Asks it to stop; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_START_SECONDS_MAX)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The server that most tests share."""
    if not BINARY.exists():
        pytest.fail(f"{BINARY} does not exist; build it with ./dev build, or set SPARSEAGG_BINARY")
    running = Server(tmp_path_factory.mktemp("server"))
    running.start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def own_server(tmp_path):
    """A function that starts a server with flags, for tests that kill it or need small limits."""
    started = []

    def start(*flags: str) -> Server:
        one = Server(tmp_path, *flags)
        one.start()
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def make_tree(own_server, tmp_path):
    """A function that starts a tree; its arguments are those of `Tree`."""
    made = []

    def make(leaves: int, **options) -> Tree:
        made.append(Tree(own_server, tmp_path, leaves, **options))
        return made[-1]

    yield make
    for tree in made:
        tree.close()


@pytest.fixture
def client(server):
    """A connection to the shared server."""
    with Client(server.target) as connection:
        yield connection


@pytest.fixture
def in_process():
    """Returns the arguments for `sparse_sum` to work in this process. With SPARSEAGG_NATIVE the library must be there."""
    if not is_possible():
        assert not os.environ.get("SPARSEAGG_NATIVE"), "the native library does not load"
        pytest.skip("the installed package has no native library")
    return {"target": IN_PROCESS}


@pytest.fixture(params=["client", "in_process"])
def where(request):
    """What tells `sparse_sum` where to work: on the shared server, and in this process."""
    found = request.getfixturevalue(request.param)
    return {"client": found} if request.param == "client" else found


@pytest.fixture(params=["native", "numpy"])
def packed_by(request, monkeypatch):
    """What packs indices: the native library, and numpy, which does it where there is no library."""
    if request.param == "native":
        request.getfixturevalue("in_process")
    else:
        monkeypatch.setattr(native_packing, "native_module", lambda: ImportError("for a test"))
    return request.param


@pytest.fixture
def rounds_left(server):
    """A function that gives the names of the rounds that came since the test began and are still
    there."""

    def names():
        with Client(server.target) as client:
            return {info.name for info in client.rounds()}

    before = names()
    return lambda: names() - before
