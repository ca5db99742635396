"""Rolling restarts under load: a server that is stopped and started again, over and over, while clients send updates.

Usage: restart_test.py SPARSEAGG       no receipt may be lost, none counted twice, errors only those that say "try again"
"""

from __future__ import annotations

import os
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
SENDERS = 8
ROWS = 1000
SPEC = TensorSpec("t", [ROWS], "i64", sparse_dim=1)


class RestartTest(unittest.TestCase):
    def test_loses_and_repeats_nothing(self) -> None:
        server = Server(BINARY)
        done = threading.Event()
        sent: list[list[tuple[str, int]]] = [
            [] for _ in range(SENDERS)
        ]  # contributor and row of each receipt
        problems: list[str] = []

        def send(number: int) -> None:
            client = Client(server.target)
            handle = client.round("rounds/load")
            for i in range(1_000_000):
                if done.is_set():
                    return
                row = (number * 7919 + i) % ROWS
                contributor = f"c{number}-{i}"
                tensor = SparseTensor([row], np.int64([1]), [ROWS])
                while True:
                    try:
                        handle.submit({"t": tensor}, contributor=contributor, update_id="u")
                        break
                    except (UnavailableError, DeadlineExceededError):
                        continue  # after the client's own attempts; the same update again
                    except SparseAggError as error:
                        problems.append(f"{contributor}: {error!r}")
                        return
                sent[number].append((contributor, row))

        with Client(server.target) as client:
            client.create_round([SPEC], round_id="load")
        senders = [threading.Thread(target=send, args=(i,)) for i in range(SENDERS)]
        for thread in senders:
            thread.start()
        codes, times = [], []
        for _ in range(RESTARTS):
            time.sleep(1)
            begin = time.monotonic()
            codes.append(server.restart())
            times.append(time.monotonic() - begin)
        time.sleep(1)
        done.set()
        for thread in senders:
            thread.join()
        self.assertEqual(problems, [])
        self.assertEqual(codes, [0] * RESTARTS)

        with Client(server.target) as client:
            handle = client.round("rounds/load")
            handle.seal()
            result = handle.result()["t"]
            expected = np.zeros(ROWS, np.int64)
            count = 0
            for receipts in sent:
                for _, row in receipts:
                    expected[row] += 1
                    count += 1
            got = np.zeros(ROWS, np.int64)
            got[result.indices.ravel()] = result.values.ravel()
            self.assertTrue((got == expected).all(), "the result is not what the receipts say")
            self.assertEqual(handle.info().contributors, count)
        self.assertGreater(count, RESTARTS * 100)
        print(
            f"{RESTARTS} restarts, {count} receipts, unreachable for {max(times):.1f} s at most",
            flush=True,
        )
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
