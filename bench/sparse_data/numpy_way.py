"""Examples in numpy alone: as a SparseTensor, and as an array."""

import numpy as np
from sparseagg import SparseTensor
from sparseagg.sparse_data import feature_statistics, local_features


class Way:
    """See measure.py."""

    def __init__(self, form):
        self._is_sparse = form == "sparse"

    def load(self, indices, values, dense_shape):
        if self._is_sparse:
            return self.matrix(indices, values, dense_shape)
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
        errors = self.product(examples, rows) if self._is_sparse else examples @ rows
        errors = np.exp(errors - errors.max(axis=1, keepdims=True))
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(labels)), labels] -= 1
        errors /= np.float32(len(labels))
        return self.product_with(examples, errors) if self._is_sparse else examples.T @ errors

    def matrix(self, indices, values, dense_shape):
        """The sparse examples; the two products are of these."""
        return SparseTensor(indices, values, dense_shape)

    def product(self, examples, rows):
        scores = np.zeros((examples.dense_shape[0], rows.shape[1]), rows.dtype)
        for example, features, values in _entries_by_example(examples):
            scores[example] = values @ rows.take(features, axis=0)
        return scores

    def product_with(self, examples, errors):
        """Of the transposed matrix."""
        gradient = np.zeros((examples.dense_shape[1], errors.shape[1]), errors.dtype)
        for example, features, values in _entries_by_example(examples):
            changed = gradient.take(features, axis=0) + np.outer(values, errors[example])
            gradient[features] = changed
        return gradient


def _entries_by_example(examples):
    numbers, features = np.ascontiguousarray(examples.indices.T)
    first = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    for begin, end in zip(first, [*first[1:], len(numbers)]):
        yield numbers[begin], features[begin:end], examples.values[begin:end]


def statistics_of(update):
    """The arrays of an update of `feature_statistics`."""
    names = ("document_frequency", "total", "minimum", "maximum")
    features = update["total"].indices[:, 0]
    return {"features": features, **{name: update[name].values for name in names}}
