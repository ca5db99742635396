"""The model of a Flower app and the rounds that train it: their tensors, and the arrays after a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from sparseagg._means import averageable
from sparseagg.errors import InvalidArgumentError
from sparseagg.flower._records import averaged_dtype, is_without_values
from sparseagg.tensors import SparseTensor, TensorSpec


def specs_of_arrays(
    arrays: ArrayRecord, sparse: Iterable[str] = (), op: str = "weighted_mean"
) -> list[TensorSpec]:
    """Returns the description of a round of training, for `Client.create_round`. Its updates have the changes of tables and
    the values of dense arrays.

    arrays: the model.
    sparse: the names of tables, of which a client changes only some rows.
    op: the operator of tables: "weighted_mean" or "mean_of_contributors".

    Raises InvalidArgumentError where `sparse` names an array that is not there.
    """
    tables = set(sparse)
    missing = tables - set(arrays)
    if missing:
        raise InvalidArgumentError(f"sparse names {sorted(missing)}; the arrays are {list(arrays)}")
    return [
        TensorSpec(
            name,
            tuple(array.shape) or (1,),
            averaged_dtype(array),
            sparse_dim=1 if name in tables else 0,
            op=op if name in tables else "weighted_mean",
        )
        for name, array in arrays.items()
        if not is_without_values(array)
    ]


def apply_result(result: Mapping[str, Any], arrays: ArrayRecord) -> ArrayRecord:
    """Returns the model after a round: tables with the changes added, dense arrays replaced.

    result: of a round of `specs_of_arrays`.
    arrays: the model before.
    """
    averaged = {}
    for name, array in arrays.items():
        if is_without_values(array):
            averaged[name] = array
            continue
        tensor = result[name]
        if isinstance(tensor, SparseTensor):
            table = np.array(averageable(array.numpy()))
            table[tensor.indices[:, 0]] += tensor.values
            averaged[name] = Array(table)
        else:
            averaged[name] = Array(tensor.reshape(array.shape))
    return ArrayRecord(averaged)
