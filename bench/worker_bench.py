#!/usr/bin/env python3
"""What workers cost that wait for tasks: processor time of a worker, and of the server for it.

    PYTHONPATH=python python3 bench/worker_bench.py SERVER --json FILE [--seconds N] [--workers N...]

Workers are processes, `python -m sparseagg.worker`, of a server without tasks. They ask as often as the server lets them. Times
begin when all of them have asked for a while, and are given for an hour. `server_cpu_s` is the server's beyond that without
workers, for all workers together. Processor time is what a busy machine changes least. Linux alone has the files it is read from.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from crowd_bench import Server

WARM_UP_SECONDS = 5.0
HOUR = 3600.0


def cpu_seconds(process_id: int) -> float:
    """Of all threads, in nanoseconds as the scheduler counts them: /proc/PID/stat has hundredths of a second."""
    threads = pathlib.Path(f"/proc/{process_id}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def memory_mb(process_id: int) -> float:
    status = pathlib.Path(f"/proc/{process_id}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def start_workers(server: Server, number: int) -> list[subprocess.Popen]:
    command = [sys.executable, "-m", "sparseagg.worker", "builtins:print", "--pool", "none"]
    command += ["--log-level", "warning", server.address]
    return [subprocess.Popen(command) for _ in range(number)]


def measure(server: Server, workers: int, seconds: float) -> dict:
    processes = start_workers(server, workers)
    ids = [process.pid for process in processes]
    try:
        time.sleep(WARM_UP_SECONDS + workers * 0.5)
        before, server_before = [cpu_seconds(one) for one in ids], cpu_seconds(server.process_id)
        begin = time.monotonic()
        time.sleep(seconds)
        elapsed = time.monotonic() - begin
        used = [cpu_seconds(one) - was for one, was in zip(ids, before)]
        server_used = cpu_seconds(server.process_id) - server_before
        return {
            "workers": workers,
            "seconds": elapsed,
            "worker_cpu_s": HOUR * sum(used) / elapsed / workers if workers else 0.0,
            "worker_memory_mb": max(map(memory_mb, ids), default=0.0),
            "server_cpu_s": HOUR * server_used / elapsed,
        }
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8])
    arguments = parser.parse_args()
    rows: list[dict] = []
    with tempfile.TemporaryDirectory(dir=arguments.json.resolve().parent) as folder:
        server = Server(arguments.server, pathlib.Path(folder))
        try:
            idle = measure(server, 0, arguments.seconds)["server_cpu_s"]
            for workers in arguments.workers:
                row = measure(server, workers, arguments.seconds)
                row["server_cpu_s"] -= idle
                rows.append({**row, "server_idle_cpu_s": idle})
                print(json.dumps(rows[-1]), flush=True)
        finally:
            server.stop()
    report = {"benchmark": "worker", "tables": {"waiting": rows}}
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
