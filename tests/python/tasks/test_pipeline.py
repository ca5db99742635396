"""`Client.pipeline`: rounds prepared ahead, with a real server and worker processes, or the work of a worker by hand."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sparseagg import (
    AlreadyExistsError,
    Client,
    InvalidArgumentError,
    RetryPolicy,
    RoundAbortedError,
    RoundLostError,
    SparseAggError,
    TaskFencedError,
    UnavailableError,
    aio,
)
from task_worker import FAIL, work_on
from workers import SPECS, Workers, acquire

OWNER = Path(__file__).with_name("pipeline_owner.py")
GOAL = 2


@pytest.fixture
def server(own_server, tmp_path):
    """A server without other rounds."""
    return own_server("--data-dir", str(tmp_path / "data"))


@pytest.fixture
def client(server):
    with Client(server.target) as connection:
        yield connection


@pytest.fixture
def beside():
    """A thread for the owner, while the test is the worker."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


def pipeline_of(client, **options):
    options = {"pool": "pool", "goal": GOAL, "payload": number_of, **options}
    return client.pipeline(SPECS, **options)


def number_of(number):
    return b"%d" % number


def total(done):
    """The sum over all entries of a round's result."""
    return done.result["t"].values.sum()


def names(client):
    return [info.name for info in client.rounds()]


def work(client, number=GOAL):
    """Does tasks as they come; their payloads."""
    tasks = acquire(client, number)
    for task in tasks:
        work_on(client, task)
    return [task.payload for task in tasks]


def test_results_come_in_order_and_nothing_is_left(server, client):
    made, ahead = [], []

    def payload(number):
        made.append(number)
        return number_of(number)

    results = []
    with (
        Workers(server.target, 2),
        pipeline_of(client, rounds=5, payload=payload, prepared=3, name="train") as pipeline,
    ):
        for done in pipeline:
            results.append((done.number, done.round.name, total(done), done.error))
            assert (done.group.tasks, done.group.completed) == (2, 2)
            ahead.append((max(made), names(client)))
    assert results == [(n, f"rounds/train-{n}", GOAL * n, None) for n in range(1, 6)]
    assert made == [1, 2, 3, 4, 5]
    # While the owner looks at a result, that round and the two after it are there.
    prepared = [range(1, 4), range(2, 5), range(3, 6), range(4, 6), range(5, 6)]
    assert ahead == [(each[-1], [f"rounds/train-{n}" for n in each]) for each in prepared]
    assert names(client) == []


def test_workers_have_the_next_round_before_this_one_ends(client, beside):
    made = []

    def payload(number):
        made.append(number)
        return number_of(number)

    with pipeline_of(client, payload=payload) as pipeline:
        first = beside(next, pipeline)
        tasks = acquire(client, 2 * GOAL)
        assert [task.payload for task in tasks] == [b"1", b"1", b"2", b"2"]
        for task in tasks[2:]:  # the later round is complete before the earlier one
            work_on(client, task)
        assert not first.done() and made == [1, 2]
        for task in tasks[:2]:
            work_on(client, task)
        assert total(first.result()) == GOAL and made == [1, 2]
        # The payload of round 3 may depend on the result of round 1, and on nothing later.
        second = pipeline.__next__()
        assert (second.number, total(second), made) == (2, 2 * GOAL, [1, 2, 3])


def test_with_one_prepared_nothing_is_ahead(client, beside):
    with pipeline_of(client, prepared=1, rounds=2) as pipeline:
        for number in (1, 2):
            result = beside(next, pipeline)
            assert work(client) == [number_of(number)] * GOAL
            assert total(result.result()) == GOAL * number
            assert client.tasks.acquire("w", "pool").tasks == ()
        assert list(pipeline) == []


def test_the_slowest_workers_are_not_waited_for(client, beside):
    with pipeline_of(client, percent_of_goal=150, rounds=1) as pipeline:
        result = beside(next, pipeline)
        slow, *others = acquire(client, 3)
        for task in others:
            work_on(client, task)
        done = result.result()
        assert (total(done), done.group.completed, done.group.cancelled) == (GOAL, 2, 1)
        assert isinstance(client.tasks.renew(slow.lease)[0], TaskFencedError)


def test_a_round_whose_tasks_fail_in_part_ends_below_its_goal(client, beside):
    with pipeline_of(client, rounds=1) as pipeline:
        result = beside(next, pipeline)
        failing, good = acquire(client, 2)
        client.tasks.fail(failing.lease, "no such model", retryable=False)
        work_on(client, good)
        done = result.result()
    assert (total(done), done.result.manifest.contributors) == (1, 1)
    assert (done.group.completed, done.group.failed) == (1, 1)


def failing_first(number):
    return FAIL if number == 1 else number_of(number)


def test_a_round_that_fails_raises_and_the_next_one_goes_on(client, beside):
    with pipeline_of(client, payload=failing_first, rounds=3) as pipeline:
        first = beside(next, pipeline)
        work(client)
        with pytest.raises(RoundAbortedError) as failed:
            first.result()
        assert failed.value.reason == "INSUFFICIENT_CONTRIBUTORS"
        assert "needs 1 updates" in failed.value.message
        assert "0 of the 2 tasks" in failed.value.message and "2 failed" in failed.value.message
        assert "the payload says so" in failed.value.message
        second = beside(next, pipeline)
        work(client)
        assert (second.result().number, total(second.result())) == (2, 2 * GOAL)
    assert names(client) == []


def test_a_round_that_fails_is_yielded_with_its_error(server, client):
    with (
        Workers(server.target, 2),
        pipeline_of(client, payload=failing_first, rounds=3, return_exceptions=True) as pipeline,
    ):
        first, *others = pipeline
    assert isinstance(first.error, RoundAbortedError)
    assert (first.number, first.result, first.group.failed) == (1, None, 2)
    assert [(done.number, total(done), done.error) for done in others] == [
        *((2, 2 * GOAL, None), (3, 3 * GOAL, None))
    ]


def test_a_round_that_somebody_aborts_fails(client, beside):
    with pipeline_of(client, name="train") as pipeline:
        first = beside(next, pipeline)
        acquire(client)
        client.round("train-1").abort()
        with pytest.raises(RoundAbortedError, match="train-1"):
            first.result()


def test_an_exception_in_the_body_leaves_nothing(client, beside):
    with pytest.raises(KeyError), pipeline_of(client) as pipeline:
        result = beside(next, pipeline)
        work(client)
        result.result()
        raise KeyError("of the body")
    assert names(client) == []


def test_a_payload_that_fails_leaves_nothing(client):
    def payload(number):
        return number_of(number) if number == 1 else number

    with pipeline_of(client, payload=payload) as pipeline:
        with pytest.raises(InvalidArgumentError, match="payload is a int, not bytes"):
            next(pipeline)
        assert names(client) == []


def test_leaving_the_loop_leaves_nothing_also_of_a_pipeline_with_a_name(client, beside):
    with pipeline_of(client, name="train") as pipeline:
        result = beside(next, pipeline)
        work(client)
        result.result()
    assert names(client) == []
    # The server does not give a name twice.
    with (
        pipeline_of(client, name="train", start=2) as pipeline,
        pytest.raises(AlreadyExistsError, match="rounds/train-2"),
    ):
        next(pipeline)


def test_keep_rounds_leaves_those_that_were_yielded(server, client):
    with (
        Workers(server.target, 1),
        pipeline_of(client, name="train", rounds=3, keep_rounds=True) as pipeline,
    ):
        for done in pipeline:
            if done.number == 2:
                break
    assert names(client) == ["rounds/train-1", "rounds/train-2"]
    assert client.round("train-1").result()["t"].values.sum() == GOAL


def test_an_exception_leaves_the_rounds_of_a_pipeline_with_a_name_to_the_next(client, beside):
    with pytest.raises(KeyError), pipeline_of(client, name="train", rounds=3) as pipeline:
        result = beside(next, pipeline)
        work(client)
        result.result()
        (counted,) = acquire(client)
        work_on(client, counted)
        raise KeyError("of the body")
    assert names(client) == ["rounds/train-1", "rounds/train-2"]

    def payload(number):
        return b"%d00" % number

    with pipeline_of(client, name="train", rounds=3, start=2, payload=payload) as pipeline:
        result = beside(next, pipeline)
        (task,) = acquire(client)
        assert task.payload == b"2", "the payload stays that of the round's creation"
        work_on(client, task)
        assert total(result.result()) == 2 * GOAL
        assert names(client) == ["rounds/train-2", "rounds/train-3"]
        result = beside(next, pipeline)
        assert work(client) == [b"300"] * GOAL
        assert (result.result().number, total(result.result())) == (3, 300 * GOAL)
        assert list(pipeline) == []
    assert names(client) == []


def test_rounds_that_were_opened_without_tasks_get_them(client, beside):
    """Their owner was killed between the two."""
    arguments = pipeline_of(client, name="train")._plan.round_arguments
    with Client(client.target) as earlier:
        earlier.create_round(**arguments(1))
    with pipeline_of(client, name="train", rounds=2) as pipeline:
        result = beside(next, pipeline)
        assert sorted(work(client, 2 * GOAL)) == [b"1", b"1", b"2", b"2"]
        assert [total(result.result()), *map(total, pipeline)] == [GOAL, 2 * GOAL]


def kill_owner(server, name):
    """The lines of an owner that is killed while it looks at the second result."""
    command = [sys.executable, str(OWNER), server.target, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        lines = [owner.stdout.readline().split() for _ in range(2)]
        owner.kill()
    return lines


@pytest.mark.parametrize("start", [2, 3])
def test_rounds_of_a_killed_owner_are_taken_up(server, client, start):
    """The owner may or may not have stored what it made of the second result."""
    with Workers(server.target, 2):
        lines = kill_owner(server, "train")
        assert [(number, float(sum)) for number, _, sum in lines] == [("1", 2.0), ("2", 4.0)]
        assert names(client) == ["rounds/train-2", "rounds/train-3"]
        with pipeline_of(client, name="train", rounds=5, start=start) as pipeline:
            results = [(done.number, total(done)) for done in pipeline]
    assert results == [(number, number * GOAL) for number in range(start, 6)]
    assert names(client) == []


def test_rounds_of_a_killed_owner_without_a_name_are_erased(server, client, caplog):
    with Workers(server.target, 2):
        lines = kill_owner(server, "")
        assert lines[1][1] in names(client)
        with pipeline_of(client, rounds=1) as pipeline:
            assert [total(done) for done in pipeline] == [GOAL]
    assert names(client) == []
    assert "which opened it, is gone" in caplog.text


def test_durable_rounds_outlive_the_server(server, client, beside):
    with pipeline_of(client, rounds=2) as pipeline:
        result = beside(next, pipeline)
        (before,) = acquire(client)
        work_on(client, before)
        server.kill()
        server.start()
        work(client, 1)
        assert total(result.result()) == GOAL
        result = beside(next, pipeline)
        assert work(client) == [b"2"] * GOAL
        assert total(result.result()) == 2 * GOAL


def test_rounds_in_memory_are_lost_with_the_server_and_new_ones_are_made(server, client, beside):
    with pipeline_of(client, durability="memory", return_exceptions=True, rounds=3) as pipeline:
        result = beside(next, pipeline)
        acquire(client)
        server.kill()
        server.start()
        lost = [result.result(), next(pipeline)]
        assert [done.number for done in lost] == [1, 2]
        assert all(isinstance(done.error, RoundLostError) for done in lost)
        result = beside(next, pipeline)
        work(client)
        assert (result.result().number, total(result.result())) == (3, 3 * GOAL)


def test_without_a_server_the_rounds_are_left(server, caplog):
    with (
        Client(server.target, retry=RetryPolicy(attempts=2)) as client,
        pytest.raises(UnavailableError),
        pipeline_of(client) as pipeline,
    ):
        pipeline._prepare()
        server.kill()
        next(pipeline)
    assert "left until their deadline" in caplog.text
    server.start()
    with Client(server.target) as client:
        assert len(names(client)) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": 0}, "goal is 0"),
        ({"prepared": 0}, "prepared is 0"),
        ({"prepared": 101}, "prepared is 101"),
        ({"rounds": -1}, "rounds is -1"),
        ({"start": 0, "name": "a"}, "start is 0"),
        ({"start": 2}, "with a name"),
        ({"payload": "text"}, "payload is a str"),
        ({"layout": "rows"}, "rows"),
        ({"name": 7}, "name is 7"),
    ],
)
def test_what_cannot_be_is_refused_at_once(options, message):
    with (
        Client("127.0.0.1:1") as client,  # nobody is asked
        pytest.raises(InvalidArgumentError, match=message),
    ):
        pipeline_of(client, **options)


def test_what_the_server_refuses_leaves_nothing(client):
    for options in ({"pool": "Pool"}, {"lease": 0.1}, {"percent_of_goal": 0}, {"deadline": -1}):
        with pytest.raises(SparseAggError), pipeline_of(client, **options) as pipeline:
            next(pipeline)
        assert names(client) == []


def test_a_pipeline_works_inside_of_its_block_alone(client):
    pipeline = pipeline_of(client)
    with pytest.raises(InvalidArgumentError, match="with"):
        next(pipeline)
    with pipeline_of(client, rounds=0) as pipeline:
        assert list(pipeline) == []
    with pytest.raises(InvalidArgumentError, match="with"):
        next(pipeline)


def test_the_same_for_asyncio(server):
    async def payload(number):
        return failing_first(number)

    async def scenario():
        results = []
        async with aio.Client(server.target) as client:
            async with client.pipeline(
                SPECS, pool="pool", goal=GOAL, payload=payload, rounds=3, return_exceptions=True
            ) as pipeline:
                async for done in pipeline:
                    results.append((done.number, done.error or total(done)))
                    ahead = [info.name async for info in client.rounds()]
                    assert len(ahead) == min(2, 4 - done.number)
            assert [info async for info in client.rounds()] == []
        return results

    with Workers(server.target, 2):
        first, *others = asyncio.run(scenario())
    assert isinstance(first[1], RoundAbortedError) and "the payload says so" in first[1].message
    assert others == [(2, 2 * GOAL), (3, 3 * GOAL)]


def test_asyncio_takes_the_rounds_of_a_name_up(server):
    options = {"pool": "pool", "goal": GOAL, "payload": b"3", "name": "train", "rounds": 2}

    async def first():
        async with (
            aio.Client(server.target) as client,
            client.pipeline(SPECS, **options) as pipeline,
        ):
            assert total(await pipeline.__anext__()) == 3 * GOAL
            raise KeyError("of the body")

    async def second():
        async with aio.Client(server.target) as client:
            async with client.pipeline(SPECS, start=2, **options) as pipeline:
                results = [total(done) async for done in pipeline]
            assert [info async for info in client.rounds()] == []
        return results

    with Workers(server.target, 2):
        with pytest.raises(KeyError):
            asyncio.run(first())
        assert asyncio.run(second()) == [3 * GOAL]
