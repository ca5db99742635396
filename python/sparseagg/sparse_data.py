"""Sparse examples: a contributor's data as a sparse matrix `[examples, features]`, such as bags of words.

Examples are in any kind that `sparseagg.as_tensor` takes with two indexed dimensions: a scipy matrix, a torch sparse tensor,
a tf.SparseTensor, a JAX BCOO, or a tuple (indices, values, dense_shape). Nothing here makes them dense, and the number of
features may be any below 2^63.

    local_features(examples)       the features that occur, and the examples renumbered to these: for a gradient that has
                                   rows for them only
    feature_statistics(examples)   an update of federated statistics: document frequencies, sums, minima and maxima
    statistics_specs(...)          the tensors of the round that takes such updates
    FeatureStatistics.of(result)   its result
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from sparseagg import _arguments
from sparseagg.convert import as_tensor
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError
from sparseagg.kinds import kind_of
from sparseagg.tensors import SparseTensor, TensorSpec, value_type_of

if TYPE_CHECKING:  # numpy 1.21 knows no parameters of arrays when the program runs
    Array = np.ndarray[Any, Any]


def local_features(examples: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """(features, local): the features that the examples hold, `[n]` int64, ascending, and the examples with these as their
    only columns, `[examples, n]`, in the kind that was handed in.

    examples: a sparse matrix `[examples, features]`; entries of equal indices are added.

    A contributor needs the rows `features` of a table `[features, width]` and no others, and changes no others. The
    gradient of these rows is an update of its own small size:

        features, local = local_features(examples)
        rows = round.result("dense", indices={"weights": features})["weights"]
        gradient = local.T @ errors(local @ rows)
        update = {"weights": SparseTensor(features, gradient, [num_features, width])}

    Raises InvalidUpdateError where the examples are no sparse matrix or have an index outside of their shape.
    """
    entries = _entries(examples)
    # A column is never above its feature, so it has a place in the features' type.
    indices = np.empty((len(entries.features), 2), entries.features.dtype)
    indices[:, 0] = entries.examples
    features, indices[:, 1] = _distinct(entries)
    shape = (entries.num_examples, len(features))
    renumbered = SparseTensor(indices, entries.values.copy(), shape, entries.value_type)
    return features, kind_of(examples).restore(renumbered, examples)


def feature_statistics(examples: Any) -> dict[str, Any]:
    """The update of one contributor for a round of `statistics_specs`.

    examples: a sparse matrix `[examples, features]`; entries of equal indices are added first. An entry counts as held by its
        example also where its value is 0, as scipy, torch and TensorFlow have it.

    A contributor's own sums are made in float64, or in integers of 64 bits; those of whole numbers are exact. Submit it with
    the weight 1, which is the one that `Round.submit` takes by itself: the operator `sum` multiplies by the weight.

    Raises InvalidUpdateError where the examples are no sparse matrix, have an index outside of their shape, or a value that
    is not finite, and where a sum does not fit in 64 bits.
    """
    entries = _entries(examples)
    _check_values(entries)
    order, is_first = _by_feature(entries)
    first = np.flatnonzero(is_first)
    features = entries.features[order[first]]
    values = entries.values[order]
    held = np.diff(first, append=len(order))
    # numpy takes the parts from each of `first` to the next; of no parts it makes none.
    smallest, largest = (
        ufunc.reduceat(values, first) if len(first) else values
        for ufunc in (np.minimum, np.maximum)
    )

    def of_features(statistic: Array) -> SparseTensor:
        return SparseTensor(features, statistic, (entries.num_features,))

    return {
        "examples": np.array([entries.num_examples], np.int64),
        "document_frequency": of_features(held.astype(np.int64)),
        "contributors": of_features(np.ones(len(first), np.int32)),
        "total": of_features(_sums(features, values, first, f"{values.dtype.kind}8")),
        "minimum": of_features(smallest),
        "maximum": of_features(largest),
    }


def statistics_specs(num_features: SupportsIndex, value_type: Any = "f32") -> list[TensorSpec]:
    """The tensors of a round of federated statistics: several operators, one round.

    num_features: how many features there are, the second number of the examples' shape.
    value_type: of the examples' values: a name ("f32", "i64", ...) or a numpy type; not bfloat16.

        examples              sum        how many examples there are
        document_frequency    sum        how many examples hold the feature
        contributors          count      how many contributors hold it
        total                 sum        the sum of its values, in float64 or integers of 64 bits
        minimum, maximum      min, max   of the values that examples hold; absent ones do not count as 0

    Raises InvalidArgumentError for another value type.
    """
    with _arguments.refusing("value_type"):
        value_type = value_type_of(value_type)
    if value_type == "bf16":
        raise InvalidArgumentError("statistics of bfloat16 are not made; convert it to f32")
    shape = (_arguments.whole("num_features", num_features, 1, 2**63 - 1),)
    sums = {"f": "f64", "i": "i64", "u": "u64"}[value_type[0]]
    return [
        TensorSpec("examples", [1], "i64", 0, "sum"),
        TensorSpec("document_frequency", shape, "i64", 1, "sum"),
        TensorSpec("contributors", shape, "i32", 1, "count"),
        TensorSpec("total", shape, sums, 1, "sum"),
        TensorSpec("minimum", shape, value_type, 1, "min"),
        TensorSpec("maximum", shape, value_type, 1, "max"),
    ]


@dataclass(frozen=True)
class FeatureStatistics:
    """Statistics of all contributors' examples; every array is `[n]` and in the order of `features`.

    examples: how many there are.
    features: ascending: those that some example holds.
    document_frequency: how many examples hold the feature.
    contributors: how many contributors hold it.
    total: the sum of its values.
    minimum: its smallest value, of the examples that hold it. Where absent values count as 0 and `document_frequency` is
        below `examples`, it is the smaller of this and 0.
    maximum: its largest value, as above.
    """

    examples: int
    features: np.ndarray[Any, Any]
    document_frequency: np.ndarray[Any, Any]
    contributors: np.ndarray[Any, Any]
    total: np.ndarray[Any, Any]
    minimum: np.ndarray[Any, Any]
    maximum: np.ndarray[Any, Any]

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> FeatureStatistics:
        """The statistics in the result of a round of `statistics_specs`.

        result: a `Result`, or what `sparseagg.tff.SparseRound` gives, whose sparse tensors are <indices, values>.
        """
        found: dict[str, Any] = {"examples": int(np.asarray(result["examples"]).reshape(-1)[0])}
        for name in ("document_frequency", "contributors", "total", "minimum", "maximum"):
            tensor = result[name]
            if isinstance(tensor, Mapping):
                indices, found[name] = np.asarray(tensor["indices"]), np.asarray(tensor["values"])
            else:
                indices, found[name] = tensor.indices, tensor.values
            found["features"] = indices.reshape(-1).astype(np.int64)
        return cls(**found)

    def inverse_document_frequency(self) -> np.ndarray[Any, Any]:
        """`log((1 + examples) / (1 + document_frequency)) + 1`, float64, as scikit-learn's TfidfTransformer has it."""
        ratio = (1.0 + self.examples) / (1.0 + self.document_frequency.astype(np.float64))
        return np.asarray(np.log(ratio) + 1.0)


class _Entries(NamedTuple):
    """A matrix of examples; entry i is (examples[i], features[i], values[i]). They ascend, and none repeats."""

    num_examples: int
    num_features: int
    examples: Array
    features: Array
    values: Array
    value_type: str


def _entries(examples: Any) -> _Entries:
    tensor = as_tensor(examples)
    if (
        not isinstance(tensor, SparseTensor)
        or tensor.sparse_dim != 2
        or len(tensor.dense_shape) != 2
    ):
        indexed = tensor.sparse_dim if isinstance(tensor, SparseTensor) else 0
        raise InvalidUpdateError(
            f"examples of the shape {list(tensor.dense_shape)} with {indexed} indexed dimension(s) are no sparse matrix "
            "[examples, features]",
            reason="SHAPE_MISMATCH",
        )
    for what, indices, limit in zip(("example", "feature"), tensor.indices.T, tensor.dense_shape):
        if len(indices) and (indices.min() < 0 or indices.max() >= limit):
            entry = int(((indices < 0) | (indices >= limit)).argmax())
            raise InvalidUpdateError(
                f"{what} {indices[entry]} at entry {entry} is not in the shape {list(tensor.dense_shape)}",
                reason="INDEX_OUT_OF_RANGE",
            )
    # One after the other in memory, and in 32 bits where they fit: what follows is twice as fast.
    dtype = np.int32 if max(tensor.dense_shape) <= 2**31 else np.int64
    rows: Array = np.ascontiguousarray(tensor.indices[:, 0], dtype)
    columns: Array = np.ascontiguousarray(tensor.indices[:, 1], dtype)
    values = tensor.values
    same_row, later = rows[1:] == rows[:-1], columns[1:] > columns[:-1]
    if not ((rows[1:] > rows[:-1]) | (same_row & later)).all():
        rows, columns, values = _coalesced(rows, columns, values, tensor.value_type)
    return _Entries(*tensor.dense_shape, rows, columns, values, tensor.value_type)


def _coalesced(
    rows: Array, columns: Array, values: Array, value_type: str
) -> tuple[Array, Array, Array]:
    order = _ascending(rows, _ascending(columns))
    rows, columns, values = rows[order], columns[order], values[order]
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    if first.all():
        return rows, columns, values
    if value_type == "bf16":
        raise InvalidUpdateError(
            "bfloat16 entries of equal indices cannot be added; convert them to f32",
            reason="VALUE_TYPE_UNSUPPORTED",
        )
    rows, columns = rows[first], columns[first]
    sums = _sums(columns, values, np.flatnonzero(first), values.dtype)
    return rows, columns, sums


def _ascending(keys: Array, order: Array | None = None) -> Array:
    """The positions of `keys` (not negative) in ascending order; of equal keys those stay first that are so in `order`.

    A radix sort by digits of 16 bits, which numpy has of its own: 10^6 keys in 45 ms, where its stable argsort of 32 bits
    took 940 (numpy 1.24, a busy machine).
    """
    largest = int(keys.max()) if len(keys) else 0
    for shift in range(0, max(1, largest.bit_length()), 16):
        digits = (keys >> shift).astype(np.uint16)
        if order is None:
            order = np.argsort(digits, kind="stable")
        else:
            order = order[np.argsort(digits[order], kind="stable")]
    assert order is not None  # there was a first digit
    return order


def _distinct(entries: _Entries) -> tuple[Array, Array]:
    """The distinct features, ascending, and for each entry the position of its feature among them."""
    if entries.num_features <= 4 * len(
        entries.features
    ):  # a table of them takes no more memory than the entries
        occurs = np.zeros(entries.num_features, bool)
        occurs[entries.features] = True
        return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[entries.features]
    order, first = _by_feature(entries)
    positions = np.empty(len(order), np.int64)
    positions[order] = np.cumsum(first) - 1
    return entries.features[order[first]].astype(np.int64), positions


def _by_feature(entries: _Entries) -> tuple[Array, Array]:
    """The positions of the entries ordered by feature, and where in that order a feature begins, as booleans."""
    order = _ascending(entries.features)
    features = entries.features[order]
    first = np.ones(len(order), bool)
    first[1:] = features[1:] != features[:-1]
    return order, first


def _check_values(entries: _Entries) -> None:
    if entries.value_type == "bf16":
        raise InvalidUpdateError(
            "statistics of bfloat16 are not made; convert it to f32",
            reason="VALUE_TYPE_UNSUPPORTED",
        )
    finite = np.isfinite(entries.values)
    if not finite.all():
        entry = int(finite.argmin())
        raise InvalidUpdateError(
            f"value {entries.values[entry]} of feature {entries.features[entry]} in example {entries.examples[entry]} is "
            "not finite",
            reason="NON_FINITE_VALUE",
        )


def _sums(features: Array, values: Array, first: Array, dtype: Any) -> Array:
    """The sums of `values` from each of `first` to the next, as `dtype`; `features` has the feature of each sum."""
    wide = values.astype(f"{values.dtype.kind}8")
    if not len(first):  # numpy refuses these
        return wide.astype(dtype)
    totals = np.add.reduceat(wide, first)
    sums: Array = totals.astype(dtype)
    if values.dtype.kind in "iu":
        # Integers of 64 bits wrap. A wrapped sum differs from that in float64 by 2^64.
        estimates = np.add.reduceat(values.astype(np.float64), first)
        wrong = (np.abs(estimates - totals.astype(np.float64)) > 2.0**62) | (sums != totals)
        if wrong.any():
            raise InvalidUpdateError(
                f"the sum of feature {features[int(wrong.argmax())]} does not fit in {sums.dtype}",
                reason="INTEGER_OVERFLOW",
            )
    return sums
