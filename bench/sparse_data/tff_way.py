"""Examples in TFF's client computations: the components of a sparse tensor, and a dense tensor."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from sparseagg.tff import (
    components,
    feature_statistics,
    local_features,
    sparse_tensor,
    sparse_tensor_type,
)


def sparse_statistics(examples):
    return feature_statistics(sparse_tensor(examples))


def dense_statistics(examples):
    held = tf.not_equal(examples, 0)  # in TFF, != compares objects
    smallest = tf.reduce_min(tf.where(held, examples, np.inf), axis=0)
    largest = tf.reduce_max(tf.where(held, examples, -np.inf), axis=0)
    return {
        "document_frequency": tf.math.count_nonzero(examples, axis=0),
        "total": tf.reduce_sum(tf.cast(examples, tf.float64), axis=0),
        "minimum": tf.where(tf.math.is_finite(smallest), smallest, 0),
        "maximum": tf.where(tf.math.is_finite(largest), largest, 0),
    }


def gradient(examples, labels, weights, product):
    with tf.GradientTape() as tape:
        tape.watch(weights)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, product(examples, weights))
        loss = tf.reduce_mean(losses)
    return tape.gradient(loss, weights)


def sparse_gradient(examples, labels, weights):
    features, local = local_features(sparse_tensor(examples))
    rows = tf.gather(weights, features)
    return features, gradient(local, labels, rows, tf.sparse.sparse_dense_matmul)


def dense_gradient(examples, labels, weights):
    return tf.range(tf.shape(weights, tf.int64)[0]), gradient(examples, labels, weights, tf.matmul)


class Way:
    """See measure.py."""

    def __init__(self, form):
        self._is_sparse = form == "sparse"
        examples, statistics, gradient_of = (
            (sparse_tensor_type(np.float32), sparse_statistics, sparse_gradient)
            if self._is_sparse
            else (tff.types.TensorType(np.float32, [None, None]), dense_statistics, dense_gradient)
        )
        labels = tff.types.TensorType(np.int64, [None])
        weights = tff.types.TensorType(np.float32, [None, 16])
        self._statistics = tff.tensorflow.computation(statistics, examples)
        self._gradient = tff.tensorflow.computation(gradient_of, examples, labels, weights)

    def load(self, indices, values, dense_shape):
        if self._is_sparse:
            return components((indices, values, dense_shape))
        examples = np.zeros(dense_shape, np.float32)
        examples[tuple(indices.T)] = values
        return examples

    def statistics(self, examples):
        found = self._statistics(examples)
        if not self._is_sparse:
            return found
        names = ("document_frequency", "total", "minimum", "maximum")
        values = {name: found[name]["values"] for name in names}
        return {"features": found["total"]["indices"], **values}

    def renumber(self, examples):
        """The computation does it."""
        return slice(None), examples

    def gradient(self, examples, labels, rows):
        features, gradient = self._gradient(examples, labels, rows)
        if not self._is_sparse:
            return gradient
        spread = np.zeros_like(rows)
        spread[features] = gradient
        return spread
