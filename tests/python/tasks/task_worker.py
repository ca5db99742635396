"""A worker without state: acquires tasks, sends the update of each, completes it. Any call is repeated while there is no
server. It ends when it is killed, or with its parent.

Usage: task_worker.py ADDRESS NAME POOL
"""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
from sparseagg import (
    AlreadyCountedError,
    Client,
    NotFoundError,
    RetryPolicy,
    RoundNotOpenError,
    Task,
    TaskFencedError,
)

ROWS = 10
FAIL = b"fail"  # a payload
# How long a call goes on without a server.
PATIENCE = {
    "timeout": 600.0,
    "retry": RetryPolicy(initial_delay=0.05, max_delay=0.2, connect_timeout=600.0),
}
# An update may have been counted under an earlier lease, and a round may have gone on without it.
NO_LONGER_WANTED = (AlreadyCountedError, RoundNotOpenError, NotFoundError, TaskFencedError)


def update_of(task: Task) -> dict:
    """One entry in the row of the task's number: what the payload says, or 1."""
    number = int(task.name.rpartition("/")[2])
    values = np.float32([float(task.payload or 1)])
    return {"t": (np.array([number % ROWS]), values, [ROWS])}


def work_on(client: Client, task: Task) -> None:
    """Does a task that was acquired."""
    if task.payload == FAIL:
        client.tasks.fail(task.lease, "the payload says so", retryable=False)
        return
    try:
        receipt = client.round(task.round).submit(
            update_of(task), contributor=task.contributor, update_id=f"of-{task.lease.token}"
        )
        client.tasks.complete(task.lease, receipt)
    except NO_LONGER_WANTED:
        pass


def work(address: str, name: str, pool: str) -> None:
    """Works until the parent is gone."""
    parent = os.getppid()
    never = threading.Event()
    with Client(address, **PATIENCE) as client:
        while os.getppid() == parent:
            acquired = client.tasks.acquire(name, pool)
            for task in acquired.tasks:
                work_on(client, task)
            never.wait(acquired.pause())


if __name__ == "__main__":
    work(*sys.argv[1:])
