"""Rounds that end by themselves, names that are remembered, rounds that are lost, results computed again."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from sparseagg import (
    AlreadyExistsError,
    Client,
    DeadlineExceededError,
    InvalidArgumentError,
    RetryPolicy,
    RoundAbortedError,
    RoundExpiredError,
    RoundLostError,
    RoundNotOpenError,
    SparseAggError,
    SparseTensor,
    TensorSpec,
    aio,
)

SPEC = [TensorSpec("emb", [1000, 4], "f32", sparse_dim=1)]
RETRY = RetryPolicy(attempts=1000, initial_delay=0.01, max_delay=0.05)


def update(row: int) -> dict:
    """One row of ones."""
    return {"emb": SparseTensor([row], np.ones((1, 4), np.float32), [1000, 4])}


def test_a_round_is_sealed_at_its_goal(client):
    round = client.create_round(SPEC, goal=2, max_contributors=5)
    assert round.info().policy.goal == 2
    round.submit(update(3), contributor="a", update_id="u")
    assert not round.info().goal_reached
    round.submit(update(5), contributor="b")
    result = round.result()  # nobody sealed
    assert result["emb"].indices.ravel().tolist() == [3, 5]
    assert (result.manifest.seal_reason, round.info().seal_reason) == ("GOAL", "GOAL")
    assert round.submit(update(3), contributor="a", update_id="u").duplicate
    with pytest.raises(RoundNotOpenError) as caught:
        round.submit(update(7), contributor="late")
    assert caught.value.metadata["closed_by"] == "GOAL"
    assert caught.value.retry_after is None


def test_a_grace_shows_the_time_that_is_left(client):
    round = client.create_round(SPEC, goal=1, grace=timedelta(hours=1), deadline=7200)
    assert 7100 < round.info().time_left <= 7200
    round.submit(update(3), contributor="a")
    info = round.info()
    assert info.goal_reached
    assert 3500 < info.time_left <= 3600
    assert info.close_time > datetime.now(timezone.utc) + timedelta(minutes=50)
    assert (info.policy.grace, info.policy.open_for) == (3600.0, 7200.0)
    round.seal()


def test_a_deadline_below_the_minimum_gives_the_round_up(client):
    round = client.create_round(
        SPEC, min_contributors=2, deadline=datetime.now(timezone.utc) + timedelta(seconds=0.3)
    )
    round.submit(update(3), contributor="a")
    with pytest.raises(RoundAbortedError, match="INSUFFICIENT_CONTRIBUTORS: 1 of at least 2"):
        round.wait(30)


def test_below_the_minimum_sealing_is_refused(client):
    round = client.create_round(SPEC, min_contributors=2)
    with pytest.raises(SparseAggError) as caught:
        round.seal()
    assert caught.value.reason == "INSUFFICIENT_CONTRIBUTORS"
    round.abort()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"goal": 1, "min_contributors": 2}, "min_contributors is 2"),
        ({"goal": -1}, "goal is -1"),
        ({"grace": 5}, "needs policy.goal_contributors"),
        ({"deadline": -1}, "policy.open_for"),
        ({"deadline": 1e300}, "no number of seconds"),
        ({"deadline": datetime(2020, 1, 1, tzinfo=timezone.utc)}, "not in the future"),
        ({"deadline": datetime(2020, 1, 1)}, "no time zone"),
        ({"keep_updates": True, "durability": "memory"}, "durable"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(client, arguments, says):
    with pytest.raises(InvalidArgumentError, match=says):
        client.create_round(SPEC, **arguments)


def test_a_deleted_rounds_name_is_remembered(client):
    round = client.create_round(SPEC, "remembered")
    round.submit(update(3), contributor="a", update_id="u")
    round.seal()
    round.wait()
    round.delete()
    round.delete()
    with pytest.raises(RoundExpiredError):
        round.submit(update(3), contributor="a", update_id="u")
    with pytest.raises(AlreadyExistsError, match="choose another id"):
        client.create_round(SPEC, "remembered")


def test_a_round_in_memory_that_went_with_its_server_says_so(own_server, tmp_path):
    flags = ("--data-dir", str(tmp_path / "data"), "--store-free-bytes-min", "0")
    server = own_server(*flags)
    with Client(server.target, retry=RETRY, timeout=30) as client:
        round = client.create_round(SPEC, durability="memory")
        receipt = round.submit(update(3), contributor="a")
        assert receipt.epoch == client.info().epoch
        server.kill()
        server.start()
        now = client.info().epoch
        assert (now.store_id, now.epoch) == (receipt.epoch.store_id, receipt.epoch.epoch + 1)
        with pytest.raises(RoundLostError, match="memory only, and the server was started again"):
            round.submit(update(5), contributor="b")


def test_a_round_of_another_data_directory_says_so(own_server, tmp_path):
    data = tmp_path / "data"
    server = own_server("--data-dir", str(data), "--store-free-bytes-min", "0")
    with Client(server.target, retry=RETRY, timeout=30) as client:
        round = client.create_round(SPEC)
        server.kill()
        data.rename(tmp_path / "elsewhere")
        server.start()
        with pytest.raises(RoundLostError, match="data directory is"):
            round.info()


def test_a_round_that_keeps_its_updates_is_computed_again(own_server, tmp_path):
    server = own_server("--data-dir", str(tmp_path / "data"), "--store-free-bytes-min", "0")
    with Client(server.target) as client:
        kept = client.create_round(SPEC, keep_updates=True)
        erased = client.create_round(SPEC)
        for round in (kept, erased):
            for row in range(5):
                round.submit(update(row), contributor=f"c{row}", weight=0.1 * row)
            round.seal()
            round.wait()
        verified = kept.verify()
        assert verified.contributors == 5
        assert verified.result_digest == kept.info().manifest.result_digest
        with pytest.raises(SparseAggError) as caught:
            erased.verify()
        assert caught.value.reason == "UPDATES_NOT_KEPT"


def test_a_verification_may_take_longer_than_other_calls(own_server, tmp_path):
    server = own_server("--data-dir", str(tmp_path / "data"), "--store-free-bytes-min", "0")
    with Client(server.target) as client:
        name = client.create_round(SPEC, keep_updates=True).name
        client.round(name).seal()
        client.round(name).wait()

    async def scenario():
        async with aio.Client(server.target, timeout=0.2) as client:
            return await client.round(name).verify()

    with Client(server.target, timeout=0.2) as client:
        for verify in (client.round(name).verify, lambda: asyncio.run(scenario())):
            server.pause()
            with pytest.raises(DeadlineExceededError):
                client.round(name).verify(timeout=0.1)
            back = threading.Timer(0.6, server.resume)
            back.start()
            try:
                assert verify().contributors == 0
            finally:
                back.join()
