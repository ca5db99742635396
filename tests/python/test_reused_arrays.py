"""A generator that fills the same arrays for each update: each counts with the values it was handed in with."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from sparseagg import Client, TensorSpec, Update, aio, sparse_sum
from support.flaky_proxy import FlakyProxy

COUNT, WIDTH = 2000, 512
SPECS = [TensorSpec("emb", [COUNT, WIDTH])]


def updates():
    """Row n of update n is n; the arrays are always the same ones."""
    index, row = np.zeros(1, np.int32), np.zeros((1, WIDTH), np.float32)
    for number in range(COUNT):
        index[0], row[:] = number, number
        yield Update({"emb": (index, row, [COUNT, WIDTH])}, f"c{number}")


def check(round):
    """Seals it; every row is its number."""
    round.seal()
    expected = np.repeat(np.arange(COUNT, dtype=np.float32)[:, None], WIDTH, axis=1)
    assert np.array_equal(round.result("dense")["emb"], expected)
    round.delete()


@pytest.fixture
def proxy(server):
    """Cuts the first connection after 1 MB."""
    running = FlakyProxy(server.port, cut_after_bytes=1_000_000)
    yield running
    running.close()


def test_of_submit_many(client, proxy):
    round = client.create_round(SPECS)
    with Client(proxy.target) as unlucky:
        unlucky.round(round.name).submit_many(updates(), encoding="coo.raw")
    assert proxy.connections >= 2
    check(round)


def test_of_submit_many_for_asyncio(client, proxy):
    round = client.create_round(SPECS)

    async def scenario():
        async with aio.Client(proxy.target) as unlucky:
            await unlucky.round(round.name).submit_many(updates(), encoding="coo.raw")

    asyncio.run(scenario())
    assert proxy.connections >= 2
    check(round)


def tables(spec):
    """One array of 1, 2 and 3, each time the same."""
    table = np.zeros(spec.dense_shape, np.float32)
    for number in (1, 2, 3):
        table[:] = number
        yield table


def test_of_sparse_sum(client):
    spec = TensorSpec("tensor", [300], sparse_dim=0)
    assert (sparse_sum(tables(spec), client=client) == 6).all()


@pytest.mark.parametrize("encoding", ["coo.raw", "auto"])
def test_of_reduce(client, server, encoding):
    spec = TensorSpec("w", [300], sparse_dim=0)

    def updates():
        return ({"w": table} for table in tables(spec))

    async def scenario():
        async with aio.Client(server.target) as other:
            return await other.reduce([spec], updates(), encoding=encoding)

    assert (client.reduce([spec], updates(), encoding=encoding)["w"] == 6).all()
    assert (asyncio.run(scenario())["w"] == 6).all()


def test_of_large_updates_for_asyncio(own_server):
    server = own_server("--message-bytes-max=65536")
    spec = TensorSpec("w", [300_000], sparse_dim=0)

    async def scenario():
        async with aio.Client(server.target) as client:
            round = await client.create_round([spec])
            updates = (Update({"w": table}, f"c{table[0]}") for table in tables(spec))
            await round.submit_many(updates, encoding="coo.raw")
            await round.seal()
            return (await round.result())["w"]

    assert (asyncio.run(scenario()) == 6).all()
