"""Documents that nobody trains on, to measure the loss by."""

from __future__ import annotations

from pathlib import Path

import model
import numpy as np
from documents import Document, TooFewDocumentsError, Vocabulary

SHARE = 0.1
EXAMPLES_MAX = 20_000
NEGATIVES = 500


def split(
    documents: list[Document], random: np.random.Generator, folder: Path | None
) -> tuple[list[Document], list[Document]]:
    """(contributors, held-out documents), at random; prints how many there are.

    folder: where they come from; None: the copyright files of this machine.
    """
    order = random.permutation(len(documents))
    held_out = max(1, int(len(documents) * SHARE))
    words = sum(len(document.words) for document in documents)
    print(
        f"Documents: {len(documents)} with {words} words from "
        f"{folder or 'the copyright files of this machine'}; "
        f"{len(documents) - held_out} are contributors, {held_out} are held out",
        flush=True,
    )
    return [documents[i] for i in order[held_out:]], [documents[i] for i in order[:held_out]]


class HeldOut:
    """The examples and random words of these documents, chosen once."""

    def __init__(
        self, documents: list[Document], vocabulary: Vocabulary, random: np.random.Generator
    ) -> None:
        texts = [
            model.thin_out(vocabulary.ids_of(d.words), vocabulary.counts, random) for d in documents
        ]
        parts = [model.make_examples(ids) for ids in texts]
        targets = np.concatenate([part.targets for part in parts])
        contexts = np.concatenate([part.contexts for part in parts])
        chosen = random.permutation(len(targets))[:EXAMPLES_MAX]
        if not len(chosen):
            raise TooFewDocumentsError(
                "the held-out documents share no words with the others; give more text: --data"
            )
        self._examples = model.Examples(targets[chosen], contexts[chosen])
        self._negatives = model.draw_negatives(vocabulary.counts, NEGATIVES, random)

    def loss(self, parameters: model.Parameters) -> float:
        """The loss for one word."""
        return model.loss_of(parameters, self._examples, self._negatives) / self._examples.count
