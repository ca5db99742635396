"""`sparseagg.worker.run` in this process, on a real server: what becomes of a task."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from sparseagg import Client, InvalidArgumentError, Update, worker
from sparseagg.worker import LeasedTask, TaskCancelledError
from worker_functions import ROWS, entry_of
from worker_tasks import SPEC, Work, sums


@pytest.fixture
def run(server):
    """`worker.run` on the shared server; without a task left it ends at once."""

    def run_here(function, pools, **options):
        return worker.run(function, pools, server.target, **{"idle_timeout": 0, **options})

    return run_here


def counts(report):
    return (report.completed, report.failed, report.handed_back, report.abandoned)


def test_tasks_are_done_and_counted(client, run):
    there = Work(client, count=12)
    report = run(entry_of, there.pool)
    assert counts(report) == (12, 0, 0, 0)
    assert report.ended_by == "IDLE"
    assert {there.task(n).state for n in range(1, 13)} == {"COMPLETED"}
    assert there.sums() == (sums(12), 12)


def test_the_function_sees_its_task(client, run):
    model = client.create_round([SPEC])
    model.submit({"t": ([3], np.float32([7]), [ROWS])}, contributor="owner")
    model.seal()
    there = Work(client, contributors=["phone-7"], payload=model.name.encode(), attempts_max=5)
    seen = []

    def function(task):
        seen.append(task)
        result = task.client.round(task.payload.decode()).result()
        return task.update({"t": result["t"]}, weight=3)

    assert run(function, [there.pool]).completed == 1
    (task,) = seen
    assert isinstance(task, LeasedTask)
    assert task.name == f"{there.group.name}/tasks/1"
    assert task.contributor == "phone-7"
    assert task.update_id == f"lease-{task.lease.token}"
    assert task.round.name == there.round.name
    assert (task.info.pool, task.info.attempts, task.info.attempts_max) == (there.pool, 1, 5)
    assert not task.cancelled
    expected = [0.0] * ROWS
    expected[3] = 21.0
    assert there.sums() == (expected, 1)


def test_what_a_function_may_return(client, run):
    there = Work(client, count=4)

    def function(task):
        tensors = entry_of(task)
        number = int(task.name[-1])
        if number == 1:
            return tensors
        if number == 2:
            return task.update(tensors)
        if number == 3:
            return Update(tensors, task.contributor, update_id="of-the-function")
        return task.round.submit(tensors, contributor=task.contributor)

    assert run(function, there.pool).completed == 4
    assert there.sums() == (sums(4), 4)


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (None, "the function returned None"),
        (Update({}, "someone-else"), 'an update of contributor "someone-else"'),
        ({"t": ([ROWS], np.float32([1]), [ROWS])}, 'tensor "t"'),
        ({"u": ([1], np.float32([1]), [ROWS])}, '"u"'),
    ],
)
def test_what_is_no_update_of_the_task_fails_it(client, run, returned, why):
    there = Work(client, attempts_max=1)
    assert counts(run(lambda task: returned, there.pool, tasks_max=1)) == (0, 1, 0, 0)
    task = there.task()
    assert (task.state, task.end_reason) == ("FAILED", "ATTEMPTS_EXHAUSTED")
    assert why in task.last_failure


def test_an_exception_fails_the_attempt_and_another_one_follows(client, run, caplog):
    there = Work(client)
    attempts = []

    def function(task):
        attempts.append(task.info.attempts)
        if len(attempts) == 1:
            raise ValueError("no data\nin this place")
        return entry_of(task)

    assert counts(run(function, there.pool)) == (1, 1, 0, 0)
    assert attempts == [1, 2]
    assert "attempt 1 of 3 failed: ValueError: no data ..." in caplog.text
    assert "Traceback" in caplog.text
    assert there.task().last_failure == "ValueError: no data ..."
    assert there.sums() == (sums(1), 1)


def test_a_long_reason_is_cut(client, run):
    there = Work(client, attempts_max=1)

    def function(task):
        raise RuntimeError("ü" * 2000)

    assert run(function, there.pool, tasks_max=1).failed == 1
    reason = there.task().last_failure
    assert reason.startswith("RuntimeError: üü") and 998 <= len(reason.encode()) <= 1000


@pytest.mark.parametrize("kinds", [LookupError, [TypeError, LookupError]])
def test_what_no_worker_can_do_is_not_tried_again(client, run, kinds):
    there = Work(client, count=2)

    def function(task):
        raise KeyError("user 7")

    assert run(function, there.pool, not_retryable=kinds, tasks_max=1).failed == 1
    task = there.task()
    assert (task.state, task.end_reason, task.attempts) == ("FAILED", "NOT_RETRYABLE", 1)


def test_a_function_that_ends_the_process_hands_its_task_back(client, run):
    there = Work(client)

    def function(task):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run(function, there.pool)
    task = there.task()
    assert (task.state, task.attempts, task.leases) == ("AVAILABLE", 0, 1)


def test_a_task_that_its_owner_cancels_is_abandoned(client, run):
    there = Work(client, count=2, lease=1)
    looks = threading.Event()  # nobody sets it

    def function(task):
        if task.name.endswith("/1"):
            client.tasks.cancel(task.name)
            while True:
                task.raise_if_cancelled()
                looks.wait(0.01)
        return entry_of(task)

    assert counts(run(function, there.pool)) == (1, 0, 0, 1)
    assert [there.task(n).state for n in (1, 2)] == ["CANCELLED", "COMPLETED"]
    assert there.sums()[1] == 1


def test_what_comes_after_a_cancellation_is_not_submitted(client, run):
    there = Work(client, lease=1)
    looks = threading.Event()

    def function(task):
        client.tasks.cancel(task.name)
        while not task.cancelled:
            looks.wait(0.01)
        with pytest.raises(TaskCancelledError, match="has ended; the task is CANCELLED") as raised:
            task.raise_if_cancelled()
        assert raised.value.reason == "TASK_FENCED"
        return entry_of(task)

    assert counts(run(function, there.pool)) == (0, 0, 0, 1)
    assert there.round.info().contributors == 0


def test_a_closed_round_ends_the_attempt(client, run):
    there = Work(client, count=2)

    def function(task):
        there.round.seal()
        return entry_of(task)

    assert counts(run(function, there.pool)) == (0, 0, 0, 1)
    assert {there.task(n).end_reason for n in (1, 2)} == {"ROUND_CLOSED"}


def test_an_update_that_was_counted_before_completes_the_task(client, run):
    there = Work(client)

    def function(task):
        there.round.submit(entry_of(task), contributor=task.contributor, update_id="earlier")
        return entry_of(task)

    assert counts(run(function, there.pool)) == (1, 0, 0, 0)
    assert there.task().state == "COMPLETED"
    assert there.sums() == (sums(1), 1)


def test_the_lease_is_renewed_while_the_function_computes(server, client, run):
    """In Python, so that it holds the GIL most of the time."""
    there = Work(client, lease=2)
    renewals = []

    def function(task):
        with Client(server.target) as other:
            left = task.lease.time_left
            while len(renewals) < 2 and not task.cancelled:
                sum(i * i for i in range(20_000))
                now = other.tasks.get(task.name).lease
                assert now is not None and now.token == task.lease.token
                if now.time_left > left:
                    renewals.append(now.time_left)
                left = now.time_left
        return entry_of(task)

    assert counts(run(function, there.pool)) == (1, 0, 0, 0)
    assert len(renewals) == 2
    assert there.task().leases == 1


def test_a_restart_of_the_server_in_between(own_server, tmp_path):
    running = own_server("--data-dir", str(tmp_path / "data"))
    with Client(running.target) as client:
        there = Work(client, count=3)

        def function(task):
            running.kill()
            running.start()
            return entry_of(task)

        report = worker.run(function, there.pool, running.target, idle_timeout=0)
        assert counts(report) == (3, 0, 0, 0)
        assert {there.task(n).leases for n in (1, 2, 3)} == {1}
        assert there.sums() == (sums(3), 3)


def test_pools_are_preferred_in_their_order_and_capabilities_are_told(client, run):
    second, first = Work(client), Work(client)
    able = Work(client, required_capabilities=["gpu"])
    seen = []

    def function(task):
        seen.append(task.info.pool)
        return entry_of(task)

    run(function, [first.pool, second.pool, able.pool])
    assert seen == [first.pool, second.pool]
    run(function, able.pool, capabilities=["gpu"])
    assert seen[2:] == [able.pool]


def test_the_name_is_that_of_the_process_unless_one_is_given(client, run):
    there = Work(client, count=2)
    run(entry_of, there.pool, tasks_max=1)
    run(entry_of, there.pool, name="phone-1/app")
    assert f"/{os.getpid()}-" in there.task(1).worker
    assert there.task(2).worker == "phone-1/app"


def test_outside_the_main_thread_it_works_without_signals(client, run):
    there = Work(client, count=2)
    reports = []
    thread = threading.Thread(target=lambda: reports.append(run(entry_of, there.pool)))
    thread.start()
    thread.join()
    assert counts(reports[0]) == (2, 0, 0, 0)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"function": 7}, "7, which cannot be called"),
        ({"not_retryable": [7]}, "not_retryable has 7"),
        ({"not_retryable": SystemExit}, "SystemExit"),
        ({"tasks_max": 0}, "tasks_max is 0"),
        ({"idle_timeout": "soon"}, "idle_timeout"),
        ({"encoding": "zip"}, "zip"),
        ({"client_options": ["timeout"]}, "client_options"),
        ({"pools": []}, "pools"),
        ({"name": "two words"}, "two words"),
    ],
)
def test_wrong_arguments_are_refused_at_once(run, options, why):
    given = {"function": entry_of, "pools": "none", **options}
    with pytest.raises(InvalidArgumentError, match=why):
        run(given.pop("function"), given.pop("pools"), **given)
