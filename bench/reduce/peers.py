#!/usr/bin/python3
"""What a Python programmer would use instead: one library's way on one case, in a process of its own.

    bench/reduce/peers.py list
    bench/reduce/peers.py run PEER CASE_FILE --threads 2 --json FILE

`run` needs the library; bench/reduce/peers_venv.py makes a virtual environment with all of them. The entries lie in
memory as the library wants them before the clock starts, multiplied by their weights; it stops when the library's
result is complete, in whatever order of rows the library leaves it. None of them sums exactly.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from ways import PEERS, Peer

_WARM_UP_ENTRIES = 10_000
_SECONDS_MAX = 25  # no further repetition after it


def set_threads(library: str, threads: int) -> str:
    """Imports the library with a number of threads; its version."""
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "POLARS_MAX_THREADS",
    ):
        os.environ[name] = str(threads)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    module = __import__(library)
    if library == "torch":
        module.set_num_threads(threads)
    if library == "tensorflow":
        module.config.threading.set_intra_op_parallelism_threads(threads)
        module.config.threading.set_inter_op_parallelism_threads(threads)
    return module.__version__


def status_bytes(key: str) -> int:
    """VmRSS or VmHWM of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


def repetitions_for(values: int) -> int:
    """As bench/reduce/contest.cc: rounds times repetitions, at least."""
    if values <= 200_000:
        return 21
    return 5 if values <= 2_000_000 else 3 if values <= 30_000_000 else 1


def measure(peer: Peer, path: Path, threads: int) -> dict:
    """The row of a peer; {"skipped": why} where it cannot do the case."""
    row = {"contender": peer.name, "own": False, "threads": threads, "form": "batch"}
    try:
        # When memory runs out, this process ends and no other.
        Path("/proc/self/oom_score_adj").write_text("1000")
        row["version"] = set_threads(peer.module, threads)
        import case_reader

        before = status_bytes("VmRSS")
        updates = case_reader.read(path)
        why_not = peer.why_not(updates)
        if why_not:
            return {**row, "skipped": why_not}
        peer.run(peer.prepare(updates.clipped(_WARM_UP_ENTRIES)))
        prepared = peer.prepare(updates)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        seconds: list[float] = []
        nnz = 0
        while len(seconds) < repetitions_for(updates.values.size) and sum(seconds) < _SECONDS_MAX:
            begin = time.perf_counter()
            result = peer.run(prepared)
            seconds.append(time.perf_counter() - begin)
            nnz = peer.nnz_of(result)
            del result
    except ImportError as error:
        return {**row, "skipped": f"{peer.module} is not installed: {error}"}
    except MemoryError:
        return {**row, "skipped": "not enough memory"}
    except Exception as error:
        # Whatever a library says to a case that it cannot do is the row's content.
        return {**row, "skipped": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    median = statistics.median(seconds)
    return {
        **row,
        "seconds": median,
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
        "runs": seconds,
        "ns_entry": median * 1e9 / updates.entries,
        "peak_bytes": max(0, status_bytes("VmHWM") - before),
        "input_bytes": updates.input_bytes,
        "nnz": nnz,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="names, and whether each takes threads")
    running = commands.add_parser("run", help="measure one")
    running.add_argument("peer", choices=[peer.name for peer in PEERS])
    running.add_argument("case", type=Path)
    running.add_argument("--threads", type=int, default=1)
    running.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.command == "list":
        for peer in PEERS:
            print(peer.name, "(threads)" if peer.threaded else "")
        return 0
    peer = next(p for p in PEERS if p.name == options.peer)
    row = measure(peer, options.case, options.threads)
    text = json.dumps(row)
    if options.json:
        options.json.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
