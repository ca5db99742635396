"""Rolling restarts under load: a server that is stopped and started again, over and over, while `sparseagg bench` and clients
in Python send updates; the servers of a tree one after the other, as a rolling update of Kubernetes does.

Usage: restart_test.py SPARSEAGG       no receipt may be lost, none counted twice, errors only those that say "try again"
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import numpy as np
from server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from sparseagg import Client, SparseTensor, TensorSpec
from sparseagg.errors import DeadlineExceededError, SparseAggError, UnavailableError

BINARY = sys.argv[1]
RESTARTS = int(os.environ.get("SPARSEAGG_RESTARTS", "5"))
SENDERS = 4
ROWS = 1000
SPEC = TensorSpec("t", [ROWS], "i64", sparse_dim=1)
BENCH_UPDATES_PER_S = 500
SECONDS_A_RESTART = 3  # of load
# What a stopping server, a broken connection and an absent server are called.
RETRYABLE = {"SERVER_DRAINING", "CONNECTION_LOST", "CONNECTION_CLOSED", "CANNOT_CONNECT"}


def start_bench(target: str) -> subprocess.Popen:
    """A load that takes a while whatever the server does, and checks the sum at its end."""
    updates = BENCH_UPDATES_PER_S * SECONDS_A_RESTART * RESTARTS
    return subprocess.Popen(
        [
            *[BINARY, "bench", "--server", target, "--json", "--durability=durable"],
            *["--concurrency=8", "--nnz=200", "--warm-up=0", "--attempts=30"],
            *[f"--rate={BENCH_UPDATES_PER_S}", f"--updates={updates}"],
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Sender(threading.Thread):
    """One client that sends updates of one entry, and remembers its receipts."""

    def __init__(self, target: str, number: int, done: threading.Event) -> None:
        super().__init__()
        self.rows: list[int] = []  # of the receipts
        self.problem = ""
        self._target = target
        self._number = number
        self._done = done

    def run(self) -> None:
        with Client(self._target) as client:
            handle = client.round("rounds/load")
            while not self._done.is_set():
                row = (self._number * 7919 + len(self.rows)) % ROWS
                contributor = f"c{self._number}-{len(self.rows)}"
                tensor = SparseTensor([row], np.int64([1]), [ROWS])
                try:
                    handle.submit({"t": tensor}, contributor=contributor, update_id="u")
                except (UnavailableError, DeadlineExceededError):
                    continue  # after the client's own attempts; the same update again
                except SparseAggError as error:
                    self.problem = f"{contributor}: {error!r}"
                    return
                self.rows.append(row)


class RestartTest(unittest.TestCase):
    """One server."""

    def start_servers(self) -> list[Server]:
        """The servers, that for clients first."""
        return [self.start_server()]

    def start_server(self, *flags: str) -> Server:
        server = Server(BINARY, *flags)
        self.addCleanup(server.kill)
        return server

    def setUp(self) -> None:
        servers = self.start_servers()
        self.server = servers[0]
        with Client(self.server.target) as client:
            client.create_round([SPEC], round_id="load")
        done = threading.Event()
        self.senders = [Sender(self.server.target, i, done) for i in range(SENDERS)]
        for sender in self.senders:
            sender.start()
        bench = start_bench(self.server.target)
        self.addCleanup(bench.kill)
        self.codes, self.seconds = [], []
        in_turns = itertools.cycle(reversed(servers))  # the order of a StatefulSet, the root last
        while bench.poll() is None:
            time.sleep(1)
            begin = time.monotonic()
            self.codes.append(next(in_turns).restart())
            self.seconds.append(time.monotonic() - begin)
        self.bench_out, self.bench_errors = bench.communicate()
        self.bench_code = bench.returncode
        done.set()
        for sender in self.senders:
            sender.join()

    def test_loses_and_repeats_nothing(self) -> None:
        self.assertEqual(self.codes, [0] * len(self.codes))
        self.assertGreaterEqual(len(self.codes), RESTARTS)
        self.check_bench()
        self.check_senders()
        print(f"{len(self.codes)} restarts, {max(self.seconds):.1f} s at most", flush=True)
        self.assertEqual(self.server.stop(), 0)

    def check_bench(self) -> None:
        self.assertEqual(self.bench_code, 0, self.bench_errors)
        [level] = json.loads(self.bench_out)["levels"]
        # The exact sum of all its updates, and as many contributors as it has receipts.
        self.assertTrue(level["sum_is_exact"])
        self.assertTrue(level["retries"], "the load did not notice the restarts")
        self.assertLessEqual(set(level["retries"]), RETRYABLE)
        print(
            f"sparseagg bench: {level['updates']} receipts, retries {level['retries']}", flush=True
        )

    def check_senders(self) -> None:
        self.assertEqual([sender.problem for sender in self.senders if sender.problem], [])
        rows = np.concatenate([sender.rows for sender in self.senders])
        with Client(self.server.target) as client:
            handle = client.round("rounds/load")
            handle.seal()
            result = handle.result()["t"]
            got = np.zeros(ROWS, np.int64)
            got[result.indices.ravel()] = result.values.ravel()
            self.assertTrue(
                (got == np.bincount(rows, minlength=ROWS)).all(),
                "the result is not what the receipts say",
            )
            self.assertEqual(handle.info().contributors, len(rows))
        self.assertGreater(len(rows), RESTARTS * 50)
        print(f"Python: {len(rows)} receipts", flush=True)


class TreeRestartTest(RestartTest):
    """A root and three leaves."""

    def start_servers(self) -> list[Server]:
        leaves = [self.start_server() for _ in range(3)]
        names = ",".join(f"leaf-{number}={leaf.target}" for number, leaf in enumerate(leaves))
        return [self.start_server("--leaves", names), *leaves]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
