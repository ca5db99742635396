#!/usr/bin/python3
"""A Python worker: does the tasks that the page does (page/tasks.js), with numpy. It keeps nothing between two tasks.

Usage: worker.py SERVER POOL TEXTS NAME      TEXTS is the folder with the contributors' texts
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "word_embeddings"))

import model
import numpy as np
from contributor import DENSE_TABLES
from documents import HASH_SPACE, Vocabulary, common_words, hash_counts
from sparseagg import Client, SparseTensor, worker


class Trainer:
    """Does tasks on texts in a folder, which stand for those of the devices."""

    def __init__(self, texts: Path) -> None:
        self._texts = texts

    def update_of(self, task: worker.LeasedTask) -> Any:
        """The update of a task, whose payload says of which kind it is."""
        payload = json.loads(task.payload)
        words = (self._texts / f"{task.contributor}.txt").read_text().split()
        kinds = {"count": self._count_words, "train": self._train}
        return kinds[payload["kind"]](task, payload, words)

    def _count_words(self, task: worker.LeasedTask, _: Mapping[str, Any], words: list[str]) -> Any:
        hashes, counts = hash_counts(words)
        occurrences = SparseTensor(hashes, counts, [HASH_SPACE])
        return {"occurrences": occurrences, "documents": occurrences}

    def _train(self, task: worker.LeasedTask, payload: Mapping[str, Any], words: list[str]) -> Any:
        vocabulary = vocabulary_of(task.client, payload["vocabulary"])
        number = int(task.contributor.rpartition("-")[2])
        random = np.random.default_rng([payload["seed"], number])
        plan = model.plan_training(vocabulary.ids_of(words), vocabulary.counts, random)
        # A copy, because training changes it.
        rows = task.client.round(payload["model"]).result("dense", indices=plan.rows)
        parameters = {name: np.array(values) for name, values in rows.items()}
        shapes = task.round.specs
        update = model.train_on(
            plan, parameters, payload["passes"], payload["learningRate"], random
        )
        tensors: dict[str, Any] = {
            name: SparseTensor(ids, update.deltas[name], shapes[name].dense_shape)
            for name, ids in update.rows.items()
        }
        tensors.update({name: update.deltas[name] for name in DENSE_TABLES})
        return task.update(tensors, weight=update.examples)


@lru_cache(maxsize=1)  # all tasks of a training have the same; it can always be read again
def vocabulary_of(client: Client, round_name: str) -> Vocabulary:
    """The vocabulary, from the result of the round that counted words."""
    counted = client.round(round_name).result()
    occurrences, documents = counted["occurrences"], counted["documents"]
    return common_words(
        occurrences.indices[:, 0], occurrences.values.ravel(), documents.values.ravel()
    )


def end_with_parent() -> None:
    """Ends the process at the end of its input: when the program that has started it is no more."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    server, pool, texts, name = sys.argv[1:]
    worker.run(Trainer(Path(texts)).update_of, [pool], server, name=name)
