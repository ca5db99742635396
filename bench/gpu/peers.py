#!/usr/bin/env python3
"""What torch, CuPy or JAX take for the same job on this machine's GPU. One line of JSON for each measurement.

usage: peers.py CASES OUTPUT.jsonl SECONDS PEER [FIRST]

PEER is torch, cupy or jax; or, to show on a machine without a GPU that this file works, numpy, torch-cpu or jax-cpu, whose
measurements say so. CASES is written by grid.py; cases before number FIRST are left out, and lines are appended then. A
line "begin" stands before each case: who watches this program knows which case it hangs in. The data are of the same
distributions as gpu_reduce's, not the same numbers, and have no weights; all of it is on the device before the time begins.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

# Jobs of a peer for a case: name and call.
Jobs = Iterator[tuple[str, Callable[[], object]]]


class Refusal(Exception):
    """What a peer cannot do."""


def read_cases(path: str) -> list[dict]:
    cases = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        entries, rows, contributors, indices, in_order, width, _ = line.split()
        cases.append(
            {
                "entries": int(entries),
                "rows": int(rows),
                "contributors": int(contributors),
                "indices": indices,
                "sorted": in_order == "1",
                "width": int(width),
            }
        )
    return cases


def rows_of(xp, case: dict):
    """The rows of all updates, one behind another; xp has numpy's names. Zipf has exponent 1.05, as in gpu_reduce."""
    nnz = case["entries"] // case["contributors"]
    common = xp.random.random(nnz)
    parts = []
    for _ in range(case["contributors"]):
        uniform = xp.random.random(nnz)
        if case["indices"] == "overlap":
            uniform[::2] = common[::2]
        if case["sorted"]:
            at = xp.arange(nnz + 1) / nnz
            at = at**4 if case["indices"] == "zipf" else at
            begin = xp.arange(nnz + 1) + (at * (case["rows"] - nnz)).astype(xp.int64)
            rows = begin[:-1] + (uniform * (begin[1:] - begin[:-1])).astype(xp.int64)
        elif case["indices"] == "zipf":
            # Beyond the last row: anywhere.
            rows = xp.minimum((1 - uniform) ** -20.0 - 1, 1e18)
            rows = xp.where(rows < case["rows"], rows, uniform * case["rows"]).astype(xp.int64)
        else:
            rows = (uniform * case["rows"]).astype(xp.int64)
        parts.append(xp.minimum(rows, case["rows"] - 1))
    return xp.concatenate(parts)


def shape_of(case: dict, count: int) -> tuple:
    return (count,) if case["width"] == 1 else (count, case["width"])


def numpy_jobs(case: dict) -> Jobs:
    rows = rows_of(np, case)
    values = np.ones(shape_of(case, len(rows)), np.float32)

    def unique() -> None:
        out, inverse = np.unique(rows, return_inverse=True)
        np.add.at(np.zeros(shape_of(case, len(out)), np.float32), inverse, values)

    yield "numpy unique + add.at", unique


def arrays_of(device: str):
    """numpy's names for arrays on the device."""
    if device == "cpu":
        return np
    import cupy

    return cupy


def torch_jobs(case: dict, device: str = "cuda") -> Jobs:
    import torch

    indices = torch.from_dlpack(rows_of(arrays_of(device), case))
    values = torch.randn(shape_of(case, len(indices)), device=device)
    size = shape_of(case, case["rows"])

    def coalesce():
        # A new tensor each time: a coalesced one remembers that it is.
        return torch.sparse_coo_tensor(
            indices[None], values, size, check_invariants=False
        ).coalesce()

    def sort_unique():
        order = indices.sort()
        rows, inverse = torch.unique_consecutive(order.values, return_inverse=True)
        sums = torch.zeros((len(rows), *values.shape[1:]), device=device)
        return rows, sums.index_add_(0, inverse, values[order.indices])

    yield "torch coalesce", coalesce
    yield "torch sort + unique_consecutive + index_add_", sort_unique
    if case["rows"] * case["width"] <= 2_000_000_000:
        dense = torch.zeros(size, device=device)
        yield "torch index_add_ (dense)", lambda: dense.index_add_(0, indices, values)


def cupy_jobs(case: dict) -> Jobs:
    import cupy
    import cupyx.scipy.sparse

    if case["width"] != 1:
        raise Refusal("its sparse matrices have one value an entry")
    if case["rows"] >= 2**31:
        raise Refusal("its coordinates have 32 bits")
    rows = rows_of(cupy, case).astype(cupy.int32)
    zeros = cupy.zeros_like(rows)
    values = cupy.ones(len(rows), cupy.float32)

    def sum_duplicates():
        # Works in place, so on a copy; the copy is a small part of the time.
        matrix = cupyx.scipy.sparse.coo_matrix(
            (values, (zeros, rows)), shape=(1, case["rows"]), copy=True
        )
        matrix.sum_duplicates()

    yield "cupy coo sum_duplicates", sum_duplicates


def jax_jobs(case: dict, device: str = "cuda") -> Jobs:
    import jax
    from jax import dlpack
    from jax.experimental import sparse

    if case["rows"] >= 2**31:
        raise Refusal(
            "its indices have 32 bits unless x64 is on, and then the sort is 100 times as slow"
        )
    if case["entries"] * case["width"] > 400_000_000:
        raise Refusal("left out: its temporaries exceed the memory")
    indices = dlpack.from_dlpack(rows_of(arrays_of(device), case).astype("int32"))[:, None]
    values = jax.numpy.ones(shape_of(case, len(indices)), dtype=jax.numpy.float32)
    matrix = sparse.BCOO((values, indices), shape=shape_of(case, case["rows"]))
    jitted = jax.jit(lambda m: m.sum_duplicates(nse=case["entries"]).data)
    yield "jax BCOO sum_duplicates", lambda: jitted(matrix).block_until_ready()


def torch_synchronize() -> None:
    import torch

    torch.cuda.synchronize()


def torch_free() -> None:
    import cupy
    import torch

    torch.cuda.empty_cache()
    cupy.get_default_memory_pool().free_all_blocks()


def cupy_synchronize() -> None:
    import cupy

    cupy.cuda.Device().synchronize()


def cupy_free() -> None:
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()


# Jobs, what waits for the device, what gives its memory back.
PEERS = {
    "torch": (torch_jobs, torch_synchronize, torch_free),
    "cupy": (cupy_jobs, cupy_synchronize, cupy_free),
    "jax": (jax_jobs, lambda: None, cupy_free),
    "numpy": (numpy_jobs, lambda: None, lambda: None),
    "torch-cpu": (lambda case: torch_jobs(case, "cpu"), lambda: None, lambda: None),
    "jax-cpu": (lambda case: jax_jobs(case, "cpu"), lambda: None, lambda: None),
}


def measure(call: Callable[[], object], synchronize: Callable[[], None]) -> dict:
    """Median of up to ten calls after two, at least three."""
    for _ in range(2):
        call()
    synchronize()
    times = []
    begin = time.monotonic()
    while len(times) < 3 or (len(times) < 10 and time.monotonic() - begin < 0.5):
        start = time.monotonic()
        call()
        synchronize()
        times.append(time.monotonic() - start)
    return {"ms": sorted(times)[len(times) // 2] * 1e3, "runs": len(times)}


def run(case: dict, peer: str, line: Callable[..., None]) -> None:
    jobs, synchronize, free = PEERS[peer]
    name = peer
    try:
        for name, call in jobs(case):
            name += " on the CPU" if peer.endswith("-cpu") else ""
            try:
                line(kind="reduce", plan="peer: " + name, **case, **measure(call, synchronize))
            except Exception as error:  # an error of a peer is a result, too
                line(
                    kind="reduce",
                    plan="peer: " + name,
                    **case,
                    error=str(error).splitlines()[0][:200],
                )
        del call
    except ImportError as error:
        line(kind="missing", peer=peer, error=str(error))
        sys.exit(0)
    except Exception as error:
        text = (str(error).splitlines() or [type(error).__name__])[0][:200]
        line(kind="reduce", plan="peer: " + peer, **case, error=text)
    free()


def main() -> None:
    cases = read_cases(sys.argv[1])
    end = time.monotonic() + float(sys.argv[3])
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    with open(sys.argv[2], "a" if first else "w", encoding="utf-8") as file:

        def line(**fields: object) -> None:
            text = json.dumps(fields)
            print(text, flush=True)
            file.write(text + "\n")
            file.flush()

        for number in range(first, len(cases)):
            if time.monotonic() > end:
                line(kind="time_over", case=number)
                return
            line(kind="begin", case=number)
            run(cases[number], sys.argv[4], line)


if __name__ == "__main__":
    main()
