"""Tensors of other packages: one module for each, which reads them and gives results back in the same kind.

A kind is a module with two functions:

    read(value, value_type)    the SparseTensor or DenseValues that `value` holds, without a copy where the layouts agree
    restore(tensor, like)      a tensor of a result as what `like` is: its class, format and device

Which package an object belongs to is told by the names of its classes' modules, so no package is imported that the
process has not imported itself. One more package is one more module and one more row.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from sparseagg.tensors import AnyTensor, ResultTensor


class Kind(Protocol):
    """What each module of this folder offers."""

    def read(self, value: Any, value_type: str | None) -> AnyTensor:
        """The tensor in `value`; `value_type` is "bf16" where the values are uint16 bit patterns."""
        ...

    def restore(self, tensor: ResultTensor, like: Any) -> Any:
        """`tensor` in the kind of `like`; an array of the full shape becomes the package's dense tensor."""
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
    """The module for `value`; for an unknown class the one of numpy, which takes whatever an array can be made of."""
    for base in type(value).__mro__:
        module = _MODULE_OF_PACKAGE.get(base.__module__.partition(".")[0])
        if module is not None:
            return cast(Kind, importlib.import_module(f"sparseagg.kinds.{module}"))
    return cast(Kind, importlib.import_module("sparseagg.kinds._numpy"))


def is_mapping(value: Any) -> bool:
    """True for a mapping that is not itself a tensor, as scipy's DOK is: a dictionary from coordinates to values."""
    return isinstance(value, Mapping) and not hasattr(value, "tocoo")


def is_tensor(value: Any) -> bool:
    """True for an object of one of the packages, or anything else that calls itself an array."""
    known = any(
        base.__module__.partition(".")[0] in _MODULE_OF_PACKAGE for base in type(value).__mro__
    )
    return known or hasattr(value, "__array__")
