"""scipy.sparse matrices and arrays of every format. All dimensions are indexed; results come back in the same format."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sparseagg.errors import InvalidArgumentError
from sparseagg.tensors import AnyTensor, ResultTensor, SparseTensor


def is_sparse(_value: Any) -> bool:
    """See `sparseagg.kinds`."""
    return True


def read(value: Any, value_type: str | None) -> AnyTensor:
    """See `sparseagg.kinds`."""
    coo = value.tocoo(copy=False)
    coordinates = getattr(coo, "coords", None) or (coo.row, coo.col)
    return SparseTensor(np.stack(coordinates, axis=1), coo.data, coo.shape, value_type)


def restore(tensor: ResultTensor, like: Any) -> Any:
    """See `sparseagg.kinds`."""
    if not isinstance(tensor, SparseTensor):
        return tensor
    if tensor.sparse_dim != len(tensor.dense_shape):
        raise InvalidArgumentError(
            f"a result of the shape {list(tensor.dense_shape)} with sparse_dim {tensor.sparse_dim} holds rows, and a scipy "
            "matrix scalars: the round's TensorSpec needs all dimensions in its sparse_dim"
        )
    if tensor.value_type == "bf16":
        raise InvalidArgumentError("scipy has no bfloat16; its bits would be taken for numbers")
    sparse = sys.modules["scipy.sparse"]  # `like` is made of it
    # By name: what arrays and matrices derive from has changed between versions.
    is_array = type(like).__name__.endswith("_array")
    coo_class = sparse.coo_array if is_array else sparse.coo_matrix
    coo = coo_class((tensor.values, tuple(tensor.indices.T)), shape=tensor.dense_shape)
    return coo.asformat(like.format)
