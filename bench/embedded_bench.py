"""Measures sums in a Python process beside the C++ library's time for the same updates.

    PYTHONPATH=FOLDER python3 bench/embedded_bench.py --reduce-bench FILE --json FILE [--quick]

FOLDER holds the package with its native library, FILE is the program of bench/reduce. The library's time is that of its plan
"auto": staging, which copies the updates into its memory and checks them, and the reduction. Ours is the whole call, from a
list of numpy arrays to numpy arrays. Both run in turns, and of each the median counts. Needs python3-grpcio, python3-numpy and
python3-protobuf.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reduce-bench", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="one case of 10^6 entries")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.json.parent) as folder:
        for case in QUICK if arguments.quick else CASES:
            for row in measure(
                case, arguments.reduce_bench, 3 if arguments.quick else 7, pathlib.Path(folder)
            ):
                rows.append(row)
                print(json.dumps(row), flush=True)
    arguments.json.write_text(json.dumps({"benchmark": "embedded", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
