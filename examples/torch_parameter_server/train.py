#!/usr/bin/env python3
"""A parameter server for PyTorch: nn.EmbeddingBag(sparse=True) on contributors, the optimiser on the server.

Contributors run torch's own backward pass and send the rows of the embedding's sparse gradient to the sparseagg server. The
federated server applies its optimiser to the rows that the aggregate holds (common/optimizers.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))
import numpy as np
import tagged
import torch
import twins


class TagModel(torch.nn.Module):
    """The mean of the words' embeddings, and a linear layer: a score for each tag."""

    def __init__(self, words: int, dimensions: int, tags: int) -> None:
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(words, dimensions, mode="mean", sparse=True)
        self.linear = torch.nn.Linear(dimensions, tags)

    def forward(self, words: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """words: ids of all packages, one after the other; offsets: where each begins. Scores `[packages, tags]`."""
        return self.linear(self.embedding(words, offsets))


class TorchTags(twins.Task):
    """Tag prediction with an embedding. The parameters are those of the torch model, by their names in its state dict."""

    tables = ("embedding.weight",)

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._data = tagged.read(arguments.packages, arguments.tags, arguments.seed)
        print(self._data.summary())
        torch.set_num_threads(1)

    def initial_parameters(self) -> dict[str, np.ndarray]:
        torch.manual_seed(self._arguments.seed)
        model = TagModel(self._data.words, self._arguments.dimensions, self._data.tags)
        return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}

    def contributors_of(self, number: int) -> Sequence[tagged.Contributor]:
        return self._data.sample(self._arguments.contributors, [self._arguments.seed, number])

    def rows_needed(self, contributor: tagged.Contributor) -> Mapping[str, np.ndarray]:
        return {"embedding.weight": contributor.words}

    def gradients(
        self, contributor: tagged.Contributor, number: int, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A model of the contributor's words only: row k is the k-th of the rows that it needs."""
        model = _model_of(parameters)
        _loss_of(model, contributor).backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        table = gradients["embedding.weight"].coalesce()
        rows = np.zeros(parameters["embedding.weight"].shape, np.float32)
        rows[table.indices()[0].numpy()] = table.values().numpy()
        gradients["embedding.weight"] = rows
        return {name: np.asarray(gradient) for name, gradient in gradients.items()}

    def loss(self, parameters: dict[str, np.ndarray]) -> float:
        """Mean logistic loss of a tag over the packages of held-out maintainers."""
        total = count = 0.0
        with torch.no_grad():
            for one in self._data.held_out:
                table = parameters["embedding.weight"][one.words]
                model = _model_of({**parameters, "embedding.weight": table})
                total += float(_loss_of(model, one))
                count += one.labels.size
        return total / count


def _model_of(parameters: Mapping[str, Any]) -> TagModel:
    (words, dimensions), tags = parameters["embedding.weight"].shape, len(parameters["linear.bias"])
    model = TagModel(words, dimensions, tags)
    model.load_state_dict({n: torch.from_numpy(np.asarray(p)) for n, p in parameters.items()})
    return model


def _loss_of(model: TagModel, contributor: tagged.Contributor) -> torch.Tensor:
    packages, words = np.nonzero(contributor.bags)
    offsets = np.searchsorted(packages, np.arange(len(contributor.bags)))
    scores = model(torch.from_numpy(words), torch.from_numpy(offsets))
    return torch.nn.functional.binary_cross_entropy_with_logits(
        scores, torch.from_numpy(contributor.labels), reduction="sum"
    )


def program() -> int:
    """Reads the options and trains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    twins.add_options(
        parser, rounds=40, learning_rates={"adagrad": 0.1, "sgd": 0.001, "fedadam": 0.01}
    )
    parser.add_argument("--packages", type=int, default=20_000, help="at most (%(default)s)")
    parser.add_argument("--tags", type=int, default=100, help="most frequent ones (%(default)s)")
    parser.add_argument("--contributors", type=int, default=40, help="of a round (%(default)s)")
    parser.add_argument("--dimensions", type=int, default=64, help="of the embedding")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return twins.compare(TorchTags(arguments), arguments, "EmbeddingBag")


if __name__ == "__main__":
    sys.exit(twins.main(program, "torch_parameter_server"))
