#!/usr/bin/python3
"""Trains word embeddings federatedly through a sparseagg server. Every document is a contributor.

This program is the federated server: it opens a round, picks contributors, waits for the aggregate and applies it to
the global model. The contributors run in worker processes (contributor.py). README.md explains the choices.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))

import contributor
import model
import numpy as np
import report
from check import check, dense_twin
from documents import WORDS_MAX, Document, TooFewDocumentsError, read_documents
from federation import Federation, apply
from held_out import HeldOut, split
from local_server import Server, server_at, tree_of
from sparseagg import Client, SparseAggError, SparseTensor
from sparseagg.tensors import ResultTensor


def main() -> int:
    """Runs the demo; 0 when the loss went down and the check passed."""
    arguments = parse_arguments()
    try:
        return train(arguments)
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
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--server", help="address of a running server; default: starts its own")
    where.add_argument(
        "--nodes",
        type=_positive,
        metavar="N",
        help="trains through a tree of a root and N leaves of its own, and again through one server: "
        "parameters and picture must have the same bits",
    )
    parser.add_argument(
        "--dense-twin", action="store_true", help="trains a second time, with dense updates"
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


def train(arguments: argparse.Namespace) -> int:
    """Trains, checks, and writes what was found; the exit code."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    # Each worker is one core's worth of contributors; more BLAS threads would only compete.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # Once for all trainings: the files of this machine may change in between.
    documents = read_documents(arguments.data, arguments.documents, WORDS_MAX)
    with _servers(arguments) as server:
        sparse = Training(arguments, documents, server).run()
    one_server = None
    if arguments.nodes:
        print("\nThe same training through one server:")
        with server_at(None) as server:
            one_server = Training(arguments, documents, server).run()
    dense = None
    if arguments.dense_twin:
        print("\nThe same training with dense updates:")
        with _servers(arguments) as server:  # fresh ones, so that their memory can be compared
            dense = Training(arguments, documents, server, dense=True).run()
        report.print_twins(sparse, dense)
    pictures = report.draw(sparse, dense, one_server)
    if one_server:
        report.print_tree(sparse, one_server, arguments.nodes, pictures)
    settings = {name: str(value) for name, value in vars(arguments).items()}
    report.write(arguments.out, settings, sparse, dense, one_server, pictures)
    if not sparse.fell:
        print("The held-out loss did not fall: more rounds, contributors or text are needed.")
    same = dense is None or report.same_loss(sparse, dense)
    same = same and (one_server is None or report.same_outcome(sparse, one_server, pictures))
    return 0 if sparse.fell and sparse.verdict.passed and same else 1


def _servers(arguments: argparse.Namespace) -> AbstractContextManager[Server]:
    """One server, or a tree of them."""
    return tree_of(arguments.nodes) if arguments.nodes else server_at(arguments.server)


class Training:
    """One training. The choices of chance are the same in each."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        documents: list[Document],
        server: Server,
        *,
        dense: bool = False,
    ) -> None:
        self._arguments = arguments
        self._documents = documents
        self._server = server
        self._dense = dense
        self._random = np.random.default_rng(arguments.seed)

    def run(self) -> report.Run:
        """Everything, in order."""
        training, held_out = split(self._documents, self._random, self._arguments.data)
        # spawn: gRPC connections do not survive a fork.
        processes = multiprocessing.get_context("spawn")
        server = self._server.target
        with (
            Client(server) as client,
            tempfile.TemporaryDirectory(prefix="word_embeddings_") as folder,
        ):
            info = client.info()
            backend = next((b.name for b in info.backends if b.selected), "unknown")
            leaves = len(self._server.leaves)
            kind = f"Root {server} with leaves: {leaves}" if leaves else f"Server {server}"
            print(f"{kind}; sparseagg {info.version}, back end {backend}", flush=True)
            workers = processes.Pool(
                self._arguments.processes, contributor.start_worker, (server, training)
            )
            with workers as pool:
                federation = Federation(
                    client,
                    pool,
                    Path(folder),
                    training,
                    self._arguments,
                    self._random,
                    self._dense,
                )
                return self._train(federation, held_out)

    def _train(self, federation: Federation, held_out: list[Document]) -> report.Run:
        memory_before = self._server.memory_max()
        vocabulary = federation.count_words()
        parameters = model.initial_parameters(
            vocabulary.size, self._arguments.dimensions, self._arguments.seed
        )
        initial = {name: table.copy() for name, table in parameters.items()}
        judge = HeldOut(held_out, vocabulary, self._random)
        report.print_header(judge.loss(initial))
        rows = []
        for number in range(1, self._arguments.rounds + 1):
            outcome = federation.train_round(number, parameters)
            previous = {name: table.copy() for name, table in parameters.items()}
            apply(outcome.aggregate, parameters)
            rows.append(outcome.row(number, parameters, judge.loss(parameters)))
            report.print_round(rows[-1])
        run = report.Run(
            rows,
            judge.loss(initial),
            self._server.memory_max() - memory_before,
            parameters_digest(parameters),
        )
        if not self._dense:
            self._check(run, federation, outcome.aggregate, previous, judge)
            words = federation.words_of(vocabulary)
            run.neighbours = report.print_neighbours(words, initial["input"], parameters["input"])
        return run

    def _check(
        self,
        run: report.Run,
        federation: Federation,
        aggregate: Mapping[str, Any],
        before: model.Parameters,
        judge: HeldOut,
    ) -> None:
        """The last round against other ways to aggregate the same updates."""
        shapes = {name: table.shape for name, table in before.items()}
        served = {name: full_array(aggregate[name]) for name in before}
        updates = federation.kept_updates()
        run.verdict = check(updates, shapes, served)
        dense_loss = judge.loss(dense_twin(updates, before))
        report.print_verdict(run, dense_loss)


def parameters_digest(parameters: model.Parameters) -> str:
    """SHA-256 of all bits of a model."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        digest.update(parameters[name].tobytes())
    return digest.hexdigest()


def full_array(tensor: ResultTensor) -> np.ndarray:
    """A tensor of a result as an array of the full shape."""
    return tensor.to_dense() if isinstance(tensor, SparseTensor) else tensor


if __name__ == "__main__":
    sys.exit(main())
