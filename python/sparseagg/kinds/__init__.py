"""Tensors of other packages: one module for each, which reads them and gives results back in the same kind.

A kind is a module with three functions:

    is_sparse(value)           whether `value` has indices
    read(value, value_type)    the SparseTensor or DenseValues that `value` holds, without a copy where the layouts agree
    restore(tensor, like)      a tensor of a result as what `like` is: its class, format and device; may keep its memory

Which package an object belongs to is told by the names of its classes' modules, so no package is imported that the
process has not imported itself. One more package is one more module and one more row.
"""

from __future__ import annotations

import array
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

from sparseagg.tensors import AnyTensor, ResultTensor


class Kind(Protocol):
    """The interface of each module of this folder."""

    def is_sparse(self, value: Any) -> bool:
        """Returns True for a sparse tensor, of which `read` makes a SparseTensor."""
        ...

    def read(self, value: Any, value_type: str | None) -> AnyTensor:
        """Returns the tensor in `value`; `value_type` is "bf16" where the values are uint16 bit patterns."""
        ...

    def restore(self, tensor: ResultTensor, like: Any) -> Any:
        """Returns `tensor` in the kind of `like`; an array of the full shape becomes the package's dense tensor. What
        is returned may keep the memory of `tensor`, which nobody else uses any more."""
        ...


_MODULE_OF_PACKAGE = {
    "sparseagg": "_numpy",
    "numpy": "_numpy",
    "scipy": "_scipy",
    "torch": "_torch",
    "tensorflow": "_tensorflow",
    "jax": "_jax",
    "jaxlib": "_jax",
}


def kind_of(value: Any) -> Kind:
    """Returns the module for `value`; for an unknown class the one of numpy, which takes whatever an array can be made
    of."""
    module = next(_modules_of(value), "_numpy")
    return cast(Kind, importlib.import_module(f"sparseagg.kinds.{module}"))


def is_mapping(value: Any) -> bool:
    """Returns True for a mapping that is not itself a tensor, as scipy's DOK is: a dictionary from coordinates to
    values."""
    return isinstance(value, Mapping) and not _has(value, "tocoo")


def is_tensor(value: Any) -> bool:
    """Returns True for an object of one of the packages, or anything else that calls itself an array."""
    return any(_modules_of(value)) or _has(value, "__array__")


def is_one_tensor(value: Any) -> bool:
    """Returns True for a tensor, sparse or dense, of whatever package, and for what is one in memory: bytes, an
    array.array. Not for other objects of these packages that can be iterated over, as a torch DataLoader or a
    tf.data.Dataset."""
    if isinstance(value, (str, bytes, bytearray, memoryview, array.array)):
        return True
    return any(_has(value, name) for name in ("shape", "dense_shape", "__array__", "tocoo"))


def _modules_of(value: Any) -> Iterator[str]:
    """Yields the modules of this folder for the packages of its classes."""
    for base in type(value).__mro__:
        package = str(base.__module__).partition(".")[0]  # some class has None there
        if package in _MODULE_OF_PACKAGE:
            yield _MODULE_OF_PACKAGE[package]


def _has(value: Any, name: str) -> bool:
    """Like `hasattr`, but also True where the attribute is a property that raises."""
    try:
        return hasattr(value, name)
    except Exception:  # of another package; `read` meets it again and says so
        return True
