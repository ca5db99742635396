#!/usr/bin/env python3
"""What torch, CuPy or JAX take for the same job on this machine's GPU. One line of JSON for each measurement.

usage: peers.py STEPS OUTPUT.jsonl SECONDS

STEPS is written by grid.py: cases, and the job that each is for, of JOBS below; those of numpy and on the CPU show on a
machine without a GPU that this file works. As gpu_reduce it appends lines, "begin" before each step. The data are of the same
distributions as gpu_reduce's, not the same numbers, and have no weights; all of it is on the device before the time begins.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Job = Callable[[], object]


class Refusal(Exception):
    """The reason why a peer cannot take a case."""


def read_steps(path: str) -> list[dict]:
    steps = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        entries, rows, contributors, indices, in_order, width, plan = line.split()
        steps.append(
            {
                "plan": plan,
                "entries": int(entries),
                "rows": int(rows),
                "contributors": int(contributors),
                "indices": indices,
                "sorted": in_order == "1",
                "width": int(width),
            }
        )
    return steps


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


def numpy_unique(case: dict) -> Job:
    rows = rows_of(np, case)
    values = np.ones(shape_of(case, len(rows)), np.float32)

    def unique() -> None:
        out, inverse = np.unique(rows, return_inverse=True)
        np.add.at(np.zeros(shape_of(case, len(out)), np.float32), inverse, values)

    return unique


def arrays_of(device: str):
    """numpy's names for arrays on the device; on the host where CuPy is missing."""
    try:
        if device != "cpu":
            import cupy

            return cupy
    except ImportError:
        pass
    return np


def torch_data(case: dict, device: str):
    """Indices, values, and the shape of a dense tensor."""
    import torch

    indices = torch.as_tensor(rows_of(arrays_of(device), case), device=device)
    values = torch.randn(shape_of(case, len(indices)), device=device)
    return indices, values, shape_of(case, case["rows"])


def torch_coalesce(case: dict, device: str = "cuda") -> Job:
    import torch

    indices, values, size = torch_data(case, device)
    # A new tensor each time: a coalesced one remembers that it is.
    return lambda: torch.sparse_coo_tensor(
        indices[None], values, size, check_invariants=False
    ).coalesce()


def torch_sort_unique(case: dict, device: str = "cuda") -> Job:
    import torch

    indices, values, _ = torch_data(case, device)

    def sort_unique():
        order = indices.sort()
        rows, inverse = torch.unique_consecutive(order.values, return_inverse=True)
        sums = torch.zeros((len(rows), *values.shape[1:]), device=device)
        return rows, sums.index_add_(0, inverse, values[order.indices])

    return sort_unique


def torch_index_add(case: dict, device: str = "cuda") -> Job:
    import torch

    if case["rows"] * case["width"] > 2_000_000_000:
        raise Refusal("left out: the dense tensor takes too much memory")
    indices, values, size = torch_data(case, device)
    dense = torch.zeros(size, device=device)
    return lambda: dense.index_add_(0, indices, values)


def cupy_sum_duplicates(case: dict) -> Job:
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

    return sum_duplicates


def jax_sum_duplicates(case: dict, device: str = "cuda") -> Job:
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
    return lambda: jitted(matrix).block_until_ready()


def torch_synchronize() -> None:
    import torch

    torch.cuda.synchronize()


def torch_free() -> None:
    import torch

    torch.cuda.empty_cache()
    cupy_free()


def cupy_synchronize() -> None:
    import cupy

    cupy.cuda.Device().synchronize()


def cupy_free() -> None:
    try:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
    except ImportError:
        pass  # then nothing was made with it


def nothing() -> None:
    pass


# For each job: what prepares it, what waits for the device, what gives its memory back.
JOBS = {
    "torch_coalesce": (torch_coalesce, torch_synchronize, torch_free),
    "torch_sort_unique": (torch_sort_unique, torch_synchronize, torch_free),
    "torch_index_add": (torch_index_add, torch_synchronize, torch_free),
    "cupy_sum_duplicates": (cupy_sum_duplicates, cupy_synchronize, cupy_free),
    "jax_sum_duplicates": (jax_sum_duplicates, nothing, cupy_free),
    "numpy_unique": (numpy_unique, nothing, nothing),
    "torch_coalesce_on_cpu": (lambda case: torch_coalesce(case, "cpu"), nothing, nothing),
    "jax_sum_duplicates_on_cpu": (lambda case: jax_sum_duplicates(case, "cpu"), nothing, nothing),
}


def measure(call: Job, synchronize: Callable[[], None]) -> dict:
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


def measured(step: dict) -> dict:
    """An error of a peer is a result, too."""
    try:
        job, synchronize, free = JOBS[step["plan"]]
        result = measure(job(step), synchronize)
        free()
        return result
    except Exception as error:
        text = (str(error).splitlines() or [""])[0] or type(error).__name__
        return {"error": text[:200]}


def main() -> None:
    steps = read_steps(sys.argv[1])
    end = time.monotonic() + float(sys.argv[3])
    with open(sys.argv[2], "a", encoding="utf-8") as file:

        def line(**fields: object) -> None:
            text = json.dumps(fields)
            print(text, flush=True)
            file.write(text + "\n")
            file.flush()

        for number, step in enumerate(steps):
            if time.monotonic() > end:
                line(kind="time_over", step=number)
                return
            line(kind="begin", step=number)
            line(kind="reduce", **step, **measured(step))


if __name__ == "__main__":
    main()
