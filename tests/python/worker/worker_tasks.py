"""Tasks to work on, and workers in processes of their own: helpers of the tests of this folder."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
from sparseagg import NewTaskGroup, TensorSpec
from worker_functions import ROWS

SPEC = TensorSpec("t", [ROWS], "f32", sparse_dim=1, op="sum")


def sums(tasks):
    """What the entries of the tasks 1 to `tasks` sum to."""
    return np.bincount(np.arange(1, tasks + 1) % ROWS, minlength=ROWS).tolist()


class Work:
    """Tasks of a round of their own, in a pool of their own. options: of `NewTaskGroup`."""

    def __init__(self, client, **options):
        self.pool = options.pop("pool", f"pool-{uuid.uuid4().hex}")
        self.round = client.create_round([SPEC])
        if "contributors" not in options:
            options.setdefault("count", 1)
        (self.group,) = client.tasks.create(NewTaskGroup(self.pool, self.round, **options))
        self._client = client

    def task(self, number=1):
        """The task as it is now."""
        return self._client.tasks.get(f"{self.group.name}/tasks/{number}")

    def wait(self):
        """The group when all of its tasks are finished."""
        return self._client.tasks.wait(self.group, timeout=60)

    def sums(self):
        """The result of the round, and how many contributors it counts."""
        self.round.seal()
        result = self.round.result()
        return result["t"].to_dense().tolist(), result.manifest.contributors


def start_worker(function, pool, target, *options, **files):
    """Starts a worker; returns its process. files: where its output goes."""
    command = [sys.executable, "-m", "sparseagg.worker", f"worker_functions:{function}"]
    here = Path(__file__).parent
    return subprocess.Popen([*command, "--pool", pool, *options, target], cwd=here, **files)


class Worker:
    """The process of a worker, whose output is kept. At the end of the `with` block it is killed."""

    def __init__(self, function, pool, target, *options):
        files = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = start_worker(function, pool, target, *options, **files)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def says(self):
        """The next line of its standard output."""
        return self.process.stdout.readline()

    def logs(self, words):
        """Reads its log until a line has these words."""
        for line in self.process.stderr:
            if words in line:
                return line
        raise AssertionError(f"it has ended and did not log: {words}")

    def end(self, signal_number=None):
        """Sends a signal, and waits; returns the exit code and what it has said since."""
        if signal_number is not None:
            self.process.send_signal(signal_number)
        out, log = self.process.communicate(timeout=60)
        return self.process.returncode, out, log
