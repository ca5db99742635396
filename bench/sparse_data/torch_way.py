"""Examples as a sparse torch tensor, and as a dense one."""

import torch
from numpy_way import statistics_of
from sparseagg.sparse_data import feature_statistics, local_features


class Way:
    """See measure.py."""

    def __init__(self, form):
        self._is_sparse = form == "sparse"

    def load(self, indices, values, dense_shape):
        indices, values = torch.from_numpy(indices.T.copy()), torch.from_numpy(values)
        if self._is_sparse:
            return torch.sparse_coo_tensor(indices, values, dense_shape, is_coalesced=True)
        examples = torch.zeros(dense_shape)
        examples[tuple(indices)] = values
        return examples

    def statistics(self, examples):
        if self._is_sparse:
            return statistics_of(feature_statistics(examples))
        held = examples != 0
        smallest = torch.where(held, examples, torch.inf).amin(0)
        largest = torch.where(held, examples, -torch.inf).amax(0)
        return {
            "document_frequency": held.sum(0),
            "total": examples.sum(0, dtype=torch.float64),
            "minimum": torch.where(smallest.isfinite(), smallest, 0),
            "maximum": torch.where(largest.isfinite(), largest, 0),
        }

    def renumber(self, examples):
        return local_features(examples) if self._is_sparse else (slice(None), examples)

    def gradient(self, examples, labels, rows):
        rows = torch.from_numpy(rows).requires_grad_()
        scores = torch.sparse.mm(examples, rows) if self._is_sparse else examples @ rows
        torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels)).backward()
        return rows.grad.numpy()
