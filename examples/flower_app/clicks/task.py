"""The model: which of a million features lead to a click. Logistic regression on made-up examples of few features each."""

from __future__ import annotations

import numpy as np

FEATURES, FEATURES_OF_ONE, EXAMPLES = 1_000_000, 20, 500
PASSES, LEARNING_RATE = 5, 0.01


def initial_arrays() -> dict[str, np.ndarray]:
    """The model before training."""
    return {"weights": np.zeros((FEATURES, 1), np.float32), "bias": np.zeros(1, np.float32)}


def examples_of(node: int) -> tuple[np.ndarray, np.ndarray]:
    """The node's own data: features `[examples, features of one]`, of which few are frequent, and clicks (0 or 1)."""
    truth = np.random.default_rng(0).normal(size=FEATURES)  # nobody trains on this
    random = np.random.default_rng([1, node])
    features = (FEATURES * random.random((EXAMPLES, FEATURES_OF_ONE)) ** 4).astype(np.int64)
    return features, (truth[features].sum(axis=1) > 0).astype(np.float32)


def train(arrays: dict[str, np.ndarray], node: int) -> float:
    """Some passes over the node's data, in place; the mean loss before them."""
    features, clicks = examples_of(node)
    first_loss = None
    for _ in range(PASSES):
        scores = arrays["weights"][features, 0].sum(axis=1) + arrays["bias"]
        loss = np.mean(np.logaddexp(0, scores) - scores * clicks)
        first_loss = loss if first_loss is None else first_loss
        step = (LEARNING_RATE * (0.5 * (1 + np.tanh(0.5 * scores)) - clicks)).astype(np.float32)
        np.subtract.at(arrays["weights"][:, 0], features, step[:, None])
        arrays["bias"] -= step.mean()
    return float(first_loss)
