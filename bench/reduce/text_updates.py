"""Updates of the demo (examples/word_embeddings): real text, real training, one document a contributor.

Recorded without a server: every document trains once from the same initial model, as in the demo's first round.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "word_embeddings"))
import documents
import model

TABLES = ("rows", "words")
DOCUMENTS_MAX = 400  # as in the demo
WORDS_MAX = 8_000
DIMENSIONS = 64
PASSES = 1  # the demo makes three; the rows it touches are the same
SEED = 1


class NoTextError(Exception):
    """This machine has too little text; the message says what is missing."""


@dataclass(frozen=True)
class Updates:
    """The updates of one round."""

    space: int
    width: int
    weights: np.ndarray  # float32 [contributors]
    entries: list[
        tuple[np.ndarray, np.ndarray]
    ]  # rows [nnz], values [nnz, width] of each contributor


def record(table: str) -> Updates:
    """table: "words" counts words at their hashes, 2^62 places, in order of appearance; "rows" are the changes of the
    embeddings of the words to be predicted, ascending, weighted by the number of examples."""
    try:
        texts = documents.read_documents(None, DOCUMENTS_MAX, WORDS_MAX)
    except documents.TooFewDocumentsError as error:
        raise NoTextError(str(error)) from error
    counted = [documents.hash_counts(text.words) for text in texts]
    if table == "words":
        return Updates(
            documents.HASH_SPACE,
            1,
            np.ones(len(texts), np.float32),
            [(hashes, counts.astype(np.float32)) for hashes, counts in counted],
        )
    vocabulary = _vocabulary(counted)
    parameters = model.initial_parameters(vocabulary.size, DIMENSIONS, SEED)
    weights, entries = [], []
    for number, text in enumerate(texts):
        update = model.train_locally(
            parameters,
            vocabulary.ids_of(text.words),
            vocabulary.counts,
            PASSES,
            model.LEARNING_RATE,
            np.random.default_rng([SEED, number]),
        )
        weights.append(update.examples)
        entries.append((update.rows["output"], update.deltas["output"]))
    return Updates(vocabulary.size, DIMENSIONS, np.array(weights, np.float32), entries)


def _vocabulary(counted: list[tuple[np.ndarray, np.ndarray]]) -> documents.Vocabulary:
    """The words that at least two documents have, the most frequent first."""
    hashes, inverse, holders = np.unique(
        np.concatenate([h for h, _ in counted]), return_inverse=True, return_counts=True
    )
    counts = np.bincount(inverse, np.concatenate([c for _, c in counted])).astype(np.int64)
    hashes, counts = hashes[holders >= 2], counts[holders >= 2]
    order = np.lexsort((hashes, -counts))
    return documents.Vocabulary(hashes[order], counts[order])
