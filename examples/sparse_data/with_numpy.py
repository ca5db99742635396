#!/usr/bin/python3
"""Sparse examples in numpy alone: statistics and training, without anything dense of the size of the features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import rounds
import texts
from sparseagg import SparseTensor


def examples_of(one: texts.Contributor) -> SparseTensor:
    """[paragraphs, FEATURES]"""
    return SparseTensor(one.indices, one.values, one.dense_shape)


def entries_by_example(examples: SparseTensor) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(example, its features, its values); `local_features` has sorted the entries, and none repeats."""
    numbers, features = np.ascontiguousarray(examples.indices.T)
    first = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    for begin, end in zip(first, [*first[1:], len(numbers)]):
        yield numbers[begin], features[begin:end], examples.values[begin:end]


def gradients(
    examples: SparseTensor, labels: np.ndarray, rows: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of the logistic loss (softmax)."""
    scores = np.tile(bias, (len(labels), 1))
    for example, features, values in entries_by_example(examples):
        scores[example] += values @ rows.take(features, axis=0)
    errors = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1
    errors /= len(labels)
    gradient = np.zeros_like(rows)
    for example, features, values in entries_by_example(examples):
        changed = gradient.take(features, axis=0) + np.outer(values, errors[example])
        gradient[features] = changed
    return gradient, errors.sum(axis=0)


if __name__ == "__main__":
    rounds.main(__doc__, examples_of, gradients)
