"""Random indices of updates: distributions over an index space, distinct within an update where it is canonical."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable

import numpy as np

ZIPF_EXPONENT = 1.1
TOPK_SHARED = 0.8  # of an update's indices come from a set that all contributors share
# Coprime to every index space used here, so that rank -> index is one to one.
HASH_MULTIPLIER = 1_000_000_007

_SMALL_NNZ = 4096  # below, many updates are drawn at once
_BLOCK = 1 << 22  # entries drawn at once

Draw = Callable[[int], np.ndarray]


def draw(
    distribution: str, order: str, space: int, nnz: np.ndarray, random: np.random.Generator
) -> Iterator[np.ndarray]:
    """The rows of all updates, int64, one after the other: each array holds one or more whole updates, or a piece of
    one.

    "sorted" updates are strictly ascending (but for one_index, where nothing else is possible). "shuffled" ones are the
    same in random order; those of a Zipf distribution are plain draws, so that frequent indices repeat in an update.
    """
    if distribution == "one_index":
        yield from _constant(space // 3, nnz)
    elif distribution == "dense":
        yield from _constant(0, nnz)
    elif distribution == "topk":
        yield from _topk(order, space, nnz, random)
    else:
        one = _sampler(distribution, space, random)
        if order == "shuffled" and distribution.startswith("zipf"):
            yield from _pieces(one, int(nnz.sum()))
        else:
            yield from _distinct_updates(one, order, space, nnz, random)


def _constant(row: int, nnz: np.ndarray) -> Iterator[np.ndarray]:
    yield from _pieces(lambda n: np.full(n, row, np.int64), int(nnz.sum()))


def _pieces(one: Draw, count: int) -> Iterator[np.ndarray]:
    for begin in range(0, count, _BLOCK):
        yield one(min(_BLOCK, count - begin))


def _sampler(distribution: str, space: int, random: np.random.Generator) -> Draw:
    if distribution in ("uniform", "one_contributor"):
        return lambda n: random.integers(0, space, n)
    if distribution == "zipf":
        return lambda n: _zipf_ranks(space, n, random)
    if distribution == "zipf_hashed":
        return lambda n: _scatter(_zipf_ranks(space, n, random), space)
    raise ValueError(f"there is no distribution {distribution}")


def _zipf_ranks(space: int, n: int, random: np.random.Generator) -> np.ndarray:
    """Ranks of 0 .. space - 1, rank r with a probability of about (r + 1) ** -1.1: the inverse of the integral."""
    power = 1 - ZIPF_EXPONENT
    tail = float(space) ** power
    ranks = random.random(n)
    ranks *= tail - 1
    ranks += 1
    np.power(ranks, 1 / power, out=ranks)
    return np.minimum(ranks, float(space) * (1 - 1e-15)).astype(np.int64) - 1


def _scatter(ranks: np.ndarray, space: int) -> np.ndarray:
    """Spreads ranks over the space, one to one, as a hash would."""
    scattered = ranks.astype(np.uint64) * np.uint64(HASH_MULTIPLIER)
    return (scattered % np.uint64(space)).astype(np.int64)


def _distinct_updates(
    one: Draw, order: str, space: int, nnz: np.ndarray, random: np.random.Generator
) -> Iterator[np.ndarray]:
    if nnz.max() > _SMALL_NNZ or len(set(nnz.tolist())) > 2:
        for count in nnz.tolist():
            rows = _distinct(one, space, count, random)
            yield random.permutation(rows) if order == "shuffled" else rows
        return
    # Small updates of equal size: a matrix of them at once. The first ones may have one entry more.
    for count in sorted(set(nnz.tolist()), reverse=True):
        updates = int((nnz == count).sum())
        step = max(1, _BLOCK // max(1, count))
        for begin in range(0, updates, step):
            block = _distinct_block(one, min(step, updates - begin), count)
            if order == "shuffled":
                block = random.permuted(block, axis=1)
            yield block.ravel()


def _distinct_block(one: Draw, updates: int, nnz: int) -> np.ndarray:
    """[updates, nnz], each row strictly ascending: what repeats is drawn again until nothing does."""
    block = np.sort(one(updates * nnz).reshape(updates, nnz), axis=1)
    again = np.arange(updates)
    while True:
        rows = block[again]
        repeated = np.zeros(rows.shape, bool)
        repeated[:, 1:] = rows[:, 1:] == rows[:, :-1]
        bad = repeated.any(axis=1)
        again, rows, repeated = again[bad], rows[bad], repeated[bad]
        if not len(again):
            return block
        rows[repeated] = one(int(repeated.sum()))
        rows.sort(axis=1)
        block[again] = rows


def _distinct(one: Draw, space: int, nnz: int, random: np.random.Generator) -> np.ndarray:
    """`nnz` distinct draws, ascending."""
    if nnz == space:
        return np.arange(space)
    rows = np.unique(one(nnz))
    while len(rows) < nnz:
        missing = nnz - len(rows)
        # Draws of a skewed distribution mostly repeat what is there.
        rows = np.union1d(rows, one(missing * 4))
    if len(rows) > nnz:
        kept = np.ones(len(rows), bool)
        kept[random.choice(len(rows), len(rows) - nnz, replace=False)] = False
        rows = rows[kept]
    return rows


def _topk(
    order: str, space: int, nnz: np.ndarray, random: np.random.Generator
) -> Iterator[np.ndarray]:
    """Every contributor's k largest: most of them where everybody has them, the others anywhere."""
    uniform = _sampler("uniform", space, random)
    largest = int(nnz.max())
    shared = _distinct(uniform, space, largest, random)
    for count in nnz.tolist():
        kept = shared[random.random(largest) < TOPK_SHARED * count / largest]
        # Own indices may by chance be shared ones: draw until all are distinct.
        rows = kept[: count - 1]
        while len(rows) < count:
            rows = np.union1d(rows, uniform(count - len(rows)))
        yield random.permutation(rows) if order == "shuffled" else rows
