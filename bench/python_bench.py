"""Measures what the Python package adds to numpy's own work, as ratios of processor times.

    PYTHONPATH=python python3 bench/python_bench.py --json FILE [--quick]

Needs python3-grpcio, python3-numpy and python3-protobuf.
"""

import argparse
import json
import pathlib
import statistics
import time

import numpy as np
from sparseagg import SparseTensor, flatten
from sparseagg._encode.encodings import EncodeOptions, encode_tensor
from sparseagg._encode.packed_indices import encode_rows

RANDOM = np.random.default_rng(11)
ENTRIES = 300_000


def rows_of_16(rows):
    values = np.ones((len(rows), 16), np.float32)
    return SparseTensor(rows, values, [2 * len(rows), 16])


def assign(tensor):
    dense = np.zeros(tensor.dense_shape, np.float32)
    dense[tensor.indices[:, 0]] = tensor.values


def contests():
    """(name, the package's work, the work of numpy or of a part of the package that it is compared with)."""
    ascending = rows_of_16(np.arange(0, 2 * ENTRIES, 2))
    yield "to_dense / assignment", ascending.to_dense, lambda: assign(ascending)
    shuffled = rows_of_16(RANDOM.permutation(ascending.indices[:, 0]))
    yield "to_dense, rows shuffled / assignment", shuffled.to_dense, lambda: assign(shuffled)
    numbers = [float(n) for n in range(ENTRIES)]
    yield "flatten(list) / asarray", lambda: flatten(numbers), lambda: np.asarray(numbers)
    rows = np.sort(RANDOM.choice(40 * ENTRIES, ENTRIES, replace=False))
    values = RANDOM.standard_normal(ENTRIES, dtype=np.float32)
    matrix = SparseTensor(np.stack(np.divmod(rows, 4000), axis=1), values, [ENTRIES // 100, 4000])
    packed, raw = EncodeOptions("coo.packed", "raw"), EncodeOptions("coo.raw")
    fast = EncodeOptions("auto", "auto").for_server(frozenset({"coo.packed"}), 1e9)
    of_one = rows.astype(np.uint64)
    yield (
        "packing two indexed dimensions / one",
        lambda: encode_tensor("t", matrix, packed),
        lambda: encode_rows(of_one),
    )
    yield (
        "auto, fast network / raw",
        lambda: encode_tensor("t", matrix, fast),
        lambda: encode_tensor("t", matrix, raw),
    )


def seconds(action):
    begin = time.thread_time()
    action()
    return time.thread_time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="5 repetitions instead of 31")
    arguments = parser.parse_args()
    repetitions = 5 if arguments.quick else 31
    rows = []
    for name, action, base in contests():
        pairs = [(seconds(action), seconds(base)) for _ in range(repetitions + 1)][1:]
        rows.append(
            {
                "contest": name,
                "entries": ENTRIES,
                "ms": 1e3 * statistics.median(own for own, _ in pairs),
                "base_ms": 1e3 * statistics.median(base for _, base in pairs),
                "ratio": statistics.median(own / base for own, base in pairs),
                "repetitions": repetitions,
            }
        )
    arguments.json.write_text(json.dumps({"benchmark": "python", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
