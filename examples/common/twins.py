"""The same federated training twice, through a sparseagg server: sparse, and dense as most frameworks do it.

A program gives a `Task`: parameters, what a contributor computes, and a loss. `compare` trains both ways with the same
contributors in the same rounds and reports traffic, memory, time and loss of both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from local_server import Server, server_at
from optimizers import OPTIMIZERS, Parameters
from sparseagg import Client, Round, SparseTensor, as_tensor, specs_of

ROUND_SECONDS_MAX = 3600


class Task:
    """The model to train. Tables named in `tables` are sparse: a contributor needs and changes only some of their rows."""

    tables: Sequence[str] = ()

    def initial_parameters(self) -> Parameters:
        """The model before the first round; the same at each call."""
        raise NotImplementedError

    def contributors_of(self, number: int) -> Sequence[Any]:
        """Returns the contributors of round `number`, the same in both trainings."""
        raise NotImplementedError

    def rows_needed(self, contributor: Any) -> Mapping[str, np.ndarray]:
        """The rows of each table that the contributor needs: ascending, distinct."""
        raise NotImplementedError

    def gradients(
        self, contributor: Any, number: int, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The gradients on the contributor's own data, from the needed rows of the tables (in the order of
        `rows_needed`) and the whole of the other parameters: for a table those of its needed rows."""
        raise NotImplementedError

    def loss(self, parameters: Parameters) -> float:
        """The loss on data that nobody trains on."""
        raise NotImplementedError


@dataclass
class Report:
    """The cost of one training. Bytes are of the contributors' tensors, before their encoding; seconds are of transfer
    and aggregation, without local training; memory is the growth of the server's process and of the aggregation here."""

    name: str
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0
    losses: list[float] = field(default_factory=list)


class Way:
    """One of the two trainings. Both go through a server in the same way; they differ in what travels.

    sparse: contributors read the rows that they need of the model, and send the gradients of these rows.
    dense:  they read the whole model and send gradients of its shape.

    The model is a round itself: the federated server submits it, contributors read its result.
    """

    def __init__(self, task: Task, server: Server, *, sparse: bool) -> None:
        self._task = task
        self._server = server
        self._client = Client(server.target)
        self._memory_before = server.memory_max()
        self._sparse_dim = {name: 1 for name in task.tables} if sparse else {}
        self.report = Report("sparse" if sparse else "dense")

    def run_round(self, number: int, parameters: Parameters) -> Mapping[str, Any]:
        """The summed gradients of one round."""
        with self._timed():
            specs = specs_of(parameters, "sum", sparse_dim=self._sparse_dim)
            # A deadline, so that neither stays open on a server that outlives this program.
            model, round = (
                self._client.create_round(specs, deadline=ROUND_SECONDS_MAX) for _ in range(2)
            )
            whole = {name: np.arange(len(parameters[name])) for name in self._sparse_dim}
            model.submit(
                self._update(parameters, whole, parameters), contributor="federated-server"
            )
            model.seal()
        for place, contributor in enumerate(self._task.contributors_of(number)):
            rows = self._task.rows_needed(contributor)
            given = self._download(model, rows)
            gradients = self._task.gradients(contributor, number, given)
            with self._timed():
                update = self._update(gradients, rows, parameters)
                self.report.bytes_up += sum(as_tensor(tensor).nbytes for tensor in update.values())
                round.submit(update, contributor=str(place))
        with self._timed():
            round.seal()
            result = round.result()
            round.delete()
            model.delete()
        return result

    def memory_of_server(self) -> int:
        """Bytes by which the server's process has grown at most; 0 when it is not ours."""
        return self._server.memory_max() - self._memory_before

    def _download(self, model: Round, rows: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """What a contributor needs: the rows of the tables, and the rest as it is."""
        with self._timed():
            given = dict(model.result("dense", indices=rows if self._sparse_dim else None))
            self.report.bytes_down += sum(part.nbytes for part in given.values())
            if not self._sparse_dim:
                return {n: part[rows[n]] if n in rows else part for n, part in given.items()}
            self.report.bytes_up += sum(wanted.nbytes for wanted in rows.values())
            return given

    def _update(
        self, parts: Mapping[str, Any], rows: Mapping[str, np.ndarray], parameters: Parameters
    ) -> dict[str, Any]:
        """Parts of the tables as what travels: sparse tensors, or arrays of the full shape."""
        update = dict(parts)
        for name, ids in rows.items():
            if name in self._sparse_dim:
                update[name] = SparseTensor(ids, parts[name], parameters[name].shape)
            elif parts is not parameters:
                update[name] = np.zeros_like(parameters[name])
                update[name][ids] = parts[name]
        return update

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.report.seconds += time.perf_counter() - begin


def add_options(
    parser: argparse.ArgumentParser, rounds: int, learning_rates: Mapping[str, float]
) -> None:
    """The options that all these programs have. learning_rates: a good one for each optimiser."""
    parser.add_argument("--server", help="address of a running server; default: starts its own")
    parser.add_argument("--out", type=Path, default=Path("out"), help="for picture and numbers")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adagrad")
    defaults = ", ".join(f"{name} {rate:g}" for name, rate in learning_rates.items())
    parser.add_argument("--learning-rate", type=float, help=f"default: {defaults}")
    parser.set_defaults(learning_rates=learning_rates)


def compare(task: Task, arguments: argparse.Namespace, title: str) -> int:
    """Trains both ways, prints a table, draws a picture; 0 when both reach the same loss and it fell."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    print(f"{'':8}{'loss':>9}  held out, after round", flush=True)
    initial = task.loss(task.initial_parameters())
    reports = []
    for sparse in (True, False):
        with server_at(
            arguments.server
        ) as server:  # a fresh one, so that its memory can be compared
            way = Way(task, server, sparse=sparse)
            _train(task, way, arguments)
            reports.append(way.report)
    _print_table(reports, initial)
    numbers = {"title": title, "initial_loss": initial, "ways": [asdict(r) for r in reports]}
    (arguments.out / "numbers.json").write_text(json.dumps(numbers, indent=1))
    drawn = _draw(arguments.out / "comparison.png", title, initial, reports)
    print(f"Numbers{' and picture' if drawn else ''}: {arguments.out}")
    ends = [report.losses[-1] for report in reports]
    same = abs(ends[0] - ends[1]) <= 1e-3 * abs(ends[1])
    if arguments.optimizer == "fedadam":
        same = True  # by design not the dense one's steps; see optimizers.py
    print("VERDICT: " + ("PASSED" if same and ends[0] < initial else "FAILED"))
    return 0 if same and ends[0] < initial else 1


def _train(task: Task, way: Way, arguments: argparse.Namespace) -> None:
    parameters = task.initial_parameters()
    rate = arguments.learning_rate or arguments.learning_rates[arguments.optimizer]
    optimizer = OPTIMIZERS[arguments.optimizer](rate)
    peak = 0
    for number in range(1, arguments.rounds + 1):
        tracemalloc.start()
        gradients = way.run_round(number, parameters)
        peak = max(peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        optimizer.apply(parameters, gradients)
        way.report.losses.append(task.loss(parameters))
        if number == 1 or number % 10 == 0 or number == arguments.rounds:
            print(f"{way.report.name:8}{way.report.losses[-1]:9.4f}{number:6}", flush=True)
    way.report.memory_bytes = peak + way.memory_of_server()


def _print_table(reports: Sequence[Report], initial: float) -> None:
    print(f"\nloss before {initial:.4f}")
    print(f"{'':8}{'sent up':>12}{'sent down':>12}{'time':>13}{'memory':>11}{'loss':>9}")
    for report in reports:
        print(
            f"{report.name:8}{report.bytes_up / 1e6:9.2f} MB{report.bytes_down / 1e6:9.2f} MB"
            f"{report.seconds:11.2f} s{report.memory_bytes / 1e6:8.1f} MB{report.losses[-1]:9.4f}"
        )


def _draw(path: Path, title: str, initial: float, reports: Sequence[Report]) -> bool:
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
    for report, style in zip(reports, ("-", "--")):
        left.plot(
            range(len(report.losses) + 1), [initial, *report.losses], style, label=report.name
        )
    left.set(xlabel="round", ylabel="held-out loss", title=title)
    left.legend()
    left.xaxis.get_major_locator().set_params(integer=True)
    quantities = ["sent up\nMB", "sent down\nMB", "memory\nMB", "time\ns"]
    places = np.arange(len(quantities))
    for shift, report in zip((-0.2, 0.2), reports):
        sizes = [report.bytes_up / 1e6, report.bytes_down / 1e6, report.memory_bytes / 1e6]
        right.bar(places + shift, [*sizes, report.seconds], 0.4, label=report.name)
    right.set_yscale("log")
    right.set_xticks(places, quantities)
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    return True


def main(program: Callable[[], int], name: str) -> int:
    """Runs a program; errors that a user can act on become one line."""
    try:
        return program()
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        print(f"{name}: {error}; --help shows how to give your own data and server")
        return 1
