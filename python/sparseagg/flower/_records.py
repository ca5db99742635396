"""The content of Flower's messages: tensors as ArrayRecords, a reply's arrays as an update, weights and ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message

from sparseagg._arguments import listed, refusing
from sparseagg._means import averageable
from sparseagg.convert import as_tensor, flatten
from sparseagg.errors import InvalidUpdateError, SparseAggError
from sparseagg.sparsify import changed_rows
from sparseagg.tensors import SparseTensor

KEY = "sparseagg"  # of our ConfigRecord in messages and replies
_PARTS = ("indices", "values", "dense_shape")


def sparse_record(tensors: Any) -> ArrayRecord:
    """Returns tensors as an ArrayRecord. A sparse one becomes the arrays NAME/indices, NAME/values, NAME/dense_shape.

    tensors: nested mappings of whatever `as_tensor` takes; bfloat16 travels as uint16 bit patterns.
    """
    arrays = {}
    for name, value in flatten(tensors).items():
        tensor = as_tensor(value)
        if isinstance(tensor, SparseTensor):
            # The shape is an array of its own, because Flower's shapes are int32.
            for part, array in zip(_PARTS, (tensor.indices, tensor.values, tensor.dense_shape)):
                arrays[f"{name}/{part}"] = Array(np.asarray(array))
        else:
            arrays[name] = Array(tensor.values)
    return ArrayRecord(arrays)


def tensors_of(record: ArrayRecord) -> dict[str, Any]:
    """Returns the tensors of a record that `sparse_record` made, by name: a SparseTensor, or a numpy array if dense."""
    tensors: dict[str, Any] = {}
    for name, array in record.items():
        table, _, part = name.rpartition("/")
        if table and all(f"{table}/{other}" in record for other in _PARTS) and part in _PARTS:
            if part == _PARTS[0]:
                indices, values, shape = (record[f"{table}/{other}"].numpy() for other in _PARTS)
                # Bit patterns of bfloat16: sparse tensors have no other values of that type.
                value_type = "bf16" if values.dtype == np.uint16 else None
                tensors[table] = SparseTensor(indices, values, shape, value_type)
        else:
            tensors[name] = array.numpy()
    return tensors


def update_of(
    record: ArrayRecord, before: Mapping[str, Array], sparse: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Returns a client's arrays as the update for a round (the changes of tables, the values of dense arrays, in the
    types of `before`), and the names of the arrays that were rounded to these types.

    Raises InvalidUpdateError for a missing dense array, which would count as zeros. A missing table is unchanged.
    """
    tensors = tensors_of(record)
    for name, array in before.items():
        if is_without_values(array):
            tensors.pop(name, None)
        elif name not in tensors and name not in sparse:
            missing = [n for n, a in before.items() if n not in tensors and n not in sparse]
            raise InvalidUpdateError(f"the arrays of the reply lack {listed(missing)}")
    rounded = []
    for name, tensor in tensors.items():
        if name not in before:
            continue  # the server says that the round has no such tensor
        with refusing(f'tensor "{name}"', InvalidUpdateError):
            dtype = averaged_dtype(before[name])
            given = tensor.values if isinstance(tensor, SparseTensor) else averageable(tensor)
            values = _rounded(given, dtype)
            if values is not given and not np.can_cast(given.dtype, dtype):
                rounded.append(name)
            if not isinstance(tensor, SparseTensor):
                is_table = name in sparse
                tensors[name] = (
                    changed_rows(values, averageable(before[name].numpy())) if is_table else values
                )
            elif values is not given:
                tensors[name] = SparseTensor(tensor.indices, values, tensor.dense_shape)
    return tensors, rounded


def _rounded(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns `values` in the type of the round, each rounded once, to nearest. Raises InvalidUpdateError for a finite
    value that is out of the type's range."""
    if (
        values.dtype == dtype or values.dtype.kind != "f"
    ):  # bit patterns; what is no number the server refuses
        return values
    with np.errstate(over="ignore", under="ignore"):
        taken = values.astype(dtype)
    beyond = np.isinf(taken) & np.isfinite(values)
    if beyond.any():
        position = [int(index) for index in np.argwhere(beyond)[0]]
        raise InvalidUpdateError(
            f"value {values[tuple(position)]} at {position} is beyond {dtype}, which the round has",
            reason="VALUE_TYPE_MISMATCH",
        )
    return taken


def is_without_values(array: Array) -> bool:
    """Returns whether the array has no values, such as an empty buffer of a state_dict. No round has such a tensor."""
    return 0 in array.shape


def bytes_of_arrays(content: Any) -> int:
    return sum(record.count_bytes() for record in content.array_records.values())


def averaged_dtype(array: Array) -> np.dtype[Any]:
    """Returns the type of an array's average."""
    dtype: np.dtype[Any] = averageable(np.empty(0, array.dtype)).dtype
    return dtype


def weight_in(content: Any, key: str) -> float:
    metrics = only(content.metric_records, "MetricRecord")
    if key not in metrics:
        raise SparseAggError(f'a reply has no metric "{key}", which is its weight')
    return float(metrics[key])


def answered(reply: Message) -> str:
    """Returns the id of the message that `reply` answers."""
    return str(reply.metadata.reply_to_message_id)


def id_of(metadata: Any) -> str:
    """Returns the id of an update: the id of the message that requested it, so that a repetition is recognised."""
    return str(metadata.reply_to_message_id or metadata.message_id)[:64]


def only_key(records: Mapping[str, Any], what: str) -> str:
    if len(records) != 1:
        raise SparseAggError(f"a message has {len(records)} {what}s; it must have one")
    return str(next(iter(records)))


def only(records: Mapping[str, Any], what: str) -> Any:
    return records[only_key(records, what)]
