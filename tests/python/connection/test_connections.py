"""Uploads that run at the same time have connections of their own, up to a number; so do calls that wait for a round."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sparseagg.aio
from conftest import ROOT
from sparseagg import (
    Client,
    RetryPolicy,
    SparseAggError,
    TensorSpec,
    UnavailableError,
    Update,
)
from sparseagg._net import connections
from sparseagg._net import transport as _transport
from support.flaky_proxy import FlakyProxy


def uploads(client: Client) -> list[int]:
    """Returns the number of uploads of each connection."""
    return [c.uploads for c in client._transport._connections._all]


def open_stream(client: Client):
    """A stream that sends nothing yet."""
    return client._transport.stream("StreamUpdates", idle_timeout=10)


def test_streams_share_connections_only_when_all_are_in_use(server):
    with Client(server.target, connections=2) as client:
        client.info()
        assert uploads(client) == [0]
        streams = [open_stream(client)]
        assert uploads(client) == [1]
        streams.append(open_stream(client))
        assert uploads(client) == [1, 1]
        streams.append(open_stream(client))
        assert sorted(uploads(client)) == [1, 2]
        for stream in streams:
            stream.cancel()
        for thread in threading.enumerate():
            if thread.name == "sparseagg-stream":
                thread.join(10)
        assert uploads(client) == [0, 0]
        with open_stream(client):
            assert uploads(client) == [1, 0]


def test_one_connection_is_enough_where_one_is_asked_for(server):
    with Client(server.target, connections=1) as client, open_stream(client), open_stream(client):
        assert uploads(client) == [2]


def test_large_updates_side_by_side_are_all_counted(server):
    values = np.arange(6_000_000, dtype=np.float32)  # 24 MB: in chunks
    with Client(server.target) as client:
        round = client.create_round([TensorSpec("w", [6_000_000], sparse_dim=0)])
        with ThreadPoolExecutor(6) as pool:
            receipts = list(
                pool.map(lambda k: round.submit({"w": values}, contributor=f"c{k}"), range(6))
            )
        assert sorted(receipt.sequence for receipt in receipts) == [1, 2, 3, 4, 5, 6]
        assert 2 <= len(uploads(client)) <= 4
        round.seal()
        assert np.array_equal(round.result()["w"], 6 * values)
        round.delete()


def waits(client) -> list[int]:
    """How many calls wait for a round on each connection."""
    connections = client._transport._connections
    return [c.waits for c in (*connections._all, *connections._for_waits)]


def test_contributors_of_one_process_who_wait_do_not_hold_back_what_ends_their_round(server):
    """More than a server lets a connection have at a time."""
    contributors = 300

    async def contribute(round, number):
        update = {"t": ([number], np.ones(1, np.float32), [contributors])}
        await round.submit(update, contributor=f"c{number}")
        return (await round.wait(timeout=60)).contributors

    async def main():
        async with sparseagg.aio.Client(server.target) as client:
            round = await client.create_round([TensorSpec("t", [contributors], sparse_dim=1)])
            all_of_them = asyncio.gather(*(contribute(round, i) for i in range(contributors)))
            while sum(waits(client)) < contributors:
                await asyncio.sleep(0.01)
            assert waits(client) == [100, 100, 100]
            await asyncio.wait_for(round.seal(), 30)
            assert set(await all_of_them) == {contributors}
            assert sum(waits(client)) == 0
            await round.delete()

    asyncio.run(main())


def test_watches_and_waits_of_threads_have_further_connections(server, monkeypatch):
    monkeypatch.setattr(connections, "WAITS_MAX", 2)
    with Client(server.target) as client, ThreadPoolExecutor(5) as pool:
        round = client.create_round([TensorSpec("t", [5], sparse_dim=0)])
        watches = [round.watch() for _ in range(3)]
        assert [next(iter(watch)).state.name for watch in watches] == ["OPEN"] * 3
        waiting = [pool.submit(round.wait, 60) for _ in range(2)]
        while sum(waits(client)) < 5:
            round.info()
        assert waits(client) == [2, 2, 1]
        round.seal()
        assert [wait.result().state.name for wait in waiting] == ["PUBLISHED"] * 2
        assert [list(watch)[-1].state.name for watch in watches] == ["PUBLISHED"] * 3
        round.delete()


_KEEPALIVE_TIMES = ("keepalive_time_ms", "keepalive_timeout_ms", "ping_timeout_ms")


def test_a_stream_that_only_waits_notices_a_lost_network(server, monkeypatch):
    """The options as they are, with keepalive times of a hundredth: a ping every 200 ms."""
    shorter = [
        (name, value // 100 if name.endswith(_KEEPALIVE_TIMES) else value)
        for name, value in _transport.CHANNEL_OPTIONS
    ]
    monkeypatch.setattr(_transport, "CHANNEL_OPTIONS", shorter)
    proxy = FlakyProxy(server.port)
    with Client(proxy.target, retry=RetryPolicy(attempts=1)) as client:
        round = client.create_round([TensorSpec("n", [10])])
        changes = round.watch()
        next(changes)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(next, changes)
            try:
                with pytest.raises(futures.TimeoutError):
                    waiting.result(2)  # ten pings
                proxy.lose()
                with pytest.raises(UnavailableError):
                    waiting.result(30)
            finally:
                client.close()
                proxy.close()
    with Client(server.target) as client:
        client.round(round.name).abort()
        client.round(round.name).delete()


def test_connections_are_kept_alive_as_by_the_cpp_client():
    source = (ROOT / "client/transport/connections.cc").read_text()
    theirs = dict(re.findall(r"GRPC_ARG_(KEEPALIVE_\w+_MS), ([\d']+)", source))
    assert set(theirs) == {"KEEPALIVE_TIME_MS", "KEEPALIVE_TIMEOUT_MS"}
    ours = dict(_transport.CHANNEL_OPTIONS)
    for name, value in theirs.items():
        assert ours[f"grpc.{name.lower()}"] == int(value.replace("'", ""))


@pytest.fixture
def http_proxy(monkeypatch):
    """A socket to which http_proxy points; it takes connections and answers nothing."""
    for name in ("grpc_proxy", "https_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield listener


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "localhost:{}", "dns:///localhost:{}"])
def test_this_machine_is_reached_without_the_proxy(server, http_proxy, form):
    target = form.format(server.port)
    with Client(target, timeout=5, retry=RetryPolicy(attempts=1)) as client:
        assert client.info().version


@pytest.mark.parametrize("target", ["[::1]:1", "ipv6:[::1]:1", "unix:/nowhere/socket"])
def test_the_proxy_is_not_asked_for_this_machine(http_proxy, target):
    with (
        Client(target, timeout=5, retry=RetryPolicy(attempts=1)) as client,
        pytest.raises(UnavailableError),
    ):
        client.info()
    http_proxy.setblocking(False)
    with pytest.raises(BlockingIOError):
        http_proxy.accept()


def test_other_machines_are_reached_through_the_proxy(http_proxy):
    with (
        Client("agg.invalid:50061", timeout=5, retry=RetryPolicy(attempts=1)) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        threads.submit(client.info)  # fails when the proxy hangs up
        http_proxy.settimeout(30)
        connection, _ = http_proxy.accept()
        with connection:
            assert connection.recv(1024).startswith(b"CONNECT agg.invalid:50061 ")


def calls_of(client, round):
    """One of each kind of call, again and again."""
    one = {"n": ([1], np.float32([1]), [10])}
    while True:
        yield client.info
        yield lambda: list(client.rounds())
        yield lambda: round.submit_many([Update(one, "a", update_id="a")])
        yield lambda: next(round.watch())


def error_that_ends(client, round, is_busy):
    """Returns the error that ends the calls of one thread; `is_busy` is set after its first calls."""
    try:
        for number, call in enumerate(calls_of(client, round)):
            call()
            if number == 4:
                is_busy.set()
    except Exception as error:
        return error


def test_calls_beside_close_say_that_the_client_is_closed(server):
    others = []
    for _ in range(20):
        client = Client(server.target, retry=RetryPolicy(attempts=1))
        round = client.create_round([TensorSpec("n", [10])])
        is_busy = threading.Event()
        with ThreadPoolExecutor(6) as threads:
            working = [threads.submit(error_that_ends, client, round, is_busy) for _ in range(6)]
            is_busy.wait(60)
            client.close()
            errors = [future.result(60) for future in working]
        others += [error for error in errors if getattr(error, "reason", "") != "CLIENT_CLOSED"]
    assert others == []


@pytest.mark.parametrize("method", ["GetServerInfo", "StreamUpdates"])
def test_a_channel_that_closes_before_a_call_starts_is_the_closed_client(server, method):
    """The moment between the check and the call, in which another thread calls close()."""
    client = Client(server.target)
    client.info()
    transport = client._transport
    metadata = transport._access.metadata

    def close_first():
        client.close()
        return metadata()

    transport._access.metadata = close_first
    with pytest.raises(SparseAggError) as refusal:
        client.info() if method == "GetServerInfo" else open_stream(client)
    assert refusal.value.reason == "CLIENT_CLOSED"


def test_no_connection_is_opened_by_a_closed_client(server):
    client = Client(server.target)
    client.info()
    connections = client._transport._connections
    connections.first.uploads = 1  # so that the next upload wants another one
    client.close()
    with pytest.raises(SparseAggError, match="closed"):
        connections.take()
    assert len(connections._all) == 1


def test_no_thread_is_left_behind_by_a_closed_client(server):
    """At the exit of the process gRPC would wait for what such a thread holds."""

    def readers():
        return [thread for thread in threading.enumerate() if thread.name == "sparseagg-stream"]

    others = readers()
    for _ in range(20):
        client = Client(server.target)
        round = client.create_round([TensorSpec("n", [10])])
        streams = [open_stream(client) for _ in range(4)]
        next(round.watch())
        client.close()
        assert [thread for thread in readers() if thread not in others] == []
        del streams
