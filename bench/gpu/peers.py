"""What torch, CuPy and JAX take for the same job on this machine's GPU. One line of JSON for each measurement.

usage: peers.py OUTPUT.jsonl SECONDS
"""

import json
import sys
import time


class Report:
    """Writes lines as they come."""

    def __init__(self, path: str, seconds: float) -> None:
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115: open while the report lives
        self.end = time.monotonic() + seconds

    def line(self, **fields: object) -> None:
        text = json.dumps(fields)
        print(text, flush=True)
        self.file.write(text + "\n")
        self.file.flush()

    def measure(self, name: str, case: dict, function, synchronize) -> None:
        """Median of up to ten calls after two; an error is a result, too."""
        if time.monotonic() > self.end:
            return
        try:
            for _ in range(2):
                function()
            synchronize()
            times = []
            begin = time.monotonic()
            while len(times) < 3 or (len(times) < 10 and time.monotonic() - begin < 3):
                start = time.monotonic()
                function()
                synchronize()
                times.append(time.monotonic() - start)
            self.line(kind="peer", plan=name, **case, ms=sorted(times)[len(times) // 2] * 1e3)
        except Exception as error:  # pylint: disable=broad-except
            self.line(kind="peer", plan=name, **case, error=str(error).splitlines()[0][:200])


CASES = [
    {"entries": 100_000_000, "rows": 1_000_000_000, "width": 1},
    {"entries": 100_000_000, "rows": 1_000_000, "width": 1},
    {"entries": 1_000_000, "rows": 1_000_000_000, "width": 1},
    {"entries": 6_250_000, "rows": 10_000_000, "width": 64},
]


def torch_peers(report: Report) -> None:
    import torch

    for case in CASES:
        shape = (case["entries"],) if case["width"] == 1 else (case["entries"], case["width"])
        indices = torch.randint(case["rows"], (case["entries"],), device="cuda")
        values = torch.randn(shape, device="cuda")
        size = (case["rows"],) if case["width"] == 1 else (case["rows"], case["width"])

        def coalesce(indices=indices, values=values, size=size):
            # A new tensor each time: a coalesced one remembers that it is.
            return torch.sparse_coo_tensor(
                indices[None], values, size, check_invariants=False
            ).coalesce()

        def sort_unique(indices=indices, values=values):
            order = indices.sort()
            rows, inverse = torch.unique_consecutive(order.values, return_inverse=True)
            sums = torch.zeros((len(rows), *values.shape[1:]), device="cuda")
            return rows, sums.index_add_(0, inverse, values[order.indices])

        report.measure("torch coalesce", case, coalesce, torch.cuda.synchronize)
        report.measure(
            "torch sort + unique_consecutive + index_add_",
            case,
            sort_unique,
            torch.cuda.synchronize,
        )
        if case["rows"] * case["width"] <= 2_000_000_000:
            dense = torch.zeros(size, device="cuda")

            def index_add(dense=dense, indices=indices, values=values):
                dense.index_add_(0, indices, values)

            report.measure("torch index_add_ (dense)", case, index_add, torch.cuda.synchronize)
            del dense
        del indices, values
        torch.cuda.empty_cache()


def cupy_peers(report: Report) -> None:
    import cupy
    import cupyx.scipy.sparse

    for case in CASES:
        if case["width"] != 1:
            continue

        def sum_duplicates(case=case):
            if case["rows"] >= 2**31:
                raise ValueError("CuPy's coordinates are 32 bits")
            rows = cupy.random.randint(0, case["rows"], case["entries"], dtype=cupy.int32)
            matrix = cupyx.scipy.sparse.coo_matrix(
                (cupy.ones(case["entries"], dtype=cupy.float32), (cupy.zeros_like(rows), rows)),
                shape=(1, case["rows"]),
            )
            matrix.sum_duplicates()

        report.measure(
            "cupy coo sum_duplicates (making it included)",
            case,
            sum_duplicates,
            cupy.cuda.Device().synchronize,
        )


def jax_peers(report: Report) -> None:
    import jax
    import jax.numpy as jnp
    from jax.experimental import sparse

    for case in CASES:
        if case["width"] != 1 or case["rows"] >= 2**31:
            continue
        key = jax.random.PRNGKey(0)
        indices = jax.random.randint(key, (case["entries"], 1), 0, case["rows"], dtype=jnp.int32)
        values = jax.random.normal(key, (case["entries"],), dtype=jnp.float32)
        matrix = sparse.BCOO((values, indices), shape=(case["rows"],))

        def sum_duplicates(matrix=matrix, case=case):
            matrix.sum_duplicates(nse=case["entries"]).data.block_until_ready()

        report.measure("jax BCOO sum_duplicates", case, sum_duplicates, lambda: None)


def main() -> None:
    report = Report(sys.argv[1], float(sys.argv[2]))
    for peers in (torch_peers, cupy_peers, jax_peers):
        try:
            peers(report)
        except Exception as error:  # pylint: disable=broad-except
            report.line(kind="peer", plan=peers.__name__, error=str(error).splitlines()[0][:200])


if __name__ == "__main__":
    main()
