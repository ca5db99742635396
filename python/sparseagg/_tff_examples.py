"""Sparse examples inside TFF's computations, whose types have no tf.SparseTensor: structures of its three components."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from sparseagg.convert import as_tensor
from sparseagg.errors import InvalidUpdateError
from sparseagg.tensors import SparseTensor


def sparse_tensor_type(dtype: Any = np.float32, rank: int = 2) -> Any:
    """The type of `components`: <indices=int64[?,rank], values=dtype[?], dense_shape=int64[rank]>.

    dtype: of the values.
    rank: the number of dimensions, all of which are indexed.

    It says neither how many entries there are nor the shape, so that one computation serves clients with any number of
    examples. `tff.types.SequenceType(sparse_tensor_type())` is the type of `sparse_batches`.
    """
    return tff.types.to_type(
        OrderedDict(
            indices=tff.types.TensorType(np.int64, [None, rank]),
            values=tff.types.TensorType(dtype, [None]),
            dense_shape=tff.types.TensorType(np.int64, [rank]),
        )
    )


def components(tensor: Any) -> OrderedDict[str, Any]:
    """A sparse tensor as a structure of `sparse_tensor_type`: what a TFF computation takes and gives.

    tensor: a tf.SparseTensor, also inside a computation; or any other kind that `sparseagg.as_tensor` takes: a scipy
        matrix, a triple.

    Raises InvalidUpdateError where not all dimensions are indexed, and for bit patterns of bfloat16.
    """
    if isinstance(tensor, tf.SparseTensor):
        return OrderedDict(
            indices=tensor.indices, values=tensor.values, dense_shape=tensor.dense_shape
        )
    read = as_tensor(tensor)
    if not isinstance(read, SparseTensor) or read.sparse_dim != len(read.dense_shape):
        raise InvalidUpdateError(
            f"a tensor of the shape {list(read.dense_shape)} that is not indexed in all dimensions has no components",
            reason="SHAPE_MISMATCH",
        )
    if read.value_type == "bf16":
        raise InvalidUpdateError(
            "TensorFlow would take bit patterns of bfloat16 for numbers; convert them to f32",
            reason="VALUE_TYPE_UNSUPPORTED",
        )
    return OrderedDict(
        indices=read.indices.astype(np.int64),
        values=read.values,
        dense_shape=np.array(read.dense_shape, np.int64),
    )


def sparse_tensor(parts: Mapping[str, Any]) -> tf.SparseTensor:
    """The tf.SparseTensor of `components`, for use inside a tff.tensorflow.computation.

    parts: a structure of `sparse_tensor_type`.

        @tff.tensorflow.computation(sparse_tensor_type(np.float32))
        def work(examples):
            scores = tf.sparse.sparse_dense_matmul(sparse_tensor(examples), weights)
    """
    return tf.SparseTensor(parts["indices"], parts["values"], parts["dense_shape"])


def sparse_batches(examples: Any, batch_size: int) -> tf.data.Dataset:
    """The examples in batches, a tf.data.Dataset of `components`, which a tff.types.SequenceType takes.

    examples: a sparse matrix `[examples, features]` in any kind that `components` takes.
    batch_size: examples in a batch; the last one has the rest.
    """
    whole = tf.sparse.reorder(sparse_tensor(components(examples)))
    batches = tf.data.Dataset.from_tensor_slices(whole).batch(batch_size)
    return batches.map(components)


def local_features(examples: tf.SparseTensor) -> tuple[tf.Tensor, tf.SparseTensor]:
    """`sparseagg.sparse_data.local_features` inside a computation: (features, examples with these as their only columns).

    examples: `[examples, features]`. Entries of equal indices stay apart.

    TensorFlow makes the gradient of a sparse product dense. So that it has rows for the features that occur only:

        features, examples = local_features(sparse_tensor(data))
        rows = tf.gather(weights, features)
        # ... the gradient of the loss with respect to rows
        update = OrderedDict(indices=features, values=gradient)
    """
    features, columns = _renumbered(examples.indices[:, 1])
    indices = tf.stack([examples.indices[:, 0], columns], axis=1)
    shape = tf.stack([examples.dense_shape[0], tf.size(features, tf.int64)])
    return features, tf.SparseTensor(indices, examples.values, shape)


def feature_statistics(examples: tf.SparseTensor) -> OrderedDict[str, Any]:
    """`sparseagg.sparse_data.feature_statistics` inside a computation: an update for `SparseRound`.

    examples: `[examples, features]`; entries of equal indices are added first.

    `sparseagg.sparse_data.statistics_specs` has the operators and shapes that the round needs:

        specs = statistics_specs(num_features)
        round = SparseRound(
            client_work,
            server_update,
            {spec.name: spec.dense_shape for spec in specs if spec.sparse_dim},
            op={spec.name: spec.op for spec in specs},
        )

    The weight of an update of statistics is 1, because the operator `sum` multiplies by it.
    """
    wide = tf.int64 if examples.values.dtype.is_integer else tf.float64
    features, columns = _renumbered(examples.indices[:, 1])
    count = tf.size(features, tf.int64)
    cells, positions = tf.unique(examples.indices[:, 0] * count + columns, tf.int64)
    sums = tf.math.unsorted_segment_sum(
        tf.cast(examples.values, wide), positions, tf.size(cells, tf.int64)
    )
    values = tf.cast(sums, examples.values.dtype)
    # The number of features is 0 where there are no cells, and nothing is divided by it.
    columns = tf.math.floormod(cells, tf.maximum(count, 1))

    def of_features(statistic: Any) -> OrderedDict[str, Any]:
        return OrderedDict(indices=features, values=statistic)

    held = tf.math.unsorted_segment_sum(tf.ones_like(columns), columns, count)
    return OrderedDict(
        examples=examples.dense_shape[:1],
        document_frequency=of_features(held),
        contributors=of_features(tf.ones_like(features, tf.int32)),
        total=of_features(tf.math.unsorted_segment_sum(tf.cast(values, wide), columns, count)),
        minimum=of_features(tf.math.unsorted_segment_min(values, columns, count)),
        maximum=of_features(tf.math.unsorted_segment_max(values, columns, count)),
    )


def _renumbered(features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The distinct features, ascending, and the position of each of `features` among them, int64."""
    distinct, positions = tf.unique(features, tf.int64)
    order = tf.argsort(distinct)
    ranks = tf.cast(tf.argsort(order), tf.int64)
    return tf.gather(distinct, order), tf.gather(ranks, positions)
