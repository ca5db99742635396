"""SparseTensor, the triple (indices, values, dense_shape), the same as a dictionary, and dense arrays of numpy or of what
converts to them.

A triple comes back as a SparseTensor, which unpacks as one: `indices, values, dense_shape = result`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparseagg.errors import InvalidArgumentError, InvalidUpdateError
from sparseagg.kinds import kind_of
from sparseagg.tensors import AnyTensor, DenseValues, ResultTensor, SparseTensor


def is_sparse(value: Any) -> bool:
    """See `sparseagg.kinds`."""
    is_triple = isinstance(value, tuple) and len(value) == 3
    return isinstance(value, (SparseTensor, Mapping)) or is_triple


def read(value: Any, value_type: str | None) -> AnyTensor:
    """See `sparseagg.kinds`."""
    if isinstance(value, (SparseTensor, DenseValues)):
        return value
    if isinstance(value, tuple) and len(value) == 3:
        return _of_parts(*value, value_type=value_type)
    if isinstance(value, Mapping):
        parts = (value["indices"], value["values"], value["dense_shape"])
        named = str(value["value_type"]) if "value_type" in value else None  # of an array, too
        return _of_parts(*parts, value_type=value_type or named)
    if isinstance(value, tuple) and any(getattr(part, "ndim", 0) > 0 for part in value):
        raise InvalidUpdateError(  # layers, as JAX has them: neither stacked nor in numpy's words
            f"a tuple of {len(value)} arrays is no tensor: a sparse one is (indices, values, dense_shape), and tensors of "
            "a model are in lists or mappings",
            reason="SHAPE_MISMATCH",
        )
    return DenseValues(value, value_type)


def restore(tensor: ResultTensor, like: Any) -> Any:
    """See `sparseagg.kinds`."""
    if isinstance(tensor, SparseTensor):
        if isinstance(like, Mapping):
            return tensor.to_dict()
        return tensor if is_sparse(like) else to_numpy(tensor.to_dense(), like)
    return to_numpy(tensor, like)


def _of_parts(indices: Any, values: Any, dense_shape: Any, value_type: str | None) -> SparseTensor:
    # numpy cannot read the bfloat16 of torch, so values of another package are read by its own
    # module.
    kind = kind_of(values)
    if kind.read is not read:
        dense = kind.read(values, value_type)
        values, value_type = dense.values, dense.value_type
    return SparseTensor(indices, values, dense_shape, value_type)


def to_numpy(array: np.ndarray[Any, Any], like: Any) -> Any:
    """Returns `array` as a scalar, and with the bfloat16 of ml_dtypes, where `like` is one or has it: numbers of Python
    and of numpy come back as such."""
    dtype = getattr(like, "dtype", None)
    if getattr(dtype, "name", "") == "bfloat16" and array.dtype == np.uint16:
        array = array.view(dtype)
    if array.shape != (1,):
        return array
    if isinstance(like, (bool, int, float)) and not isinstance(like, np.generic):
        return array.item()
    if isinstance(like, np.generic):
        return array[0]
    return array.reshape(()) if getattr(like, "shape", None) == () else array


def unchanged(
    array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str, hint: str
) -> np.ndarray[Any, Any]:
    """Returns `array` in a narrower type. Raises InvalidArgumentError, with the first `what` that would be another one
    there."""
    with np.errstate(all="ignore"):
        narrow = array.astype(dtype)
        back = narrow.astype(array.dtype)
    same = back == array
    if array.dtype.kind == "f":
        same |= np.isnan(array)
    else:
        same &= (narrow < 0) == (array < 0)  # 2^63 as i64, and back
    if not same.all():
        position = [int(index) for index in np.argwhere(~same)[0]]
        raise InvalidArgumentError(
            f"{what} {array[tuple(position)]} at {position} of a result of {array.dtype} is another one as {dtype}: {hint}",
            reason="VALUE_TYPE_MISMATCH",
        )
    return narrow


def fitting_indices(
    indices: np.ndarray[Any, Any], dtype: Any, widest: Any = np.int64
) -> np.ndarray[Any, Any]:
    """Returns `indices` in the type of an example's, or in the `widest` where they do not fit."""
    wanted = np.dtype(dtype)
    if indices.size and int(indices.max()) > np.iinfo(wanted).max:
        wanted = np.dtype(widest)
    return indices.astype(wanted)
