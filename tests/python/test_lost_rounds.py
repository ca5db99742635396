"""A round that went with a server's memory or data: every way to use its handle says so, not only that there is no such round."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import numpy as np
import pytest
from conftest import BINARY
from sparseagg import Client, RetryPolicy, RoundLostError, TensorSpec, Update, aio

WIDTH = 64
SPECS = [TensorSpec("emb", [100_000, WIDTH])]
RETRY = RetryPolicy(attempts=1000, initial_delay=0.01, max_delay=0.05)


def update(nnz: int = 1) -> dict:
    """That many rows; 64 KiB of them are beyond the message limit of the servers below."""
    return {"emb": (np.arange(nnz), np.ones((nnz, WIDTH), np.float32), [100_000, WIDTH])}


SMALL, LARGE = update(), update(2000)
MANY = [Update(SMALL, f"c{n}") for n in range(3)]

# How a handle is used, in words of both clients; each gives what the handle's method gives.
WAYS = {
    "submit": lambda round: round.submit(SMALL, contributor="a"),
    "submit in chunks": lambda round: round.submit(LARGE, contributor="a", encoding="coo.raw"),
    "submit_many": lambda round: round.submit_many(MANY),
    "watch": lambda round: round.watch(),
    "result": lambda round: round.result(),
}


@pytest.fixture
def server(own_server, tmp_path):
    """With a directory, so that the restarted server is known to be the same one."""
    return own_server(
        *("--data-dir", str(tmp_path / "data"), "--store-free-bytes-min", "0"),
        *("--message-bytes-max", "65536"),
    )


@pytest.mark.parametrize("way", WAYS)
def test_of_a_lost_round(server, way):
    with Client(server.target, retry=RETRY, timeout=30) as client:
        round = client.create_round(SPECS, durability="memory")
        server.kill()
        server.start()
        with pytest.raises(RoundLostError, match="memory only") as caught:
            answer = WAYS[way](round)
            list(answer)  # of `watch`, which asks when it is read
    assert caught.value.reason == "ROUND_LOST"


@pytest.mark.parametrize("way", WAYS)
def test_of_a_lost_round_for_asyncio(server, way):
    async def scenario():
        async with aio.Client(server.target, retry=RETRY, timeout=30) as client:
            round = await client.create_round(SPECS, durability="memory")
            server.kill()
            server.start()
            answer = WAYS[way](round)
            if way == "watch":
                return [info async for info in answer]
            return await answer

    with pytest.raises(RoundLostError, match="memory only") as caught:
        asyncio.run(scenario())
    assert caught.value.reason == "ROUND_LOST"


def test_each_update_of_many_has_the_reason(server):
    with Client(server.target, retry=RETRY, timeout=30) as client:
        round = client.create_round(SPECS, durability="memory")
        server.kill()
        server.start()
        outcomes = round.submit_many(MANY, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RoundLostError] * 3


def restarting(server):
    """A `progress` that restarts the server once, when half of the bytes are sent."""
    restarts = []

    def on_progress(done: int, total: int) -> None:
        if not restarts and done > total // 2:
            restarts.append(done)
            server.kill()
            server.start()

    return on_progress


def test_of_a_round_that_is_lost_during_an_upload(server):
    with Client(server.target, retry=RETRY, timeout=30) as client:
        round = client.create_round(SPECS, durability="memory")
        with pytest.raises(RoundLostError):
            round.submit(LARGE, contributor="a", encoding="coo.raw", progress=restarting(server))


def test_of_a_round_that_is_lost_during_an_upload_for_asyncio(server):
    async def scenario():
        async with aio.Client(server.target, retry=RETRY, timeout=30) as client:
            round = await client.create_round(SPECS, durability="memory")
            await round.submit(
                LARGE, contributor="a", encoding="coo.raw", progress=restarting(server)
            )

    with pytest.raises(RoundLostError):
        asyncio.run(scenario())


def test_of_a_round_that_is_lost_while_it_is_watched(server):
    with Client(server.target, retry=RETRY, timeout=30) as client:
        watched = client.create_round(SPECS, durability="memory").watch()
        next(watched)
        server.kill()
        server.start()
        with pytest.raises(RoundLostError):
            list(watched)


def renew(data):
    return subprocess.run(
        [str(BINARY), "store", "renew", str(data)], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("starts_since", [1, 2])
def test_of_a_round_that_a_restored_backup_does_not_have(server, tmp_path, starts_since):
    data, backup = tmp_path / "data", tmp_path / "backup"
    with Client(server.target, retry=RETRY, timeout=30) as client:
        open_round, published = (client.create_round(SPECS) for _ in range(2))
        first = open_round.submit(SMALL, contributor="a", update_id="u")
        published.submit(SMALL, contributor="a")
        published.seal()
        published.wait(30)
        server.stop()
        shutil.copytree(data, backup)
        server.start()
        lost = client.create_round(SPECS)
        epoch = lost.submit(SMALL, contributor="a").epoch
        server.stop()
        shutil.rmtree(data)
        backup.rename(data)
        assert renew(data).returncode == 0
        for _ in range(starts_since):
            server.kill()
            server.start()
        now = client.info().epoch
        assert now.epoch == epoch.epoch + starts_since - 1  # which tells nothing
        for use in (WAYS["submit"], WAYS["result"]):
            with pytest.raises(RoundLostError, match="data directory is") as caught:
                use(lost)
            assert caught.value.reason == "ROUND_LOST"
        # The round that the backup has continues.
        again = open_round.submit(SMALL, contributor="a", update_id="u")
        assert (again.sequence, again.duplicate) == (first.sequence, True)
        assert again.epoch == now
        open_round.seal()
        open_round.wait(30)
        for round in (open_round, published):
            np.testing.assert_array_equal(round.result()["emb"].values, np.ones((1, WIDTH)))


def test_only_a_store_that_no_server_has_is_renewed(server, tmp_path):
    with Client(server.target, retry=RETRY, timeout=30) as client:
        before = client.info().epoch
        refused = renew(tmp_path / "data")
        assert refused.returncode == 1
        assert "another process uses the data directory" in refused.stderr
        server.kill()
        server.start()
        assert client.info().epoch.store_id == before.store_id
    missing = renew(tmp_path / "nothing")
    assert missing.returncode == 1
    assert "is not a data directory" in missing.stderr
    assert not (tmp_path / "nothing").exists()
