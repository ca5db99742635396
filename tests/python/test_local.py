"""`Client.local`: the real program as a child, which ends with its client and with the process, whatever ends that."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY
from sparseagg import (
    Client,
    InvalidArgumentError,
    SparseAggError,
    TensorSpec,
    UnavailableError,
    aio,
)

SECONDS_MAX = 30
SPECS = [TensorSpec("emb", [10])]
UPDATE = {"emb": ([0, 5], np.float32([1, 2]), [10])}


@pytest.fixture(autouse=True)
def sockets(monkeypatch, tmp_path):
    """The folder in which the servers of a test have their sockets; the test fails where one is left."""
    monkeypatch.setenv("SPARSEAGG_BINARY", str(BINARY))
    # Not tmp_path, which is too long a name for a socket.
    folder = Path(f"/tmp/sparseagg-test-{os.getpid()}")
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder / f"sparseagg-{os.getuid()}"
    left = [path for path in folder.rglob("*") if not path.is_dir()]
    shutil.rmtree(folder)
    assert left == []


def child_of(client):
    """The process of a client's server."""
    return client._transport.local_server._process


def has_ended(pid):
    """True once the process has ended, which this waits for."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], SECONDS_MAX)[0])
    finally:
        os.close(descriptor)


def sum_of(client):
    round = client.create_round(SPECS)
    round.submit(UPDATE, contributor="a")
    round.submit(UPDATE, contributor="b")
    round.seal()
    return round.result()["emb"].values.tolist()


def test_a_client_has_a_server_of_its_own_until_it_is_closed(sockets):
    with Client.local() as client:
        child = child_of(client)
        assert sum_of(client) == [2, 4]
        assert len(list(sockets.iterdir())) == 1
        assert client.info().durabilities == ("memory",)
    assert child.returncode == 0
    assert list(sockets.iterdir()) == []


def test_its_socket_is_where_nobody_else_can_reach_it(sockets, monkeypatch):
    with Client.local() as client:
        assert client.target.startswith(f"unix:{sockets}/")
        assert sockets.stat().st_mode & 0o777 == 0o700
    sockets.chmod(0o755)
    other = sockets.parent / "other"
    other.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    with Client.local() as client:
        assert client.target.startswith(f"unix:{other}/")


def test_two_are_two():
    with Client.local() as one, Client.local() as other:
        one.create_round(SPECS, "mine")
        assert [info.name for info in other.rounds()] == []


def test_durable_rounds_are_there_for_the_next(tmp_path):
    data = tmp_path / "data"
    with Client.local(data_dir=data) as client:
        receipt = client.create_round(SPECS, "kept").submit(
            UPDATE, contributor="a", update_id="first"
        )
    with Client.local(data_dir=data) as client:
        again = client.round("kept").submit(UPDATE, contributor="a", update_id="first")
        assert again.duplicate and again.digest == receipt.digest


def test_settings_are_those_of_the_server_and_not_of_the_environment(monkeypatch):
    monkeypatch.setenv("SPARSEAGG_ROUNDS_MAX", "7")
    monkeypatch.setenv("SPARSEAGG_LISTEN", "127.0.0.1:1")
    with Client.local(settings={"update_nnz_max": 5, "exit-on-gpu-loss": True}) as client:
        limits = client.info().limits
        assert (limits["update-nnz-max"], limits["rounds-max"] != 7) == (5, True)


@pytest.mark.parametrize("name", ["listen", "stop-at-eof", "data_dir", "config"])
def test_what_makes_it_local_is_no_setting(name):
    with pytest.raises(InvalidArgumentError, match="is decided by Client.local itself"):
        Client.local(settings={name: "x"})


def test_without_a_reference_it_ends():
    client = Client.local()
    round, child = client.create_round(SPECS), child_of(client)
    del client
    gc.collect()
    assert child.poll() is None
    assert round.info().tensors
    del round
    gc.collect()
    assert child.returncode == 0


def test_a_server_that_does_not_start_tells_why(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for arguments, words in [
        ({"settings": {"rounds-max": "many"}}, "exit code 2.*rounds-max is .many."),
        ({"settings": {"no-such": 1}}, "exit code 2.*no-such"),
        ({"data_dir": file}, "exit code 1.*STORE_UNUSABLE"),
    ]:
        with pytest.raises(SparseAggError, match=words) as caught:
            Client.local(**arguments)
        assert caught.value.reason == "LOCAL_SERVER_FAILED"
        assert "\n" not in caught.value.message


def test_a_program_that_does_not_serve_is_ended(monkeypatch, tmp_path):
    program = tmp_path / "waits"
    program.write_text("#!/bin/sh\nread -r line\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPARSEAGG_BINARY", str(program))
    with pytest.raises(SparseAggError, match=r"not serve after 0\.1 s") as caught:
        Client.local(start_timeout=0.1)
    assert caught.value.reason == "LOCAL_SERVER_FAILED"


def test_a_program_that_the_system_cannot_run(monkeypatch, tmp_path):
    program = tmp_path / "text"
    program.write_text("no program")
    program.chmod(0o755)
    monkeypatch.setenv("SPARSEAGG_BINARY", str(program))
    with pytest.raises(SparseAggError, match="cannot start .*text: Exec format error"):
        Client.local()


def test_a_call_to_a_server_that_was_killed_fails_at_once():
    with Client.local() as client:
        client.info()
        child_of(client).kill()
        with pytest.raises(UnavailableError, match=r"has ended \(signal 9\)") as caught:
            client.info()
        assert caught.value.reason == "LOCAL_SERVER_ENDED"


def test_it_outlives_the_thread_that_started_it():
    clients = []
    starter = threading.Thread(target=lambda: clients.append(Client.local()))
    starter.start()
    starter.join()
    with clients[0] as client:
        assert sum_of(client) == [2, 4]


def test_asyncio_has_one_too(sockets):
    async def run():
        async with await aio.Client.local() as client:
            round = await client.create_round(SPECS)
            await round.submit(UPDATE, contributor="a")
            await round.seal()
            result = await round.result()
            return child_of(client), result["emb"].values.tolist()

    child, values = asyncio.run(run())
    assert (child.returncode, values) == (0, [1, 2])


def test_a_start_that_asyncio_cancels_leaves_nothing(sockets):
    async def run():
        starting = asyncio.ensure_future(aio.Client.local())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(run())
    assert list(sockets.iterdir()) == []


PARENT = """
import os, signal, sys, threading
from sparseagg import Client
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins with it ignored
client = Client.local()
child = client._transport.local_server._process.pid
what = sys.argv[1]
if what == "forks" and os.fork() == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
try:
    print(child, flush=True)
    while what == "interrupted":
        threading.Event().wait(0.1)
    if what != "ends":
        sys.stdin.read()
except KeyboardInterrupt:
    print(client.info().version, flush=True)
"""


@pytest.fixture
def parent():
    """Starts a program with a local server; gives its process, and the server's process id."""
    started = []

    def start(what):
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT, what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("what", ["waits", "forks"])
def test_it_ends_when_its_parent_is_killed_also_where_a_forked_child_lives_on(
    parent, sockets, what
):
    process, server = parent(what)
    assert len(list(sockets.iterdir())) == 1
    process.kill()
    assert has_ended(server)
    assert list(sockets.iterdir()) == []


def test_it_ends_with_a_program_that_does_not_close_it(parent, sockets):
    process, server = parent("ends")
    assert process.wait(SECONDS_MAX) == 0
    assert has_ended(server)
    assert list(sockets.iterdir()) == []


def test_an_interrupt_of_the_terminal_is_the_parents(parent):
    process, _ = parent("interrupted")
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.readline().strip() == "0.1.0"
    assert process.wait(SECONDS_MAX) == 0
