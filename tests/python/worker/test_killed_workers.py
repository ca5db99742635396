"""Workers are killed at random, and the server with them: every contributor is counted once, every task is completed once,
nothing is lost over a restart, and no dead worker holds a lease for longer than its time.

A small run by default. The sizes are in the environment; for one of two minutes on two cores:

    SPARSEAGG_TASKS=2000 SPARSEAGG_WORKERS=32 SPARSEAGG_TASK_SECONDS=1.5 SPARSEAGG_KILLS_A_SERVER=10 \
        python3 -m pytest -s tests/python/worker/test_killed_workers.py

A worker is killed every second, and the server after SPARSEAGG_KILLS_A_SERVER workers. With -s the numbers are printed.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import time

import pytest
from sparseagg import Client, DeadlineExceededError
from worker_tasks import Work, start_worker, sums

TASKS = int(os.environ.get("SPARSEAGG_TASKS", "24"))
WORKERS = int(os.environ.get("SPARSEAGG_WORKERS", "3"))
TASK_SECONDS = os.environ.get("SPARSEAGG_TASK_SECONDS", "0.5")
KILLS_A_SERVER = int(os.environ.get("SPARSEAGG_KILLS_A_SERVER", "2"))
KILL_SECONDS = 1.0
LEASE_SECONDS = 2.0
# What docs/tasks.md promises of a lease: when it ends for those that wait, and what a restart may add.
LATE_SECONDS, RESTART_SECONDS = 0.25, 5.0
# A call that a worker had sent when it was killed, or a call of ours, may reach a busy server that late.
ON_ITS_WAY_SECONDS = 2.0


class Workers:
    """Processes that work; each has a name and a log of its own."""

    def __init__(self, pool, target, folder):
        self._pool, self._target, self._folder = pool, target, folder
        self._processes = {}
        self._names = 0
        self.died = {}  # when, by name

    def add(self):
        self._names += 1
        name = f"worker-{self._names}"
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = start_worker(
                "train", self._pool, self._target, "--name", name, stderr=log
            )

    def kill_one(self):
        name = random.choice(sorted(self._processes))
        process = self._processes.pop(name)
        assert process.poll() is None, self._log(name)
        process.kill()
        process.wait()
        self.died[name] = time.monotonic()

    def stop(self):
        """Asks those that are left to end; each that has begun to work has to."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self._processes.items():
            code = process.wait(60)
            assert code == 0 or (code == -signal.SIGTERM and not self._log(name)), self._log(name)

    def kill_all(self):
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _log(self, name):
        return (self._folder / f"{name}.log").read_text()[-3000:]


class Store:
    """The server's tasks, looked at again and again. running: the server, which is killed now and then."""

    def __init__(self, running, client, group):
        self._running, self._client, self._group = running, client, group
        self._completed = {}
        self._outages = []  # (begin, end)
        self.longest_hold = 0.0  # of a worker that is dead

    def look(self, died):
        """Checks every task. died: when each dead worker died, by name."""
        begin = time.monotonic()
        # A restarted server tells the time of the creation in milliseconds.
        tasks = {
            task.name: dataclasses.replace(task, create_time=None)
            for task in self._client.tasks.list(self._group)
        }
        assert len(tasks) == TASKS
        for name, before in self._completed.items():
            assert tasks[name] == before, "a completed task has changed"
        self._completed = {name: task for name, task in tasks.items() if task.state == "COMPLETED"}
        for task in tasks.values():
            assert task.state in ("AVAILABLE", "LEASED", "COMPLETED")
            if task.state == "LEASED" and task.worker in died:
                self._check_hold(task, died[task.worker], begin)
        return tasks

    def _check_hold(self, task, death, now):
        """A dead worker holds the task. Time stands still for leases while the server is down."""
        outages = [(begin, end) for begin, end in self._outages if end > death]
        held = now - death - sum(end - max(begin, death) for begin, end in outages)
        self.longest_hold = max(self.longest_hold, held)
        limit = LEASE_SECONDS + LATE_SECONDS + ON_ITS_WAY_SECONDS + RESTART_SECONDS * len(outages)
        assert held <= limit, f"{task.name} is held by {task.worker}, dead for {held:.1f} s"

    def restart(self):
        begin = time.monotonic()
        self._running.kill()
        self._running.start()
        self._outages.append((begin, time.monotonic()))

    @property
    def restarts(self):
        return len(self._outages)


def is_finished(client, work):
    """Waits for the end of the last task, as long as a worker lives."""
    try:
        client.tasks.wait(work.group, timeout=KILL_SECONDS)
    except DeadlineExceededError:
        return False
    return True


@pytest.mark.parametrize("seed", [int(os.environ.get("SPARSEAGG_SEED", "7"))])
def test_whoever_dies_every_task_is_done_once(own_server, tmp_path, seed):
    random.seed(seed)
    running = own_server("--data-dir", str(tmp_path / "data"))
    client = Client(running.target)
    work = Work(
        client, count=TASKS, lease=LEASE_SECONDS, attempts_max=1000, payload=TASK_SECONDS.encode()
    )
    store = Store(running, client, work.group)
    workers = Workers(work.pool, running.target, tmp_path)
    begin = time.monotonic()
    try:
        for _ in range(WORKERS):
            workers.add()
        while not is_finished(client, work):
            store.look(workers.died)
            workers.kill_one()
            if len(workers.died) % KILLS_A_SERVER == 0:
                store.restart()
                store.look(workers.died)
            workers.add()
        seconds = time.monotonic() - begin
        tasks = store.look(workers.died).values()
        workers.stop()
    finally:
        workers.kill_all()

    group = client.tasks.group(work.group)
    assert (group.tasks, group.completed, group.failed, group.cancelled) == (TASKS, TASKS, 0, 0)
    assert {task.state for task in tasks} == {"COMPLETED"}
    assert store.restarts >= 1 and len(workers.died) >= KILLS_A_SERVER
    assert work.sums() == (sums(TASKS), TASKS)
    again = sum(task.leases > 1 for task in tasks)
    print(
        f"\n{TASKS} tasks, {WORKERS} workers, {seconds:.0f} s, seed {seed}: {len(workers.died)} workers and {store.restarts}"
        f" servers killed; {group.leases} acquisitions, {again} tasks acquired more than once, at most"
        f" {max(task.leases for task in tasks)} times; a dead worker held a task for {store.longest_hold:.1f} s at most,"
        f" lease {LEASE_SECONDS} s"
    )
