"""The side of a contributor. Each runs in a worker process with a connection of its own, as it would elsewhere.

A contributor gets the global model (here: files that it maps into memory; it reads only the rows of its words), trains
on its own document, and sends the rows it changed. Its text never leaves it.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from documents import HASH_SPACE, Document, Vocabulary, hash_counts
from model import LocalUpdate, train_locally
from sparseagg import Client, SparseTensor

# Tables whose rows are words, and those that every contributor changes as a whole.
SPARSE_TABLES = ("input", "output", "bias")
DENSE_TABLES = ("position",)


@dataclass(frozen=True)
class TrainingTask:
    """One contributor's part in one round."""

    document: int  # its place among the training documents
    round_name: str
    model_folder: Path  # the global model, one .npy file a table
    vocabulary_path: Path
    passes: int
    learning_rate: float
    seed: int
    kept_updates: Path | None = None  # folder for a copy of the update, for the check at the end
    dense: bool = False  # sends arrays of the full shape


@dataclass(frozen=True)
class Sent:
    """A contributor's report about its update."""

    contributor: str
    nnz: int
    examples: int
    payload_bytes: int


class Contributors:
    """The contributors that live in one process."""

    def __init__(self, server: str, documents: list[Document]) -> None:
        self._client = Client(server)
        self._documents = documents
        self._vocabulary: Vocabulary | None = None

    def count_words(self, document: int, round_name: str) -> None:
        """Submits how often each word occurs, at the hash of the word."""
        hashes, counts = hash_counts(self._documents[document].words)
        occurrences = SparseTensor(hashes, counts, [HASH_SPACE])
        self._client.round(round_name).submit(
            {"occurrences": occurrences, "documents": occurrences},
            contributor=self._documents[document].name,
        )

    def train(self, task: TrainingTask) -> Sent:
        """Trains on one document and submits what has changed."""
        if self._vocabulary is None:
            self._vocabulary = load_vocabulary(task.vocabulary_path)
        parameters = {
            name: np.load(task.model_folder / f"{name}.npy", mmap_mode="r")
            for name in (*SPARSE_TABLES, *DENSE_TABLES)
        }
        document = self._documents[task.document]
        random = np.random.default_rng([task.seed, task.document])
        ids = self._vocabulary.ids_of(document.words)
        update = train_locally(
            parameters, ids, self._vocabulary.counts, task.passes, task.learning_rate, random
        )
        tensors: dict[str, Any] = {}
        for name in SPARSE_TABLES:
            rows, deltas, shape = update.rows[name], update.deltas[name], parameters[name].shape
            if task.dense:
                tensors[name], tensors[held(name)] = dense_update(rows, deltas, shape)
            else:
                tensors[name] = SparseTensor(rows, deltas, shape)
        tensors.update({name: update.deltas[name] for name in DENSE_TABLES})
        self._client.round(task.round_name).submit(
            tensors, contributor=document.name, weight=update.examples
        )
        if task.kept_updates is not None:
            save_update(task.kept_updates / f"{task.document}.npz", update)
        return Sent(
            contributor=document.name,
            nnz=sum(len(update.rows[name]) for name in SPARSE_TABLES),
            examples=update.examples,
            payload_bytes=sum(tensor.nbytes for tensor in tensors.values()),
        )


def held(table: str) -> str:
    """The name of the tensor that tells, in a dense round, which rows of the table a contributor holds."""
    return f"{table}.held"


def dense_update(
    rows: np.ndarray, deltas: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The update of the full shape, and 1 for each row that it holds: what a mean over its holders needs."""
    whole, holds = np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)
    whole[rows], holds[rows] = deltas, 1
    return whole, holds


# One for each worker process. Functions that a process pool calls must be found by name in a module.
_here: Contributors | None = None


def start_worker(server: str, documents: list[Document]) -> None:
    """Called once in each worker process."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is the main process's business; it ends the workers
    global _here
    _here = Contributors(server, documents)


def count_words(task: tuple[int, str]) -> None:
    """`Contributors.count_words` in a worker process."""
    assert _here is not None
    _here.count_words(*task)


def train(task: TrainingTask) -> Sent:
    """`Contributors.train` in a worker process."""
    assert _here is not None
    return _here.train(task)


def save_vocabulary(path: Path, vocabulary: Vocabulary) -> None:
    """Makes the vocabulary readable for every contributor."""
    np.savez(path, hashes=vocabulary.hashes, counts=vocabulary.counts)


def load_vocabulary(path: Path) -> Vocabulary:
    """The inverse of `save_vocabulary`."""
    with np.load(path) as arrays:
        return Vocabulary(arrays["hashes"], arrays["counts"])


def save_update(path: Path, update: LocalUpdate) -> None:
    """A copy of an update, for the check at the end."""
    arrays = {f"rows_{name}": value for name, value in update.rows.items()}
    arrays.update({f"deltas_{name}": value for name, value in update.deltas.items()})
    np.savez(path, examples=update.examples, **arrays)


def load_update(path: Path) -> LocalUpdate:
    """The inverse of `save_update`."""
    with np.load(path) as arrays:
        return LocalUpdate(
            rows={name[5:]: arrays[name] for name in arrays.files if name.startswith("rows_")},
            deltas={name[7:]: arrays[name] for name in arrays.files if name.startswith("deltas_")},
            examples=int(arrays["examples"]),
        )
