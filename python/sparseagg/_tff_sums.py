"""Sums of sparse tensors in TensorFlow graphs, for TFF's own runtime, and the structures that TFF has in the place of sparse
tensors: <indices, values>."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from sparseagg.errors import InvalidArgumentError

Path = tuple[str, ...]


def is_sparse(leaf: Any) -> bool:
    return isinstance(leaf, tff.types.StructType)


def fields_of(struct_type: Any) -> list[tuple[str | None, Any]]:
    """(name, type) of the elements; the method of the class is newer than TFF 0.87."""
    if hasattr(type(struct_type), "items"):
        return list(struct_type.items())
    return list(tff.structure.iter_elements(struct_type))


def leaves(value_type: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, type) of every tensor: a StructType <indices, values> where it is sparse, a TensorType where it is dense."""
    if not isinstance(value_type, tff.types.StructType):
        yield path, value_type
        return
    fields = fields_of(value_type)
    if {name for name, _ in fields} == {"indices", "values"}:
        yield path, value_type
        return
    for number, (name, inner) in enumerate(fields):
        yield from leaves(inner, (*path, name or str(number)))


def at(value: Any, path: Path) -> Any:
    """The part of nested mappings, sequences and TFF's structures that a path leads to."""
    for key in path:
        if isinstance(value, Mapping):
            value = value[key]
        else:
            value = value[int(key)] if key.isdigit() else getattr(value, key)
    return value


def numpy_dtype(tensor_type: Any) -> np.dtype[Any]:
    dtype = tensor_type.dtype
    found: np.dtype[Any] = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
    return found


# The aggregation in TensorFlow. An accumulator holds for each tensor, by position: sparse, the entries of all clients so
# far (`indices`, `values` times weight, `weights` of the client once an index); dense, the sum of weight times value, or the
# extreme. The weights are 1 for the operators that have none.

_MEANS = frozenset(["weighted_mean", "mean_of_contributors"])
_SEGMENTS = {"min": tf.math.unsorted_segment_min, "max": tf.math.unsorted_segment_max}
_PAIRS = {"min": tf.minimum, "max": tf.maximum}


def aggregate(value: Any, weight: Any, op: str) -> Any:
    value_type, weight_type = value.type_signature.member, weight.type_signature.member
    found = list(leaves(value_type))

    @tff.tensorflow.computation(value_type, weight_type)
    def lift(one: Any, its_weight: Any) -> Any:
        factor = tf.cast(its_weight, tf.float64)
        lifted = [_lift(at(one, path), leaf, factor, op) for path, leaf in found]
        return OrderedDict(tensors=tuple(lifted), weight=factor)

    lifted = tff.federated_map(lift, (value, weight))
    accumulator_type = lift.type_signature.result

    @tff.tensorflow.computation
    def zero() -> Any:
        empty = tuple(_zero(leaf, op) for _, leaf in found)
        return OrderedDict(tensors=empty, weight=tf.zeros([], tf.float64))

    @tff.tensorflow.computation(accumulator_type, accumulator_type)
    def join(one: Any, other: Any) -> Any:
        tensors = tuple(_join(a, b, op) for a, b in zip(one["tensors"], other["tensors"]))
        return OrderedDict(tensors=tensors, weight=one["weight"] + other["weight"])

    @tff.tensorflow.computation(accumulator_type)
    def report(total: Any) -> Any:
        lowered = {
            path: _lower(part, leaf, total["weight"], op)
            for part, (path, leaf) in zip(total["tensors"], found)
        }
        return structure_of(value_type, (), lowered)

    return tff.federated_aggregate(lifted, zero(), join, join, report)


def _accumulated_type(tensor_type: Any, op: str) -> Any:
    if tf.as_dtype(tensor_type.dtype).is_integer:
        if op in _MEANS:
            raise InvalidArgumentError(
                f"{op} of {tensor_type}: only sums and extremes of whole numbers are defined"
            )
        return tf.int64
    return tf.float64


def _lift(value: Any, leaf: Any, weight: Any, op: str) -> Any:
    if not is_sparse(leaf):
        dtype = _accumulated_type(leaf, op)
        return tf.cast(value, dtype) * tf.cast(weight, dtype)
    dtype = _accumulated_type(leaf["values"], op)
    indices, values = _coalesce(value["indices"], tf.cast(value["values"], dtype))
    weights = tf.fill([tf.shape(indices)[0]], weight)
    return OrderedDict(indices=indices, values=values * tf.cast(weight, dtype), weights=weights)


def _zero(leaf: Any, op: str) -> Any:
    if not is_sparse(leaf):
        dtype = _accumulated_type(leaf, op)
        return tf.fill(
            leaf.shape, {"min": dtype.max, "max": dtype.min}.get(op, dtype.as_numpy_dtype(0))
        )
    indices, values = leaf["indices"], leaf["values"]
    return OrderedDict(
        indices=tf.zeros([0, *indices.shape[1:]], indices.dtype),
        values=tf.zeros([0, *values.shape[1:]], _accumulated_type(values, op)),
        weights=tf.zeros([0], tf.float64),
    )


def _join(one: Any, other: Any, op: str) -> Any:
    if not isinstance(one, Mapping):
        return _PAIRS.get(op, tf.add)(one, other)
    return OrderedDict((part, tf.concat([one[part], other[part]], axis=0)) for part in one)


def _lower(total: Any, leaf: Any, total_weight: Any, op: str) -> Any:
    if not is_sparse(leaf):
        result = tf.math.divide_no_nan(total, total_weight) if op in _MEANS else total
        return tf.cast(result, leaf.dtype)
    segments = _SEGMENTS.get(op, tf.math.unsorted_segment_sum)
    indices, values = _coalesce(total["indices"], total["values"], segments)
    if op in _MEANS:
        _, weights = _coalesce(total["indices"], total["weights"])
        divisor = weights if op == "mean_of_contributors" else total_weight
        ones = tf.ones(tf.rank(values) - 1, tf.int32)
        divisor = tf.reshape(divisor, tf.concat([[-1], ones], 0))
        values = tf.math.divide_no_nan(values, divisor)
    return OrderedDict(indices=indices, values=tf.cast(values, leaf["values"].dtype))


def _coalesce(
    indices: Any, values: Any, segments: Any = tf.math.unsorted_segment_sum
) -> tuple[Any, Any]:
    """Ascending distinct indices, and the sums, or the extremes, of their values."""
    columns = [indices] if indices.shape.rank == 1 else tf.unstack(indices, axis=1)
    order = tf.argsort(columns[-1], stable=True)
    for column in reversed(columns[:-1]):
        order = tf.gather(order, tf.argsort(tf.gather(column, order), stable=True))
    indices, values = tf.gather(indices, order), tf.gather(values, order)
    distinct, positions = tf.raw_ops.UniqueV2(x=indices, axis=[0])
    distinct = tf.ensure_shape(distinct, [None, *indices.shape[1:]])
    return distinct, segments(values, positions, tf.shape(distinct)[0])


def structure_of(value_type: Any, path: Path, tensors: Mapping[Path, Any]) -> Any:
    """The tensors by path as a value of the type."""
    if path in tensors:
        return tensors[path]
    fields = [
        (name, structure_of(inner, (*path, name or str(number)), tensors))
        for number, (name, inner) in enumerate(fields_of(value_type))
    ]
    if all(name is not None for name, _ in fields):
        return OrderedDict(fields)
    # TFF tells lists from tuples.
    container = list if getattr(value_type, "python_container", tuple) is list else tuple
    return container(value for _, value in fields)
