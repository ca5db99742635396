#!/usr/bin/env python3
"""What workers that wait for tasks cost a server, how evenly they ask, and how soon they have tasks that come.

    PYTHONPATH=python python3 bench/polls_bench.py SERVER --json FILE [--quick] [--pollers N] [--tasks N] [--seconds N]

`worker`: processes of `sparseagg.worker` at a server without tasks, as worker_bench.py measures them.

`waiting`: N simulated workers ask for tasks, of which there are none. Each comes back after a time that it draws from the window
of the last answer, as `sparseagg.worker` does. They are in two processes with two connections each, so that connections cost
nothing here. They begin evenly over twice the time in which the wanted rate serves each of them once. The seconds after that
count: `least`, `median` and `most` are polls of a second, `wanted` is what the server aims at (`task-polls-per-second`). `cpu_us`
is the server's processor time of a poll, `core_percent` that of a second, in percent of a core. `late_ms` is how much later than
it should a simulated worker asked, at most: where it is large, the machine was too slow for this program.

`tasks`: while they wait, an owner creates tasks of a round of this durability; a worker that gets one works until the end.
`seconds` is the time from the owner's call until the last task is leased, `polls` the calls of all workers until then.
Needs python3-grpcio, python3-numpy and python3-protobuf, and Python 3.11.
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import grpc.aio
from crowd_bench import Server
from sparseagg import Client, NewTaskGroup, TensorSpec
from sparseagg._proto import tasks_pb2
from worker_bench import measure as measure_workers
from worker_bench import memory_mb

ACQUIRE = "/sparseagg.v1.TaskService/AcquireTasks"
POOL = "bench"
PROCESSES = 2
CONNECTIONS = 2  # of a process
LEASE_SECONDS = 3600.0
SPEC = TensorSpec("t", [1000], "f32", sparse_dim=1)


class Pollers:
    """The simulated workers of one process. They count what happens in each second of the monotonic clock."""

    def __init__(self, address: str, numbers: range, begin_seconds: float) -> None:
        self._address, self._numbers, self._begin_seconds = address, numbers, begin_seconds
        self._polls: collections.Counter[int] = collections.Counter()
        self._late: collections.defaultdict[int, float] = collections.defaultdict(float)
        self._total = self._tasks = 0
        self._last_task = {"time": 0.0, "polls": 0}

    async def run(self) -> None:
        """Runs until the process is ended, or a call fails."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(self._address, options) for _ in range(CONNECTIONS)]
        self._acquire = [channel.unary_unary(ACQUIRE) for channel in channels]
        self._loop = asyncio.get_running_loop()
        begin = self._loop.time()
        async with asyncio.TaskGroup() as self._calls:
            for i, number in enumerate(self._numbers):
                self._ask_at(begin + self._begin_seconds * i / len(self._numbers), number)
            await self._report()

    def _ask_at(self, due: float, number: int) -> None:
        self._loop.call_at(due, lambda: self._calls.create_task(self._ask(due, number)))

    async def _ask(self, due: float, number: int) -> None:
        now = self._loop.time()
        self._late[int(now)] = max(self._late[int(now)], now - due)
        request = tasks_pb2.AcquireTasksRequest(worker=f"poller-{number}", pools=[POOL])
        request.request_id = f"{due:.6f}"
        acquire = self._acquire[number % CONNECTIONS]
        answer = tasks_pb2.AcquireTasksResponse.FromString(
            await acquire(request.SerializeToString())
        )
        now = self._loop.time()
        self._polls[int(now)] += 1
        self._total += 1
        if answer.tasks:
            self._tasks += len(answer.tasks)
            self._last_task = {"time": now, "polls": self._total}
            return
        shortest, longest = answer.retry.min.ToNanoseconds(), answer.retry.max.ToNanoseconds()
        self._ask_at(now + random.uniform(shortest, longest) / 1e9, number)

    async def _report(self) -> None:
        """Prints a line of each second, once it is over."""
        second = int(self._loop.time())
        while True:
            await asyncio.sleep(second + 1.05 - self._loop.time())
            late = self._late.pop(second, 0.0)
            line = {"second": second, "polls": self._polls.pop(second, 0), "late": late}
            line.update(total=self._total, tasks=self._tasks, last_task=self._last_task)
            print(json.dumps(line), flush=True)
            second += 1


class Crowd:
    """All simulated workers: processes, and what they have told."""

    def __init__(self, address: str, pollers: int, begin_seconds: float) -> None:
        command = [sys.executable, __file__, address, f"--begin-seconds={begin_seconds}"]
        self._lines: list[list[dict]] = [[] for _ in range(PROCESSES)]
        self._processes = []
        for i in range(PROCESSES):
            first, end = pollers * i // PROCESSES, pollers * (i + 1) // PROCESSES
            process = subprocess.Popen(
                [*command, f"--first={first}", f"--end={end}"], stdout=subprocess.PIPE, text=True
            )
            self._processes.append(process)
            threading.Thread(target=self._listen, args=(i,), daemon=True).start()

    def _listen(self, number: int) -> None:
        for line in self._processes[number].stdout or ():
            self._lines[number].append(json.loads(line))

    def close(self) -> None:
        """Ends all of them."""
        for process in self._processes:
            process.kill()
            process.wait()

    def has_begun(self) -> bool:
        """Returns whether all processes have told of a second."""
        self._check()
        return all(self._lines)

    def seconds(self, begin: float, end: float) -> list[dict]:
        """Polls and lateness of each whole second within a time, which has to be over."""
        wanted = range(int(begin) + 1, int(end))
        while any(not lines or lines[-1]["second"] < wanted[-1] for lines in self._lines):
            self._check()
            time.sleep(0.1)
        found = [{line["second"]: line for line in lines} for lines in self._lines]
        return [
            {
                "polls": sum(lines[second]["polls"] for lines in found),
                "late": max(lines[second]["late"] for lines in found),
            }
            for second in wanted
        ]

    def last(self) -> list[dict]:
        """The last line of each process."""
        self._check()
        return [lines[-1] for lines in self._lines]

    def _check(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                raise SystemExit(f"simulated workers ended with {process.returncode}")


class Measurement:
    """Processor time of the server and polls, from its making until `row`."""

    def __init__(self, server: Server, crowd: Crowd) -> None:
        self._server, self._crowd = server, crowd
        self._cpu, self.begin = server.cpu_seconds(), time.monotonic()

    def row(self) -> dict:
        """What happened until now."""
        cpu, end = self._server.cpu_seconds() - self._cpu, time.monotonic()
        seconds = self._crowd.seconds(self.begin, end)
        rates = [second["polls"] for second in seconds]
        polls = statistics.mean(rates) * (end - self.begin)
        return {
            "least": min(rates),
            "median": statistics.median(rates),
            "most": max(rates),
            "cpu_us": 1e6 * cpu / polls,
            "core_percent": 100 * cpu / (end - self.begin),
            "late_ms": 1e3 * max(second["late"] for second in seconds),
        }


def wait_for_workers(server: Server, seconds: float) -> list[dict]:
    """What worker_bench.py measures, for one worker."""
    idle = measure_workers(server, 0, seconds)["server_cpu_s"]
    row = measure_workers(server, 1, seconds)
    return [{**row, "server_cpu_s": row["server_cpu_s"] - idle, "server_idle_cpu_s": idle}]


def hand_out(server: Server, crowd: Crowd, client: Client, tasks: int, durability: str) -> dict:
    """Creates tasks, and waits until each is leased."""

    def leased() -> int:
        return sum(line["tasks"] for line in crowd.last())

    round_ = client.create_round([SPEC], durability=durability)
    before, polls_before = leased(), sum(line["total"] for line in crowd.last())
    measurement = Measurement(server, crowd)
    group = NewTaskGroup(POOL, round_, count=tasks, lease=LEASE_SECONDS)
    (created,) = client.tasks.create(group)
    create_seconds = time.monotonic() - measurement.begin
    while leased() < before + tasks:
        time.sleep(0.05)
    row = measurement.row()
    last = [line["last_task"] for line in crowd.last()]
    found = client.tasks.group(created)
    if (found.leased, found.leases) != (tasks, tasks):
        raise SystemExit(f"of {tasks} tasks, {found.leased} are leased, by {found.leases} leases")
    round_.abort()
    round_.delete()
    return {
        "durability": durability,
        "tasks": tasks,
        "create_seconds": create_seconds,
        "seconds": max(one["time"] for one in last) - measurement.begin,
        "polls": sum(one["polls"] for one in last) - polls_before,
        **row,
    }


def measure(server: Server, pollers: int, seconds: float, tasks: int) -> dict[str, list[dict]]:
    """The tables of simulated workers."""
    with Client(server.address) as client:
        wanted = client.info().limits["task-polls-per-second"]
        begin_seconds = 2 * pollers / wanted
        crowd = Crowd(server.address, pollers, begin_seconds)
        try:
            while not crowd.has_begun():
                time.sleep(0.1)
            time.sleep(begin_seconds)
            measurement = Measurement(server, crowd)
            time.sleep(seconds)
            waiting = {"pollers": pollers, "seconds": seconds, "wanted": wanted}
            waiting.update(measurement.row(), server_memory_mb=memory_mb(server.process_id))
            print(json.dumps(waiting), flush=True)
            rows = []
            for durability in ("memory", "durable"):
                rows.append(hand_out(server, crowd, client, tasks, durability))
                print(json.dumps(rows[-1]), flush=True)
        finally:
            crowd.close()
    return {"waiting": [waiting], "tasks": rows}


def parse_arguments() -> argparse.Namespace:
    """The options; `--help` shows them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the workers")
    parser.add_argument("--pollers", type=int, default=100_000)
    parser.add_argument("--tasks", type=int, default=20_000, help="of each durability")
    parser.add_argument("--seconds", type=float, default=200.0, help="of waiting")
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--begin-seconds", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.pollers, arguments.tasks, arguments.seconds = 5000, 1000, 20.0
    return arguments


def main() -> None:
    arguments = parse_arguments()
    if arguments.first is not None:
        numbers = range(arguments.first, arguments.end)
        asyncio.run(Pollers(arguments.server, numbers, arguments.begin_seconds).run())
        return
    os.environ.setdefault("SPARSEAGG_LOG_LEVEL", "warning")
    with tempfile.TemporaryDirectory(dir=arguments.json.resolve().parent) as folder:
        server = Server(pathlib.Path(arguments.server), pathlib.Path(folder))
        try:
            workers = wait_for_workers(server, 2.0 if arguments.quick else 60.0)
            print(json.dumps(workers), flush=True)
            sizes = (arguments.pollers, arguments.seconds, arguments.tasks)
            tables = {"worker": workers, **measure(server, *sizes)}
        finally:
            server.stop()
    report = {"benchmark": "polls", "tables": tables}
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
