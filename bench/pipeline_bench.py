#!/usr/bin/env python3
"""Rounds a second of `Client.pipeline` with 1, 2 and 4 rounds prepared, where training takes as long as aggregation.

    PYTHONPATH=python python3 bench/pipeline_bench.py SERVER --json FILE [--quick]

Workers are processes, one for each task of a round: each acquires a task, waits for the time of training, submits an update of
random rows, and completes the task. Waiting stands for the training of a remote device, which uses none of the server's
processors. The owner reads each result and makes a step of Adam with it.

Training time is calibrated: it is the median time of an aggregation without training, from the seal of a round (its last update
is counted) until the owner has made its step. `period_s` is the time of a round, from the step of number `prepared`, when
the pipeline is full, to the last one; `times` is the rate over that with 1 prepared in the same turn. `result_s` is the
time from the seal to the step in that run, which includes the wait for the rounds before it.

A worker without a task asks again after 20 ms, sooner than the server proposes: otherwise a pipeline with 1 would be
charged for the pace of its workers' polls, too. Needs python3-grpcio, python3-numpy and python3-protobuf.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from crowd_bench import Server
from sparseagg import AlreadyCountedError, Client, RoundNotOpenError, TaskFencedError, TensorSpec

POOL = "bench"
POLL_SECONDS = 0.02
PREPARED = (1, 2, 4)
NO_LONGER_WANTED = (AlreadyCountedError, RoundNotOpenError, TaskFencedError)


class Shape:
    """The tensor of a round, and how many of its rows a worker touches."""

    def __init__(self, rows: int, width: int, touched: int) -> None:
        self.rows, self.width, self.touched = rows, width, touched
        self.spec = TensorSpec("emb", [rows, width], op="weighted_mean")

    def update(self, seed: int) -> dict:
        random = np.random.default_rng(seed)
        rows = np.sort(random.choice(self.rows, self.touched, replace=False))
        values = random.standard_normal((self.touched, self.width), np.float32)
        return {"emb": (rows, values, [self.rows, self.width])}


def work(address: str, name: str, shape: Shape) -> None:
    """Works until the server is gone or the process is ended."""
    update = shape.update(int(name))
    with Client(address) as client:
        while True:
            tasks = client.tasks.acquire(name, POOL).tasks
            if not tasks:
                time.sleep(POLL_SECONDS)
                continue
            (task,) = tasks
            time.sleep(float(task.payload))
            try:
                receipt = client.round(task.round).submit(
                    update, contributor=task.contributor, encoding="coo.raw"
                )
                client.tasks.complete(task.lease, receipt)
            except NO_LONGER_WANTED:
                pass


class Adam:
    """The owner's step: a model, and two moments for each value."""

    def __init__(self, shape: Shape) -> None:
        self._model, self._first, self._second = (
            np.zeros((shape.rows, shape.width), np.float32) for _ in range(3)
        )

    def step(self, gradient) -> None:
        rows, values = gradient.indices.ravel(), gradient.values
        first = self._first[rows] * np.float32(0.9) + values * np.float32(0.1)
        second = self._second[rows] * np.float32(0.999) + values * values * np.float32(0.001)
        self._first[rows], self._second[rows] = first, second
        self._model[rows] -= np.float32(0.01) * first / (np.sqrt(second) + np.float32(1e-8))


class Owner:
    """Runs pipelines on one server."""

    def __init__(self, client: Client, shape: Shape, goal: int) -> None:
        self._client, self._shape, self._goal = client, shape, goal
        self._optimizer = Adam(shape)

    def run(self, prepared: int, rounds: int, train_seconds: float) -> tuple[float, list[float]]:
        """Returns the time of a round in a full pipeline, and the times from seal to step, in seconds."""
        steps, results = [], []
        with self._client.pipeline(
            [self._shape.spec],
            pool=POOL,
            goal=self._goal,
            rounds=rounds,
            prepared=prepared,
            payload=f"{train_seconds:.6f}".encode(),
            durability="memory",
        ) as pipeline:
            for done in pipeline:
                if done.result.manifest.contributors != self._goal:
                    raise SystemExit(f"{done.round.name} has another number of contributors")
                self._optimizer.step(done.result["emb"])
                steps.append(time.monotonic())
                sealed = done.round.info().seal_time.timestamp()
                results.append(time.time() - sealed)
        return (steps[-1] - steps[prepared - 1]) / (rounds - prepared), results


def measure(owner: Owner, rounds: int, turns: int) -> list[dict]:
    owner.run(1, 3, 0.0)  # makes threads and memory
    train = statistics.median(owner.run(1, 5, 0.0)[1])
    print(f"training takes {train:.3f} s, as an aggregation without it", flush=True)
    found: dict[int, list[tuple[float, float]]] = {prepared: [] for prepared in PREPARED}
    for turn in range(turns):
        for prepared in PREPARED if turn % 2 == 0 else PREPARED[::-1]:
            period, results = owner.run(prepared, rounds + prepared, train)
            found[prepared].append((period, statistics.median(results)))
            print(f"{prepared} prepared: a round every {period:.3f} s", flush=True)
    return [
        {
            "prepared": prepared,
            "period_s": statistics.median(period for period, _ in runs),
            "rounds_per_s": 1 / statistics.median(period for period, _ in runs),
            "times": statistics.median(
                one / period for (one, _), (period, _) in zip(found[1], runs)
            ),
            "train_s": train,
            "result_s": statistics.median(result for _, result in runs),
        }
        for prepared, runs in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="a third of the rounds, one turn")
    parser.add_argument("--goal", type=int, default=8, help="workers, and updates of a round")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--touched", type=int, default=50_000, help="rows of an update")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shape = Shape(arguments.rows, arguments.width, arguments.touched)
    if arguments.worker is not None:
        work(arguments.server, arguments.worker, shape)
        return
    rounds, turns = (4, 1) if arguments.quick else (12, 3)
    workers = []
    with tempfile.TemporaryDirectory(dir=arguments.json.resolve().parent) as folder:
        os.environ.setdefault("SPARSEAGG_LOG_LEVEL", "warning")  # each round has six lines
        server = Server(pathlib.Path(arguments.server), pathlib.Path(folder))
        try:
            sizes = [f"--{name}={getattr(shape, name)}" for name in ("rows", "width", "touched")]
            for number in range(arguments.goal):
                command = [sys.executable, __file__, server.address, f"--worker={number}", *sizes]
                workers.append(subprocess.Popen(command))
            with Client(server.address) as client:
                rows = measure(Owner(client, shape, arguments.goal), rounds, turns)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
            server.stop()
    print(json.dumps(rows), flush=True)
    of_round = {name: getattr(shape, name) for name in ("rows", "width", "touched")}
    report = {
        "benchmark": "pipeline",
        "tables": {"pipeline": rows, "round": [{"workers": arguments.goal, **of_round}]},
    }
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
