"""Where foreign tensors become ours: `as_tensor` of one, `flatten` of a model, `specs_of` for the round that takes it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from sparseagg import _arguments
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError, UnknownTensorError
from sparseagg.kinds import is_mapping, is_tensor, kind_of
from sparseagg.tensors import AnyTensor, ResultTensor, SparseTensor, TensorSpec

_SEPARATOR = "/"
_ROOT = "tensor"  # name of a tensor that stands alone


def as_tensor(value: Any, value_type: str | None = None) -> AnyTensor:
    """`value` as a SparseTensor or a dense one, without a copy where the layouts agree.

    value: SparseTensor; a tuple (indices, values, dense_shape), or a dictionary of these three, which may have a
        value_type, too; a scipy sparse matrix or array of any format; a torch
        sparse tensor; tf.SparseTensor or tf.IndexedSlices; a JAX BCOO or BCSR; or anything that numpy can turn into an
        array, which is then dense.
    value_type: "bf16" where the values are uint16 bit patterns; otherwise taken from the values.

    Raises InvalidUpdateError for a type of values that cannot be aggregated.
    """
    return kind_of(value).read(value, value_type)


def as_tensor_of(spec: TensorSpec | None, value: Any) -> AnyTensor:
    """`as_tensor` of a tensor that is meant for `spec` (None: unknown to the round; the server will say so).

    uint16 is no value type of its own, so for a bf16 tensor it can only mean bit patterns.
    """
    values = value
    if isinstance(value, tuple) and len(value) == 3:
        values = value[1]
    elif is_mapping(value):
        values = value.get("values")
    is_bits = (
        spec is not None
        and spec.value_type == "bf16"
        and getattr(values, "dtype", None) == np.uint16
    )
    return as_tensor(value, "bf16" if is_bits else None)


def read_tensors(tree: Any, specs: Mapping[str, TensorSpec]) -> dict[str, AnyTensor]:
    """The tensors of an update by the names of `flatten`, each as it is meant for its spec."""
    tensors = {}
    for name, value in flatten(tree).items():
        with _arguments.refusing(f'tensor "{name}"', InvalidUpdateError):
            tensors[name] = as_tensor_of(specs.get(name), value)
    return tensors


def flatten(tree: Any) -> dict[str, Any]:
    """The tensors of a model by name: the keys (and positions in lists) on the way to them, joined by "/".

    tree: nested mappings and lists of tensors, or one tensor, which is called "tensor". A list of plain numbers is a
    tensor. Raises InvalidArgumentError when two tensors get the same name, or a dictionary has indices and values but no
    dense_shape.
    """
    found: dict[str, Any] = {}
    _collect(tree, "", found)
    return found


def unflatten(like: Any, tensors: Mapping[str, Any]) -> Any:
    """`tensors`, by the names of `flatten`, in the nesting of `like`, each in the kind that stands there.

    tensors: results: SparseTensor or numpy array. Raises UnknownTensorError (a KeyError) for a name of `like` that is not among them.
    """
    return _restore(like, "", tensors)


def specs_of(
    tree: Any,
    op: str | Mapping[str, str] = "sum",
    *,
    sparse_dim: Mapping[str, int] | None = None,
    integer_overflow: str = "checked",
) -> list[TensorSpec]:
    """The description of a round that takes updates like `tree`.

    tree: an update, or a model; see `flatten` for the nesting.
    op: the operator of all, or of each by name.
    sparse_dim: for dense tensors of a model whose updates are sparse, by name; 1 for an embedding table.

        client.create_round(specs_of(model, "weighted_mean", sparse_dim={"emb.weight": 1}))
    """
    flat = flatten(tree)
    dims = _arguments.mapping("sparse_dim", sparse_dim or {})
    _arguments.names("sparse_dim", dims, flat)
    ops = dict.fromkeys(flat, op) if isinstance(op, str) else _arguments.mapping("op", op)
    _arguments.names("op", ops, flat)
    specs = []
    for name, value in flat.items():
        if name not in ops:
            raise InvalidArgumentError(f'op has none for the tensor "{name}"')
        with _arguments.refusing(f'tensor "{name}"', InvalidUpdateError):
            tensor = as_tensor(value)
        natural = tensor.sparse_dim if isinstance(tensor, SparseTensor) else 0
        specs.append(
            TensorSpec(
                name,
                tensor.dense_shape,
                tensor.value_type,
                dims.get(name, natural),
                ops[name],
                integer_overflow,
            )
        )
    return specs


def tensor_of(tensors: Mapping[str, ResultTensor], name: Any) -> ResultTensor:
    """The one of this name. Raises UnknownTensorError, which lists the names, where there is none."""
    if name not in tensors:
        raise UnknownTensorError(
            f'no tensor "{name}", only {_arguments.listed(tensors)}', reason="UNKNOWN_TENSOR"
        )
    return tensors[name]


def _is_node(tree: Any, prefix: str) -> bool:
    if isinstance(tree, list):
        return any(is_tensor(item) or isinstance(item, (Mapping, tuple)) for item in tree) or (
            _holds_arrays(tree)
        )
    if not is_mapping(tree) or not {"indices", "values"} <= set(tree):
        return is_mapping(tree)
    if set(tree) - {"value_type"} != {"indices", "values", "dense_shape"}:
        raise InvalidUpdateError(
            f'tensor "{_name_at(prefix)}": a dictionary with indices and values has a dense_shape, too, may have a '
            f"value_type, and nothing else; this one has {_arguments.listed(list(map(str, tree)))}",
            reason="SHAPE_MISMATCH",
        )
    return False


def _holds_arrays(tree: Any) -> bool:
    """True for a list, of lists as deep as it may be, that is no matrix of numbers, of Python or of numpy."""
    if isinstance(tree, list):
        return any(map(_holds_arrays, tree))
    if isinstance(tree, tuple):  # (indices, values, dense_shape), or numbers
        return any(isinstance(part, (list, tuple)) or _holds_arrays(part) for part in tree)
    return isinstance(tree, Mapping) or (is_tensor(tree) and not isinstance(tree, np.generic))


def _name_at(prefix: str) -> str:
    """The name of the tensor there."""
    return prefix[: -len(_SEPARATOR)] or _ROOT


def _children(tree: Any) -> list[tuple[Any, Any]]:
    return list(tree.items()) if isinstance(tree, Mapping) else list(enumerate(tree))


def _collect(tree: Any, prefix: str, found: dict[str, Any]) -> None:
    if not _is_node(tree, prefix):
        name = _name_at(prefix)
        if name in found:
            raise InvalidArgumentError(f'two tensors of the model are called "{name}"')
        found[name] = tree
        return
    for key, child in _children(tree):
        _collect(child, f"{prefix}{key}{_SEPARATOR}", found)


def _restore(like: Any, prefix: str, tensors: Mapping[str, ResultTensor]) -> Any:
    if not _is_node(like, prefix):
        return kind_of(like).restore(tensor_of(tensors, _name_at(prefix)), like)
    restored = {
        key: _restore(child, f"{prefix}{key}{_SEPARATOR}", tensors)
        for key, child in _children(like)
    }
    if isinstance(like, list):
        return list(restored.values())
    return OrderedDict(restored) if isinstance(like, OrderedDict) else restored
