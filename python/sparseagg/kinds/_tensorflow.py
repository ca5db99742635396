"""TensorFlow: tf.SparseTensor, tf.IndexedSlices (the gradient of an embedding), tensors and variables; eager ones."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sparseagg.errors import InvalidUpdateError
from sparseagg.kinds._numpy import fitting_indices, to_numpy
from sparseagg.tensors import AnyTensor, DenseValues, ResultTensor, SparseTensor


def is_sparse(value: Any) -> bool:
    """See `sparseagg.kinds`."""
    return hasattr(value, "indices")


def read(value: Any, value_type: str | None) -> AnyTensor:
    """See `sparseagg.kinds`."""
    if hasattr(value, "row_splits"):
        raise InvalidUpdateError(
            "a tf.RaggedTensor has no indices; convert it with to_sparse() first",
            reason="VALUE_TYPE_UNSUPPORTED",
        )
    if not is_sparse(value):
        return DenseValues(_to_numpy(value), value_type)
    if value.dense_shape is None:
        raise InvalidUpdateError(
            "this tf.IndexedSlices has no dense_shape; give it the one of its variable",
            reason="SHAPE_MISMATCH",
        )
    shape = tuple(int(dim) for dim in _to_numpy(value.dense_shape))
    return SparseTensor(_to_numpy(value.indices), _to_numpy(value.values), shape, value_type)


def restore(tensor: ResultTensor, like: Any) -> Any:
    """See `sparseagg.kinds`."""
    tf = sys.modules["tensorflow"]
    if not isinstance(tensor, SparseTensor) or not is_sparse(like):
        array = tensor.to_dense() if isinstance(tensor, SparseTensor) else tensor
        sample = like.values if is_sparse(like) else like
        return _on_device(
            sample, lambda: tf.convert_to_tensor(to_numpy(_as_bfloat16(array, sample), sample))
        )

    def make() -> Any:
        values = tf.convert_to_tensor(_as_bfloat16(tensor.values, like.values))
        if type(like).__name__.startswith("IndexedSlices"):
            index_dtype = like.indices.dtype
            index_dtype = getattr(index_dtype, "as_numpy_dtype", index_dtype)
            indices = fitting_indices(tensor.indices[:, 0], index_dtype)
            # A tensor: TensorFlow asks for its type wherever it takes an IndexedSlices apart.
            shape_dtype = getattr(like.dense_shape, "dtype", tf.int64)
            if max(tensor.dense_shape) > shape_dtype.max:
                shape_dtype = tf.int64
            shape = tf.convert_to_tensor(tensor.dense_shape, shape_dtype)
            return tf.IndexedSlices(values, tf.convert_to_tensor(indices), shape)
        return tf.SparseTensor(tensor.indices.astype(np.int64), values, tensor.dense_shape)

    return _on_device(like.values, make)


def _to_numpy(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray) or not hasattr(value, "dtype"):
        return np.asarray(value)
    if not hasattr(value, "numpy"):
        raise InvalidUpdateError(
            f"{value!r} has no value yet: hand in eager tensors, outside of tf.function",
            reason="VALUE_TYPE_UNSUPPORTED",
        )
    return np.asarray(value)  # of the same memory; its numpy() would copy


def _as_bfloat16(array: np.ndarray[Any, Any], like: Any) -> np.ndarray[Any, Any]:
    tf = sys.modules["tensorflow"]
    is_bits = array.dtype == np.uint16 and like.dtype == tf.bfloat16
    return array.view(tf.bfloat16.as_numpy_dtype) if is_bits else array


def _on_device(like: Any, make: Any) -> Any:
    with sys.modules["tensorflow"].device(getattr(like, "device", None)):
        return make()
