#!/usr/bin/python3
"""Trains word embeddings with workers that come for their work: browser tabs, Python processes, or both.

This program is the owner: it starts a server with an HTTP edge, serves the page from another origin, creates rounds and
their tasks, and applies the results. README.md explains it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "common"))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "word_embeddings"))

import model
import numpy as np
from credentials import Credentials
from documents import WORDS_MAX, Document, TooFewDocumentsError, read_documents
from held_out import HeldOut, split
from local_server import server_at
from owner import Done, Owner, Settings, TaskError, digest_of
from pages import PageServer
from sparseagg import Client, SparseAggError
from workers import Workers


def parse_arguments() -> argparse.Namespace:
    """The options; `--help` shows them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=0, help="Python workers beside the tabs")
    parser.add_argument(
        "--kill-every",
        type=int,
        metavar="TASKS",
        help="kills a Python worker after each TASKS tasks",
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--contributors", type=int, default=30, help="of a round (%(default)s)")
    parser.add_argument(
        "--documents", type=int, default=200, help="at most this many (%(default)s)"
    )
    parser.add_argument("--dimensions", type=int, default=64, help="of the embeddings")
    parser.add_argument("--passes", type=int, default=3, help="over a document in one round")
    parser.add_argument(
        "--data", type=Path, help="folder of text files (the copyright files of this machine)"
    )
    parser.add_argument(
        "--tokens", action="store_true", help="a server that demands a token of everybody"
    )
    parser.add_argument("--lease", type=float, default=10, help="seconds (%(default)s)")
    parser.add_argument("--page-port", type=int, default=8000, help="0: any (%(default)s)")
    parser.add_argument("--http-port", type=int, default=0, help="of the server; 0: any")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--training-seed", type=int, help="of the contributors' choices of chance (as --seed)"
    )
    parser.add_argument("--json", type=Path, help="file for the numbers")
    return parser.parse_args()


def main() -> int:
    """Trains; 0 when the loss fell and every task was counted once."""
    try:
        return train(parse_arguments())
    except (TooFewDocumentsError, TaskError, SparseAggError, OSError) as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("train.py: interrupted", file=sys.stderr)
        return 130


def train(arguments: argparse.Namespace) -> int:
    """Everything, in order; the exit code."""
    # Each worker is one core's worth; more BLAS threads would only compete.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    random = np.random.default_rng(arguments.seed)
    documents = read_documents(arguments.data, arguments.documents, WORDS_MAX)
    training, held_out = split(documents, random, arguments.data)
    settings = Settings(
        pool="words",
        rounds=arguments.rounds,
        contributors=arguments.contributors,
        dimensions=arguments.dimensions,
        passes=arguments.passes,
        lease_seconds=arguments.lease,
        seed=arguments.seed,
        training_seed=arguments.seed
        if arguments.training_seed is None
        else arguments.training_seed,
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="browser_")))
        names = write_texts(folder, training)
        pages = PageServer(arguments.page_port, folder)
        stack.callback(pages.close)
        http_port_file = folder / "http_port"
        flags = [
            f"--http-listen=127.0.0.1:{arguments.http_port}",
            f"--http-port-file={http_port_file}",
            f"--http-origins={pages.origin}",
        ]
        credentials = Credentials.new() if arguments.tokens else None
        if credentials:
            credentials.write(folder / "credentials.json")
            flags.append(f"--credentials={folder / 'credentials.json'}")
        server = stack.enter_context(server_at(None, *flags))
        http = f"http://127.0.0.1:{http_port_file.read_text().strip()}"
        address = pages.address(http, settings.pool, credentials and credentials.tabs)
        print(f"Open this page in one tab or several: {address}\n")
        workers = Workers(
            arguments.workers,
            arguments.kill_every,
            server.target,
            settings.pool,
            folder,
            credentials and credentials.python,
        )
        stack.callback(workers.close)
        token = credentials.owner.token if credentials else None
        client = stack.enter_context(Client(server.target, token=token))
        owner = Owner(client, names, settings, random, workers.tasks_completed)
        return run(owner, settings, held_out, workers, arguments.json, random)


def write_texts(folder: Path, documents: list[Document]) -> list[str]:
    """Writes the text of each contributor where pages and Python workers find it; returns the contributors' names."""
    names = [f"document-{number}" for number in range(len(documents))]
    for name, document in zip(names, documents):
        (folder / f"{name}.txt").write_text(" ".join(document.words))
    return names


def run(
    owner: Owner,
    settings: Settings,
    held_out: list[Document],
    workers: Workers,
    numbers: Path | None,
    random: np.random.Generator,
) -> int:
    """Counts words, trains round after round, and prints what each took; the exit code."""
    header = f"{'round':>10}{'tasks':>8}{'leases':>8}{'by tabs':>9}{'by Python':>11}{'seconds':>9}{'loss':>9}"
    print(header, flush=True)
    begin = time.monotonic()
    vocabulary, done = owner.count_words()
    parameters = model.initial_parameters(vocabulary.size, settings.dimensions, settings.seed)
    judge = HeldOut(held_out, vocabulary, random)
    losses = [judge.loss(parameters)]
    print_row("words", done, begin, losses)
    tasks, leases = done.tasks, done.leases
    for number in range(1, settings.rounds + 1):
        begin = time.monotonic()
        done = owner.train_round(number, parameters, losses)
        losses.append(judge.loss(parameters))
        print_row(str(number), done, begin, losses)
        tasks, leases = tasks + done.tasks, leases + done.leases
    digest = digest_of(parameters)
    print(
        f"\n{tasks} tasks, each counted once, in {leases} leases; {workers.killed} workers were killed"
        f"\nSHA-256 of the model: {digest}"
    )
    if numbers:
        found = {"tasks": tasks, "leases": leases, "killed": workers.killed}
        numbers.write_text(json.dumps({"losses": losses, **found, "digest": digest}, indent=1))
    return 0 if losses[-1] < losses[0] else 1


def print_row(name: str, done: Done, begin: float, losses: list[float]) -> None:
    """A row of the table; the loss is that on texts that nobody trains on."""
    by_tabs, by_python = done.workers["tab"], done.workers["python"]
    seconds = time.monotonic() - begin
    print(
        f"{name:>10}{done.tasks:8}{done.leases:8}{by_tabs:9}{by_python:11}{seconds:9.1f}{losses[-1]:9.4f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
