"""The model: CBOW word embeddings with negative sampling, and a contributor's local training. Pure numpy.

A word is predicted from the mean of the words around it (V words, D dimensions):

    h = mean over places p of (position[p] * input[word at p])         score(w) = h . output[w] + bias[w]
    loss = softplus(-score(the word)) + (NEGATIVES / n) * sum over n random words of softplus(score)

A document touches only the rows of its own words and of its random words: its update is sparse in `input`, `output`
and `bias`, and dense in the small `position` (position-weighted CBOW: a word's weight depends on its place).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WINDOW = 4  # words on either side
NEGATIVES = 5  # weight of the random words, as if each example had this many
NEGATIVE_ROWS = 512  # random words of one contributor in one round ...
BATCH_NEGATIVES = 64  # ... of which each batch takes some, shared by its examples
BATCH = 32
LEARNING_RATE = 0.15  # of the first round; it falls evenly to LEARNING_RATE_END in the last
LEARNING_RATE_END = 0.05
POSITION_SHARE = 0.1  # every example moves the position weights, so they move in smaller steps

Parameters = dict[str, np.ndarray]


def initial_parameters(vocabulary_size: int, dimensions: int, seed: int) -> Parameters:
    """input and output [V, D], bias [V], position [2 * WINDOW, D], all float32."""
    random = np.random.default_rng(seed)
    spread = 0.5 / np.sqrt(dimensions)
    return {
        "input": random.uniform(-spread, spread, (vocabulary_size, dimensions)).astype(np.float32),
        "output": np.zeros((vocabulary_size, dimensions), np.float32),
        "bias": np.zeros(vocabulary_size, np.float32),
        "position": np.ones((2 * WINDOW, dimensions), np.float32),
    }


@dataclass(frozen=True)
class Examples:
    """Positions of a text with a full window around them."""

    targets: np.ndarray  # [n]
    contexts: np.ndarray  # [n, 2 * WINDOW]

    @property
    def count(self) -> int:
        """Returns the number of targets."""
        return len(self.targets)


def make_examples(ids: np.ndarray) -> Examples:
    """The examples of a text, given as word ids."""
    if len(ids) <= 2 * WINDOW:
        return Examples(np.empty(0, np.int64), np.empty((0, 2 * WINDOW), np.int64))
    windows = np.lib.stride_tricks.sliding_window_view(ids, 2 * WINDOW + 1)
    return Examples(windows[:, WINDOW], np.delete(windows, WINDOW, axis=1))


def learning_rate(progress: float) -> float:
    """The learning rate of a round; `progress` goes from 0 in the first to 1 in the last."""
    return LEARNING_RATE + progress * (LEARNING_RATE_END - LEARNING_RATE)


def thin_out(ids: np.ndarray, counts: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Drops most occurrences of the most frequent words, which say little (word2vec's subsampling)."""
    share = counts / counts.sum()
    keep = np.minimum(1.0, np.sqrt(1e-3 / share))
    return ids[random.random(len(ids)) < keep[ids]]


def draw_negatives(counts: np.ndarray, size: int, random: np.random.Generator) -> np.ndarray:
    """Random words, frequent ones more often (power 3/4, as in word2vec)."""
    weights = counts.astype(np.float64) ** 0.75
    return random.choice(len(counts), size, p=weights / weights.sum())


def loss_of(parameters: Parameters, examples: Examples, negatives: np.ndarray) -> float:
    """Sum of the loss over the examples; divide by their number."""
    hidden = (parameters["input"][examples.contexts] * parameters["position"]).mean(axis=1)
    positive, negative = _scores(parameters, hidden, examples.targets, negatives)
    total = np.logaddexp(0, -positive).sum()
    return float(total + NEGATIVES / len(negatives) * np.logaddexp(0, negative).sum())


@dataclass(frozen=True)
class LocalUpdate:
    """What a contributor sends: for each table the rows it touched, and by how much it changed them."""

    rows: dict[str, np.ndarray]  # "input", "output", "bias": int32 [nnz], ascending
    deltas: Parameters  # [nnz, D], [nnz, D], [nnz]; "position": [2 * WINDOW, D]
    examples: int


@dataclass(frozen=True)
class Plan:
    """What a contributor will train on. Words are row numbers of its own tables, which hold `rows` of the model."""

    rows: dict[str, np.ndarray]  # "input", "output", "bias": ascending
    examples: Examples
    negatives: np.ndarray  # [NEGATIVE_ROWS], rows of the contributor's "output"


def plan_training(ids: np.ndarray, counts: np.ndarray, random: np.random.Generator) -> Plan:
    """Draws the examples and the random words of one document, given as word ids."""
    examples = make_examples(thin_out(ids, counts, random))
    negatives = draw_negatives(counts, NEGATIVE_ROWS, random)
    input_rows = np.unique(examples.contexts)
    output_rows = np.unique(np.concatenate([examples.targets, negatives]))
    return Plan(
        rows={"input": input_rows, "output": output_rows, "bias": output_rows},
        examples=Examples(
            targets=np.searchsorted(output_rows, examples.targets),
            contexts=np.searchsorted(input_rows, examples.contexts),
        ),
        negatives=np.searchsorted(output_rows, negatives),
    )


def train_on(
    plan: Plan, local: Parameters, passes: int, rate: float, random: np.random.Generator
) -> LocalUpdate:
    """Stochastic gradient descent over one document. local: the rows of the plan, and "position"; changed in place."""
    start = {name: value.copy() for name, value in local.items()}
    targets, contexts = plan.examples.targets, plan.examples.contexts
    for _ in range(passes):
        order = random.permutation(plan.examples.count)
        for begin in range(0, plan.examples.count, BATCH):
            batch = order[begin : begin + BATCH]
            some = random.choice(plan.negatives, BATCH_NEGATIVES)
            descend(local, Examples(targets[batch], contexts[batch]), some, rate)
    return LocalUpdate(
        rows={name: value.astype(np.int32) for name, value in plan.rows.items()},
        deltas={name: local[name] - start[name] for name in local},
        examples=plan.examples.count,
    )


def train_locally(
    parameters: Parameters,
    ids: np.ndarray,
    counts: np.ndarray,
    passes: int,
    rate: float,
    random: np.random.Generator,
) -> LocalUpdate:
    """Trains over one document, on its own copy of the rows it touches.

    parameters: the global model; only read, and only the rows that this document touches.
    """
    plan = plan_training(ids, counts, random)
    local = {name: parameters[name][rows] for name, rows in plan.rows.items()}
    local["position"] = parameters["position"].copy()
    return train_on(plan, local, passes, rate, random)


def descend(parameters: Parameters, examples: Examples, negatives: np.ndarray, rate: float) -> None:
    """One step down the gradient of the summed loss of a batch, in place."""
    gradient = gradients(parameters, examples, negatives)
    parameters["position"] -= POSITION_SHARE * rate * gradient.position
    _subtract_at(parameters["input"], examples.contexts.ravel(), rate * gradient.input)
    output_ids = np.concatenate([examples.targets, negatives])
    _subtract_at(parameters["output"], output_ids, rate * gradient.output)
    _subtract_at(parameters["bias"], output_ids, rate * gradient.bias)


@dataclass(frozen=True)
class Gradients:
    """Of the summed loss of a batch of B examples with n negatives."""

    input: np.ndarray  # [B * 2 * WINDOW, D], for the contexts one after the other
    output: np.ndarray  # [B + n, D], for the targets, then the negatives
    bias: np.ndarray  # [B + n]
    position: np.ndarray  # [2 * WINDOW, D]


def gradients(parameters: Parameters, examples: Examples, negatives: np.ndarray) -> Gradients:
    """The gradients of `loss_of`."""
    around = parameters["input"][examples.contexts]
    hidden = (around * parameters["position"]).mean(axis=1)
    positive, negative = _scores(parameters, hidden, examples.targets, negatives)
    # d softplus(x) = sigmoid(x)
    d_positive = -_sigmoid(-positive)
    d_negative = _sigmoid(negative) * np.float32(NEGATIVES / len(negatives))
    d_hidden = d_positive[:, None] * parameters["output"][examples.targets]
    d_hidden += d_negative @ parameters["output"][negatives]
    d_product = d_hidden[:, None, :] / np.float32(2 * WINDOW)
    return Gradients(
        input=(d_product * parameters["position"]).reshape(-1, d_hidden.shape[1]),
        output=np.concatenate([d_positive[:, None] * hidden, d_negative.T @ hidden]),
        bias=np.concatenate([d_positive, d_negative.sum(axis=0)]),
        position=(d_product * around).sum(axis=0),
    )


def _scores(
    parameters: Parameters, hidden: np.ndarray, targets: np.ndarray, negatives: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the targets [B], and of every negative for every example [B, n]."""
    output, bias = parameters["output"], parameters["bias"]
    positive = np.einsum("bd,bd->b", hidden, output[targets]) + bias[targets]
    return positive, hidden @ output[negatives].T + bias[negatives]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _subtract_at(table: np.ndarray, ids: np.ndarray, amounts: np.ndarray) -> None:
    """table[ids] -= amounts, repeated ids adding up. Sorting is several times faster than np.subtract.at."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    table[ordered[starts]] -= np.add.reduceat(amounts[order], starts, axis=0)


def nearest_words(embedding: np.ndarray, word: int, count: int) -> np.ndarray:
    """Ids of the `count` words with the most similar direction (cosine)."""
    directions = embedding / np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), 1e-12)
    similarity = directions @ directions[word]
    similarity[word] = -np.inf
    return np.argsort(-similarity)[:count]
