"""A timeout that a caller gives holds for the whole call, also where the server says nothing at all."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
import sparseagg.aio
from sparseagg import Client, DeadlineExceededError, TensorSpec, Update
from sparseagg._requests import TimeLimit, wait_call_seconds, wait_round

SPECS = [TensorSpec("emb", [10])]
ONE = {"emb": ([1], np.float32([1]), [10])}
SELECTED = {"emb": [1]}
TIMEOUT = 0.5
CLIENT_TIMEOUT = 30  # of everything that keeps to no other
MOST = 4  # seconds: less than the 5 that a call was given on top

CALLS = {
    "submit": lambda round: round.submit(ONE, contributor="a", timeout=TIMEOUT),
    "submit_many": lambda round: round.submit_many([Update(ONE, "a")], timeout=TIMEOUT),
    "wait": lambda round: round.wait(timeout=TIMEOUT),
    "result": lambda round: round.result(timeout=TIMEOUT),
    "result of rows": lambda round: round.result(indices=SELECTED, timeout=TIMEOUT),
}


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    """A server that was paused after it made a round, and two clients: one knows it, one has never heard of it."""
    from conftest import Server

    server = Server(tmp_path_factory.mktemp("silent"))
    server.start()
    with Client(server.target, timeout=CLIENT_TIMEOUT) as client:
        round = client.create_round(SPECS)
        round.submit(ONE, contributor="first")
        server.pause()
        yield server, client, round
        server.resume()
    server.kill()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_call_ends_in_its_time_where_the_server_is_silent(silent, call, is_known):
    _, client, round = silent
    with Client(client.target, timeout=CLIENT_TIMEOUT) as other:
        handle = round if is_known else other.round(round.name)
        begin = time.monotonic()
        with pytest.raises(DeadlineExceededError):
            call(handle)
        assert time.monotonic() - begin < MOST


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_asyncio_call_ends_in_its_time_where_the_server_is_silent(silent, call):
    server, _, round = silent

    async def scenario():
        async with sparseagg.aio.Client(server.target, timeout=CLIENT_TIMEOUT) as client:
            begin = time.monotonic()
            with pytest.raises(DeadlineExceededError):
                await call(client.round(round.name))
            return time.monotonic() - begin

    assert asyncio.run(scenario()) < MOST


def test_an_asyncio_handle_that_knows_its_round_ends_in_time_too(own_server):
    server = own_server()

    async def scenario():
        async with sparseagg.aio.Client(server.target, timeout=CLIENT_TIMEOUT) as client:
            round = await client.create_round(SPECS)
            await round.submit(ONE, contributor="first")
            server.pause()
            times = []
            for call in CALLS.values():
                begin = time.monotonic()
                with pytest.raises(DeadlineExceededError):
                    await call(round)
                times.append(time.monotonic() - begin)
            return times

    assert max(asyncio.run(scenario())) < MOST


@pytest.mark.parametrize("timeout", [0, 1])
def test_a_round_that_nobody_seals_is_told_as_open_when_the_time_is_over(client, timeout):
    round = client.create_round(SPECS)
    begin = time.monotonic()
    with pytest.raises(DeadlineExceededError, match=f"OPEN after {timeout:g} s; someone has to"):
        round.wait(timeout=timeout)
    assert time.monotonic() - begin >= timeout - 0.06
    round.abort()


def test_the_server_answers_before_the_call_ends():
    for seconds in (0.1, 1.0, 20.0):
        limit = TimeLimit(seconds)
        asked = wait_round("rounds/r", limit.left()).timeout.ToTimedelta().total_seconds()
        assert asked < wait_call_seconds(limit, 60, is_first=False) <= seconds
    assert wait_call_seconds(TimeLimit(0.1), 60, is_first=True) == 1
    assert wait_call_seconds(TimeLimit(0), 60, is_first=True) == 5
    assert wait_call_seconds(TimeLimit(0), 2, is_first=True) == 2
    assert wait_call_seconds(None, 60, is_first=True) == 90
