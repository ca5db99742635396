"""A generator that fills the same arrays for each update of submit_many: each counts with the values it was handed in with."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from flaky_proxy import FlakyProxy
from sparseagg import Client, TensorSpec, Update, aio

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
