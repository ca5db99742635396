"""An array in another type, of which each part is made when it is read: of a large update no second copy is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Union

import numpy as np

if TYPE_CHECKING:
    from sparseagg.tensors import Array

# Below, a copy costs less than making it in parts.
_BYTES_MIN = 1 << 20


class Recoded:
    """`size` elements of `itemsize` bytes, of which `make(begin, end)` makes some."""

    def __init__(self, size: int, itemsize: int, make: Callable[[int, int], Array]) -> None:
        self._make = make
        self.itemsize = itemsize
        self.size = size
        self.nbytes = size * itemsize

    def read(self, begin: int, end: int) -> memoryview:
        """Returns the bytes from `begin` to `end`, which may lie in the middle of an element."""
        first = begin // self.itemsize
        part = self._make(first, -(-end // self.itemsize))
        skipped = first * self.itemsize
        return _bytes_of(part)[begin - skipped : end - skipped]

    def copy(self) -> Array:
        """Returns the whole payload as bytes; made in parts, whose temporaries are small."""
        whole = np.empty(self.nbytes, np.uint8)
        step = max(1, _BYTES_MIN // self.itemsize) * self.itemsize
        for begin in range(0, self.nbytes, step):
            end = min(begin + step, self.nbytes)
            whole[begin:end] = self.read(begin, end)
        return whole

    def tobytes(self) -> bytes:
        """Returns the whole payload."""
        return self.copy().tobytes()


# A tensor's indices or values in the form in which they are sent.
Payload = Union["Array", Recoded]


def recode(source: Array, itemsize: int, convert: Callable[[Array], Array]) -> Payload:
    """Returns `convert(source)` for a conversion that takes each element by itself, made when it is read where it is large.
    `source` is in the order of its memory, and stays as it is."""
    flat = source.reshape(-1)
    return made_when_read(flat.size, itemsize, lambda begin, end: convert(flat[begin:end]))


def made_when_read(size: int, itemsize: int, make: Callable[[int, int], Array]) -> Payload:
    """Returns `make(0, size)`: `size` elements of `itemsize` bytes, in parts when they are read where they are many."""
    if size * itemsize < _BYTES_MIN:
        return make(0, size)
    return Recoded(size, itemsize, make)


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
