"""How errors name one entry of an update: by its place in the arrays that were handed in, also where it is sent in another
order, and by its index, of which no message has the flattened row where several dimensions are indexed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseagg.errors import InvalidUpdateError
from sparseagg.tensors import SparseTensor

if TYPE_CHECKING:
    from sparseagg.tensors import Array

_VALUES_AT_ONCE = 1 << 16  # of which a mask is in memory
_BF16_EXPONENT, _BF16_MANTISSA = np.uint16(0x7F80), np.uint16(0x007F)


def place_of(tensor: SparseTensor, entry: int, column: int) -> str:
    """Returns `entry 17 (row 812), value 3`, or `entry 17 (index [3, 7]), value 3`, as the server names a value; without
    the last part where a row has one value."""
    index = tensor.indices[entry].tolist()
    where = f"row {index[0]}" if len(index) == 1 else f"index {index}"
    value = f", value {column}" if width_of(tensor) > 1 else ""
    return f"entry {entry} ({where}){value}"


def width_of(tensor: SparseTensor) -> int:
    """Returns the number of values of a row. Of a tensor with entries."""
    return tensor.values.size // tensor.nnz


def check_finite(name: str, tensor: SparseTensor) -> None:
    """Raises InvalidUpdateError (NON_FINITE_VALUE) for the first value that is NaN or infinite, which the server would
    refuse as well."""
    if tensor.value_type[0] in "iu":
        return
    flat = tensor.values.reshape(-1)
    for begin in range(0, flat.size, _VALUES_AT_ONCE):
        finite = _finite(flat[begin:][:_VALUES_AT_ONCE], tensor.value_type)
        if finite.all():
            continue
        position = begin + int(finite.argmin())
        place = place_of(tensor, *divmod(position, width_of(tensor)))
        what = "NaN" if _is_nan(flat[position], tensor.value_type) else "infinite"
        raise InvalidUpdateError(f'tensor "{name}": {place} is {what}', reason="NON_FINITE_VALUE")


def _finite(values: Array, value_type: str) -> Array:
    if value_type == "bf16":
        return (values & _BF16_EXPONENT) != _BF16_EXPONENT
    return np.isfinite(values)


def _is_nan(value: np.generic, value_type: str) -> bool:
    return bool(value & _BF16_MANTISSA) if value_type == "bf16" else bool(np.isnan(value))
