"""Workers are killed at random, and the server with them: every contributor is counted once, every task is completed
once, and nothing is lost.

SPARSEAGG_TASKS (40) and SPARSEAGG_WORKERS (3) are the numbers of tasks and of workers at a time.
"""

from __future__ import annotations

import os

import numpy as np
from sparseagg import Client, NewTaskGroup
from task_worker import PATIENCE, ROWS
from workers import SPECS, Workers

TASKS = int(os.environ.get("SPARSEAGG_TASKS", "40"))
WORKERS = int(os.environ.get("SPARSEAGG_WORKERS", "3"))
# Tasks that end between two kills of a worker, and kills of workers between two of the server.
TASKS_A_KILL = max(TASKS // 12, 1)
KILLS_A_KILL = 5


def test_whoever_dies_every_task_is_done_once(own_server, tmp_path):
    running = own_server("--data-dir", str(tmp_path / "data"))
    client = Client(running.target, **PATIENCE)
    round = client.create_round(SPECS, round_id="r")
    (group,) = client.tasks.create(
        NewTaskGroup("pool", round, count=TASKS, attempts_max=1000, lease=1, group_id="g"),
        request_id="once",
    )
    assert group.tasks == TASKS

    kills = 0
    with Workers(running.target, WORKERS) as workers:
        while group.completed < TASKS:
            seen = group.completed
            while group.completed < min(seen + TASKS_A_KILL, TASKS):
                group = client.tasks.wait(group, after_revision=group.revision)
            workers.kill_one()
            kills += 1
            if kills % KILLS_A_KILL == 0:
                running.kill()
                running.start()
            workers.add()

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
