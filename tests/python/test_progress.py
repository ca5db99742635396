"""How far a transfer is: functions that are told, and tqdm's bar where it is installed."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import sparseagg.aio
from sparseagg import TensorSpec, Update
from sparseagg._progress import Meter

ROWS = 100_000


def test_a_large_update_and_its_result_tell_how_far_they_are(client):
    round = client.create_round([TensorSpec("emb", [ROWS, 64])])
    sent, received = [], []
    update = (np.arange(ROWS), np.ones((ROWS, 64), np.float32), [ROWS, 64])
    round.submit(
        {"emb": update},
        contributor="a",
        encoding="coo.raw",  # packed, ones are too few bytes for chunks
        progress=lambda done, total: sent.append((done, total)),
    )
    round.seal()
    round.result(progress=lambda done, total: received.append((done, total)))
    round.delete()
    for steps in (sent, received):
        assert len(steps) > 10
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1] > ROWS * 64 * 4


def test_many_updates_count_bytes_of_an_unknown_total(client):
    round = client.create_round([TensorSpec("one", [100])])
    sent = []
    updates = [Update({"one": ([n], np.float32([1]), [100])}, f"c{n}") for n in range(5)]
    round.submit_many(updates, progress=lambda done, total: sent.append((done, total)))
    assert sent == [(8 * n, None) for n in range(1, 6)]


def test_what_is_sent_again_does_not_pass_the_total():
    seen = []
    meter = Meter(lambda done, total: seen.append(done), 10, "sending")
    for _ in range(3):
        meter.advance(4)
    assert seen == [4, 8, 10]


def test_true_shows_a_bar_where_tqdm_is_installed(capsys):
    pytest.importorskip("tqdm")
    with Meter(True, 10, "sending") as meter:
        meter.advance(10)
    assert "sending: 100%" in capsys.readouterr().err


def one_message(nnz):
    """An update that goes in one message."""
    return {"one": (np.arange(nnz), np.ones(nnz, np.float32), [100])}


@pytest.mark.parametrize("nnz", [0, 5])
def test_an_update_in_one_message_has_one_step(client, server, nnz):
    round = client.create_round([TensorSpec("one", [100])])
    steps = []

    def progress(done, total):
        steps.append((done, total))

    async def submit():
        async with sparseagg.aio.Client(server.target) as other:
            handle = other.round(round.name)
            await handle.submit(one_message(nnz), contributor="b", progress=progress)

    round.submit(one_message(nnz), contributor="a", progress=progress)
    asyncio.run(submit())
    assert steps == [(8 * nnz, 8 * nnz)] * 2


def large_update():
    """An update that goes in 26 chunks."""
    return {"emb": (np.arange(ROWS), np.ones((ROWS, 64), np.float32), [ROWS, 64])}


@pytest.mark.parametrize("step", [1, 5])
def test_what_a_progress_function_raises_ends_the_upload(client, server, step):
    round = client.create_round([TensorSpec("emb", [ROWS, 64])])
    calls = []

    def progress(done, total):
        calls.append(done)
        if len(calls) == step:
            raise KeyError("a bug of the caller's")

    async def submit():
        async with sparseagg.aio.Client(server.target) as other:
            handle = other.round(round.name)
            await handle.submit(
                large_update(), contributor="a", progress=progress, encoding="coo.raw"
            )

    with pytest.raises(KeyError, match="a bug"):
        asyncio.run(submit())
    assert len(calls) == step
    with pytest.raises(KeyError, match="a bug"):
        calls.clear()
        round.submit(large_update(), contributor="a", progress=progress, encoding="coo.raw")
    assert len(calls) == step
    assert round.info().contributors == 0
