"""How long a call goes on without its server: as long as the caller's timeout, and no number of attempts before."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Server
from sparseagg import Client, RetryPolicy, TensorSpec, UnavailableError

QUICK = RetryPolicy(initial_delay=0.01, max_delay=0.02)
# An attempt to connect to a stopped server ends after this time, and not after 5 s.
OPTIONS = [("grpc.min_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 50)]
ATTEMPTS = 12  # twice those that ended a call before


def take_connections(listener: socket.socket, number: int) -> None:
    """Takes so many connections and answers none, as a stopped server does."""
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

        def watch():
            states = []
            for info in round.watch():
                states.append(info.state.value)
                seen.set()
            return states

        with ThreadPoolExecutor(1) as threads:
            watching = threads.submit(watch)
            assert seen.wait(60)
            server.kill()
            with socket.create_server(("127.0.0.1", server.port)) as listener:
                take_connections(listener, ATTEMPTS)
                assert not watching.done()
            server.start()
            with Client(server.target) as other:
                other.round(round.name).seal()
            assert watching.result(60)[-1] == "PUBLISHED"


def test_a_number_of_attempts_that_is_asked_for_ends_a_call():
    retry = RetryPolicy(attempts=2, initial_delay=0.01)
    with (
        Client("127.0.0.1:1", timeout=None, retry=retry) as client,
        pytest.raises(UnavailableError),
    ):
        client.info()


def test_a_call_ends_with_its_timeout(caplog, monkeypatch):
    monkeypatch.setattr("sparseagg._retry._SILENT_SECONDS", 0)
    with (
        Client("127.0.0.1:1", timeout=0.5, retry=QUICK) as client,
        pytest.raises(UnavailableError),
    ):
        client.info()
    told = [record.message for record in caplog.records if record.name == "sparseagg"]
    assert len(told) == 1
    assert "127.0.0.1:1" in told[0] and "trying again" in told[0]
