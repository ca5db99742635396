"""Examples as a scipy CSR matrix, and as a numpy array."""

import numpy as np
from scipy.sparse import csr_matrix
from sparseagg.sparse_data import feature_statistics, local_features


class Way:
    """See measure.py."""

    def __init__(self, form):
        self._is_sparse = form == "sparse"

    def load(self, indices, values, dense_shape):
        if self._is_sparse:
            return csr_matrix((values, tuple(indices.T)), shape=dense_shape)
        examples = np.zeros(dense_shape, np.float32)
        examples[tuple(indices.T)] = values
        return examples

    def statistics(self, examples):
        if self._is_sparse:
            return statistics_of(feature_statistics(examples))
        held = examples != 0
        smallest = np.where(held, examples, np.inf).min(axis=0)
        largest = np.where(held, examples, -np.inf).max(axis=0)
        return {
            "document_frequency": held.sum(axis=0),
            "total": examples.sum(axis=0, dtype=np.float64),
            "minimum": np.where(np.isfinite(smallest), smallest, 0),
            "maximum": np.where(np.isfinite(largest), largest, 0),
        }

    def renumber(self, examples):
        return local_features(examples) if self._is_sparse else (slice(None), examples)

    def gradient(self, examples, labels, rows):
        errors = examples @ rows
        errors = np.exp(errors - errors.max(axis=1, keepdims=True))
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(labels)), labels] -= 1
        return examples.T @ (errors / np.float32(len(labels)))


def statistics_of(update):
    """The arrays of an update of `feature_statistics`."""
    names = ("document_frequency", "total", "minimum", "maximum")
    features = update["total"].indices[:, 0]
    return {"features": features, **{name: update[name].values for name in names}}
