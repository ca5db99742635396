"""What the programs of this folder share: a round of statistics, the training, and what they print.

The state of the training is a table `weights [FEATURES, licences]` and a `bias [licences]`: the scores of a paragraph are the
bias and the sum of the rows of its words, each times how often it has the word and the word's inverse document frequency.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))
import numpy as np
import texts
from local_server import Server, server_at
from sparseagg.sparse_data import FeatureStatistics

LEARNING_RATE = 5.0
CLASSES = len(texts.LICENCES)
SHAPE = (texts.FEATURES, CLASSES)
_SHOWN = ("the", "license", "software", "warranty", "patent", "invariant")


@dataclasses.dataclass
class Model:
    """weights: `SHAPE`, f32. bias: `[CLASSES]`, f32."""

    weights: np.ndarray
    bias: np.ndarray

    def step(self, features: np.ndarray, gradient: np.ndarray, bias_gradient: np.ndarray) -> None:
        """One step of gradient descent, on the rows `features` alone."""
        self.weights[features] -= LEARNING_RATE * gradient
        self.bias -= LEARNING_RATE * bias_gradient


Statistics = Callable[[Server, Sequence[texts.Contributor]], FeatureStatistics]
Train = Callable[[Server, Sequence[texts.Contributor], Model, int], None]


def main(what: str, statistics: Statistics, train: Train) -> None:
    """Runs both on a server, of its own unless one is named, and prints what came out.

    statistics: one round of statistics. train: as many rounds of training as the last argument says.
    """
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--server", help="HOST:PORT of one that runs")
    parser.add_argument("--rounds", type=int, default=40, help="of training (%(default)s)")
    parser.add_argument("--out", type=Path, help="a file for the numbers, as JSON")
    arguments = parser.parse_args()
    contributors, held_out = texts.read()
    with server_at(arguments.server) as server:
        found = statistics(server, contributors)
        numbers = show(found)
        scaled = [_times_rarity(one, found) for one in contributors]
        model = Model(np.zeros(SHAPE, np.float32), np.zeros(CLASSES, np.float32))
        train(server, scaled, model, arguments.rounds)
    numbers.update(_test(_times_rarity(held_out, found), model))
    touched = int(np.count_nonzero(model.weights.any(axis=1)))
    print(
        f"after {arguments.rounds} rounds: loss {numbers['loss']:.4f} on the held-out paragraphs, "
        f"{numbers['right']:.1%} right; {touched} of {texts.FEATURES} rows have changed"
    )
    if arguments.out:
        arguments.out.write_text(json.dumps(numbers, indent=1) + "\n")


def show(found: FeatureStatistics) -> dict[str, object]:
    """Prints some of the statistics; their number and a digest of all bits."""
    print("word          paragraphs  contributors  in all  least  most in one")
    for word in _SHOWN:
        at = int(np.searchsorted(found.features, texts.feature_of(word)))
        print(
            f"{word:12}  {found.document_frequency[at]:10}  {found.contributors[at]:12}  {found.total[at]:6.0f}  "
            f"{found.minimum[at]:5.0f}  {found.maximum[at]:11.0f}"
        )
    digest = hashlib.sha256()
    for values in dataclasses.astuple(found):
        digest.update(np.asarray(values).astype(np.float64).tobytes())
    print(
        f"{found.examples} paragraphs, {len(found.features)} words, digest {digest.hexdigest()[:12]}"
    )
    return {
        "paragraphs": found.examples,
        "words": len(found.features),
        "statistics": digest.hexdigest(),
    }


def _times_rarity(one: texts.Contributor, found: FeatureStatistics) -> texts.Contributor:
    """The paragraphs as tf-idf of length 1; a word that nobody had in the round of statistics has 0."""
    at = np.searchsorted(found.features, one.indices[:, 1]).clip(max=len(found.features) - 1)
    is_known = found.features[at] == one.indices[:, 1]
    values = one.values * np.where(is_known, found.inverse_document_frequency()[at], 0)
    lengths = np.sqrt(np.bincount(one.indices[:, 0], values**2, one.dense_shape[0]))
    values = (values / lengths[one.indices[:, 0]]).astype(np.float32)
    return dataclasses.replace(one, values=values)


def _test(one: texts.Contributor, model: Model) -> dict[str, float]:
    """Mean logistic loss and the share of paragraphs whose licence has the highest score."""
    scores = np.tile(model.bias.astype(np.float64), (len(one.labels), 1))
    paragraphs, features = one.indices.T
    np.add.at(scores, paragraphs, one.values[:, None] * model.weights[features])
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(scores)), one.labels]
    return {
        "loss": float(losses.mean()),
        "right": float((scores.argmax(axis=1) == one.labels).mean()),
    }
