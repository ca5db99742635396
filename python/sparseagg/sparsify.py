"""Dense updates made sparse: the rows that changed, the largest values with error feedback, the values above a threshold.

    changed_rows(after, before)      leaves no row out; what a row-sparse model (an embedding) needs
    ChangedRows                      the same since its last call, for whole models
    top_k, TopK                      lossy; TopK carries what it left out over to the next call (error feedback)
    above                            lossy; the values of a magnitude of at least a threshold

Arrays are numpy's or whatever `as_tensor` takes as dense (torch, TensorFlow, JAX). Results are SparseTensors.

Where values are left out, a NaN has no magnitude to be left out by: those functions raise
InvalidUpdateError (reason NON_FINITE_VALUE, with the position) for NaN and infinity.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from sparseagg import _arguments
from sparseagg.convert import as_tensor, flatten
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError
from sparseagg.tensors import DenseValues, SparseTensor


def changed_rows(after: Any, before: Any) -> SparseTensor:
    """The rows in which two tables `[rows, ...]` of one shape and type differ, and the differences (`after - before`).

    No row that differs is left out; its differences are rounded to the type, as `after - before` is.
    A row with a NaN counts as changed: the server refuses it and names it, which is better than to lose it here.
    """
    new, old = _dense(after), _dense(before)
    if new.shape != old.shape:
        raise InvalidArgumentError(f"shapes {list(new.shape)} and {list(old.shape)} differ")
    if new.dtype != old.dtype:  # numpy would take int64 and uint64 for float64
        raise InvalidArgumentError(f"types {new.dtype} and {old.dtype} differ")
    rows = np.flatnonzero((new != old).any(axis=tuple(range(1, new.ndim))))
    change = new[rows] - old[rows]
    if change.dtype.kind in "iu" and ((change < 0) != (new[rows] < old[rows])).any():
        raise InvalidArgumentError(
            f"a difference does not fit in {change.dtype}; convert both tables to a wider type first"
        )
    return SparseTensor(rows, change, new.shape)


class ChangedRows:
    """What changed in some tables of a model since the last call: the update of one round of training.

        changes = ChangedRows(model, ["emb.weight"])
        train(model)
        round.submit(changes.since_last(model), contributor="phone-17")

    model: see `flatten` for the nesting and the names. names: the tables to watch; all when left out. Keeps a copy of
    these tables.
    """

    def __init__(self, model: Any, names: list[str] | None = None) -> None:
        self._names = names
        self._before = {name: _dense(table).copy() for name, table in self._watched(model).items()}

    def since_last(self, model: Any) -> dict[str, SparseTensor]:
        """The changes by name since the last call, or since this object was made."""
        tables = {name: _dense(table) for name, table in self._watched(model).items()}
        changes = {name: changed_rows(table, self._before[name]) for name, table in tables.items()}
        for (
            name,
            change,
        ) in changes.items():  # where none has failed: it would be lost with the others
            rows = change.indices[:, 0]
            self._before[name][rows] = tables[name][rows]
        return changes

    def _watched(self, model: Any) -> dict[str, Any]:
        flat = flatten(model)
        if self._names is None:
            return flat
        _arguments.names("names", self._names, flat)
        return {name: flat[name] for name in self._names}


def top_k(array: Any, k: int) -> SparseTensor:
    """The `k` values of the largest magnitude, every dimension indexed; all of them where there are fewer.

    Ties go to the lower index, so the choice does not depend on the machine. Raises
    InvalidUpdateError for a value that is not finite.
    """
    values = _finite(_dense(array))
    return _largest(values, k)


def _largest(values: np.ndarray[Any, Any], k: int) -> SparseTensor:
    flat = _magnitudes(values)
    with _arguments.refusing("k"):
        k = max(0, min(operator.index(k), flat.size))
    if k == 0:
        return _entries(values, np.empty(0, np.int64))
    least = np.partition(flat, flat.size - k)[flat.size - k]
    chosen = np.flatnonzero(flat > least)
    ties = np.flatnonzero(flat == least)[: k - len(chosen)]
    return _entries(values, np.sort(np.concatenate([chosen, ties])))


def above(array: Any, threshold: float) -> SparseTensor:
    """The values of a magnitude of at least `threshold`, every dimension indexed. Raises
    InvalidUpdateError for a value that is not finite."""
    values = _finite(_dense(array))
    if not isinstance(threshold, (int, float, np.number)) or np.isnan(threshold):
        raise InvalidArgumentError(f"threshold is {threshold!r}, not a number")
    return _entries(values, np.flatnonzero(_magnitudes(values) >= threshold))


class TopK:
    """Top-k with error feedback: what is left out of one update is added to the next, so nothing is lost for good.

    One object for each contributor, kept from round to round. fraction: share of the values of each tensor that is sent,
    at least one value. See Stich et al., "Sparsified SGD with Memory" (2018).
    """

    def __init__(self, fraction: float) -> None:
        if not isinstance(fraction, (int, float, np.number)) or not 0 < fraction <= 1:
            raise InvalidArgumentError(
                f"fraction is {fraction!r}; it must be above 0 and at most 1"
            )
        self._fraction = fraction
        self._left_out: dict[str, np.ndarray[Any, Any]] = {}

    def compress(self, update: Any) -> dict[str, SparseTensor]:
        """The largest values of each dense tensor of `update`, by the names of `flatten`.

        Raises InvalidUpdateError, naming tensor and position, where the update plus what was left
        out before is not finite, InvalidArgumentError where it does not fit in a type of whole
        numbers; then nothing is taken of any tensor, and what was left out stays as it was.
        """
        compressed = {}
        left_out = {}
        for name, tensor in flatten(update).items():
            total = self._with_left_out(name, _dense(tensor))
            sparse = _largest(_finite(total, name), max(1, round(self._fraction * total.size)))
            rest = total.copy()
            rest[tuple(sparse.indices.T)] = 0
            left_out[name] = rest
            compressed[name] = sparse
        # A NaN that got in here would be in every later update.
        self._left_out.update(left_out)
        return compressed

    def _with_left_out(self, name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """`values` and what was left out of this tensor before."""
        left_out = self._left_out.get(name)
        if left_out is None:
            return values
        if left_out.shape != values.shape:  # which numpy might broadcast
            raise InvalidArgumentError(
                f'tensor "{name}" has the shape {list(values.shape)}; before it had {list(left_out.shape)}'
            )
        total: np.ndarray[Any, Any] = values + left_out
        if total.dtype.kind in "iu" and ((left_out < 0) != (total < values)).any():
            raise InvalidArgumentError(
                f'tensor "{name}" and what was left out of it before do not fit in {total.dtype}; '
                "convert it to a wider type first"
            )
        return total


def _dense(value: Any) -> np.ndarray[Any, Any]:
    tensor = as_tensor(value)
    if not isinstance(tensor, DenseValues) or tensor.value_type == "bf16":
        raise InvalidArgumentError(
            "this needs a dense array of a type that numpy can calculate with"
        )
    return tensor.values


def _magnitudes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Flat. Of integers without a sign: the smallest one's has no place in its own type."""
    flat: np.ndarray[Any, Any] = np.abs(values.reshape(-1))
    if flat.dtype.kind == "i":
        flat = flat.view(f"u{flat.itemsize}")
    return flat


def _finite(values: np.ndarray[Any, Any], name: str | None = None) -> np.ndarray[Any, Any]:
    """`values`; raises InvalidUpdateError that names the first one that is not finite."""
    finite = np.isfinite(values)
    if not finite.all():
        position = np.unravel_index(int(finite.reshape(-1).argmin()), values.shape)
        where = "" if name is None else f'tensor "{name}": '
        raise InvalidUpdateError(
            f"{where}value {values[position]} at {[int(index) for index in position]} is not finite",
            reason="NON_FINITE_VALUE",
        )
    return values


def _entries(values: np.ndarray[Any, Any], flat_indices: np.ndarray[Any, Any]) -> SparseTensor:
    indices = np.stack(np.unravel_index(flat_indices, values.shape), axis=1)
    return SparseTensor(indices, values.reshape(-1)[flat_indices], values.shape)
