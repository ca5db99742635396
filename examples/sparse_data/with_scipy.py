#!/usr/bin/python3
"""Sparse examples as scipy matrices: statistics and training, without anything dense of the size of the features."""

from __future__ import annotations

import numpy as np
import rounds
import texts
from scipy.sparse import csr_matrix


def examples_of(one: texts.Contributor) -> csr_matrix:
    """[paragraphs, FEATURES]"""
    return csr_matrix((one.values, tuple(one.indices.T)), shape=one.dense_shape)


def gradients(
    examples: csr_matrix, labels: np.ndarray, rows: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of the logistic loss (softmax)."""
    scores = examples @ rows + bias
    errors = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1
    errors /= len(labels)
    return examples.T @ errors, errors.sum(axis=0)


if __name__ == "__main__":
    rounds.main(__doc__, examples_of, gradients)
