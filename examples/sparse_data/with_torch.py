#!/usr/bin/python3
"""Sparse examples as torch tensors: statistics and training, without anything dense of the size of the features."""

from __future__ import annotations

import numpy as np
import rounds
import texts
import torch


def examples_of(one: texts.Contributor) -> torch.Tensor:
    """[paragraphs, FEATURES]"""
    indices, values = torch.from_numpy(one.indices.T), torch.from_numpy(one.values)
    return torch.sparse_coo_tensor(indices, values, one.dense_shape, check_invariants=True)


def gradients(
    examples: torch.Tensor, labels: np.ndarray, rows: np.ndarray, bias: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch makes the gradient of a sparse product dense, which here has the rows of the contributor's words only."""
    table = torch.tensor(rows, requires_grad=True)
    offset = torch.tensor(bias, requires_grad=True)
    scores = torch.sparse.mm(examples, table) + offset
    torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels)).backward()
    return table.grad, offset.grad


if __name__ == "__main__":
    rounds.main(__doc__, examples_of, gradients)
