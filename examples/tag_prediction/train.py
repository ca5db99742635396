#!/usr/bin/python3
"""Tag prediction: logistic regression on bags of words; a contributor downloads and changes only the rows of its words."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))
import numpy as np
import tagged
import twins


class TagPrediction(twins.Task):
    """score of a tag = its bias + the sum of the weights of the words.

    weights [words, tags]: sparse; a contributor needs the rows of its words (federated select)
    bias    [tags]: dense
    """

    tables = ("weights",)

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._data = tagged.read(arguments.packages, arguments.tags, arguments.seed)
        print(self._data.summary())

    def initial_parameters(self) -> dict[str, np.ndarray]:
        return {
            "weights": np.zeros((self._data.words, self._data.tags), np.float32),
            "bias": np.zeros(self._data.tags, np.float32),
        }

    def contributors_of(self, number: int) -> Sequence[tagged.Contributor]:
        return self._data.sample(self._arguments.contributors, [self._arguments.seed, number])

    def rows_needed(self, contributor: tagged.Contributor) -> Mapping[str, np.ndarray]:
        return {"weights": contributor.words}

    def gradients(
        self, contributor: tagged.Contributor, number: int, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        errors = sigmoid(contributor.bags @ parameters["weights"] + parameters["bias"])
        errors -= contributor.labels
        return {"weights": contributor.bags.T @ errors, "bias": errors.sum(axis=0)}

    def loss(self, parameters: dict[str, np.ndarray]) -> float:
        """Mean logistic loss of a tag over the packages of held-out maintainers."""
        total = count = 0.0
        for one in self._data.held_out:
            scores = one.bags @ parameters["weights"][one.words] + parameters["bias"]
            total += float(np.sum(np.logaddexp(0, scores) - scores * one.labels, dtype=np.float64))
            count += scores.size
        return total / count


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * scores))


def program() -> int:
    """Reads the options and trains."""
    parser = argparse.ArgumentParser(description=__doc__)
    twins.add_options(
        parser, rounds=40, learning_rates={"adagrad": 0.3, "sgd": 0.003, "fedadam": 0.03}
    )
    parser.add_argument("--packages", type=int, default=20_000, help="at most (%(default)s)")
    parser.add_argument("--tags", type=int, default=100, help="most frequent ones (%(default)s)")
    parser.add_argument("--contributors", type=int, default=40, help="of a round (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return twins.compare(TagPrediction(arguments), arguments, "tag prediction")


if __name__ == "__main__":
    sys.exit(twins.main(program, "tag prediction"))
