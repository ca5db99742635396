"""How long a call goes on without its server: as long as the caller's timeout, and no number of attempts before."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sparseagg.aio
from conftest import Server
from sparseagg import Client, DeadlineExceededError, RetryPolicy, TensorSpec, UnavailableError
from sparseagg._net.retry import Backoff
from support.name_server import NameServer

QUICK = RetryPolicy(initial_delay=0.01, max_delay=0.02)
# An attempt to connect to a stopped server ends after this time, and not after 5 s.
OPTIONS = [("grpc.min_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 50)]
ATTEMPTS = 12  # twice those that ended a call before


def last_state(round, seen: threading.Event) -> str:
    """Watches a round to its end; `seen` is set with its first state."""
    states = []
    for info in round.watch():
        states.append(info.state.value)
        seen.set()
    return states[-1]


def take_connections(listener: socket.socket, number: int) -> None:
    """Accepts this number of connections and answers none, as a stopped server does."""
    listener.settimeout(60)
    taken = [listener.accept()[0] for _ in range(number)]
    for connection in taken:
        connection.close()


def test_a_call_without_a_limit_outlasts_a_stopped_server(tmp_path):
    server = Server(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        client = Client(server.target, timeout=None, retry=QUICK, channel_options=OPTIONS)
        threads = ThreadPoolExecutor(1)
        call = threads.submit(client.info)
        take_connections(listener, ATTEMPTS)
        assert not call.done()
    server.start()
    try:
        assert call.result(60).version
    finally:
        client.close()
        threads.shutdown()
        server.kill()


def test_a_watch_goes_on_as_long_as_the_client_waits_for_a_server(own_server, tmp_path):
    server = own_server(f"--data-dir={tmp_path / 'data'}")
    with Client(server.target, timeout=None, retry=QUICK, channel_options=OPTIONS) as client:
        round = client.create_round([TensorSpec("n", [10])], durability="durable")
        seen = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            watching = threads.submit(last_state, round, seen)
            assert seen.wait(60)
            server.kill()
            with socket.create_server(("127.0.0.1", server.port)) as listener:
                take_connections(listener, ATTEMPTS)
                assert not watching.done()
            server.start()
            with Client(server.target) as other:
                other.round(round.name).seal()
            assert watching.result(60) == "PUBLISHED"


def test_a_number_of_attempts_that_is_asked_for_ends_a_call():
    retry = RetryPolicy(attempts=2, initial_delay=0.01)
    with (
        Client("127.0.0.1:1", timeout=None, retry=retry) as client,
        pytest.raises(UnavailableError),
    ):
        client.info()


def test_a_call_ends_with_its_timeout(caplog, monkeypatch):
    monkeypatch.setattr("sparseagg._net.retry._SILENT_SECONDS", 0)
    with (
        Client("127.0.0.1:1", timeout=0.5, retry=QUICK) as client,
        pytest.raises(UnavailableError),
    ):
        client.info()
    told = [record.message for record in caplog.records if record.name == "sparseagg"]
    assert len(told) == 1
    assert "127.0.0.1:1" in told[0] and "trying again" in told[0]


@pytest.mark.parametrize(("was_connected", "raised"), [(False, 0), (True, 1)])
def test_a_last_attempt_that_is_cut_short_leaves_the_reason_of_the_one_before(
    was_connected, raised
):
    errors = [
        UnavailableError("nobody", reason="CANNOT_CONNECT"),
        DeadlineExceededError("no answer", reason="NO_ANSWER_IN_TIME"),
    ]
    backoff = Backoff(QUICK, 60, was_connected=lambda: was_connected)
    assert backoff.pause(errors[0]) < 60
    with pytest.raises(type(errors[raised]), match=errors[raised].message):
        backoff.pause(errors[1])


class Clock:
    """The time of what makes calls again: a pause takes none."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Is over at once."""
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("sparseagg._net.retry.time", clock)
    return clock


@pytest.mark.parametrize(
    ("target", "question"),
    [
        ("127.0.0.1:1", "is the server running there"),
        ("unix:/nowhere/socket", "is the server running there"),
        ("agg.invalid", "is its name right"),
    ],
)
def test_a_client_that_was_never_connected_gives_up_soon(clock, target, question):
    with Client(target) as client, pytest.raises(UnavailableError, match=f"reach .*{question}"):
        client.info()
    assert 8 < clock.now <= 10


def test_a_shorter_timeout_ends_it_before(clock):
    with Client("127.0.0.1:1", timeout=3) as client, pytest.raises(UnavailableError):
        client.info()
    assert clock.now <= 3


def test_how_long_a_first_connection_may_take_can_be_said(clock):
    retry = RetryPolicy(connect_timeout=40)
    with Client("127.0.0.1:1", retry=retry) as client, pytest.raises(UnavailableError):
        client.info()
    assert 38 < clock.now <= 40


@pytest.fixture
def moving(tmp_path):
    """A name server and a server; and a function that ends the server and starts one at the name's next address."""
    names = NameServer("127.0.0.2")
    servers = [Server(tmp_path, f"--data-dir={tmp_path / 'data'}", host=names.address)]
    servers[0].start()

    def move():
        """The store moves along, as a volume does."""
        servers[-1].kill()
        names.address = "127.0.0.3"
        servers.append(Server(tmp_path, f"--data-dir={tmp_path / 'data'}", host=names.address))
        servers[-1].port = servers[0].port
        servers[-1].start()

    yield f"dns://{names.place}/agg.example:{servers[0].port}", move
    for server in servers:
        server.kill()
    names.close()


A_FEW_SECONDS = 10  # of the 60 that calls have


def test_a_name_that_moves_to_another_address_is_followed(moving):
    target, move = moving
    with ThreadPoolExecutor(2) as threads, Client(target, timeout=60) as client:
        round = client.create_round([TensorSpec("n", [10])], durability="durable")
        seen = threading.Event()
        watching = threads.submit(last_state, round, seen)
        waiting = threads.submit(round.wait, 60)
        assert seen.wait(60)
        move()
        since = time.monotonic()
        round.submit({}, contributor="a")
        assert time.monotonic() - since < A_FEW_SECONDS
        round.seal()
        assert watching.result(60) == "PUBLISHED"
        assert waiting.result(60).contributors == 1
        assert time.monotonic() - since < 2 * A_FEW_SECONDS


def test_a_name_that_moves_is_followed_by_the_asyncio_client(moving):
    target, move = moving

    async def scenario():
        async with sparseagg.aio.Client(target, timeout=60) as client:
            before = (await client.info()).epoch
            await asyncio.to_thread(move)
            since = time.monotonic()
            assert (await client.info()).epoch != before
            return time.monotonic() - since

    assert asyncio.run(scenario()) < A_FEW_SECONDS


def nobody_there():
    return UnavailableError("nobody", reason="CANNOT_CONNECT")


def test_without_a_timeout_a_server_that_comes_later_is_waited_for(clock):
    backoff = Backoff(RetryPolicy(), None, was_connected=lambda: False)
    while clock.now < 3600:
        backoff.wait(nobody_there())


@pytest.mark.parametrize("since_failure", [False, True])
def test_a_client_that_was_connected_goes_on_as_long_as_its_timeout(clock, since_failure):
    backoff = Backoff(RetryPolicy(), 60, since_failure=since_failure, was_connected=lambda: True)
    with pytest.raises(UnavailableError):
        while True:
            backoff.wait(nobody_there())
    assert 50 < clock.now <= 60


def test_silence_is_no_wrong_address(clock):
    """As of a server that is stopped, or too busy to take a connection."""
    backoff = Backoff(RetryPolicy(), 60, was_connected=lambda: False)
    with pytest.raises(UnavailableError):
        while True:
            backoff.wait(UnavailableError("nothing", reason="NO_ANSWER_IN_TIME"))
    assert 50 < clock.now <= 60


def unary(client, _):
    return client.info()


def watch(client, name):
    return next(client.round(name).watch())


@pytest.mark.parametrize("first", [unary, watch])
def test_one_answer_is_enough_to_wait_for_a_restart(own_server, tmp_path, first):
    """Nobody who was not connected goes on here at all."""
    server = own_server(f"--data-dir={tmp_path / 'data'}")
    with Client(server.target) as other:
        name = other.create_round([TensorSpec("n", [10])], durability="durable").name
    retry = RetryPolicy(initial_delay=0.01, max_delay=0.05, connect_timeout=0)
    with ThreadPoolExecutor(1) as threads, Client(server.target, retry=retry) as client:
        first(client, name)
        server.kill()
        call = threads.submit(client.info)
        with Client(server.target, retry=retry) as stranger, pytest.raises(UnavailableError):
            stranger.info()
        server.start()
        assert call.result(60).version
