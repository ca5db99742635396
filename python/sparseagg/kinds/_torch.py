"""torch tensors: dense ones, sparse COO (hybrid and uncoalesced, too), CSR, CSC, BSR and BSC; on any device.

The gradient of `nn.Embedding(sparse=True)` is a hybrid COO tensor with repeated rows; it is taken as it is. torch holds
indices as `[sparse_dim, nnz]`, so one indexed dimension needs no copy, more need one.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sparseagg.errors import InvalidUpdateError
from sparseagg.kinds._numpy import unchanged
from sparseagg.tensors import AnyTensor, DenseValues, ResultTensor, SparseTensor

_COMPRESSED = ("sparse_csr", "sparse_csc")
_BLOCKED = ("sparse_bsr", "sparse_bsc")


def is_sparse(value: Any) -> bool:
    """See `sparseagg.kinds`."""
    return bool(value.layout != sys.modules["torch"].strided and not value.is_nested)


def read(value: Any, value_type: str | None) -> AnyTensor:
    """See `sparseagg.kinds`."""
    torch = sys.modules["torch"]
    if not isinstance(value, torch.Tensor):
        raise InvalidUpdateError(
            f"a {type(value).__name__} is no tensor", reason="VALUE_TYPE_UNSUPPORTED"
        )
    value = value.detach()
    _check_shape(value)
    if value.dtype == torch.bfloat16:
        value_type = "bf16"
    if not is_sparse(value):
        return DenseValues(_to_numpy(value), value_type)
    if value.layout != torch.sparse_coo:
        try:
            value = value.to_sparse_coo()
        except RuntimeError as bad:
            raise InvalidUpdateError(
                f"a tensor of the layout {value.layout} has no indices",
                reason="VALUE_TYPE_UNSUPPORTED",
            ) from bad
    # Not indices() and values(): those refuse a tensor that is not coalesced, and coalescing is the server's work.
    indices, values = value._indices(), value._values()
    return SparseTensor(_to_numpy(indices).T, _to_numpy(values), tuple(value.shape), value_type)


def restore(tensor: ResultTensor, like: Any) -> Any:
    """See `sparseagg.kinds`."""
    torch = sys.modules["torch"]
    _check_shape(like)
    if not is_sparse(like) and isinstance(tensor, SparseTensor):
        tensor = tensor.to_dense()
    if not isinstance(tensor, SparseTensor):
        dense = _from_numpy(tensor, like)
        return dense.reshape(()) if like.shape == () and dense.shape == (1,) else dense
    indices = torch.from_numpy(np.ascontiguousarray(tensor.indices.T, np.int64)).to(like.device)
    # The server's answer is in range and in order, so torch need not look at it again.
    coo = torch.sparse_coo_tensor(
        indices,
        _from_numpy(tensor.values, like),
        tensor.dense_shape,
        is_coalesced=True,
        check_invariants=False,
    )
    layout = str(like.layout).partition(".")[2]
    if layout in _BLOCKED:
        return getattr(coo, f"to_{layout}")(tuple(like.values().shape[1:3]))
    return getattr(coo, f"to_{layout}")() if layout in _COMPRESSED else coo


def _check_shape(value: Any) -> None:
    """Refuses a nested tensor, of which torch raises an internal error."""
    if value.is_nested:
        raise InvalidUpdateError(
            "a nested tensor has no shape of its own: fill it up with to_padded_tensor(), or hand its parts in as a list",
            reason="SHAPE_MISMATCH",
        )


def _to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """Returns the tensor as an array, of the same memory when it is on the CPU; bfloat16 as uint16 bits."""
    torch = sys.modules["torch"]
    if value.is_meta:
        raise InvalidUpdateError(
            "a tensor on the device meta has no values", reason="VALUE_TYPE_UNSUPPORTED"
        )
    value = value.cpu().resolve_neg()  # a view of an imaginary part may be one with the other sign
    if value.dtype == torch.bfloat16:
        return np.asarray(value.view(torch.int16).numpy()).view(np.uint16)
    return np.asarray(value.numpy())


def _from_numpy(array: np.ndarray[Any, Any], like: Any) -> Any:
    torch = sys.modules["torch"]
    if array.dtype == np.uint64 and like.dtype != getattr(torch, "uint64", None):
        # Counts: torch can do little with its unsigned types.
        hint = "take an example of torch.uint64, or of numpy"
        array = unchanged(array, np.dtype(np.int64), "value", hint)
    if like.dtype == torch.bfloat16 and array.dtype == np.uint16:
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    return tensor.to(like.device)
