"""Where foreign tensors become ours. `as_tensor` is the only place that recognises other packages' types.

It looks at what an object can do, and imports nothing: an adapter for one more package is one more branch here, or a
function elsewhere that builds a `SparseTensor`.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from sparseagg.tensors import SparseTensor, TensorSpec, as_values


class DenseValues:
    """A dense tensor (sparse_dim 0): values `[*dense_shape]` and the name of their type."""

    __slots__ = ("values", "value_type")

    def __init__(self, values: Any, value_type: str | None = None) -> None:
        self.values, self.value_type = as_values(values, value_type)

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The full shape."""
        return tuple(self.values.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values, which is what travels."""
        return int(self.values.nbytes)


AnyTensor = Union[SparseTensor, DenseValues]


def as_tensor(value: Any, value_type: str | None = None) -> AnyTensor:
    """`value` as a SparseTensor or a dense one.

    value: SparseTensor; a tuple (indices, values, dense_shape), which TensorFlow's SparseTensorValue is, too; a scipy
        sparse matrix or array of any format; or anything that numpy can turn into an array, which is then dense.
    value_type: "bf16" where the values are uint16 bit patterns; otherwise taken from the values.
    """
    if isinstance(value, (SparseTensor, DenseValues)):
        return value
    if isinstance(value, tuple) and len(value) == 3:
        return SparseTensor(*value, value_type=value_type)
    if callable(getattr(value, "tocoo", None)):
        coo = value.tocoo()
        coords = getattr(coo, "coords", None) or (coo.row, coo.col)
        return SparseTensor(np.stack(coords, axis=1), coo.data, coo.shape, value_type)
    return DenseValues(value, value_type)


def as_tensor_of(spec: TensorSpec | None, value: Any) -> AnyTensor:
    """`as_tensor` of a tensor that is meant for `spec` (None: unknown to the round; the server will say so).

    uint16 is no value type of its own, so for a bf16 tensor it can only mean bit patterns.
    """
    values = value[1] if isinstance(value, tuple) and len(value) == 3 else value
    is_bits = (
        spec is not None
        and spec.value_type == "bf16"
        and getattr(values, "dtype", None) == np.uint16
    )
    return as_tensor(value, "bf16" if is_bits else None)
