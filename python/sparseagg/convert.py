"""Where foreign tensors become ours: `as_tensor` of one, `flatten` of a model, `specs_of` for the round that takes it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Callable

import numpy as np

from sparseagg import _arguments
from sparseagg.errors import (
    InvalidArgumentError,
    InvalidUpdateError,
    SparseAggError,
    UnknownTensorError,
)
from sparseagg.kinds import is_mapping, is_one_tensor, is_tensor, kind_of
from sparseagg.tensors import AnyTensor, ResultTensor, SparseTensor, TensorSpec, empty_tensor

_SEPARATOR = "/"
_ROOT = "tensor"  # name of a tensor that stands alone
_NUMBERS = frozenset({bool, int, float, complex})


def as_tensor(value: Any, value_type: str | None = None) -> AnyTensor:
    """Returns `value` as a SparseTensor or a dense one, without a copy where the layouts agree.

    value: SparseTensor; a tuple (indices, values, dense_shape), or a dictionary of these three, which may have a
        value_type, too; a scipy sparse matrix or array of any format; a torch
        sparse tensor; tf.SparseTensor or tf.IndexedSlices; a JAX BCOO or BCSR; or anything that numpy can turn into an
        array, which is then dense.
    value_type: "bf16" where the values are uint16 bit patterns; otherwise taken from the values.

    Raises InvalidUpdateError for a type of values that cannot be aggregated, and for whatever the class of `value` raises
    while it is read.
    """
    try:
        return kind_of(value).read(value, value_type)
    except (SparseAggError, MemoryError):
        raise
    except Exception as bad:  # whatever a class of another package raises
        raise InvalidUpdateError(
            f"this {type(value).__name__} cannot be read: {_arguments.words_of(bad)}",
            reason="VALUE_TYPE_UNSUPPORTED",
        ) from bad


def as_tensor_of(spec: TensorSpec | None, value: Any, value_type: str | None = None) -> AnyTensor:
    """Returns `as_tensor` of a tensor that is meant for `spec` (None: unknown to the round; the server will say so).

    uint16 is no value type of its own, so for a bf16 tensor it can only mean bit patterns. A triple or a dictionary without
    entries says nothing of the type and the width of its rows, so it has those of `spec`.
    """
    if spec is None:
        return as_tensor(value, value_type)
    parts = _parts_of(value)
    values = value if parts is None else parts[1]
    if spec.value_type == "bf16" and getattr(values, "dtype", None) == np.uint16:
        value_type = "bf16"
    if parts is not None and spec.sparse_dim and is_without_entries(value):
        with _arguments.refusing("dense_shape", InvalidUpdateError, "SHAPE_MISMATCH"):
            shape = _arguments.shape(parts[2])
        if shape != spec.dense_shape:
            raise InvalidUpdateError(
                f"its shape is {list(shape)}, the round expects {list(spec.dense_shape)}",
                reason="SHAPE_MISMATCH",
            )
        return empty_tensor(spec)
    return as_tensor(value, value_type)


def is_without_entries(value: Any) -> bool:
    """Returns True for (indices, values, dense_shape), also as a dictionary, of which both are empty."""
    parts = _parts_of(value)
    return parts is not None and all(_is_empty(part) for part in parts[:2])


def is_without_values(value: Any) -> bool:
    """Returns True for a tensor of a shape with a 0, as an empty buffer of a state_dict: no round has such a tensor,
    and where it stands in a model it stays as it is."""
    return _parts_of(value) is None and _is_empty(value)


def _parts_of(value: Any) -> tuple[Any, Any, Any] | None:
    """Returns (indices, values, dense_shape), where `value` is these; a SparseTensor, too, unpacks as one."""
    if isinstance(value, SparseTensor) or (isinstance(value, tuple) and len(value) == 3):
        indices, values, dense_shape = value
        return indices, values, dense_shape
    if is_mapping(value) and {"indices", "values", "dense_shape"} <= set(value):
        return value["indices"], value["values"], value["dense_shape"]
    return None


def _is_empty(part: Any) -> bool:
    try:
        shape = getattr(part, "shape", None)
        if shape is not None:
            return 0 in tuple(shape)
    except Exception:  # of another package, whose tensors may have none; `read` says so
        return False
    return isinstance(part, (list, tuple)) and not part


def check_is_list(what: str, value: Any) -> None:
    """Refuses one tensor, or one model, where a list of them belongs: iterated over, it gives its rows, or its names."""
    with _arguments.refusing(what):
        found = _what_is_no_list(value)
    if found:
        raise InvalidArgumentError(f"{what} is {found}")


def _what_is_no_list(value: Any) -> str:
    """Returns what `value` is and what to write in its place; empty where it may be a list of tensors."""
    if is_mapping(value):
        return "one model; give a list of them: [model]"
    if isinstance(value, tuple) and _is_triple(value):
        return "one tensor (indices, values, dense_shape); give a list of them: [tensor]"
    if is_one_tensor(value):
        return (
            f"one {type(value).__name__}, whose parts would be taken for the tensors; give a list of them: "
            "[tensor] for this one, list(tensor) where its parts are meant"
        )
    return ""


def _is_triple(value: tuple[Any, ...]) -> bool:
    """Returns True where a tuple can be read as one sparse tensor."""
    if len(value) != 3 or any(is_mapping(part) for part in value):
        return False
    try:
        as_tensor(value)
    except SparseAggError:
        return False
    return True


class ReadTensors(dict[str, AnyTensor]):
    """The tensors that `read_tensors` returns. They are not read again."""


def read_tensors(tree: Any, specs: Mapping[str, TensorSpec]) -> ReadTensors:
    """Returns the tensors of an update by the names of `flatten`, each as it is meant for its spec."""
    if type(tree) is ReadTensors:
        return tree
    tensors = ReadTensors()
    for name, value in flatten(tree).items():
        with _arguments.refusing(f'tensor "{name}"', InvalidUpdateError):
            if name in specs or not is_without_values(value):
                tensors[name] = as_tensor_of(specs.get(name), value)
    return tensors


def flatten(tree: Any) -> dict[str, Any]:
    """Returns the tensors of a model by name: the keys (and positions in lists) on the way to them, joined by "/".

    tree: nested mappings and lists of tensors, or one tensor, which is called "tensor". A list of plain numbers is a
        tensor.

        >>> list(flatten({"emb": {"weight": np.ones((5, 2))}, "layers": [np.ones(3), np.ones(4)]}))
        ['emb/weight', 'layers/0', 'layers/1']

    Raises InvalidArgumentError when two tensors get the same name, or a dictionary has indices and values but no
    dense_shape.
    """
    found: dict[str, Any] = {}
    try:
        _collect(tree, "", found)
    except RecursionError:
        raise InvalidUpdateError(
            "the model is nested too deeply, or holds itself", reason="SHAPE_MISMATCH"
        ) from None
    return found


def unflatten(like: Any, tensors: Mapping[str, Any]) -> Any:
    """Returns `tensors`, by the names of `flatten`, in the nesting of `like`, each in the kind that stands there, of
    its own memory.

    like: a model: nested mappings and lists of tensors.
    tensors: results by name: SparseTensor or numpy array.

    Raises UnknownTensorError (a KeyError) for a name of `like` that is not among `tensors`, InvalidArgumentError for an
    array where `like` is sparse.
    """
    return _restore(like, "", tensors, _copy, may_be_dense=False)


def unflatten_owned(like: Any, tensors: Mapping[str, Any]) -> Any:
    """Returns `unflatten` for tensors that nobody else keeps: what is returned may share their memory. Those that are dense
    stay so where `like` is sparse."""
    return _restore(like, "", tensors, lambda tensor: tensor, may_be_dense=True)


def _copy(tensor: ResultTensor) -> ResultTensor:
    if not isinstance(tensor, SparseTensor):
        return tensor.copy()
    return SparseTensor(
        tensor.indices.copy(), tensor.values.copy(), tensor.dense_shape, tensor.value_type
    )


def specs_of(
    tree: Any,
    op: str | Mapping[str, str] = "sum",
    *,
    sparse_dim: Mapping[str, int] | None = None,
    integer_overflow: str = "checked",
) -> list[TensorSpec]:
    """Returns the description of a round that takes updates like `tree`.

    tree: an update, or a model; see `flatten` for the nesting. Tensors without values, of a shape with a 0, are left out:
        updates may hold them, and `Result.like` gives them back as they are.
    op: the operator of all, or of each by name.
    sparse_dim: for dense tensors of a model whose updates are sparse, by name; 1 for an embedding table.
    integer_overflow: "checked" or "modular", as in `TensorSpec`.

        client.create_round(specs_of(model, "weighted_mean", sparse_dim={"emb.weight": 1}))
    """
    flat = flatten(tree)
    dims = _arguments.mapping("sparse_dim", sparse_dim or {})
    _arguments.names("sparse_dim", dims, flat)
    ops = dict.fromkeys(flat, op) if isinstance(op, str) else _arguments.mapping("op", op)
    _arguments.names("op", ops, flat)
    specs = []
    for name, value in flat.items():
        with _arguments.refusing(f'tensor "{name}"', InvalidUpdateError):
            if is_without_values(value):
                continue
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
    """Returns the one of this name. Raises UnknownTensorError, which lists the names, where there is none."""
    if name not in tensors:
        raise UnknownTensorError(
            f'no tensor "{name}", only {_arguments.listed(tensors)}', reason="UNKNOWN_TENSOR"
        )
    return tensors[name]


def _is_node(tree: Any, prefix: str) -> bool:
    """Returns whether `tree` is a mapping or a list of tensors, each of which has a name of its own."""
    try:
        return _holds_named_tensors(tree, prefix)
    except (SparseAggError, MemoryError, RecursionError):
        raise
    except Exception as bad:  # of a foreign mapping, as one of a file that is closed
        raise InvalidUpdateError(
            f'tensor "{_name_at(prefix)}": {_arguments.words_of(bad)}', reason="SHAPE_MISMATCH"
        ) from bad


def _holds_named_tensors(tree: Any, prefix: str) -> bool:
    if isinstance(tree, list):
        if _NUMBERS.issuperset(map(type, tree)):  # a million of them may be one tensor
            return False
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
    """Returns True for a list, of lists as deep as it may be, that is no matrix of numbers, of Python or of numpy."""
    if isinstance(tree, list):
        return not _NUMBERS.issuperset(map(type, tree)) and any(map(_holds_arrays, tree))
    if isinstance(tree, tuple):  # (indices, values, dense_shape), or numbers
        return any(isinstance(part, (list, tuple)) or _holds_arrays(part) for part in tree)
    return isinstance(tree, Mapping) or (is_tensor(tree) and not isinstance(tree, np.generic))


def _name_at(prefix: str) -> str:
    """Returns the name of the tensor there."""
    return prefix[: -len(_SEPARATOR)] or _ROOT


def _children(tree: Any, prefix: str) -> list[tuple[Any, str, Any]]:
    """Returns the keys, the prefixes of the names below them, and what is there."""
    with _arguments.refusing(f'the {type(tree).__name__} at "{prefix}"', InvalidUpdateError):
        items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
        return [(key, f"{prefix}{key}{_SEPARATOR}", child) for key, child in items]


def _collect(tree: Any, prefix: str, found: dict[str, Any]) -> None:
    if not _is_node(tree, prefix):
        name = _name_at(prefix)
        if name in found:
            raise InvalidArgumentError(f'two tensors of the model are called "{name}"')
        found[name] = tree
        return
    for _, child_prefix, child in _children(tree, prefix):
        _collect(child, child_prefix, found)


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """Returns the shape of an example; None where it has none, or one that is not known yet."""
    parts = _parts_of(value)
    shape = getattr(value, "shape", None) if parts is None else parts[2]
    try:
        return tuple(int(extent) for extent in shape)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        return None


def _check_shape(tensor: ResultTensor, like: Any) -> None:
    """Raises InvalidArgumentError for an example of another shape: numpy would add a result of one row to each row of
    a model."""
    shape = tensor.dense_shape if isinstance(tensor, SparseTensor) else tensor.shape
    wanted = _shape_of(like)
    # A number is a tensor of one; `count` has one value for each row.
    if wanted is not None and (wanted or (1,))[: len(shape)] != tuple(shape):
        raise InvalidArgumentError(
            f"the result has the shape {list(shape)}, the example {list(wanted)}; a dense result of "
            "selected rows has these alone, in their order: take it by its name",
            reason="SHAPE_MISMATCH",
        )


def _check_layout(tensor: ResultTensor, like: Any) -> None:
    """Raises InvalidArgumentError for a sparse example of a dense result, in which absent values are zeros like others."""
    if not isinstance(tensor, SparseTensor) and kind_of(like).is_sparse(like):
        raise InvalidArgumentError(
            f"the result is dense, and the example a sparse {type(like).__name__}: ask for the result in the layout "
            '"sparse", or give a dense example'
        )


def _restore(
    like: Any,
    prefix: str,
    tensors: Mapping[str, ResultTensor],
    owned: Callable[[ResultTensor], ResultTensor],
    *,
    may_be_dense: bool,
) -> Any:
    if not _is_node(like, prefix):
        name = _name_at(prefix)
        with _arguments.refusing(f'tensor "{name}"'):
            if name not in tensors and is_without_values(like):
                return like
        tensor = tensor_of(tensors, name)
        with _arguments.refusing(f'tensor "{name}"'):
            _check_shape(tensor, like)
            if not may_be_dense:
                _check_layout(tensor, like)
            return kind_of(like).restore(owned(tensor), like)
    restored = {
        key: _restore(child, child_prefix, tensors, owned, may_be_dense=may_be_dense)
        for key, child_prefix, child in _children(like, prefix)
    }
    if isinstance(like, list):
        return list(restored.values())
    return OrderedDict(restored) if isinstance(like, OrderedDict) else restored
