"""`Client.tasks`, against the real server."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest
from conftest import Server
from sparseagg import (
    AlreadyExistsError,
    Client,
    DeadlineExceededError,
    InvalidArgumentError,
    NewTaskGroup,
    NotFoundError,
    RoundNotOpenError,
    SparseAggError,
    TaskFencedError,
    TaskLease,
    TaskState,
    aio,
)
from support.flaky_proxy import FlakyProxy
from task_worker import update_of
from workers import SPECS, acquire


@pytest.fixture
def client(own_server):
    """A client of a server without other tasks."""
    with Client(own_server().target) as connection:
        yield connection


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """A client of a server with the round "r", and without tasks: for what changes nothing."""
    running = Server(tmp_path_factory.mktemp("refusing"))
    running.start()
    with Client(running.target) as connection:
        connection.create_round(SPECS, "r")
        yield connection
    running.kill()


def new_group(client, **options):
    """A group of tasks for a round of its own."""
    options = {"count": 2, "group_id": "g", **options}
    (group,) = client.tasks.create(NewTaskGroup("pool", client.create_round(SPECS), **options))
    return group


def submit(client, task):
    """The receipt of the task's update."""
    return client.round(task.round).submit(update_of(task), contributor=task.contributor)


def test_a_group_has_what_was_asked_for(client):
    round = client.create_round(SPECS, goal=10)
    first, second = client.tasks.create(
        [
            NewTaskGroup(
                "pool", round, percent_of_goal=130, payload=b"model 7", lease=90, attempts_max=5,
                required_capabilities=["gpu"], deadline=timedelta(hours=1), group_id="first",
            ),
            NewTaskGroup("other", round.name, contributors=["phone-1", "phone-2"]),
        ]
    )  # fmt: skip
    assert (first.name, first.pool, first.round) == ("taskgroups/first", "pool", round.name)
    assert (first.tasks, first.available, first.leased, first.revision) == (13, 13, 0, 1)
    assert not first.finished and first.durability == "memory"
    assert first.deadline - first.create_time == timedelta(hours=1)
    assert (second.pool, second.tasks, second.deadline) == ("other", 2, None)
    task = client.tasks.get("first/13")
    assert task == client.tasks.get(task) == client.tasks.get(task.name)
    assert task.name == "taskgroups/first/tasks/13"
    assert (task.payload, task.contributor) == (b"model 7", "first/13")
    assert (task.state, task.lease, task.worker) == (TaskState.AVAILABLE, None, "")
    assert (task.attempts, task.attempts_max, task.leases) == (0, 5, 0)
    assert [task.contributor for task in client.tasks.list(second)] == ["phone-1", "phone-2"]
    # Only a worker with the capability gets it.
    assert client.tasks.acquire("w", ["pool"]).tasks == ()
    (task,) = client.tasks.acquire("w", ["pool"], capabilities=["cpu", "gpu"]).tasks
    assert task.lease.duration == 90 and 80 < task.lease.time_left <= 90


def test_a_worker_completes_a_task_by_its_receipt(client):
    group = new_group(client, payload=b"3")
    (task,) = acquire(client)
    assert (task.name, task.worker, task.payload) == ("taskgroups/g/tasks/1", "by-hand", b"3")
    assert client.tasks.get(task).lease == task.lease
    with pytest.raises(SparseAggError) as early:
        other = client.create_round(SPECS).submit({}, contributor=task.contributor)
        client.tasks.complete(task.lease, dataclasses.replace(other, round=task.round))
    assert early.value.reason == "UPDATE_NOT_COUNTED"
    receipt = submit(client, task)
    with pytest.raises(InvalidArgumentError) as forged:
        client.tasks.complete(task.lease, dataclasses.replace(receipt, digest=bytes(32)))
    assert forged.value.reason == "RECEIPT_MISMATCH"
    done = client.tasks.complete(task.lease, receipt)
    assert done.state is TaskState.COMPLETED and done.end_time is not None
    assert client.tasks.complete(task.lease, receipt) == done, "its answer may have been lost"
    group = client.tasks.group(group)
    assert (group.completed, group.available, group.leases) == (1, 1, 1)


def test_a_lease_that_has_ended_is_fenced(client):
    new_group(client, count=1)
    (task,) = acquire(client)
    client.tasks.hand_back(task.lease)
    (again,) = acquire(client, worker="another")
    assert again.lease.token > task.lease.token and again.lease != task.lease
    assert again.attempts == 1, "the lease that was handed back is none"
    receipt = submit(client, again)
    for call in (
        lambda: client.tasks.complete(task.lease, receipt),
        lambda: client.tasks.fail(task.lease),
        lambda: client.tasks.hand_back(task.lease),
    ):
        with pytest.raises(TaskFencedError, match="abandon it") as fenced:
            call()
        assert fenced.value.reason == "TASK_FENCED" and fenced.value.metadata["state"] == "LEASED"
    unknown = TaskLease("taskgroups/g/tasks/2", 1)
    renewed, fenced, missing = client.tasks.renew([again.lease, task.lease, unknown])
    assert renewed == again.lease and renewed.duration == 60
    assert isinstance(fenced, TaskFencedError) and isinstance(missing, NotFoundError)
    assert client.tasks.renew(again.lease) == (again.lease,)


def test_a_failed_task_is_given_again_until_it_may_not_be(client):
    new_group(client, count=2, attempts_max=2)
    first, second = acquire(client, 2)
    assert client.tasks.fail(first.lease, "no memory").state is TaskState.AVAILABLE
    assert client.tasks.get("g/1").last_failure == "no memory"
    over = client.tasks.fail(second.lease, "no such model", retryable=False)
    assert (over.state, over.end_reason) == (TaskState.FAILED, "NOT_RETRYABLE")
    (first,) = acquire(client)
    over = client.tasks.fail(first.lease, "no memory")
    assert (over.state, over.attempts, over.end_reason) == ("FAILED", 2, "ATTEMPTS_EXHAUSTED")
    assert client.tasks.wait("g").failed == 2


def test_wait_and_watch_tell_how_a_group_ends(client):
    group = new_group(client, count=3)
    with pytest.raises(
        DeadlineExceededError, match="3 of 3 tasks of taskgroups/g are not finished"
    ):
        client.tasks.wait("g", timeout=0)
    tasks = acquire(client, 3)
    seen = []
    for group in client.tasks.watch("g"):
        seen.append((group.completed, group.cancelled))
        if tasks:
            task = tasks.pop()
            client.tasks.complete(task.lease, submit(client, task))
    assert seen == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert client.tasks.wait(group, timeout=0) == group and group.finished
    assert client.tasks.wait(group, after_revision=1) == group


def test_cancel_ends_tasks_and_groups(client):
    group = new_group(client, count=5)
    (task,) = acquire(client)
    assert client.tasks.cancel(task) == 1
    with pytest.raises(NotFoundError):
        client.tasks.cancel([group, "taskgroups/none"])
    assert client.tasks.group("g").cancelled == 1, "with an unknown name nothing changes"
    assert client.tasks.cancel("g") == 4
    assert [one.end_reason for one in client.tasks.list("g")] == ["REQUESTED"] * 5
    assert isinstance(client.tasks.renew(task.lease)[0], TaskFencedError)


def test_list_finds_tasks_over_pages(client):
    new_group(client, count=5)
    new_group(client, count=2, group_id="h", payload=b"x")
    client.tasks.complete((task := acquire(client)[0]).lease, submit(client, task))
    assert [task.name[len("taskgroups/") :] for task in client.tasks.list(page_size=2)] == [
        *("g/tasks/1", "g/tasks/2", "g/tasks/3", "g/tasks/4", "g/tasks/5", "h/tasks/1", "h/tasks/2")
    ]
    assert len(list(client.tasks.list("g", state=TaskState.AVAILABLE, page_size=3))) == 4
    assert [task.state for task in client.tasks.list(state="COMPLETED")] == [TaskState.COMPLETED]
    assert list(client.tasks.list(pool="none")) == []
    assert {task.payload for task in client.tasks.list("h")} == {b""}


def test_pages_without_tasks_do_not_end_a_list(own_server):
    target = own_server().target
    with Client(target) as client:
        new_group(client, count=70_000)
        client.tasks.cancel("g/70000")
        (last,) = client.tasks.list(state="CANCELLED")
    assert last.name == "taskgroups/g/tasks/70000"

    async def list_async():
        async with aio.Client(target) as other:
            return [task.name async for task in other.tasks.list(state="CANCELLED")]

    assert asyncio.run(list_async()) == [last.name]


def test_a_late_repetition_of_a_call_has_no_second_effect(client):
    new_group(client, count=3)
    first = client.tasks.acquire("w", "pool", request_id="once")
    client.tasks.fail(first.tasks[0].lease, "no memory")
    assert client.tasks.acquire("w", "pool", request_id="once").tasks == ()
    other = client.tasks.acquire("v", "pool", tasks_max=3)
    assert len(other.tasks) == 3, "the task is leased again"
    with pytest.raises(TaskFencedError):
        client.tasks.fail(first.tasks[0].lease, "no memory")


def test_a_round_that_ends_ends_its_tasks(client):
    group = new_group(client)
    (task,) = acquire(client)
    client.round(group.round).seal()
    assert client.tasks.wait(group).cancelled == 2
    assert client.tasks.get(task).end_reason == "ROUND_CLOSED"
    with pytest.raises(RoundNotOpenError, match="gets no tasks"):
        client.tasks.create(NewTaskGroup("pool", group.round, count=1))
    client.round(group.round).wait()
    client.round(group.round).delete()
    with pytest.raises(NotFoundError) as forgotten:
        while True:  # the server forgets it in a moment
            client.tasks.group(group)
    assert forgotten.value.reason == "TASK_GROUP_NOT_FOUND"


def test_creating_and_acquiring_again_is_the_same_call(client):
    round = client.create_round(SPECS)
    group = NewTaskGroup("pool", round, count=2)
    created = client.tasks.create(group, request_id="once")
    assert client.tasks.create(group, request_id="once") == created
    with pytest.raises(InvalidArgumentError) as conflict:
        client.tasks.create(dataclasses.replace(group, count=3), request_id="once")
    assert conflict.value.reason == "REQUEST_ID_CONFLICT"
    with pytest.raises(AlreadyExistsError) as taken:
        client.tasks.create(dataclasses.replace(group, group_id=created[0].name.split("/")[1]))
    assert taken.value.reason == "TASK_GROUP_EXISTS"
    (first,) = client.tasks.acquire("w", "pool", request_id="ask").tasks
    (again,) = client.tasks.acquire("w", "pool", request_id="ask").tasks
    assert again.lease == first.lease
    assert len(client.tasks.acquire("w", "pool", tasks_max=10).tasks) == 1


def test_lost_answers_change_nothing(own_server):
    with (
        closing(FlakyProxy(own_server().port, cut_after_bytes=2000, cuts=8)) as proxy,
        Client(proxy.target) as client,
    ):
        group = new_group(client, count=50, payload=b"1" + b" " * 200)
        for _ in range(50):
            (task,) = client.tasks.acquire("w", "pool").tasks
            client.tasks.complete(task.lease, submit(client, task))
        group = client.tasks.wait(group)
    assert (group.tasks, group.completed, group.leases) == (50, 50, 50)
    assert proxy.connections > 8


def test_who_finds_nothing_is_told_when_to_ask_again(client):
    answer = client.tasks.acquire("w", ["none", "pool"])
    assert answer.tasks == () and 0.5 <= answer.retry_min < answer.retry_max
    pauses = {answer.pause() for _ in range(20)}
    assert len(pauses) > 1
    assert answer.retry_min <= min(pauses) <= max(pauses) <= answer.retry_max


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (NewTaskGroup("pool", "r"), "group 1: give one of count"),
        (NewTaskGroup("pool", "r", count=1, contributors=["a"]), "group 1: give one of count"),
        (NewTaskGroup("pool", "r", count=1.5), "group 1: count: "),
        (NewTaskGroup("pool", "r", count=-1), "count is -1"),
        (NewTaskGroup("pool", "r", count=1, payload="text"), "payload is a str, not bytes"),
        (NewTaskGroup("pool", "r", contributors="ab"), "give a list"),
        (NewTaskGroup("pool", "r", count=1, lease="long"), "lease: 'long' is no number"),
        (NewTaskGroup("pool", "r", count=1, deadline=datetime(2030, 1, 1)), "has no time zone"),
        (NewTaskGroup("pool", 7, count=1), "the round's name is 7"),
        ("r", "group 1 is a str, not a NewTaskGroup"),
        # What the server refuses.
        (NewTaskGroup("Pool", "r", count=1), "Pool"),
        (NewTaskGroup("pool", "r", count=0), "count"),
        (NewTaskGroup("pool", "r", contributors=[]), "contributors"),
        (NewTaskGroup("pool", "r", count=1, lease=0.5), "lease"),
        (NewTaskGroup("pool", "r", percent_of_goal=100), "goal"),
        (NewTaskGroup("pool", "r", count=1, deadline=datetime(2020, 1, 1, tzinfo=timezone.utc)),
         "in the future"),
    ],
)  # fmt: skip
def test_a_group_that_cannot_be_is_refused_with_those_beside_it(refusing, group, message):
    with pytest.raises(InvalidArgumentError, match=message):
        refusing.tasks.create([NewTaskGroup("pool", "r", count=1), group])
    assert list(refusing.tasks.list()) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda tasks: tasks.acquire("w", []), "pools"),
        (lambda tasks: tasks.acquire("", "pool"), "worker"),
        (lambda tasks: tasks.acquire("w", "pool", tasks_max=0), "tasks_max is 0"),
        (lambda tasks: tasks.acquire("w", "pool", capabilities="gpu"), "give a list"),
        (lambda tasks: tasks.list(state="RUNNING"), "RUNNING"),
        (lambda tasks: tasks.renew(["g/1"]), "a str is no TaskLease"),
        (lambda tasks: tasks.complete(TaskLease("g/1", 1), "receipt"), "a str is no Receipt"),
        (lambda tasks: tasks.hand_back(None), "there is no lease"),
        (lambda tasks: tasks.wait("g", timeout="long"), "timeout is 'long'"),
        (lambda tasks: tasks.get(3), "the task's name is 3"),
    ],
)
def test_a_call_that_cannot_be_is_refused(refusing, call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        list(call(refusing.tasks))


def test_the_same_for_asyncio(own_server):
    async def scenario():
        async with aio.Client(own_server().target) as client:
            tasks = client.tasks
            round = await client.create_round(SPECS)
            (group,) = await tasks.create(NewTaskGroup("pool", round, count=4), request_id="once")
            assert (await tasks.acquire("w", "none")).pause() >= 0.5
            done, failed, handed, _ = (await tasks.acquire("w", "pool", tasks_max=4)).tasks
            assert await tasks.renew(handed.lease) == (handed.lease,)
            receipt = await round.submit(update_of(done), contributor=done.contributor)
            assert (await tasks.complete(done.lease, receipt)).state == "COMPLETED"
            assert (await tasks.fail(failed.lease, "why", retryable=False)).state == "FAILED"
            assert (await tasks.hand_back(handed.lease)).state == "AVAILABLE"
            with pytest.raises(TaskFencedError):
                await tasks.complete(handed.lease, receipt, timeout=5)
            assert (await tasks.get(failed)).last_failure == "why"
            assert (await tasks.group(group)).available == 1
            with pytest.raises(DeadlineExceededError):
                await tasks.wait(group, timeout=0)
            assert (await tasks.wait(group, after_revision=1)).revision == 3
            assert [task.state async for task in tasks.list(group, page_size=2)] == [
                *("COMPLETED", "FAILED", "AVAILABLE", "LEASED")
            ]
            seen = []
            async for state in tasks.watch(group):
                seen.append(state.cancelled)
                if not state.finished:
                    assert await tasks.cancel(group) == 2
            assert seen[0] == 0 and seen[-1] == 2

    asyncio.run(scenario())
