"""Server optimisers for sparse gradients: state and steps only for the rows that the aggregate holds.

Adagrad and SGD do nothing where the gradient is zero, so they give the same parameters as their dense twins. Adam does
not: a dense one goes on moving a row by its momentum when nobody touches it. This one leaves such rows, and their state,
as they are ("local" or "lazy" Adam).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sparseagg import SparseTensor

Parameters = dict[str, np.ndarray]


class Optimizer:
    """Applies aggregated gradients to parameters in place. `state` arrays are made when first needed."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self._state: dict[tuple[str, str], np.ndarray] = {}

    def apply(self, parameters: Parameters, gradients: Any) -> None:
        """gradients: by name; SparseTensor, or array of the full shape."""
        for name, table in parameters.items():
            gradient = gradients[name]
            if isinstance(gradient, SparseTensor):
                rows: Any = gradient.indices[:, 0]
                gradient = gradient.values
            else:
                rows = slice(None)
            table[rows] -= self.learning_rate * self._direction(name, table, rows, gradient)

    def _direction(self, name: str, table: np.ndarray, rows: Any, gradient: Any) -> np.ndarray:
        raise NotImplementedError

    def _of(self, name: str, kind: str, table: np.ndarray) -> np.ndarray:
        return self._state.setdefault((name, kind), np.zeros_like(table))


class Sgd(Optimizer):
    """Steps along the gradient."""

    def _direction(self, name: str, table: np.ndarray, rows: Any, gradient: Any) -> np.ndarray:
        return gradient


class Adagrad(Optimizer):
    """Divides by the root of the sum of squares so far (Duchi et al. 2011)."""

    def _direction(self, name: str, table: np.ndarray, rows: Any, gradient: Any) -> np.ndarray:
        squares = self._of(name, "squares", table)
        squares[rows] += gradient * gradient
        return gradient / (np.sqrt(squares[rows]) + 1e-8)


class FedAdam(Optimizer):
    """Adam on the aggregate (Reddi et al. 2020), for touched rows only."""

    beta_1, beta_2, tau = 0.9, 0.99, 1e-3

    def _direction(self, name: str, table: np.ndarray, rows: Any, gradient: Any) -> np.ndarray:
        mean, variance = self._of(name, "mean", table), self._of(name, "variance", table)
        mean[rows] = self.beta_1 * mean[rows] + (1 - self.beta_1) * gradient
        variance[rows] = self.beta_2 * variance[rows] + (1 - self.beta_2) * gradient * gradient
        return mean[rows] / (np.sqrt(variance[rows]) + self.tau)


OPTIMIZERS = {"sgd": Sgd, "adagrad": Adagrad, "fedadam": FedAdam}
