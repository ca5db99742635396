"""Random sparse updates, with what is hard about them: repeated indices, empty ones, both index types."""

from __future__ import annotations

import numpy as np


def triples(shape, sparse_dim, count=100, *, dtype=np.float32, repeats=True, seed=0):
    """`count` updates (indices `[nnz, sparse_dim]`, values, shape); every tenth is empty."""
    generator = np.random.default_rng(seed)
    updates = []
    for number in range(count):
        nnz = 0 if number % 10 == 9 else int(generator.integers(1, 60))
        indices = np.stack([generator.integers(0, d, nnz) for d in shape[:sparse_dim]], axis=1)
        if repeats and nnz > 1:
            indices[1] = indices[0]
        elif not repeats:
            indices = np.unique(indices, axis=0)
        index_dtype = np.int32 if number % 2 else np.int64
        values = generator.normal(size=(len(indices), *shape[sparse_dim:])).astype(dtype)
        updates.append((indices.astype(index_dtype), values, tuple(shape)))
    return updates


def dense_arrays(shape, count=100, *, seed=0):
    """`count` dense float32 arrays as updates: triples that hold every row, so that `dense_sum` takes them, too."""
    generator = np.random.default_rng(seed)
    rows = np.arange(shape[0])[:, None]
    return [
        (rows, generator.normal(size=shape).astype(np.float32), tuple(shape)) for _ in range(count)
    ]


def check_sum(found, updates, own):
    """`found`, an array, is the exact sum of the updates within float32, and `own`, what the framework makes of them."""
    exact, bound = dense_sum(updates)
    assert (np.abs(found - exact) <= bound).all()
    assert (np.abs(found - own) <= 2 * bound).all()


def dense_sum(updates):
    """The sum as a float64 array, and a bound of what float32 sums may differ from it."""
    total = np.zeros(updates[0][2])
    magnitude = np.zeros(updates[0][2])
    for indices, values, _ in updates:
        np.add.at(total, tuple(indices.T), values.astype(np.float64))
        np.add.at(magnitude, tuple(indices.T), np.abs(values.astype(np.float64)))
    return total, magnitude * len(updates) * 2.0**-24 + 1e-30
