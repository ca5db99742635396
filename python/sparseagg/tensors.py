"""What a user hands in and gets back: `SparseTensor`, and `TensorSpec`, the description of a round's tensor.

A tensor is hybrid COO: its first `sparse_dim` dimensions are indexed, the rest is a dense row of values. An embedding
table `[vocabulary, 64]` has `sparse_dim` 1 and rows of 64 values; a scalar COO matrix has `sparse_dim` 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, Union

import numpy as np

from sparseagg import _arguments
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError

if TYPE_CHECKING:  # numpy 1.21 knows no parameters of arrays when the program runs
    Array = np.ndarray[Any, Any]

# Names of the value types, and the numpy type their values travel in. numpy has no bfloat16: its bit pattern is held in
# uint16, and the name "bf16" says what the bits mean.
VALUE_DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
    "i32": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "u32": np.dtype("<u4"),
    "u64": np.dtype("<u8"),
}
_HINTS = {
    "uint16": '; for bfloat16 bits say value_type="bf16"',
    "bool": "; leave them out, or convert them to int32: the op sum counts those that are true, max is any, min is all",
}
_NAME_OF_DTYPE = {dtype: name for name, dtype in VALUE_DTYPES.items() if name != "bf16"}


def value_type_of(dtype: Any) -> str:
    """Returns the name of the value type of a numpy type, for example "f32" for `np.float32`.

    Accepts a name, too, and the bfloat16 type of the package ml_dtypes. Raises InvalidUpdateError for a type that the
    server does not aggregate.
    """
    if isinstance(dtype, str) and dtype in VALUE_DTYPES:
        return dtype
    if dtype is None:  # which numpy takes for float64
        raise InvalidUpdateError("the value type is None", reason="VALUE_TYPE_UNSUPPORTED")
    with _arguments.refusing("the value type", InvalidUpdateError, "VALUE_TYPE_UNSUPPORTED"):
        resolved = np.dtype(dtype)
    if resolved.name == "bfloat16":
        return "bf16"
    name = _NAME_OF_DTYPE.get(resolved.newbyteorder("<"))
    if name is None:
        hint = _HINTS.get(resolved.name, "")
        raise InvalidUpdateError(
            f"values of type {resolved} cannot be aggregated, only {', '.join(VALUE_DTYPES)}{hint}",
            reason="VALUE_TYPE_UNSUPPORTED",
        )
    return name


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a round, and how it is aggregated.

    name: 1 to 255 characters, unique within the round.
    dense_shape: the full shape, each dimension at least 1.
    value_type: a name ("f32", "bf16", ...) or a numpy type.
    sparse_dim: number of leading dimensions that are indexed; 0 is a dense tensor, submitted as one numpy array.
    op: "sum", "weighted_mean" (absent counts as zero), "mean_of_contributors" (only those that hold the index),
        "count", "min" or "max".
    integer_overflow: "checked" (the round fails and names the index) or "modular" (wraps).
    plan: forces an algorithm; empty lets the server choose. The result does not depend on it.
    """

    name: str
    dense_shape: Sequence[int]
    value_type: Any = "f32"
    sparse_dim: int = 1
    op: str = "sum"
    integer_overflow: str = "checked"
    plan: str = ""

    def __post_init__(self) -> None:
        with _arguments.refusing(f'tensor "{self.name}"'):
            with _arguments.refusing("dense_shape"):
                shape = _arguments.shape(self.dense_shape)
            value_type = value_type_of(self.value_type)
        object.__setattr__(self, "dense_shape", shape)
        object.__setattr__(self, "value_type", value_type)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row: the dimensions that are not indexed."""
        return tuple(self.dense_shape[self.sparse_dim :])


class SparseTensor:
    """Entries (indices, values) of a mostly empty tensor, as TensorFlow's SparseTensor and IndexedSlices.

    indices: integers `[nnz, sparse_dim]`, or `[nnz]` when one dimension is indexed. int32 and int64 are sent as they
        are. Entries come in any order; equal indices are summed. Results have ascending indices.
    values: `[nnz, *dense_shape[sparse_dim:]]`; float16, float32, float64, int32, int64, uint32, uint64, or uint16 bit
        patterns of bfloat16 with `value_type="bf16"`.
    dense_shape: the full shape.
    value_type: "bf16" for bit patterns; otherwise taken from the values.

    Raises InvalidUpdateError when the three do not fit together. Ranges and finiteness are checked by the server.
    """

    __slots__ = ("indices", "values", "dense_shape", "value_type")

    def __init__(
        self,
        indices: Any,
        values: Any,
        dense_shape: Iterable[SupportsIndex],
        value_type: str | None = None,
    ) -> None:
        with _arguments.refusing("dense_shape", InvalidUpdateError, "SHAPE_MISMATCH"):
            self.dense_shape: tuple[int, ...] = _arguments.shape(dense_shape)
        self.indices = _as_indices(indices, len(self.dense_shape))
        self.values, self.value_type = as_values(values, value_type)
        nnz, sparse_dim = self.indices.shape
        row_shape = self.dense_shape[sparse_dim:]
        if nnz == 0 and self.values.shape == (0,):  # [], which has no width
            self.values = self.values.reshape(0, *row_shape)
        if self.values.shape != (nnz, *row_shape):
            raise InvalidUpdateError(
                f"values have the shape {list(self.values.shape)}, but {nnz} entries with {sparse_dim} indexed "
                f"dimension(s) of the shape {list(self.dense_shape)} need {[nnz, *row_shape]}",
                reason="SHAPE_MISMATCH",
            )

    @property
    def nnz(self) -> int:
        """Number of stored entries; explicit zeros count."""
        return int(self.indices.shape[0])

    @property
    def sparse_dim(self) -> int:
        """Number of leading dimensions that are indexed."""
        return int(self.indices.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of indices and values, which is what travels."""
        return int(self.indices.nbytes + self.values.nbytes)

    def __iter__(self) -> Iterator[Any]:
        """Unpacks as a triple: `indices, values, dense_shape = tensor`. Where that is handed in again, values of bfloat16
        need `value_type="bf16"`."""
        return iter((self.indices, self.values, self.dense_shape))

    def to_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Returns `{"indices", "values", "dense_shape"}` as arrays, for systems that only carry dictionaries of arrays.
        Such a dictionary is taken wherever a tensor is; of bfloat16 it has a "value_type", too, which its bits do not
        tell."""
        shape = np.array(self.dense_shape, np.int64)
        arrays = {"indices": self.indices, "values": self.values, "dense_shape": shape}
        return {**arrays, "value_type": np.array("bf16")} if self.value_type == "bf16" else arrays

    def to_dense(self) -> np.ndarray[Any, Any]:
        """Returns the full array `[*dense_shape]`, absent values 0; equal indices are summed in the order they come in,
        distinct ones, as results have them, are put in place as they are.

        For results, whose indices are distinct, this is exact. bfloat16 comes as uint16 bit patterns, and equal
        indices are refused there, because adding bit patterns means nothing. So are indices outside of the shape.
        """
        with _arguments.refusing("dense_shape"):
            dense = np.zeros(self.dense_shape, self.values.dtype)
        outside = (self.indices < 0) | (self.indices >= self.dense_shape[: self.sparse_dim])
        if outside.any():  # numpy would count negative ones from the end
            entry = int(outside.any(axis=1).argmax())
            raise InvalidArgumentError(
                f"index {self.indices[entry].tolist()} at entry {entry} is not in the shape {list(self.dense_shape)}",
                reason="INDEX_OUT_OF_RANGE",
            )
        index = tuple(self.indices.T)
        first, repeated = self._occurrences()
        if not len(repeated):
            dense[index] = self.values
        elif self.value_type == "bf16":
            raise InvalidArgumentError(
                "bfloat16 entries with equal indices: sum them with sparse_sum first"
            )
        else:  # numpy adds entry by entry, which takes long
            dense[tuple(self.indices[first].T)] = self.values[first]
            np.add.at(dense, tuple(self.indices[repeated].T), self.values[repeated])
        return dense

    def _occurrences(self) -> tuple[Array, Array]:
        """Returns the entries whose index no entry before has, and the others, in the order they come in. Of a shape
        that an array may have."""
        rows = np.ravel_multi_index(tuple(self.indices.T), self.dense_shape[: self.sparse_dim])
        entries = np.arange(self.nnz)
        if (rows[1:] > rows[:-1]).all():
            return entries, entries[:0]
        order = np.argsort(rows, kind="stable")
        is_first = np.ones(self.nnz, bool)
        is_first[order[1:]] = rows[order[1:]] != rows[order[:-1]]
        return entries[is_first], entries[~is_first]

    def to_scipy(self) -> Any:
        """Returns a `scipy.sparse.coo_matrix`. Raises InvalidArgumentError unless two dimensions of two are indexed,
        and for bfloat16, which scipy does not have."""
        if self.value_type == "bf16":
            raise InvalidArgumentError("scipy has no bfloat16; its bits would be taken for numbers")
        if len(self.dense_shape) != 2 or self.sparse_dim != 2:
            raise InvalidArgumentError(
                f"only a matrix with both dimensions indexed is a scipy matrix; this one has the shape "
                f"{list(self.dense_shape)} and sparse_dim {self.sparse_dim}"
            )
        from scipy.sparse import coo_matrix  # only who asks for scipy needs it

        rows, columns = self.indices.T
        return coo_matrix((self.values, (rows, columns)), shape=self.dense_shape)

    def __repr__(self) -> str:
        return (
            f"SparseTensor(nnz={self.nnz}, dense_shape={list(self.dense_shape)}, "
            f"sparse_dim={self.sparse_dim}, value_type={self.value_type!r})"
        )


class DenseValues:
    """A dense tensor (sparse_dim 0), as `as_tensor` makes it of an array.

    values: `[*dense_shape]`; a scalar gets the shape [1].
    value_type: "bf16" for bit patterns in uint16; otherwise taken from the values.
    """

    __slots__ = ("values", "value_type")

    def __init__(self, values: Any, value_type: str | None = None) -> None:
        array, self.value_type = as_values(values, value_type)
        self.values = array.reshape(array.shape or (1,))

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The full shape."""
        return tuple(self.values.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values, which is what travels."""
        return int(self.values.nbytes)


AnyTensor = Union[SparseTensor, DenseValues]

# A tensor of a result: a numpy array where it is dense (sparse_dim 0, or layout="dense").
ResultTensor = Union[SparseTensor, "np.ndarray[Any, Any]"]


def empty_tensor(spec: TensorSpec) -> AnyTensor:
    """Returns the tensor of a contributor that touched nothing of it."""
    dtype = VALUE_DTYPES[spec.value_type]
    if spec.sparse_dim == 0:
        return _Untouched(spec)
    indices = np.empty((0, spec.sparse_dim), "<i8")
    return SparseTensor(
        indices, np.empty((0, *spec.row_shape), dtype), spec.dense_shape, spec.value_type
    )


class _Untouched(DenseValues):
    """A dense tensor with nothing to add: nnz 0."""

    __slots__ = ("_shape",)

    def __init__(self, spec: TensorSpec) -> None:
        super().__init__(np.empty(0, VALUE_DTYPES[spec.value_type]), spec.value_type)
        self._shape = tuple(spec.dense_shape)

    @property
    def dense_shape(self) -> tuple[int, ...]:
        return self._shape


def as_values(values: Any, value_type: str | None) -> tuple[np.ndarray[Any, Any], str]:
    """Returns `values` as a C-ordered little-endian array, and the name of its value type."""
    if values is None:
        raise InvalidUpdateError("None is no tensor", reason="VALUE_TYPE_UNSUPPORTED")
    _arguments.unmasked("values", values, InvalidUpdateError, "VALUE_TYPE_UNSUPPORTED")
    try:
        array = np.asarray(values)
    except MemoryError:
        raise
    except Exception as bad:  # also what an __array__ of another package raises
        is_ours = isinstance(values, (list, tuple, np.ndarray))
        hint = "" if is_ours else "; hand in an array, or (indices, values, dense_shape)"
        raise InvalidUpdateError(
            f"values: {_arguments.words_of(bad)}{hint}", reason="VALUE_TYPE_UNSUPPORTED"
        ) from bad
    if value_type is None:
        value_type = value_type_of(array.dtype)
    elif not isinstance(value_type, str) or value_type not in VALUE_DTYPES:
        raise InvalidUpdateError(
            f'no value type "{value_type}", only {", ".join(VALUE_DTYPES)}',
            reason="VALUE_TYPE_UNSUPPORTED",
        )
    if value_type == "bf16" and array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
    wanted = VALUE_DTYPES[value_type]
    if array.dtype.newbyteorder("<") != wanted:
        raise InvalidUpdateError(
            f"values of type {array.dtype} are not {value_type}; convert them to {wanted.name} first",
            reason="VALUE_TYPE_MISMATCH",
        )
    return np.ascontiguousarray(array, wanted), value_type


def _as_indices(indices: Any, rank: int) -> np.ndarray[Any, Any]:
    _arguments.unmasked("indices", indices, InvalidUpdateError, "INDEX_TYPE_UNSUPPORTED")
    with _arguments.refusing("indices", InvalidUpdateError, "INDEX_TYPE_UNSUPPORTED"):
        array = np.asarray(indices)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)  # what np.asarray([]) gives
    if array.dtype.kind not in "iu":
        raise InvalidUpdateError(
            f"indices are of type {array.dtype}, not integers", reason="INDEX_TYPE_UNSUPPORTED"
        )
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2 or not 1 <= array.shape[1] <= rank:
        raise InvalidUpdateError(
            f"indices have the shape {list(array.shape)}; it must be [nnz, sparse_dim] with sparse_dim from 1 to the "
            f"rank {rank}",
            reason="SHAPE_MISMATCH",
        )
    if array.dtype.newbyteorder("<") == np.dtype("<i4"):
        return np.ascontiguousarray(array, "<i4")
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise InvalidUpdateError(
            f"index {int(array.max())} at entry {int(array.argmax()) // array.shape[1]} is not below 2^63",
            reason="INDEX_OUT_OF_RANGE",
        )
    return np.ascontiguousarray(array, "<i8")
