"""JAX: BCOO and BCSR matrices without batch dimensions, and dense arrays; on any device.

JAX pads sparse matrices with entries whose index is the shape itself; these are left out.

Without jax_enable_x64 JAX has no type of 64 bits and makes one of 32 bits of it, in which 2^40 is 0 and 1e300 infinite. A
result of 64 bits comes back in 32 where each of its values is the same there, and is refused where one is not.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sparseagg.errors import InvalidUpdateError
from sparseagg.kinds._numpy import fitting_indices, to_numpy, unchanged
from sparseagg.tensors import AnyTensor, DenseValues, ResultTensor, SparseTensor


def is_sparse(value: Any) -> bool:
    """See `sparseagg.kinds`."""
    return hasattr(value, "n_batch")


def read(value: Any, value_type: str | None) -> AnyTensor:
    """See `sparseagg.kinds`."""
    if not is_sparse(value):
        _check_dense(value)
        return DenseValues(np.asarray(value), value_type)
    if hasattr(value, "indptr"):
        value = value.to_bcoo()
    if value.n_batch:
        raise InvalidUpdateError(
            f"this BCOO has {value.n_batch} batch dimension(s); only ones without can be aggregated",
            reason="SHAPE_MISMATCH",
        )
    indices, data = np.asarray(value.indices), np.asarray(value.data)
    padding = (indices >= np.array(value.shape[: indices.shape[1]])).any(axis=1)
    if padding.any():
        indices, data = indices[~padding], data[~padding]
    return SparseTensor(indices, data, value.shape, value_type)


def restore(tensor: ResultTensor, like: Any) -> Any:
    """See `sparseagg.kinds`."""
    if not is_sparse(like):
        array = tensor.to_dense() if isinstance(tensor, SparseTensor) else tensor
        return _put(to_numpy(array, like), like.sharding)
    device = next(iter(like.data.devices()))
    if not isinstance(tensor, SparseTensor):
        return _put(to_numpy(tensor, like.data), device)
    data = _put(to_numpy(tensor.values, like.data), device)
    indices = _put(fitting_indices(tensor.indices, like.indices.dtype), device, "index")
    sparse = sys.modules["jax.experimental.sparse"]
    matrix = sparse.BCOO(
        (data, indices), shape=tensor.dense_shape, indices_sorted=True, unique_indices=True
    )
    return sparse.BCSR.from_bcoo(matrix) if hasattr(like, "indptr") else matrix


def _put(array: np.ndarray[Any, Any], device: Any, what: str = "value") -> Any:
    """Returns a JAX array of the same values, which may keep the memory."""
    jax = sys.modules["jax"]
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    if dtype == array.dtype:
        return jax.device_put(array, device)
    hint = "set jax.config.update('jax_enable_x64', True), or take an example of numpy"
    return jax.device_put(unchanged(array, dtype, what, hint), device)


def _check_dense(value: Any) -> None:
    """Refuses the older sparse classes, CSC, CSR and COO, of which numpy raises an error of JAX."""
    sparse = sys.modules.get("jax.experimental.sparse")  # the caller has imported it
    if sparse is not None and isinstance(value, sparse.JAXSparse):
        raise InvalidUpdateError(
            f"a {type(value).__name__} of JAX is not taken; convert it to BCOO or BCSR first",
            reason="VALUE_TYPE_UNSUPPORTED",
        )
