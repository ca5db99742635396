"""Checks the server: aggregates the same updates again, in two other ways.

dense:  as most federated servers do it: every update turned into full float64 arrays, added one after the other. Its
        sums carry rounding errors, so the server's result may differ by a bound that follows from them.
exact:  value by value with `math.fsum`, which rounds the exact sum once. The server promises the same bits.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from dataclasses import dataclass

import numpy as np
from contributor import SPARSE_TABLES
from model import LocalUpdate, Parameters


@dataclass(frozen=True)
class Verdict:
    """What the comparison found, over all tables of one round."""

    contributors: int
    values: int  # how many values were compared, dense: also those that nobody touched
    dense_seconds: float
    dense_bytes: int  # of the updates, turned dense
    dense_memory_bytes: int  # at most, while they were added one after the other
    dense_max_difference: (
        float  # between the server and the dense sums, in units in the last place of f32
    )
    dense_violations: int  # values beyond the bound
    exact_values: int
    exact_differences: int  # values whose bits differ from the exact result

    @property
    def passed(self) -> bool:
        """True when the server kept its promise."""
        return self.dense_violations == 0 and self.exact_differences == 0


def check(updates: list[LocalUpdate], shapes: dict[str, tuple], served: Parameters) -> Verdict:
    """Compares the server's aggregate with both.

    shapes: the full shape of each table; served: the server's result as full arrays.
    """
    tracemalloc.start()
    begin = time.perf_counter()
    dense = {name: _dense_mean(updates, name, shape) for name, shape in shapes.items()}
    seconds = time.perf_counter() - begin
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    worst, violations = 0.0, 0
    exact_values, exact_differences = 0, 0
    for name, (mean, bound) in dense.items():
        ulp = np.spacing(np.abs(served[name])).astype(np.float64)
        difference = np.abs(served[name].astype(np.float64) - mean)
        worst = max(worst, float((difference / ulp).max()))
        violations += int((difference > ulp / 2 + bound).sum())
        exact = _exact_mean(updates, name, shapes[name])
        exact_values += exact.size
        exact_differences += int((exact.view(np.uint32) != served[name].view(np.uint32)).sum())
    values = sum(math.prod(shape) for shape in shapes.values())
    return Verdict(
        contributors=len(updates),
        values=values,
        dense_seconds=seconds,
        dense_bytes=4 * values * len(updates),
        dense_memory_bytes=memory,
        dense_max_difference=worst,
        dense_violations=violations,
        exact_values=exact_values,
        exact_differences=exact_differences,
    )


def dense_twin(updates: list[LocalUpdate], before: Parameters) -> Parameters:
    """The model after the round, had its updates been averaged densely: what the loss is compared with."""
    return {
        name: table + _dense_mean(updates, name, table.shape)[0].astype(np.float32)
        for name, table in before.items()
    }


def _rows(update: LocalUpdate, name: str, shape: tuple) -> np.ndarray:
    """The rows an update holds; a dense table is held as a whole."""
    return update.rows[name] if name in SPARSE_TABLES else np.arange(shape[0])


def _dense_mean(
    updates: list[LocalUpdate], name: str, shape: tuple
) -> tuple[np.ndarray, np.ndarray]:
    """(the mean in float64, a bound of its rounding error), both of the full shape.

    n additions in float64 are off by at most n * 2^-53 times the sum of the magnitudes (Higham); the division and the
    second rounding on the server's side are covered by doubling it.
    """
    total, magnitude, weights = (
        np.zeros(shape),
        np.zeros(shape),
        np.zeros((shape[0], *[1] * (len(shape) - 1))),
    )
    for update in updates:
        contribution, held = np.zeros(shape), np.zeros_like(weights)
        rows = _rows(update, name, shape)
        contribution[rows] = update.deltas[name].astype(np.float64) * update.examples
        held[rows] = update.examples
        total += contribution
        magnitude += np.abs(contribution)
        weights += held
    weights[weights == 0] = 1  # nobody holds the row: 0 / 1
    return total / weights, 2 * len(updates) * 2.0**-53 * magnitude / weights


def _exact_mean(updates: list[LocalUpdate], name: str, shape: tuple) -> np.ndarray:
    """The mean that the server promises: exact sums, each rounded once to float64, divided, rounded to float32.

    A product of a float32 and a weight, a whole number below 2^24, is exact in float64.
    """
    products: dict[int, list] = {}
    weights: dict[int, float] = {}
    for update in updates:
        contribution = update.deltas[name].astype(np.float64) * update.examples
        for row, values in zip(_rows(update, name, shape).tolist(), contribution):
            products.setdefault(row, []).append(np.atleast_1d(values))
            weights[row] = weights.get(row, 0) + update.examples
    mean = np.zeros((shape[0], math.prod(shape[1:])), np.float32)
    for row, parts in products.items():
        columns = np.stack(parts, axis=1).tolist()
        mean[row] = [(math.fsum(column) + 0.0) / weights[row] for column in columns]
    return mean.reshape(shape)
