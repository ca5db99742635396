"""Rounds on the server whose contributors compute in this process: for numpy, scipy and torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import federation
import numpy as np
import texts
from local_server import Server
from sparseagg import Client, SparseTensor, TensorSpec
from sparseagg.sparse_data import (
    FeatureStatistics,
    feature_statistics,
    local_features,
    statistics_specs,
)

# (examples [n, features], labels, rows of the weights [features, classes], bias): mean gradients of rows and bias.
Gradients = Callable[[Any, np.ndarray, np.ndarray, np.ndarray], "tuple[Any, Any]"]
ExamplesOf = Callable[[texts.Contributor], Any]


def main(what: str, examples_of: ExamplesOf, gradients: Gradients) -> None:
    """`federation.main` with the examples in another package's sparse matrices.

    examples_of: the matrix of a contributor. gradients: of the mean loss over its paragraphs.
    """

    def statistics(server: Server, contributors: Sequence[texts.Contributor]) -> FeatureStatistics:
        with Client(server.target) as client:
            round = client.create_round(statistics_specs(texts.FEATURES))
            for one in contributors:
                round.submit(feature_statistics(examples_of(one)), contributor=one.name)
            round.seal()
            return FeatureStatistics.of(round.result())

    def train(server: Server, contributors: Any, model: federation.Model, rounds: int) -> None:
        specs = [
            TensorSpec("weights", federation.SHAPE, "f32", sparse_dim=1, op="weighted_mean"),
            TensorSpec("bias", [federation.CLASSES], "f32", sparse_dim=0, op="weighted_mean"),
        ]
        data = [(one.name, *local_features(examples_of(one)), one.labels) for one in contributors]
        with Client(server.target) as client:
            for _ in range(rounds):
                round = client.create_round(specs)
                for name, features, examples, labels in data:
                    rows, bias = gradients(examples, labels, model.weights[features], model.bias)
                    update = {
                        "weights": SparseTensor(features, rows, federation.SHAPE),
                        "bias": bias,
                    }
                    round.submit(update, contributor=name, weight=len(labels))
                round.seal()
                mean = round.result()
                model.step(mean["weights"].indices[:, 0], mean["weights"].values, mean["bias"])
                round.delete()

    federation.main(what, statistics, train)
