"""`python -m sparseagg.worker`: workers in processes of their own, which get signals, and die."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sparseagg import Client, worker
from worker_functions import entry_of
from worker_tasks import Work, Worker, sums


def test_sigterm_hands_the_task_back(client, server):
    there = Work(client, lease=600)
    with Worker("clean_up", there.pool, server.target) as one:
        assert one.says() == f"has {there.group.name}/tasks/1\n"
        code, out, log = one.end(signal.SIGTERM)
    assert (code, out) == (0, "cleans up\n"), log
    assert "handed_back=1" in log and "ended_by='SIGTERM'" in log
    task = there.task()
    assert (task.state, task.attempts, task.leases) == ("AVAILABLE", 0, 1)


def test_a_signal_that_does_not_interrupt_a_wait_ends_it(client, server):
    there = Work(client, lease=600)
    with Worker("stopped_beside_a_wait", there.pool, server.target) as one:
        code, out, log = one.end()
    assert (code, out) == (0, f"has {there.group.name}/tasks/1\ncleans up\n"), log
    assert "handed_back=1" in log and "ended_by='SIGTERM'" in log


def test_an_update_that_the_function_returns_at_sigterm_is_submitted(client, server):
    there = Work(client, lease=600)
    with Worker("finish", there.pool, server.target) as one:
        one.says()
        code, _, log = one.end(signal.SIGTERM)
    assert code == 0, log
    assert "completed=1" in log and "ended_by='SIGTERM'" in log
    assert there.sums() == (sums(1), 1)


def test_sigterm_ends_a_worker_that_waits(client, server):
    there = Work(client)
    with Worker("entry_of", there.pool, server.target) as one:
        assert there.wait().completed == 1
        code, _, log = one.end(signal.SIGTERM)
    assert code == 0, log
    assert "completed=1" in log and "ended_by='SIGTERM'" in log


def test_a_server_that_is_not_there_is_waited_for(own_server):
    running = own_server()
    running.kill()
    with (
        Worker("entry_of", "pool", running.target) as one,
        Worker("entry_of", "pool", running.target) as other,
    ):
        other.logs("trying again")
        code, _, log = other.end(signal.SIGTERM)
        assert code == 0 and "ended_by='SIGTERM'" in log
        one.logs("trying again")
        running.start()
        with Client(running.target) as client:
            there = Work(client, pool="pool")
            assert there.wait().completed == 1


def test_what_a_killed_worker_had_is_done_by_another(client, server):
    there = Work(client, count=2, lease=1)
    with Worker("die", there.pool, server.target) as one:
        assert one.end()[0] == -signal.SIGKILL
    report = worker.run(entry_of, there.pool, server.target, tasks_max=2)
    assert report.completed == 2
    assert [(there.task(n).attempts, there.task(n).leases) for n in (1, 2)] == [(2, 2), (1, 1)]
    assert there.sums() == (sums(2), 2)


def test_an_update_counted_before_its_worker_died_is_not_sent_again(client, server):
    there = Work(client, lease=1)
    with Worker("die_after_the_receipt", there.pool, server.target) as one:
        assert one.end()[0] == -signal.SIGKILL
    group = there.wait()  # nobody else works
    assert (group.completed, group.leases) == (1, 1)
    assert there.sums() == (sums(1), 1)


def test_exceptions_that_are_not_retryable(client, server):
    there = Work(client, count=2)
    options = ("--not-retryable", "LookupError", "--tasks-max", "1")
    with Worker("fail", there.pool, server.target, *options) as one:
        code, _, log = one.end()
    assert code == 0
    assert "LookupError: no such user" in log
    assert (there.task().state, there.task().end_reason) == ("FAILED", "NOT_RETRYABLE")


def run_command(*arguments):
    command = [sys.executable, "-m", "sparseagg.worker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["worker_functions:entry_of"], 2, "--pool"),
        (["worker_functions:entry", "--pool", "p"], 2, "entry"),
        (["no_such_module:entry", "--pool", "p"], 2, "no_such_module"),
        (["entry", "--pool", "p"], 2, "entry is not MODULE:NAME"),
        (["worker_functions:ROWS", "--pool", "p"], 1, "10, which cannot be called"),
        (["worker_functions:die", "--pool", "p", "--not-retryable", "Error"], 2, "Error"),
    ],
)
def test_wrong_commands(arguments, code, why):
    done = run_command(*arguments)
    assert done.returncode == code
    assert why in done.stderr and "Traceback" not in done.stderr


def test_the_help_names_the_options():
    done = run_command("--help")
    assert done.returncode == 0
    for option in ("--pool", "--capability", "--name", "--not-retryable", "--tasks-max"):
        assert option in done.stdout
