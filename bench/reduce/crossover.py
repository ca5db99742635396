"""Sparse against dense aggregation by density: from where on would whole vectors be faster?

K contributors, D values. Sparse: an update has density * D entries, as rows and values or, "packed", as they come out of
coo.packed. Dense: an update is a vector of D values, which is
added by numpy (np.add into the accumulator, what users of dense aggregation run) or reduced exactly by our own path
for dense tensors. The time of dense aggregation does not depend on the density. Between the two: numpy scatters the
sparse updates into a dense accumulator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Callable

import cases
import contest

SHAPES = [(10, 10**7), (100, 10**6)]  # (contributors, values)
POINTS = 11
DENSITY_MIN = 1e-5
BYTES_ENTRY = 12  # a u64 index and an f32 value
BYTES_DENSE = 4
NUMPY = "numpy dense adds"
SCATTER = "numpy total[rows] += values"


def densities(points: int) -> list[float]:
    """From DENSITY_MIN to 1, evenly on a logarithmic axis."""
    low = math.log10(DENSITY_MIN)
    return [10 ** (low - low * i / (points - 1)) for i in range(points)]


def run(
    tools: contest.Tools,
    rounds: int,
    shapes: Iterable[tuple[int, int]],
    points: int,
    progress: Callable[[str], None],
) -> list[dict]:
    """One report for each shape: what dense aggregation takes, and the points."""
    return [_shape(k, values, tools, rounds, points, progress) for k, values in shapes]


def _shape(
    k: int, values: int, tools: contest.Tools, rounds: int, points: int, progress: Callable
) -> dict:
    threads = sorted({1, tools.threads})
    dense_case = cases.Case(k, 1, k, "dense", "sorted", values)
    progress(f"dense aggregation, {k} x {values}")
    dense_effort = contest.Effort(rounds, threads, ["batch"], ["auto"], False, [NUMPY])
    dense = contest.run_case(dense_case, tools, dense_effort)
    report = {
        "contributors": k,
        "values": values,
        "dense_bytes": BYTES_DENSE * values * k,
        "dense": dense["rows"],
        "errors": dense["errors"],
        "points": [],
    }
    for density in densities(points):
        nnz = max(1, round(density * values))
        case = cases.Case(nnz * k, values, k, "uniform", "sorted")
        progress(f"density {nnz / values:.2g} of {k} x {values}")
        effort = contest.Effort(rounds, threads, ["batch", "packed"], [], False, [SCATTER])
        measured = contest.run_case(case, tools, effort)
        report["errors"] += measured["errors"]
        report["points"].append(
            {
                "density": nnz / values,
                "sparse_bytes": BYTES_ENTRY * nnz * k,
                "rows": measured["rows"],
            }
        )
    report["summary"] = _summary(report, threads)
    return report


def seconds_of(rows: list[dict], contender: str, threads: int, form: str = "batch") -> float | None:
    """The time of a contender; None when it did not run."""
    for row in rows:
        same = (row["contender"], row["threads"], row["form"]) == (contender, threads, form)
        if same and "seconds" in row:
            return row["seconds"]
    return None


def own_auto(rows: list[dict]) -> str:
    """The contender that is the planner's choice of the preferred back end."""
    return next(row["contender"] for row in rows if row["contender"].endswith("/auto"))


def crossing(points: list[tuple[float, float]], level: float | None) -> float | None:
    """The density from which on the time is above `level`, between points on logarithmic axes, or None if it never is."""
    if level is None:
        return None
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if y0 <= level < y1:
            share = math.log(level / y0) / math.log(y1 / y0)
            return math.exp(math.log(x0) + share * math.log(x1 / x0))
    return None if points[0][1] <= level else points[0][0]


def _summary(report: dict, threads_list: list[int]) -> list[dict]:
    """For each number of threads: where dense aggregation overtakes, and how much slower sparse is at worst."""
    auto = own_auto(report["dense"])
    rows = []
    for threads in threads_list:
        curve, packed = (
            [
                (p["density"], seconds)
                for p in report["points"]
                if (seconds := seconds_of(p["rows"], auto, threads, form)) is not None
            ]
            for form in ("batch", "packed")
        )
        numpy_seconds = seconds_of(report["dense"], NUMPY, 1)
        own_seconds = seconds_of(report["dense"], auto, threads)
        row = {
            "contributors": report["contributors"],
            "values": report["values"],
            "threads": threads,
            "numpy_dense_ms": numpy_seconds and numpy_seconds * 1e3,
            "own_dense_ms": own_seconds and own_seconds * 1e3,
            "sparse_full_ms": curve[-1][1] * 1e3 if curve else None,
            "crossover_numpy": crossing(curve, numpy_seconds) if curve else None,
            "crossover_own": crossing(curve, own_seconds) if curve else None,
        }
        if curve and numpy_seconds:
            row["worst_ratio"] = max(seconds for _, seconds in curve) / numpy_seconds
        if packed and own_seconds:
            row["worst_packed_to_own"] = max(seconds for _, seconds in packed) / own_seconds
        rows.append(row)
    return rows
