"""Workers are killed at random, and the server with them: every contributor is counted once, every task is completed
once, and nothing is lost.

SPARSEAGG_TASKS (40) and SPARSEAGG_WORKERS (3) are the numbers of tasks and of workers at a time.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
from google.protobuf import duration_pb2
from sparseagg import Client, TensorSpec
from sparseagg._proto import tasks_pb2
from task_worker import ROWS, Server

TASKS = int(os.environ.get("SPARSEAGG_TASKS", "40"))
WORKERS = int(os.environ.get("SPARSEAGG_WORKERS", "3"))
WORKER = Path(__file__).with_name("task_worker.py")
# Tasks that end between two kills of a worker, and kills of workers between two of the server.
TASKS_A_KILL = max(TASKS // 12, 1)
KILLS_A_KILL = 5


class Workers:
    """Processes that work; a killed one is replaced."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._processes: list[subprocess.Popen] = []
        self._names = 0

    def add(self) -> None:
        self._names += 1
        command = [sys.executable, str(WORKER), self._address, f"worker-{self._names}"]
        self._processes.append(subprocess.Popen(command))

    def kill_one(self) -> None:
        victim = self._processes.pop(random.randrange(len(self._processes)))
        assert victim.poll() is None, "a worker ended by itself"
        victim.kill()
        victim.wait()

    def kill_all(self) -> None:
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.wait()


def wait_for(server: Server, after_revision: int) -> tasks_pb2.TaskGroup:
    request = tasks_pb2.WaitTasksRequest(
        group="taskgroups/g",
        after_revision=after_revision,
        timeout=duration_pb2.Duration(seconds=5),
    )
    return server.call("TaskService/WaitTasks", request, tasks_pb2.TaskGroup)


def test_whoever_dies_every_task_is_done_once(own_server, tmp_path):
    running = own_server("--data-dir", str(tmp_path / "data"))
    server = Server(running.target)
    client = Client(running.target)
    round = client.create_round(
        [TensorSpec("t", [ROWS], "f32", sparse_dim=1, op="sum")], round_id="r"
    )
    spec = tasks_pb2.TaskGroupSpec(
        group_id="g", pool="pool", round="rounds/r", count=TASKS, attempts_max=1000,
        lease=duration_pb2.Duration(seconds=1)
    )  # fmt: skip
    created = server.call(
        "TaskService/CreateTasks",
        tasks_pb2.CreateTasksRequest(groups=[spec], request_id="once"),
        tasks_pb2.CreateTasksResponse,
    )
    assert created.groups[0].tasks == TASKS

    workers = Workers(running.target)
    try:
        for _ in range(WORKERS):
            workers.add()
        group = created.groups[0]
        kills = 0
        while group.completed < TASKS:
            seen = group.completed
            while group.completed < min(seen + TASKS_A_KILL, TASKS):
                group = wait_for(server, group.revision)
            workers.kill_one()
            kills += 1
            if kills % KILLS_A_KILL == 0:
                running.kill()
                running.start()
            workers.add()
    finally:
        workers.kill_all()

    print(
        f"{TASKS} tasks, {kills} killed workers, {kills // KILLS_A_KILL} killed servers, {group.leases} leases"
    )
    assert (group.completed, group.failed, group.cancelled) == (TASKS, 0, 0)
    assert group.leases >= TASKS
    round.seal()
    result = round.result()
    assert result.manifest.contributors == TASKS
    expected = np.bincount(np.arange(1, TASKS + 1) % ROWS, minlength=ROWS)
    np.testing.assert_array_equal(result["t"].to_dense(), expected)
