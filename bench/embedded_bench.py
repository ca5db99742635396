"""Measures sums in a Python process beside the C++ library's time for the same updates, and those of several threads at once.

    PYTHONPATH=FOLDER python3 bench/embedded_bench.py [--reduce-bench FILE] [--threads 8] --json FILE [--quick]

FOLDER holds the package with its native library, FILE is the program of bench/reduce. The library's time is that of its plan
"auto": staging, which copies the updates into its memory and checks them, and the reduction. Ours is the whole call, from a
list of numpy arrays to numpy arrays. Both run in turns, and of each the median counts.

--threads N lets N Python threads sum the same updates at once, each into a result of its own, in turns with one thread that
does as many sums. The back end itself uses every processor for a large sum, also where one thread calls it.

Needs python3-grpcio, python3-numpy and python3-protobuf.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from sparseagg import IN_PROCESS, sparse_sum

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "reduce"))
import cases

CASES = [
    cases.Case(10**7, 10**8, 100),
    cases.Case(10**7, 10**7, 100),
    cases.Case(10**7, 10**8, 10),
    cases.Case(10**7, 10**8, 100, "uniform", "shuffled"),
    cases.Case(4 * 10**6, 10**6, 100, "uniform", "sorted", 16),
]
QUICK = [cases.Case(10**6, 10**7, 10)]
# (updates, entries of each, sums of a turn)
CROWDED = [(10, 100, 4000), (10, 10**5, 80), (100, 10**5, 8)]


def updates_of(path):
    """The updates of a case (bench/reduce/case_file.h), in ordinary memory."""
    data = path.read_bytes()
    num_rows, width, contributors, entries = np.frombuffer(data, "<u8", 4, 8).tolist()
    offsets = np.frombuffer(data, "<u8", contributors + 1, cases.HEADER_BYTES).tolist()
    at = cases.HEADER_BYTES + 8 * (contributors + 1) + -(-4 * contributors // 8) * 8
    rows = np.frombuffer(data, "<i8", entries, at).copy()
    values = np.frombuffer(data, "<f4", entries * width, at + 8 * entries).copy()
    values = values.reshape((entries, width) if width > 1 else entries)
    shape = [num_rows, width] if width > 1 else [num_rows]
    return [(rows[a:b], values[a:b], shape) for a, b in zip(offsets, offsets[1:])]


def library_seconds(program, path, scratch):
    """(staging, reduction) by form."""
    command = [program, path, "--plans", "auto", "--no-peers", "--rounds", "1", "--json", scratch]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    rows = json.loads(scratch.read_text())["rows"]
    threads = max(row["threads"] for row in rows)
    return {
        row["form"]: (row["stage_seconds"], row["seconds"])
        for row in rows
        if row["threads"] == threads and row["contender"] == "cpu/auto"
    }


def measure(case, program, repetitions, folder):
    path, scratch = folder / "case", folder / "case.json"
    cases.make(case, path)
    updates = updates_of(path)
    sparse_sum(updates, target=IN_PROCESS)  # makes the threads
    own, theirs = [], []
    for _ in range(repetitions):
        begin = time.monotonic()
        total = sparse_sum(updates, target=IN_PROCESS)
        own.append(time.monotonic() - begin)
        del total
        theirs.append(library_seconds(program, path, scratch))
    for form in theirs[0]:
        stage, reduction = (
            statistics.median(each[form][part] for each in theirs) for part in (0, 1)
        )
        yield {
            "case": case.name,
            "library_form": form,
            "ms": 1e3 * statistics.median(own),
            "library_stage_ms": 1e3 * stage,
            "library_reduce_ms": 1e3 * reduction,
            "ratio": statistics.median(own) / (stage + reduction),
            "repetitions": repetitions,
        }


def sum_at_once(threads, updates, sums):
    """(seconds, processor seconds) of `sums` sums, shared out among the threads; all have the same bits."""
    results, ready = [], threading.Barrier(threads + 1)

    def work():
        ready.wait()
        for _ in range(sums // threads):
            result = sparse_sum(updates, target=IN_PROCESS)
        results.append((result.indices.tobytes(), result.values.tobytes()))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    begin, cpu_begin = time.monotonic(), time.process_time()
    ready.wait()
    for worker in workers:
        worker.join()
    taken = time.monotonic() - begin, time.process_time() - cpu_begin
    if len(results) != threads or len(set(results)) != 1:
        sys.exit(f"{len(results)} of {threads} threads have {len(set(results))} results")
    return taken


def measure_threads(threads, contributors, entries, sums, repetitions):
    random = np.random.default_rng(1)
    num_rows = 10 * contributors * entries
    updates = []
    for _ in range(contributors):
        rows = np.unique(random.integers(0, num_rows, entries))
        updates.append((rows, random.standard_normal(len(rows), dtype=np.float32), [num_rows]))
    sum_at_once(threads, updates, sums)  # makes the threads
    pairs = [
        [sum_at_once(count, updates, sums) for count in (1, threads)] for _ in range(repetitions)
    ]
    one, all_threads = (
        [statistics.median(part) / sums for part in zip(*each)] for each in zip(*pairs)
    )
    return {
        "updates": contributors,
        "entries": sum(len(rows) for rows, _, _ in updates),
        "threads": threads,
        "one_ms": 1e3 * one[0],
        "ms": 1e3 * all_threads[0],
        "one_cpu_ms": 1e3 * one[1],
        "cpu_ms": 1e3 * all_threads[1],
        "sums_a_second_to_one": statistics.median(a[0] / b[0] for a, b in pairs),
        "repetitions": repetitions,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reduce-bench", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, help="Python threads that sum at once")
    parser.add_argument("--quick", action="store_true", help="one case of 10^6 entries")
    arguments = parser.parse_args()
    report = {"benchmark": "embedded"}
    repetitions = 3 if arguments.quick else 7
    if arguments.reduce_bench:
        report["rows"] = []
        with tempfile.TemporaryDirectory(dir=arguments.json.parent) as name:
            for case in QUICK if arguments.quick else CASES:
                for row in measure(case, arguments.reduce_bench, repetitions, pathlib.Path(name)):
                    report["rows"].append(row)
                    print(json.dumps(row), flush=True)
    if arguments.threads:
        at_once = report.setdefault("tables", {}).setdefault("threads at once", [])
        for crowd in CROWDED[:2] if arguments.quick else CROWDED:
            at_once.append(measure_threads(arguments.threads, *crowd, repetitions))
            print(json.dumps(at_once[-1]), flush=True)
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
