"""The owner of a training: prepares rounds with their tasks, waits until the tasks are done, and applies the results."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
from contributor import SPARSE_TABLES
from documents import Vocabulary, common_words
from federation import ROUND_SECONDS_MAX, WORD_COUNTS, apply, sparse_specs
from model import Parameters, learning_rate
from sparseagg import Client, NewTaskGroup, Result, Round, SparseTensor, TensorSpec

# A worker that is killed costs an attempt. No task meets with that so often.
ATTEMPTS_MAX = 20


class TaskError(Exception):
    """A task has failed for good; the message says what its last worker said."""


@dataclass(frozen=True)
class Settings:
    """What a training does. The choices of chance follow from `seed`, those of the contributors from `training_seed`."""

    pool: str
    rounds: int
    contributors: int  # of a round
    dimensions: int
    passes: int
    lease_seconds: float
    seed: int
    training_seed: int


@dataclass(frozen=True)
class Done:
    """The result of a round, and who worked for it."""

    result: Result
    tasks: int
    leases: int
    workers: Counter[str]  # number of tasks by kind of worker: "tab", "python"


class Owner:
    """Rounds and tasks of one training.

    contributors: their names, in the order in which chance chooses among them
    on_completed: called with the number of tasks that were completed since the last call
    """

    def __init__(
        self,
        client: Client,
        contributors: Sequence[str],
        settings: Settings,
        random: np.random.Generator,
        on_completed: Callable[[int], None],
    ) -> None:
        self._client = client
        self._on_completed = on_completed
        self._contributors = contributors
        self._settings = settings
        self._random = random
        self._run = f"words-{secrets.token_hex(3)}"
        self._vocabulary_round: Round | None = None

    def count_words(self) -> tuple[Vocabulary, Done]:
        """Has every contributor count its words. The round stays: workers read the vocabulary from its result."""
        self._vocabulary_round = self._new_round("vocabulary", list(WORD_COUNTS))
        done = self._have_done(self._vocabulary_round, self._contributors, {"kind": "count"})
        occurrences, documents = done.result["occurrences"], done.result["documents"]
        hashes = occurrences.indices[:, 0]
        return common_words(hashes, occurrences.values, documents.values.ravel()), done

    def train_round(self, number: int, parameters: Parameters, losses: Sequence[float]) -> Done:
        """Trains one round, from `parameters`, which it changes. losses: held out, before this round; for the pages."""
        assert self._vocabulary_round is not None
        settings = self._settings
        model = self._publish(number, parameters)
        shapes = {name: table.shape for name, table in parameters.items()}
        round = self._new_round(str(number), sparse_specs(shapes))
        share = min(settings.contributors, len(self._contributors))
        chosen = self._random.choice(len(self._contributors), share, replace=False)
        payload = {
            "kind": "train",
            "round": number,
            "rounds": settings.rounds,
            "vocabulary": self._vocabulary_round.name,
            "model": model.name,
            "passes": settings.passes,
            "learningRate": learning_rate((number - 1) / max(1, settings.rounds - 1)),
            "seed": settings.training_seed * 1_000_003 + number,
            "losses": list(losses),
        }
        done = self._have_done(round, [self._contributors[i] for i in chosen], payload)
        apply(done.result, parameters)
        round.delete()
        model.delete()
        return done

    def _new_round(self, name: str, specs: list[TensorSpec]) -> Round:
        # A deadline, so that none stays open on a server that outlives this program.
        return self._client.create_round(
            specs, round_id=f"{self._run}-{name}", deadline=ROUND_SECONDS_MAX
        )

    def _publish(self, number: int, parameters: Parameters) -> Round:
        """The model as a round of its own, from whose result workers read the rows that they need."""
        specs, update = [], {}
        for name, table in parameters.items():
            is_sparse = name in SPARSE_TABLES
            specs.append(TensorSpec(name, table.shape, "f32", int(is_sparse), "sum"))
            rows = np.arange(len(table))
            update[name] = SparseTensor(rows, table, table.shape) if is_sparse else table
        round = self._new_round(f"{number}-model", specs)
        round.submit(update, contributor="owner")
        round.seal()
        round.wait()
        return round

    def _have_done(
        self, round: Round, contributors: Sequence[str], payload: Mapping[str, Any]
    ) -> Done:
        """One task for each contributor, and the round's result once all of them are completed.

        Raises TaskError when one is not.
        """
        group = NewTaskGroup(
            self._settings.pool,
            round,
            contributors=list(contributors),
            payload=json.dumps(payload).encode(),
            lease=self._settings.lease_seconds,
            attempts_max=ATTEMPTS_MAX,
        )
        (created,) = self._client.tasks.create(group)
        finished = created
        for state in self._client.tasks.watch(created):
            self._on_completed(state.completed - finished.completed)
            finished = state
        tasks = list(self._client.tasks.list(finished))
        for task in tasks:
            if task.state != "COMPLETED":
                raise TaskError(
                    f"{task.name}: {task.state}, {task.last_failure or task.end_reason}"
                )
        round.seal()
        result = round.result()
        counted = result.manifest.contributors
        if counted != len(tasks):
            raise TaskError(f"{round.name} has counted {counted} updates of {len(tasks)} tasks")
        names = (task.worker.rpartition("/")[2] for task in tasks)  # without the principal
        kinds = Counter(name.partition("-")[0] for name in names)
        return Done(result, len(tasks), finished.leases, kinds)


def digest_of(parameters: Parameters) -> str:
    """SHA-256 of the model: equal digests mean equal bits."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        digest.update(np.ascontiguousarray(parameters[name]).tobytes())
    return digest.hexdigest()
