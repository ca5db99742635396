"""The asyncio client, against the real server."""

from __future__ import annotations

import asyncio
import sys
import time

import numpy as np
import pytest
from sparseagg import (
    AlreadyCountedError,
    DeadlineExceededError,
    InvalidUpdateError,
    NotFoundError,
    Receipt,
    RetryPolicy,
    RoundState,
    SparseAggError,
    TensorSpec,
    UnavailableError,
    Update,
    _requests,
)
from sparseagg._encode.encodings import RAW, EncodeOptions
from sparseagg.aio import Client
from sparseagg.aio._many import ManyUpdates
from support.flaky_proxy import FlakyProxy

SPECS = [TensorSpec("emb", [100, 2], op="weighted_mean"), TensorSpec("bias", [3], sparse_dim=0)]


def run(target, scenario, **options):
    """What the coroutine function `scenario` gives, with a client."""

    async def body():
        async with Client(target, **options) as client:
            return await scenario(client)

    return asyncio.run(body())


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="tasks do not tell whether they are cancelled"
)
def test_a_call_under_way_fails_when_the_client_is_closed_and_is_not_cancelled(server):
    async def scenario(client):
        round = await client.create_round(SPECS)
        waiting = asyncio.ensure_future(round.wait())
        cancelled = asyncio.ensure_future(round.wait())
        await asyncio.wait([waiting, cancelled], timeout=0.1)
        cancelled.cancel()
        await client.close()
        # A TaskGroup takes no notice of a task that ends as a cancelled one.
        with pytest.raises(SparseAggError, match="closed") as refusal:
            await waiting
        assert refusal.value.reason == "CLIENT_CLOSED"
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    run(server.target, scenario)


def test_a_round_from_open_to_deleted(server):
    async def scenario(client):
        round = await client.create_round(SPECS)
        values = np.float32([[2, 4], [6, 8]])
        first = {"emb": ([5, 7], values, [100, 2]), "bias": np.float32([1, 2, 3])}
        receipt = await round.submit(first, contributor="a", weight=3, update_id="a-1")
        assert (await round.submit(first, contributor="a", weight=3, update_id="a-1")).duplicate
        await round.submit({"emb": ([5], values[:1], [100, 2])}, contributor="b")
        states = []
        async for info in round.watch(min_interval=0.001):
            states.append(info.state)
            if info.state is RoundState.OPEN:
                await round.seal()
        result = await round.result()
        dense = await round.result("dense", ["emb"], {"emb": [7, 0]})
        assert round.name in [info.name async for info in client.rounds(page_size=2)]
        await round.delete()
        with pytest.raises(NotFoundError):
            await round.info()
        return receipt, states, result, dense

    receipt, states, result, dense = run(server.target, scenario)
    assert receipt.sequence == 1
    assert states[-1] is RoundState.PUBLISHED
    assert result["emb"].indices.ravel().tolist() == [5, 7]
    assert result["emb"].values.tolist() == [[2, 4], [4.5, 6]]
    assert result["bias"].tolist() == [3, 6, 9]  # a sum of weight 3
    assert dense["emb"].tolist() == [[4.5, 6], [0, 0]]


def test_the_refusal_of_one_of_many_updates_tells_its_position(server):
    async def scenario(client):
        round = await client.create_round([TensorSpec("n", [10], "i64")])
        updates = [Update({"n": ([i], np.array([1]), [10])}, f"c{i}") for i in range(11)]
        with pytest.raises(InvalidUpdateError, match='^update 10: tensor "n": index 10'):
            await round.submit_many(updates)

    run(server.target, scenario)


def test_many_updates_at_once_with_a_refusal_between(server):
    async def scenario(client):
        round = await client.create_round([TensorSpec("n", [1000], "i64")])
        updates = [
            Update({"n": ([i if i != 300 else 1000], np.array([1]), [1000])}, f"c{i}")
            for i in range(500)
        ]
        outcomes = await round.submit_many(updates, return_exceptions=True)
        await round.seal()
        return outcomes, await round.result("dense")

    outcomes, result = run(server.target, scenario)
    assert isinstance(outcomes[300], InvalidUpdateError)
    assert [receipt.contributor for receipt in outcomes[:300]] == [f"c{i}" for i in range(300)]
    assert result["n"].tolist() == [int(i < 500 and i != 300) for i in range(1000)]


def test_a_large_update_is_resumed_after_a_cut_connection(server):
    values = np.ones((100_000, 64), np.float32)  # 26 MB
    proxy = FlakyProxy(server.port, cut_after_bytes=8_000_000)
    sent = []

    async def scenario(client):
        round = await client.create_round([TensorSpec("emb", [1_000_000, 64])])
        receipt = await round.submit(
            {"emb": (np.arange(100_000), values, [1_000_000, 64])},
            contributor="large",
            encoding="coo.raw",
            progress=lambda done, total: sent.append((done, total)),
        )
        await round.seal()
        return receipt, await round.result()

    try:
        receipt, result = run(proxy.target, scenario)
    finally:
        proxy.close()
    assert proxy.connections == 2
    assert proxy.bytes_from_client < 26_000_000 + 8_000_000 + 2_000_000
    assert receipt.sequence == 1
    assert np.array_equal(result["emb"].values, values)
    assert sent[-1][0] == sent[-1][1] == 100_000 * (64 * 4 + 4)


def test_reduce(server):
    async def scenario(client):
        return await client.reduce(
            [TensorSpec("m", [10], op="mean_of_contributors")],
            [{"m": ([1], np.float32([2]), [10])}, {"m": ([1, 2], np.float32([4, 6]), [10])}],
            weights=[1, 3],
        )

    result = run(server.target, scenario)
    assert result["m"].indices.ravel().tolist() == [1, 2]
    assert result["m"].values.tolist() == [3.5, 6]


def test_waiting_for_a_round_that_nobody_seals_ends(server):
    async def scenario(client):
        round = await client.create_round(SPECS)
        await round.wait(timeout=0.05)

    with pytest.raises(DeadlineExceededError, match="someone has to seal it"):
        run(server.target, scenario)


def test_no_server_is_unavailable(tmp_path):
    async def scenario(client):
        await client.info()

    with pytest.raises(UnavailableError, match="is the server running there"):
        run(f"unix:{tmp_path}/none", scenario, retry=RetryPolicy(attempts=2, initial_delay=0.01))


def test_waiting_ends_in_time_though_the_server_says_nothing(own_server):
    server = own_server()

    async def scenario(client):
        round = await client.create_round(SPECS)
        server.pause()
        await round.wait(timeout=0.1)

    begin = time.monotonic()
    with pytest.raises(DeadlineExceededError, match="within 0.1 s"):
        run(server.target, scenario, timeout=0.5)
    assert time.monotonic() - begin < 10  # a slice is 30 s


def test_waiting_without_a_limit_outlasts_a_server_that_says_nothing(own_server, monkeypatch):
    monkeypatch.setattr(_requests, "WAIT_SLICE_SECONDS", 0.05)
    server = own_server()

    async def scenario(client):
        round = await client.create_round(SPECS)
        server.pause()
        waiting = asyncio.ensure_future(round.wait())
        await asyncio.wait([waiting], timeout=1)  # four slices
        assert not waiting.done()
        server.resume()
        async with Client(server.target) as other:
            await other.round(round.name).seal()
        return await asyncio.wait_for(waiting, 30)

    assert run(server.target, scenario, timeout=0.2).state is RoundState.PUBLISHED


def test_updates_refused_here_do_not_stop_the_others(server):
    async def scenario(client):
        round = await client.create_round([TensorSpec("n", [10], "i64")])
        updates = [
            Update({"n": ([n], np.ones(1, np.int64 if n != 1 else bool), [10])}, f"c{n}")
            for n in range(4)
        ]
        return await round.submit_many(updates, return_exceptions=True)

    outcomes = run(server.target, scenario)
    assert [isinstance(outcome, InvalidUpdateError) for outcome in outcomes] == [0, 1, 0, 0]


def test_a_server_that_is_gone_ends_many_updates_at_once(own_server):
    server = own_server()
    large = (np.arange(10_000), np.arange(10_000), [10_000])  # too large to go with another
    updates = [Update({"n": large}, f"c{n}") for n in range(300)]

    async def scenario(client):
        round = await client.create_round([TensorSpec("n", [10_000], "i64")])
        await round.submit(updates[0].tensors, contributor="first")
        server.kill()
        taken = iter(updates)
        with pytest.raises(UnavailableError):
            await round.submit_many(taken, return_exceptions=True)
        return len(list(taken))

    retry = RetryPolicy(attempts=2, initial_delay=0.01)
    assert run(server.target, scenario, retry=retry) == 300 - 64  # one for each worker


def one_value(n, contributor, update_id=None):
    return Update({"n": ([n], np.array([1]), [20_000])}, contributor, update_id=update_id)


def calls_of(*updates):
    """The contributors whose updates submit_many() sends in each call."""
    specs = {"n": TensorSpec("n", [20_000], "i64")}
    many = ManyUpdates(
        iter(updates),
        lambda update: _requests.read_update("rounds/r", specs, update, EncodeOptions(RAW)),
        send=None,
        send_together=None,
        message_bytes_max=100_000,
        may_fill_arrays_again=False,
    )

    async def take_all():
        calls = []
        while batch := await many._take_next():
            calls.append([one.update.header.contributor for one in batch.values()])
        return calls

    return asyncio.run(take_all())


def entries(count, contributor):
    return Update({"n": (np.arange(count), np.arange(count), [20_000])}, contributor)


def test_small_updates_go_together_and_large_ones_alone():
    a, b, c, d = (one_value(1, name) for name in "abcd")
    assert calls_of() == []
    assert calls_of(a) == [["a"]]
    assert calls_of(a, b, entries(7000, "large"), c, d) == [["a", "b"], ["large"], ["c", "d"]]
    assert calls_of(a, entries(15_000, "in chunks"), b) == [["a"], ["in chunks"], ["b"]]
    assert calls_of(entries(15_000, "in chunks"), a, b) == [["in chunks"], ["a", "b"]]
    # Answers name nothing but the update_id.
    assert calls_of(a, one_value(1, "x", "id"), b, one_value(1, "y", "id")) == [
        ["a", "x", "b"],
        ["y"],
    ]
    many = calls_of(*(one_value(n, f"c{n}") for n in range(2500)))
    assert [name for call in many for name in call] == [f"c{n}" for n in range(2500)]
    assert 2 < len(many) < 25


def test_of_updates_that_are_sent_together_each_has_its_outcome(server):
    async def scenario(client):
        round = await client.create_round([TensorSpec("n", [20_000], "i64")])
        updates = [one_value(n, f"c{n % 1200}") for n in range(1500)]
        outcomes = await round.submit_many(updates, return_exceptions=True)
        await round.seal()
        return outcomes, await round.result("dense")

    outcomes, result = run(server.target, scenario)
    counted = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, AlreadyCountedError)]
    assert len(counted) == 1200
    assert len(refused) == 300
    assert {receipt.contributor for receipt in counted} == {f"c{n}" for n in range(1200)}
    assert [receipt.contributor for receipt in outcomes[300:1200]] == [
        f"c{n}" for n in range(300, 1200)
    ]
    assert result["n"].sum() == 1200


def test_an_update_that_stands_in_the_list_twice_is_counted_once(server):
    async def scenario(client):
        round = await client.create_round([TensorSpec("n", [20_000], "i64")])
        same = one_value(7, "twice", "the-same")
        receipts = await round.submit_many([one_value(1, "a"), same, one_value(2, "b"), same])
        assert (await round.info()).contributors == 3
        return receipts

    receipts = run(server.target, scenario)
    assert receipts[1].sequence == receipts[3].sequence
    assert sorted([receipts[1].duplicate, receipts[3].duplicate]) == [False, True]


def test_many_small_updates_survive_a_broken_connection(server):
    proxy = FlakyProxy(server.port, cut_after_bytes=1_000_000)

    async def scenario(client):
        async with Client(proxy.target) as unlucky:
            round = await client.create_round([TensorSpec("one", [2000, 512])])
            updates = [
                Update({"one": ([n], np.ones((1, 512), np.float32), [2000, 512])}, f"c{n}")
                for n in range(2000)
            ]
            receipts = await unlucky.round(round.name).submit_many(updates, encoding="coo.raw")
            await round.seal()
            return receipts, (await round.result("dense"))["one"]

    receipts, sums = run(server.target, scenario)
    proxy.close()
    assert proxy.connections >= 2
    assert sorted(receipt.sequence for receipt in receipts) == list(range(1, 2001))
    assert (sums == 1).all()


def test_an_iterable_that_fails_leaves_no_update_under_way(own_server):
    server = own_server()

    def updates():
        yield Update({"n": ([0], np.array([1]), [10])}, "c0")
        server.pause()
        for number in range(1, 10):
            yield Update({"n": ([0], np.array([1]), [10])}, f"c{number}")
        raise LookupError("the caller's own")

    async def scenario(client):
        round = await client.create_round([TensorSpec("n", [10], "i64")])
        with pytest.raises(LookupError):
            await round.submit_many(updates())
        names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
        return [name for name in names if "ManyUpdates" in name]

    assert run(server.target, scenario) == []


def test_a_client_may_be_made_before_its_event_loop(server):
    client = Client(server.target)

    async def scenario():
        async with client:
            return await client.info()

    assert asyncio.run(scenario()).version


def test_a_client_of_another_event_loop_says_so(server):
    client = Client(server.target)

    async def scenario():
        return await client.info()

    asyncio.run(scenario())
    with pytest.raises(SparseAggError) as caught:
        asyncio.run(scenario())
    assert caught.value.reason == "OTHER_EVENT_LOOP"


def test_no_answer_in_time_says_of_whom(own_server):
    server = own_server()

    async def scenario(client):
        await client.info()
        server.pause()
        await client.info()

    with pytest.raises(DeadlineExceededError, match=f"no answer from {server.target} in time"):
        run(server.target, scenario, timeout=0.1)
