"""What a Python programmer would use instead: the ways of numpy, scipy, torch, TensorFlow, pandas and polars.

A way gets the entries in memory as its library wants them. Each imports its library itself, so that a process pays for
one only, and this list can be read without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

_DENSE_BYTES_MAX = 8 << 30


@dataclass(frozen=True)
class Peer:
    """A way of one library. `prepare` is not timed."""

    name: str
    module: str
    threaded: bool  # takes a number of threads
    why_not: Callable[[Any], str]  # (Updates) -> empty when it can do the case
    prepare: Callable[[Any], Any]
    run: Callable[[Any], Any]  # (prepared) -> result, kept until the peak of memory is read
    nnz_of: Callable[[Any], int]  # (result) -> rows it has; 0 when it is dense
    loses_zeros: bool = False  # leaves out rows whose sum is 0, also where they only cancel in f32


def _always(_: Any) -> str:
    return ""


def _dense(updates: Any) -> str:
    if updates.dense_bytes <= _DENSE_BYTES_MAX:
        return ""
    return "its dense array would be larger than 8 GiB"


# ---------------------------------------------------------------------------------------------------------------------
# numpy


def _numpy_add_at(updates: Any) -> tuple:
    import numpy as np

    rows, place = np.unique(updates.rows, return_inverse=True)
    sums = np.zeros((len(rows), *updates.values.shape[1:]), np.float32)
    np.add.at(sums, place, updates.values)
    return rows, sums


def _prepare_argsort(updates: Any) -> tuple:
    # The stable sort merges runs that are there already; without runs the other one is faster.
    return updates, "stable" if updates.is_canonical() else None


def _numpy_reduceat(prepared: tuple) -> tuple:
    import numpy as np

    updates, kind = prepared
    order = np.argsort(updates.rows, kind=kind)
    rows = updates.rows[order]
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    return rows[starts], np.add.reduceat(updates.values[order], starts, axis=0)


def _numpy_bincount(updates: Any) -> Any:
    import numpy as np

    return np.bincount(updates.rows, updates.values, updates.space)


def _why_not_bincount(updates: Any) -> str:
    if updates.width > 1:
        return "it has no rows of values"
    return _dense(updates) if updates.space <= 10**8 else "its array would be too large"


def _numpy_scatter(updates: Any) -> Any:
    import numpy as np

    total = np.zeros((updates.space, *updates.values.shape[1:]), np.float32)
    for begin, end in zip(updates.offsets[:-1], updates.offsets[1:]):
        total[updates.rows[begin:end]] += updates.values[begin:end]
    return total


def _why_not_scatter(updates: Any) -> str:
    # An index that repeats within an update would count once.
    return _dense(updates) or ("" if updates.is_canonical() else "it needs distinct indices")


def _numpy_dense_adds(updates: Any) -> Any:
    """What dense aggregation does: one vector of the whole index space for each contributor."""
    import numpy as np

    total = np.zeros(updates.width, np.float32)
    for vector in updates.values:
        np.add(total, vector, out=total)
    return total


def _why_not_dense_adds(updates: Any) -> str:
    return "" if updates.space == 1 and updates.width > 1 else "the updates are sparse"


# ---------------------------------------------------------------------------------------------------------------------
# scipy.sparse


def _scipy_coo(updates: Any) -> Any:
    from scipy import sparse

    total = sparse.coo_array((updates.values, (updates.rows,)), shape=(updates.space,), copy=True)
    total.sum_duplicates()
    return total


def _scalar_only(updates: Any) -> str:
    return "" if updates.width == 1 else "it has no rows of values"


def _why_not_tree(updates: Any) -> str:
    if updates.width > 1:
        return "it has no rows of values"
    if updates.contributors > 1000:
        return "more than 1,000 additions"
    return "" if updates.is_canonical() else "it needs sorted, distinct indices"


def _tree_sum(parts: list, add: Callable) -> Any:
    """Pairwise: fewer bytes moved than one after the other."""
    while len(parts) > 1:
        pairs = [add(a, b) for a, b in zip(parts[::2], parts[1::2])]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def _scipy_csr_sum(updates: Any) -> Any:
    import numpy as np
    from scipy import sparse

    parts = []
    for begin, end in zip(updates.offsets[:-1], updates.offsets[1:]):
        arrays = (
            updates.values[begin:end],
            updates.rows[begin:end],
            np.array([0, end - begin], np.int64),
        )
        part = sparse.csr_array(arrays, shape=(1, updates.space))
        part.has_canonical_format = True
        parts.append(part)
    return _tree_sum(parts, lambda a, b: a + b)


def _scipy_rows(updates: Any) -> tuple:
    """A matrix that picks and adds rows, times the rows."""
    import numpy as np
    from scipy import sparse

    rows, place = np.unique(updates.rows, return_inverse=True)
    entries = updates.entries
    picks = sparse.csc_array(
        (np.ones(entries, np.float32), place, np.arange(entries + 1)), shape=(len(rows), entries)
    )
    return rows, picks @ updates.values


def _rows_only(updates: Any) -> str:
    return "" if updates.width > 1 else "it is for rows of values"


# ---------------------------------------------------------------------------------------------------------------------
# torch


def _torch_prepare(updates: Any) -> tuple:
    import torch

    return updates, torch.from_numpy(updates.rows), torch.from_numpy(updates.values)


def _torch_coalesce(prepared: tuple) -> Any:
    import torch

    updates, rows, values = prepared
    shape = (updates.space, *values.shape[1:])
    return torch.sparse_coo_tensor(rows[None, :], values, shape, check_invariants=False).coalesce()


def _torch_index_add(prepared: tuple) -> Any:
    import torch

    updates, rows, values = prepared
    total = torch.zeros((updates.space, *values.shape[1:]), dtype=torch.float32)
    return total.index_add_(0, rows, values)


def _torch_index_add_rows(prepared: tuple) -> tuple:
    """Rows and values, as a sparse sum has them; a sum that is zero is left out, which saves looking for its row."""
    total = _torch_index_add(prepared)
    rows = total.nonzero()[:, 0]
    return rows, total[rows]


def _scalar_and_dense(updates: Any) -> str:
    return _scalar_only(updates) or _dense(updates)


# ---------------------------------------------------------------------------------------------------------------------
# TensorFlow


def _tf_prepare(updates: Any) -> tuple:
    import tensorflow as tf

    return tf.constant(updates.rows), tf.constant(updates.values)


def _tf_segment_sum(prepared: tuple) -> tuple:
    import tensorflow as tf

    rows, values = prepared
    distinct, place = tf.unique(rows)
    return distinct, tf.math.unsorted_segment_sum(values, place, tf.size(distinct))


def _tf_prepare_parts(updates: Any) -> list:
    import tensorflow as tf

    return [
        tf.sparse.SparseTensor(
            tf.constant(updates.rows[begin:end, None]),
            tf.constant(updates.values[begin:end]),
            [updates.space],
        )
        for begin, end in zip(updates.offsets[:-1], updates.offsets[1:])
    ]


def _tf_sparse_add(parts: list) -> Any:
    import tensorflow as tf

    return _tree_sum(parts, tf.sparse.add)


# ---------------------------------------------------------------------------------------------------------------------
# Data frames


def _pandas_prepare(updates: Any) -> Any:
    import pandas as pd

    kind = pd.Series if updates.width == 1 else pd.DataFrame
    return updates.rows, kind(updates.values)


def _pandas_group_by(prepared: tuple) -> Any:
    rows, frame = prepared
    return frame.groupby(rows).sum()


def _polars_prepare(updates: Any) -> Any:
    import polars as pl

    values = updates.values.reshape(updates.entries, -1)
    columns = {f"v{i}": values[:, i].copy() for i in range(updates.width)}
    return pl.DataFrame({"row": updates.rows, **columns})


def _polars_group_by(frame: Any) -> Any:
    import polars as pl

    return frame.group_by("row").agg(pl.exclude("row").sum())


def _same(updates: Any) -> Any:
    return updates


def _is_dense(_: Any) -> int:
    return 0


def _first(result: tuple) -> int:
    return len(result[0])


PEERS = [
    Peer("numpy unique + add.at", "numpy", False, _always, _same, _numpy_add_at, _first),
    Peer(
        "numpy argsort + reduceat",
        "numpy",
        False,
        _always,
        _prepare_argsort,
        _numpy_reduceat,
        _first,
    ),
    Peer("numpy bincount", "numpy", False, _why_not_bincount, _same, _numpy_bincount, _is_dense),
    Peer(
        "numpy total[rows] += values",
        "numpy",
        False,
        _why_not_scatter,
        _same,
        _numpy_scatter,
        _is_dense,
    ),
    Peer(
        "numpy dense adds", "numpy", False, _why_not_dense_adds, _same, _numpy_dense_adds, _is_dense
    ),
    Peer(
        "scipy coo sum_duplicates", "scipy", False, _scalar_only, _same, _scipy_coo, lambda r: r.nnz
    ),
    Peer(
        "scipy sum of csr",
        "scipy",
        False,
        _why_not_tree,
        _same,
        _scipy_csr_sum,
        lambda r: r.nnz,
        loses_zeros=True,
    ),
    Peer("scipy csc @ rows", "scipy", False, _rows_only, _same, _scipy_rows, _first),
    Peer(
        "torch coalesce",
        "torch",
        True,
        _always,
        _torch_prepare,
        _torch_coalesce,
        lambda r: r.indices().shape[1],
    ),
    Peer("torch index_add_", "torch", True, _dense, _torch_prepare, _torch_index_add, _is_dense),
    Peer(
        "torch index_add_, nonzero",
        "torch",
        True,
        _scalar_and_dense,
        _torch_prepare,
        _torch_index_add_rows,
        _first,
        loses_zeros=True,
    ),
    Peer(
        "tensorflow unique + segment_sum",
        "tensorflow",
        True,
        _always,
        _tf_prepare,
        _tf_segment_sum,
        _first,
    ),
    Peer(
        "tensorflow sparse.add",
        "tensorflow",
        True,
        _why_not_tree,
        _tf_prepare_parts,
        _tf_sparse_add,
        lambda r: int(r.indices.shape[0]),
    ),
    Peer("pandas groupby", "pandas", False, _always, _pandas_prepare, _pandas_group_by, len),
    Peer("polars group_by", "polars", True, _always, _polars_prepare, _polars_group_by, len),
]
