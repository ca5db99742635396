"""Worker processes, and a worker's work by hand, for the tests of tasks."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from sparseagg import Client, Task, TensorSpec
from task_worker import ROWS

WORKER = Path(__file__).with_name("task_worker.py")
SPECS = [TensorSpec("t", [ROWS], "f32", sparse_dim=1, op="sum")]
_SECONDS_MAX = 60


class Workers:
    """Processes that work. A context manager, which kills them."""

    def __init__(self, address: str, number: int, pool: str = "pool") -> None:
        self._address = address
        self._pool = pool
        self._processes: list[subprocess.Popen] = []
        self._names = 0
        self._number = number

    def __enter__(self) -> Workers:
        for _ in range(self._number):
            self.add()
        return self

    def __exit__(self, *_: object) -> None:
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.wait()

    def add(self) -> None:
        """Starts another one."""
        self._names += 1
        command = [sys.executable, str(WORKER), self._address, f"worker-{self._names}", self._pool]
        self._processes.append(subprocess.Popen(command))

    def kill_one(self) -> None:
        """Kills one at random."""
        victim = self._processes.pop(random.randrange(len(self._processes)))
        assert victim.poll() is None, "a worker ended by itself"
        victim.kill()
        victim.wait()


def acquire(client: Client, number: int = 1, worker: str = "by-hand") -> list[Task]:
    """Returns this number of tasks of the pool, as soon as they are there."""
    tasks: list[Task] = []
    deadline = time.monotonic() + _SECONDS_MAX
    while len(tasks) < number:
        assert time.monotonic() < deadline, f"{len(tasks)} of {number} tasks came"
        tasks += client.tasks.acquire(worker, "pool", tasks_max=number - len(tasks)).tasks
        if len(tasks) < number:
            threading.Event().wait(0.02)
    return tasks
