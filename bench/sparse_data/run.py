#!/usr/bin/env python3
"""Measures a contributor's work on sparse examples against the same examples made dense: memory, time, and that the results
are the same.

    bench/sparse_data/run.py --json FILE [--quick] [--way NAME=PYTHON...]

A way is a module of this folder: numpy and scipy, which this interpreter runs; torch, torch_scipy and tff, for which PYTHON
is one with the package. Each measurement has a process of its own (measure.py). Needs python3-scipy, and for our package, which PYTHONPATH
names, python3-grpcio, python3-numpy and python3-protobuf.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CLASSES = 16
CLAIM = 0.01  # the density of ways other than these:
OWN = ("numpy", "scipy")
# (examples, features, density)
CASES = [(2000, 50_000, 0.01), (2000, 50_000, 0.001), (2000, 50_000, 0.1)]
QUICK = [(200, 5000, CLAIM)]
# Threads that wait for each other in a loop would count as processor time on a busy machine.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def make(path, examples, features, density):
    """Examples that hold a share of the features each, with whole numbers from 1 to 9; labels and weights."""
    random = np.random.default_rng(7)
    each = max(1, round(features * density))
    columns = [np.sort(random.choice(features, each, replace=False)) for _ in range(examples)]
    rows = np.repeat(np.arange(examples), each)
    np.savez(
        path,
        indices=np.stack([rows, np.concatenate(columns)], axis=1).astype(np.int64),
        values=random.integers(1, 10, examples * each).astype(np.float32),
        dense_shape=np.array([examples, features], np.int64),
        labels=random.integers(0, CLASSES, examples),
        weights=(0.01 * random.standard_normal((features, CLASSES))).astype(np.float32),
    )


def measure(python, way, form, data, folder, repetitions):
    """The numbers of one process, and what it computed."""
    out = folder / f"{way}_{form}.npz"
    command = [python, HERE / "measure.py", way, form, data, out, repetitions]
    command = list(map(str, command))
    done = subprocess.run(
        command,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **ONE_THREAD},
    )
    if done.returncode:
        raise SystemExit(f"{way} {form}:\n{done.stderr[-3000:]}")
    with np.load(out) as results:
        return json.loads(done.stdout.splitlines()[-1]), dict(results)


def check(what, one, other):
    """Raises SystemExit where two have not computed the same: statistics bit by bit, gradients to within their rounding."""
    for name, expected in other.items():
        found = one[name]
        if name == "gradient":
            tolerance = 1e-4 * np.abs(expected).max()
            same = found.shape == expected.shape and np.abs(found - expected).max() <= tolerance
        else:
            same = np.array_equal(found, expected)
        if not same:
            raise SystemExit(f"{what}: {name} is not the same")


def rows_of(way, python, case, data, folder, repetitions, reference):
    """Measurements of both forms; every result is compared with `reference`, which the first fills."""
    found = {}
    for form in ("sparse", "dense"):
        found[form], results = measure(python, way, form, data, folder, repetitions)
        check(f"{way}, {form}", results, reference or results)
        reference.update(results)
    # Making is left out of "all": a contributor could keep its examples in either form.
    works = ("statistics", "renumbering", "gradient")
    for what in ("making", *works, "all"):
        sparse, dense = (
            sum(found[form][f"{part}_ms"] for part in (works if what == "all" else (what,)))
            for form in ("sparse", "dense")
        )
        yield {
            "way": way,
            "versions": found["sparse"]["versions"],
            "density": case[2],
            "work": what,
            "sparse_ms": sparse,
            "dense_ms": dense,
            "time_ratio": dense / sparse,
            **{f"{form}_mb": found[form]["peak_mb"] for form in found},
            "memory_ratio": found["dense"]["peak_mb"] / max(0.1, found["sparse"]["peak_mb"]),
            **{f"{form}_data_mb": found[form]["data_mb"] for form in found},
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="one small case, once")
    parser.add_argument("--way", action="append", default=[], metavar="NAME=PYTHON")
    arguments = parser.parse_args()
    ways = [*((way, sys.executable) for way in OWN), *(way.split("=", 1) for way in arguments.way)]
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.json.parent) as name:
        folder = pathlib.Path(name)
        for case in QUICK if arguments.quick else CASES:
            data = folder / "data.npz"
            make(data, *case)
            reference = {}
            for way, python in ways:
                if way not in OWN and case[2] != CLAIM:
                    continue
                repetitions = 1 if arguments.quick else 3
                for row in rows_of(way, python, case, data, folder, repetitions, reference):
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    report = {"benchmark": "sparse_data", "rows": rows}
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
