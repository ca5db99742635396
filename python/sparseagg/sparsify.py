"""Dense updates made sparse: the rows that changed, the largest values with error feedback, the values above a threshold.

    changed_rows(after, before)      leaves no row out; what a row-sparse model (an embedding) needs
    ChangedRows                      the same since its last call, for whole models
    top_k, TopK                      lossy; TopK carries what it left out over to the next call (error feedback)
    above                            lossy; the values of a magnitude of at least a threshold

A ChangedRows or a TopK takes its update as sent. `undo()` takes that back when the server refused the update, and so does the
block `with compressor.sending(gradients) as update:`.

Arrays are numpy's or whatever `as_tensor` takes as dense (torch, TensorFlow, JAX). Results are SparseTensors.

Where values are left out, a NaN has no magnitude to be left out by: those functions raise
InvalidUpdateError (reason NON_FINITE_VALUE, with the position) for NaN and infinity.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, SupportsIndex

import numpy as np

from sparseagg import _arguments
from sparseagg.convert import as_tensor, flatten
from sparseagg.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidUpdateError,
    UnavailableError,
)
from sparseagg.tensors import DenseValues, SparseTensor

# After these errors of a submission the server may have counted the update.
_OUTCOME_UNKNOWN = (UnavailableError, DeadlineExceededError)


def changed_rows(after: Any, before: Any) -> SparseTensor:
    """Returns the rows in which two tables of one shape and type differ, and the differences (`after - before`).

    after, before: `[rows, ...]`, dense.

        >>> changed_rows(np.float32([[1, 1], [2, 5], [3, 3]]), np.float32([[1, 1], [2, 2], [3, 3]]))
        SparseTensor(nnz=1, dense_shape=[3, 2], sparse_dim=1, value_type='f32')

    No row that differs is left out; its differences are rounded to the type, as `after - before` is, also where the
    processor takes the smallest numbers for 0 (flush to zero, as some packages leave it).
    A row with a NaN counts as changed: the server refuses it and names it, which is better than to lose it here.

    Raises InvalidArgumentError where shapes or types differ, and where a difference of integers does not fit in their type.
    """
    new, old = _dense(after), _dense(before)
    if new.shape != old.shape:
        raise InvalidArgumentError(f"shapes {list(new.shape)} and {list(old.shape)} differ")
    shape = new.shape
    if new.dtype != old.dtype:  # numpy would take int64 and uint64 for float64
        raise InvalidArgumentError(f"types {new.dtype} and {old.dtype} differ")
    rows = np.flatnonzero(_differ(new, old).any(axis=tuple(range(1, new.ndim))))
    new, old = new[rows], old[rows]
    change = _difference(new, old)
    if change.dtype.kind in "iu" and ((change < 0) != (new < old)).any():
        raise InvalidArgumentError(
            f"a difference does not fit in {change.dtype}; convert both tables to a wider type first"
        )
    return SparseTensor(rows, change, shape)


def _differ(new: np.ndarray[Any, Any], old: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where two arrays differ, or the new one is NaN: by their bits, because a comparison may take the smallest for 0."""
    if new.dtype.kind != "f":
        return np.asarray(new != old)
    a, b = _bits(new), _bits(old)
    differ = a != b
    if differ.any():
        differ &= ((a | b) << 1) != 0  # 0 and -0 are equal
    differ |= np.isnan(new)
    return np.asarray(differ)


def _difference(new: np.ndarray[Any, Any], old: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns `new - old`, rounded to nearest whatever the processor makes of the smallest numbers."""
    change: np.ndarray[Any, Any] = new - old
    # The smallest of f16 are ordinary numbers of f32, in which they are calculated with.
    if new.dtype.kind != "f" or new.dtype.itemsize == 2 or not _flushes_to_zero(new.dtype):
        return change
    # Only of two small numbers, or where one is smaller than any that the processor keeps, may something be flushed.
    digits = np.finfo(new.dtype).nmant + 1
    bound = (digits + 2) << (
        digits - 1
    )  # bits of a number from which on a difference is never that small
    a, b = _bits(new), _bits(old)
    magnitudes = a.dtype.type((1 << (8 * a.itemsize - 1)) - 1)
    small = ((a & magnitudes) < bound) & ((b & magnitudes) < bound) & ((a | b) << 1 != 0)
    if small.any():
        exact = _units(a[small], digits) - _units(b[small], digits)
        _bits(change)[small] = [_bits_of(int(units), digits, a.itemsize) for units in exact]
    return change


def _flushes_to_zero(dtype: np.dtype[Any]) -> bool:
    """Returns True where this thread's processor takes the smallest numbers of a type for 0, or makes 0 of them."""
    smallest = np.ones(1, f"u{dtype.itemsize}").view(dtype)
    return not _bits(smallest + smallest).any()


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.view(f"u{array.itemsize}")


def _units(bits: np.ndarray[Any, Any], digits: int) -> np.ndarray[Any, Any]:
    """Returns floating-point numbers as whole numbers of the smallest one's size. digits: of the significand."""
    sign_bit = 8 * bits.itemsize - 1
    units = []
    for number in bits.tolist():
        exponent = number >> (digits - 1) & ((1 << (sign_bit - digits + 1)) - 1)
        fraction = number & ((1 << (digits - 1)) - 1)
        size = fraction if exponent == 0 else (fraction | 1 << (digits - 1)) << (exponent - 1)
        units.append(-size if number >> sign_bit else size)
    return np.array(units, object)


def _bits_of(units: int, digits: int, itemsize: int) -> int:
    """Does the opposite: returns the bits of the nearest number, of two the even one."""
    size, sign = abs(units), int(units < 0) << (8 * itemsize - 1)
    shift = max(0, size.bit_length() - digits)
    kept, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << shift >> 1
    if shift and (rest > half or (rest == half and kept & 1)):
        kept += 1
    return sign | ((shift << (digits - 1)) + kept)


class ChangedRows:
    """What changed in some tables of a model since the last call: the update of one round of training.

        changes = ChangedRows(model, ["emb.weight"])
        train(model)
        with changes.sending(model) as update:
            round.submit(update, contributor="phone-17")

    model: see `flatten` for the nesting and the names.
    names: the tables to watch; all of this model when left out.

    It keeps a copy of these tables, and of the rows that the last update changed.
    """

    def __init__(self, model: Any, names: Iterable[str] | None = None) -> None:
        flat = flatten(model)
        self._is_whole_model = names is None
        self._names = tuple(flat) if names is None else _arguments.list_of_names("names", names)
        if not self._names:
            what = "the model has no tensors" if names is None else "names is empty"
            raise InvalidArgumentError(f"{what}: there is no table to watch")
        self._before = {name: _dense(table).copy() for name, table in self._watched(flat).items()}
        self._replaced: dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}

    def since_last(self, model: Any) -> dict[str, SparseTensor]:
        """Returns the changes by name since the last call, or since this object was made.

        model: as it is now. Each table that is watched has to be in it; an object that watches all of a model refuses one
            that has gained tables.

        Raises InvalidArgumentError, after which nothing counts as sent.
        """
        watched = self._watched(flatten(model))
        tables = {name: _dense(table) for name, table in watched.items()}
        changes = {name: changed_rows(table, self._before[name]) for name, table in tables.items()}
        self._replaced = {}
        # The copies change only now: an error above leaves the changes of every table for the next call.
        for name, change in changes.items():
            rows = change.indices[:, 0].copy()  # the caller may change what is handed out
            self._replaced[name] = (rows, self._before[name][rows])
            self._before[name][rows] = tables[name][rows]
        return changes

    def undo(self) -> None:
        """Takes back the last `since_last`: the next one has its changes, too. To be called when its update was refused.
        A second call does nothing."""
        for name, (rows, values) in self._replaced.items():
            self._before[name][rows] = values
        self._replaced = {}

    @contextmanager
    def sending(self, model: Any) -> Iterator[dict[str, SparseTensor]]:
        """`since_last` for the length of a block that submits the update; see `TopK.sending`.

        model: as it is now.
        """
        with _undone_where_refused(self):
            yield self.since_last(model)

    def _watched(self, flat: Mapping[str, Any]) -> dict[str, Any]:
        _arguments.names("names", self._names, flat)
        new = [name for name in flat if name not in self._names] if self._is_whole_model else []
        if new:
            raise InvalidArgumentError(
                f"the model has gained {_arguments.listed(new)}: make a new ChangedRows of it"
            )
        return {name: flat[name] for name in self._names}


@contextmanager
def _undone_where_refused(sender: ChangedRows | TopK) -> Iterator[None]:
    """Calls `undo` where the block raises an error after which the update is not counted."""
    try:
        yield
    except _OUTCOME_UNKNOWN:
        raise
    except Exception:
        sender.undo()
        raise


def top_k(array: Any, k: SupportsIndex) -> SparseTensor:
    """Returns the `k` values of the largest magnitude, every dimension indexed; all of them where there are fewer.

    array: dense, of any shape.
    k: how many; 0 or less gives none.

    Ties go to the lower index, so the choice does not depend on the machine. Raises InvalidUpdateError for a value that is
    not finite.
    """
    values = _finite(_dense(array))
    return _largest(values, k)


def _largest(values: np.ndarray[Any, Any], k: SupportsIndex) -> SparseTensor:
    flat = _magnitudes(values)
    with _arguments.refusing("k"):
        k = max(0, min(operator.index(k), flat.size))
    if k == 0:
        return _entries(values, np.empty(0, np.int64))
    least = np.partition(flat, flat.size - k)[flat.size - k]
    chosen = np.flatnonzero(flat > least)
    ties = np.flatnonzero(flat == least)[: k - len(chosen)]
    return _entries(values, np.sort(np.concatenate([chosen, ties])))


def above(array: Any, threshold: float | np.number[Any]) -> SparseTensor:
    """Returns the values of a magnitude of at least `threshold`, every dimension indexed.

    array: dense, of any shape.
    threshold: a number, not NaN.

    Raises InvalidUpdateError for a value that is not finite.
    """
    values = _finite(_dense(array))
    if not isinstance(threshold, (int, float, np.number)) or np.isnan(threshold):
        raise InvalidArgumentError(f"threshold is {threshold!r}, not a number")
    return _entries(values, np.flatnonzero(_magnitudes(values) >= threshold))


class TopK:
    """Top-k with error feedback: what is left out of one update is added to the next, so nothing is lost for good.

        compressor = TopK(0.01)
        with compressor.sending({"w": gradient}) as update:
            round.submit(update, contributor="phone-17")

    fraction: share of the values of each tensor that is sent, above 0 and at most 1; at least one value is.

    One object for each contributor, kept from round to round. What is left out of floating-point tensors is kept in
    float64, with what rounding took from the values that were sent. See Stich et al., "Sparsified SGD with Memory" (2018).
    """

    def __init__(self, fraction: float | np.number[Any]) -> None:
        if not isinstance(fraction, (int, float, np.number)) or not 0 < fraction <= 1:
            raise InvalidArgumentError(
                f"fraction is {fraction!r}; it must be above 0 and at most 1"
            )
        self._fraction = float(fraction)
        self._left_out: dict[str, np.ndarray[Any, Any]] = {}
        # Indices and values of the last update.
        self._sent: dict[str, tuple[tuple[Any, ...], np.ndarray[Any, Any]]] = {}

    def compress(self, update: Any) -> dict[str, SparseTensor]:
        """Returns the largest values of each dense tensor of `update`, by the names of `flatten`, in the types of
        `update`.

        update: dense tensors, nested as for `flatten`; those of one name keep their shape from call to call.

        Raises InvalidUpdateError, naming tensor and position, where the update plus what was left
        out before is not finite, InvalidArgumentError where it does not fit in a type of whole
        numbers; then nothing is taken of any tensor, and what was left out stays as it was.
        """
        compressed = {}
        left_out = {}
        sent = {}
        for name, tensor in flatten(update).items():
            values = _dense(tensor)
            total = self._with_left_out(name, values)
            with np.errstate(over="ignore"):  # an infinite value is refused below
                typed = _finite(total.astype(values.dtype, copy=False), name)
            sparse = _largest(typed, max(1, round(self._fraction * total.size)))
            index = tuple(sparse.indices.T.copy())
            sent[name] = (index, sparse.values.copy())  # the caller may change what is handed out
            total[index] -= sparse.values
            left_out[name] = total
            compressed[name] = sparse
        # Nothing is kept before every tensor is known to be finite: a NaN would be in every later update.
        self._left_out.update(left_out)
        self._sent = sent
        return compressed

    def undo(self) -> None:
        """Takes back the last `compress`: what it sent is added to the next update. To be called when the update was
        refused. A second call does nothing."""
        for name, (index, values) in self._sent.items():
            self._left_out[name][index] += values
        self._sent = {}

    @contextmanager
    def sending(self, update: Any) -> Iterator[dict[str, SparseTensor]]:
        """`compress` for the length of a block that submits the update. An exception of the block calls `undo`, but for
        UnavailableError, DeadlineExceededError and what cancels the block: after these the server may have counted the
        update. The caller then submits the same update again with the same `update_id`, and calls `undo` if it is refused.

        update: as in `compress`.
        """
        with _undone_where_refused(self):
            yield self.compress(update)

    def _with_left_out(self, name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns `values` and what was left out of this tensor before, as an array of its own: of float64, or of the
        type of whole numbers."""
        is_float = values.dtype.kind == "f"
        total: np.ndarray[Any, Any] = values.astype(np.float64) if is_float else values.copy()
        left_out = self._left_out.get(name)
        if left_out is None:
            return total
        if left_out.shape != values.shape:  # which numpy might broadcast
            raise InvalidArgumentError(
                f'tensor "{name}" has the shape {list(values.shape)}; before it had {list(left_out.shape)}'
            )
        if is_float != (left_out.dtype.kind == "f"):
            raise InvalidArgumentError(
                f'tensor "{name}" is of {values.dtype}; what was left out of it before is of {left_out.dtype}'
            )
        with np.errstate(over="ignore"):  # an infinite sum is refused by compress()
            rest = left_out.astype(total.dtype, copy=False)
            total += rest
        if is_float:
            return total
        is_kept = (rest == left_out) & ((rest < 0) == (left_out < 0))
        if not is_kept.all() or ((rest < 0) != (total < values)).any():
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
    """Returns `values`; raises InvalidUpdateError that names the first one that is not finite."""
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
