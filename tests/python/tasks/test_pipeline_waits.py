"""What a pipeline notices while it waits for the tasks of a round."""

from __future__ import annotations

import asyncio

import pytest
import sparseagg
from sparseagg import Client, DeadlineExceededError, RoundAbortedError, aio
from workers import SPECS

OPTIONS = {"pool": "pool", "goal": 2, "payload": b"1"}


def never(*_arguments, **_options):
    """As the tasks of a round that the next start of the server may restore: they do not end when it fails."""
    raise DeadlineExceededError("2 of 2 tasks are not finished")


async def never_async(*_arguments, **_options):
    never()


def test_an_aborted_round_is_noticed_though_its_tasks_stay(server, monkeypatch):
    monkeypatch.setattr(sparseagg.Tasks, "wait", never)
    with (
        Client(server.target) as client,
        pytest.raises(RoundAbortedError),
        client.pipeline(SPECS, **OPTIONS) as pipeline,
    ):
        pipeline._prepare()
        pipeline._prepared[0].round.abort()
        next(pipeline)


def test_the_same_for_asyncio(server, monkeypatch):
    async def scenario():
        async with (
            aio.Client(server.target) as client,
            client.pipeline(SPECS, **OPTIONS) as pipeline,
        ):
            await pipeline._prepare()
            await pipeline._prepared[0].round.abort()
            await pipeline.__anext__()

    monkeypatch.setattr(aio.Tasks, "wait", never_async)
    with pytest.raises(RoundAbortedError):
        asyncio.run(scenario())
