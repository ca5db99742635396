"""Which tensors a partial aggregate is of: reads the head of its bytes (docs/partials.md)."""

from __future__ import annotations

import struct
from typing import Any

from sparseagg.tensors import VALUE_DTYPES, TensorSpec

_VALUE_TYPES = tuple(VALUE_DTYPES)  # numbered from 1
_OVERFLOWS = ("checked", "modular")  # likewise
_BEFORE_TENSORS = "<8sIIQB"  # magic, version, number of tensors, contributors, named
_DIGIT_BYTES = 5


def read_specs(data: bytes) -> list[TensorSpec]:
    """Returns the tensors, in their order.

    data: a partial aggregate that the native library has read already, so nothing is checked here.
    """
    head = _Reader(data)
    tensors = head.numbers(_BEFORE_TENSORS)[2]
    head.skip(_DIGIT_BYTES * head.numbers("<B")[0])  # the total weight
    return [_read_spec(head) for _ in range(tensors)]


def _read_spec(head: _Reader) -> TensorSpec:
    name = head.text("<H")
    op = head.text("<B")
    value_type, overflow, rank, sparse_dim = head.numbers("<4B")
    dense_shape = head.numbers(f"<{rank}q")
    head.numbers("<QQ")  # entries, slices
    return TensorSpec(
        name,
        dense_shape,
        _VALUE_TYPES[value_type - 1],
        sparse_dim,
        op,
        _OVERFLOWS[overflow - 1],
    )


class _Reader:
    """Reads from the first byte on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def text(self, form_of_length: str) -> str:
        length = self.numbers(form_of_length)[0]
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def skip(self, size: int) -> None:
        self._at += size
