#!/usr/bin/python3
"""Trains word embeddings federatedly through a sparseagg server. Every document is a contributor.

This program is the federated server: it opens a round, picks contributors, waits for the aggregate and applies it to
the global model. The contributors run in worker processes (contributor.py). README.md explains the choices.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import contributor
import model
import numpy as np
import report
from check import Verdict, check, dense_twin
from documents import Document, TooFewDocumentsError, Vocabulary, read_documents
from federation import Federation
from sparseagg import Client, Result, SparseAggError, SparseTensor
from sparseagg.tensors import ResultTensor

WORDS_MAX = 8_000  # of one document; a few very long ones would keep everyone waiting
HELD_OUT_SHARE = 0.1
HELD_OUT_EXAMPLES_MAX = 20_000
HELD_OUT_NEGATIVES = 500


def main() -> int:
    """Runs the demo; 0 when the loss went down and the check passed."""
    arguments = parse_arguments()
    try:
        return Training(arguments).run()
    except (TooFewDocumentsError, SparseAggError, OSError) as error:
        report.clear_progress()
        print(f"train.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        report.clear_progress()
        print("train.py: interrupted", file=sys.stderr)
        return 130


def parse_arguments() -> argparse.Namespace:
    """The options; `--help` shows them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--server", default="127.0.0.1:50061", help="address of the sparseagg server (%(default)s)"
    )
    parser.add_argument(
        "--data", type=Path, help="folder of text files (the copyright files of this machine)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("word_embeddings_out"), help="for picture and numbers"
    )
    parser.add_argument("--rounds", type=_positive, default=20)
    parser.add_argument(
        "--contributors", type=_positive, default=60, help="of one round (%(default)s)"
    )
    parser.add_argument(
        "--documents", type=_positive, default=400, help="at most this many (%(default)s)"
    )
    parser.add_argument(
        "--dimensions", type=_positive, default=64, help="of the embeddings (%(default)s)"
    )
    parser.add_argument(
        "--passes", type=_positive, default=3, help="over a document in one round (%(default)s)"
    )
    parser.add_argument("--processes", type=_positive, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


class Training:
    """One run of the demo."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._random = np.random.default_rng(arguments.seed)

    def run(self) -> int:
        """Everything, in order; the exit code."""
        documents = read_documents(self._arguments.data, self._arguments.documents, WORDS_MAX)
        training, held_out = self._split(documents)
        self._arguments.out.mkdir(parents=True, exist_ok=True)
        # Each worker is one core's worth of contributors; more BLAS threads would only compete.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        # spawn: gRPC connections do not survive a fork.
        processes = multiprocessing.get_context("spawn")
        server = self._arguments.server
        with (
            Client(server) as client,
            tempfile.TemporaryDirectory(prefix="word_embeddings_") as folder,
        ):
            info = client.info()
            backend = next((b.name for b in info.backends if b.selected), "unknown")
            print(f"Server {server}: sparseagg {info.version}, back end {backend}", flush=True)
            workers = processes.Pool(
                self._arguments.processes, contributor.start_worker, (server, training)
            )
            with workers as pool:
                federation = Federation(
                    client, pool, Path(folder), training, self._arguments, self._random
                )
                return self._train(federation, held_out)

    def _split(self, documents: list[Document]) -> tuple[list[Document], list[Document]]:
        order = self._random.permutation(len(documents))
        held_out = max(1, int(len(documents) * HELD_OUT_SHARE))
        words = sum(len(document.words) for document in documents)
        print(
            f"Documents: {len(documents)} with {words} words from "
            f"{self._arguments.data or 'the copyright files of this machine'}; "
            f"{len(documents) - held_out} are contributors, {held_out} are held out",
            flush=True,
        )
        return [documents[i] for i in order[held_out:]], [documents[i] for i in order[:held_out]]

    def _train(self, federation: Federation, held_out: list[Document]) -> int:
        vocabulary = federation.count_words()
        parameters = model.initial_parameters(
            vocabulary.size, self._arguments.dimensions, self._arguments.seed
        )
        before = parameters["input"].copy()
        judge = HeldOut(held_out, vocabulary, self._random)
        initial_loss = judge.loss(parameters)
        report.print_header(initial_loss)
        rows = []
        for number in range(1, self._arguments.rounds + 1):
            outcome = federation.train_round(number, parameters)
            previous = {name: table.copy() for name, table in parameters.items()}
            apply(outcome.aggregate, parameters)
            rows.append(outcome.row(number, parameters, judge.loss(parameters)))
            report.print_round(rows[-1])
        shapes = {name: table.shape for name, table in parameters.items()}
        served = {name: full_array(outcome.aggregate[name]) for name in parameters}
        updates = federation.kept_updates()
        verdict = check(updates, shapes, served)
        report.print_verdict(
            verdict,
            rows[-1].aggregation_seconds,
            rows[-1].held_out_loss,
            judge.loss(dense_twin(updates, previous)),
        )
        neighbours = report.print_neighbours(
            federation.words_of(vocabulary), before, parameters["input"]
        )
        self._write(rows, initial_loss, verdict, neighbours)
        fell = rows[-1].held_out_loss < initial_loss
        if not fell:
            print("The held-out loss did not fall: more rounds, contributors or text are needed.")
        return 0 if fell and verdict.passed else 1

    def _write(self, rows: list, initial_loss: float, verdict: Verdict, neighbours: dict) -> None:
        out = self._arguments.out
        settings = {name: str(value) for name, value in vars(self._arguments).items()}
        report.write_json(
            out / "word_embeddings.json", settings, initial_loss, rows, verdict, neighbours
        )
        drawn = report.draw(out / "word_embeddings.png", rows, initial_loss)
        sparse, dense = (
            sum(getattr(row, name) for row in rows) for name in ("sparse_bytes", "dense_bytes")
        )
        print(
            f"\nHeld-out loss {initial_loss:.4f} -> {rows[-1].held_out_loss:.4f} in {len(rows)} rounds; "
            f"{report.megabytes(sparse)} sent, {report.megabytes(dense)} if it were dense"
        )
        print(
            f"Picture: {out / 'word_embeddings.png'}"
            if drawn
            else "No picture: python3-matplotlib is missing"
        )
        print(f"Numbers: {out / 'word_embeddings.json'}")


class HeldOut:
    """Documents that nobody trains on, to measure the loss by."""

    def __init__(
        self, documents: list[Document], vocabulary: Vocabulary, random: np.random.Generator
    ) -> None:
        texts = [
            model.thin_out(vocabulary.ids_of(d.words), vocabulary.counts, random) for d in documents
        ]
        parts = [model.make_examples(ids) for ids in texts]
        targets = np.concatenate([part.targets for part in parts])
        contexts = np.concatenate([part.contexts for part in parts])
        chosen = random.permutation(len(targets))[:HELD_OUT_EXAMPLES_MAX]
        if not len(chosen):
            raise TooFewDocumentsError(
                "the held-out documents share no words with the others; give more text: --data"
            )
        self._examples = model.Examples(targets[chosen], contexts[chosen])
        self._negatives = model.draw_negatives(vocabulary.counts, HELD_OUT_NEGATIVES, random)

    def loss(self, parameters: model.Parameters) -> float:
        """The loss for one word."""
        return model.loss_of(parameters, self._examples, self._negatives) / self._examples.count


def apply(aggregate: Result, parameters: model.Parameters) -> None:
    """The federated server's step: adds the mean change to the global model, only where there is one."""
    for name, table in parameters.items():
        change = aggregate[name]
        if isinstance(change, SparseTensor):
            table[change.indices[:, 0]] += change.values
        else:
            table += change


def full_array(tensor: ResultTensor) -> np.ndarray:
    """A tensor of a result as an array of the full shape."""
    return tensor.to_dense() if isinstance(tensor, SparseTensor) else tensor


if __name__ == "__main__":
    sys.exit(main())
