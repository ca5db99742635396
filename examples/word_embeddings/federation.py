"""The rounds of the demo, as the federated server runs them: one that counts words, then one for each training step."""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, Callable

import contributor
import numpy as np
import report
from contributor import DENSE_TABLES, SPARSE_TABLES, Sent, TrainingTask
from documents import HASH_SPACE, Document, Vocabulary, common_words, word_hash
from model import LocalUpdate, Parameters, learning_rate
from sparseagg import Client, Result, Round, SparseTensor, TensorSpec

# What a round that counts words collects: how often each occurs, and in how many documents.
WORD_COUNTS = (
    TensorSpec("occurrences", [HASH_SPACE], "i64", op="sum"),
    TensorSpec("documents", [HASH_SPACE], "i64", op="count"),
)
ROUND_SECONDS_MAX = 3600  # so that none stays open on a server that outlives this program


@dataclass(frozen=True)
class Outcome:
    """One training round: the aggregate, and what it took."""

    aggregate: Mapping[str, Any]  # the mean change of each table, sparse or of the full shape
    contributors: int
    sent: list[Sent]
    train_seconds: float
    aggregation_seconds: float

    def row(self, number: int, parameters: Parameters, loss: float) -> report.RoundReport:
        """The round as a row of the table."""
        model_bytes = sum(table.nbytes for table in parameters.values())
        return report.RoundReport(
            round=number,
            contributors=self.contributors,
            nnz=sum(sent.nnz for sent in self.sent),
            sent_bytes=sum(sent.payload_bytes for sent in self.sent),
            dense_bytes=model_bytes * len(self.sent),
            train_seconds=self.train_seconds,
            aggregation_seconds=self.aggregation_seconds,
            held_out_loss=loss,
        )


class Federation:
    """Opens rounds, has contributors take part in them, and brings the aggregates back."""

    def __init__(
        self,
        client: Client,
        pool: Pool,
        folder: Path,
        documents: list[Document],
        arguments: argparse.Namespace,
        random: np.random.Generator,
        dense: bool,
    ) -> None:
        self._dense = dense
        self._client = client
        self._pool = pool
        self._documents = documents
        self._arguments = arguments
        self._random = random
        self._run = f"words-{secrets.token_hex(3)}"  # several runs can share a server
        self._model_folder = folder / "model"
        self._kept_folder = folder / "updates"
        self._vocabulary_path = folder / "vocabulary.npz"
        self._model_folder.mkdir()
        self._kept_folder.mkdir()

    def count_words(self) -> Vocabulary:
        """The words that at least two contributors have, found without showing anybody a text.

        Every contributor submits its counts at the hashes of its words, in an index space of 2^62.
        """
        round = self._client.create_round(
            list(WORD_COUNTS),
            round_id=f"{self._run}-vocabulary",
            deadline=ROUND_SECONDS_MAX,
        )
        tasks = [(document, round.name) for document in range(len(self._documents))]
        self._gather("counting words", contributor.count_words, tasks)
        counted, seconds = _finish(round)
        occurrences, documents = counted["occurrences"], counted["documents"]
        hashes = occurrences.indices[:, 0]
        vocabulary = common_words(hashes, occurrences.values, documents.values.ravel())
        contributor.save_vocabulary(self._vocabulary_path, vocabulary)
        print(
            f"Vocabulary: {len(hashes)} words counted at 62 bit hashes by {counted.manifest.contributors} contributors, "
            f"{vocabulary.size} are in at least two documents (aggregated in {seconds * 1000:.1f} ms)",
            flush=True,
        )
        return vocabulary

    def train_round(self, number: int, parameters: Parameters) -> Outcome:
        """One round of training from `parameters`, with a random choice of contributors."""
        specs = self._specs({name: table.shape for name, table in parameters.items()})
        round = self._client.create_round(
            specs, round_id=f"{self._run}-{number}", deadline=ROUND_SECONDS_MAX
        )
        for name, table in parameters.items():
            np.save(self._model_folder / f"{name}.npy", table)
        for old in self._kept_folder.iterdir():
            old.unlink()
        share = min(self._arguments.contributors, len(self._documents))
        chosen = self._random.choice(len(self._documents), share, replace=False)
        tasks = [self._task(int(document), round, number) for document in chosen]
        begin = time.perf_counter()
        sent = self._gather(f"round {number}", contributor.train, tasks)
        train_seconds = time.perf_counter() - begin
        result, aggregation_seconds = _finish(round)
        aggregate = _mean_of_holders(result) if self._dense else result
        contributors = result.manifest.contributors
        return Outcome(aggregate, contributors, sent, train_seconds, aggregation_seconds)

    def _specs(self, shapes: Mapping[str, tuple[int, ...]]) -> list[TensorSpec]:
        if not self._dense:
            return sparse_specs(shapes)
        specs = [TensorSpec(n, shapes[n], "f32", 0, "weighted_mean") for n in DENSE_TABLES]
        for name in SPARSE_TABLES:
            specs.append(TensorSpec(name, shapes[name], "f32", 0, "sum"))
            specs.append(TensorSpec(contributor.held(name), shapes[name][:1], "f32", 0, "sum"))
        return specs

    def kept_updates(self) -> list[LocalUpdate]:
        """Copies of the updates of the last round, for the check. Only a demo has them: a server sees no update."""
        return [contributor.load_update(path) for path in sorted(self._kept_folder.iterdir())]

    def words_of(self, vocabulary: Vocabulary) -> list[str]:
        """The words behind the hashes, by id; known here because the documents are."""
        words = {
            word_hash(word): word for document in self._documents for word in set(document.words)
        }
        return [words[place] for place in vocabulary.hashes.tolist()]

    def _task(self, document: int, round: Round, number: int) -> TrainingTask:
        rounds = self._arguments.rounds
        return TrainingTask(
            document=document,
            round_name=round.name,
            model_folder=self._model_folder,
            vocabulary_path=self._vocabulary_path,
            passes=self._arguments.passes,
            learning_rate=learning_rate((number - 1) / max(1, rounds - 1)),
            seed=self._arguments.seed * 1_000_003 + number,
            kept_updates=self._kept_folder if number == rounds and not self._dense else None,
            dense=self._dense,
        )

    def _gather(self, what: str, function: Callable, tasks: Iterable) -> list:
        results = []
        tasks = list(tasks)
        for result in self._pool.imap_unordered(function, tasks):
            results.append(result)
            report.show_progress(what, len(results), len(tasks))
        report.clear_progress()
        return results


def sparse_specs(shapes: Mapping[str, tuple[int, ...]]) -> list[TensorSpec]:
    """What a training round collects, of tables of these shapes."""
    # A row is known only to those whose text has the word; they alone decide about it.
    tables = [TensorSpec(n, shapes[n], "f32", 1, "mean_of_contributors") for n in SPARSE_TABLES]
    return [*(TensorSpec(n, shapes[n], "f32", 0, "weighted_mean") for n in DENSE_TABLES), *tables]


def apply(aggregate: Mapping[str, Any], parameters: Parameters) -> None:
    """The federated server's step: adds the mean change to the global model, only where there is one."""
    for name, table in parameters.items():
        change = aggregate[name]
        if isinstance(change, SparseTensor):
            table[change.indices[:, 0]] += change.values
        else:
            table += change


def _mean_of_holders(sums: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A dense round's sums of weight times change, divided by the weight of those that hold the row."""
    means = {name: sums[name] for name in DENSE_TABLES}
    for name in SPARSE_TABLES:
        weights = np.maximum(sums[contributor.held(name)], 1)  # 0 / 1 where nobody holds it
        means[name] = sums[name] / weights.reshape(-1, *[1] * (sums[name].ndim - 1))
    return means


def _finish(round: Round) -> tuple[Result, float]:
    """(the aggregate, seconds from seal to published); the round is deleted."""
    begin = time.perf_counter()
    round.seal()
    round.wait()
    seconds = time.perf_counter() - begin
    aggregate = round.result()
    round.delete()
    return aggregate, seconds
