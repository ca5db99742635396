#!/usr/bin/python3
"""A federated recommender: matrix factorisation, where a contributor's ratings and its own vector never leave it."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))
import numpy as np
import twins
from packages import ratings_of, read_packages, read_ratings

RIDGE = 0.1


class Contributor:
    """One user: the items it knows (ascending), and their ratings."""

    def __init__(self, items: np.ndarray, ratings: np.ndarray) -> None:
        self.items, self.ratings = items, ratings


class Recommender(twins.Task):
    """rating = bias of the item + vector of the item times vector of the user.

    items  [items, dimensions]: sparse; a user needs the rows of the items that it knows
    bias   [items, 1]: sparse
    """

    tables = ("items", "bias")

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        random = np.random.default_rng(arguments.seed)
        users = self._users(arguments, random)
        order = random.permutation(len(users))
        held_out = max(1, len(users) // 10)
        self._held_out = [users[i] for i in order[:held_out]]
        self._users_training = [users[i] for i in order[held_out:]]
        print(f"{len(users)} users, {self.items} items; {held_out} users are held out")

    def _users(self, arguments: argparse.Namespace, random: Any) -> list[Contributor]:
        """Users of four ratings at least. Where every rating is 1, each gets as many items that it does not have."""
        if arguments.ratings:
            ratings = read_ratings(arguments.ratings)
        else:
            ratings = ratings_of(read_packages(arguments.packages))
        uses: dict[str, int] = defaultdict(int)
        for _, item, _ in ratings:
            uses[item] += 1
        names = sorted(item for item, count in uses.items() if count >= 3)
        number_of = {name: number for number, name in enumerate(names)}
        self.items = len(names)
        by_user: dict[str, dict[int, float]] = defaultdict(dict)
        for user, item, rating in ratings:
            if item in number_of:
                by_user[user][number_of[item]] = rating
        only_ones = all(rating == 1 for _, _, rating in ratings)
        self._mean = 0.5 if only_ones else float(np.mean([rating for _, _, rating in ratings]))
        users = []
        for known in by_user.values():
            if len(known) < 4:
                continue
            if only_ones:
                for item in random.integers(0, self.items, len(known)).tolist():
                    known.setdefault(item, 0.0)
            items = np.array(sorted(known))
            values = np.array([known[item] for item in items.tolist()], np.float32) - self._mean
            users.append(Contributor(items, values))
        if len(users) < 20:
            raise ValueError(f"only {len(users)} users have four ratings of common items")
        return users

    def initial_parameters(self) -> dict[str, np.ndarray]:
        random = np.random.default_rng(self._arguments.seed)
        shape = (self.items, self._arguments.dimensions)
        return {
            "items": (random.normal(size=shape) * 0.1).astype(np.float32),
            "bias": np.zeros((self.items, 1), np.float32),
        }

    def contributors_of(self, number: int) -> Sequence[Contributor]:
        random = np.random.default_rng([self._arguments.seed, number])
        share = min(self._arguments.contributors, len(self._users_training))
        chosen = random.choice(len(self._users_training), share, replace=False)
        return [self._users_training[i] for i in chosen]

    def rows_needed(self, contributor: Contributor) -> Mapping[str, np.ndarray]:
        return {"items": contributor.items, "bias": contributor.items}

    def gradients(
        self, contributor: Contributor, number: int, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        items, bias = parameters["items"], parameters["bias"][:, 0]
        user = user_vector(items, contributor.ratings - bias)
        errors = items @ user + bias - contributor.ratings
        return {"items": errors[:, None] * user[None, :], "bias": errors[:, None]}

    def loss(self, parameters: dict[str, np.ndarray]) -> float:
        """Mean squared error: a held-out user's vector comes from every other rating, the error from the rest."""
        errors = []
        for user in self._held_out:
            items, bias = parameters["items"][user.items], parameters["bias"][user.items, 0]
            vector = user_vector(items[::2], (user.ratings - bias)[::2])
            errors.append((items @ vector + bias - user.ratings)[1::2])
        return float(np.mean(np.concatenate(errors).astype(np.float64) ** 2))


def user_vector(items: np.ndarray, ratings: np.ndarray) -> np.ndarray:
    """The vector that explains the ratings best, with a penalty on its length (ridge regression)."""
    matrix = items.T @ items + RIDGE * np.eye(items.shape[1], dtype=np.float32)
    return np.linalg.solve(matrix, items.T @ ratings).astype(np.float32)


def program() -> int:
    """Reads the options and trains."""
    parser = argparse.ArgumentParser(description=__doc__)
    twins.add_options(
        parser, rounds=40, learning_rates={"adagrad": 0.1, "sgd": 0.03, "fedadam": 0.01}
    )
    parser.add_argument("--ratings", type=Path, help="lines of user,item,rating")
    parser.add_argument("--packages", type=int, default=20_000, help="at most (%(default)s)")
    parser.add_argument("--contributors", type=int, default=100, help="of a round (%(default)s)")
    parser.add_argument("--dimensions", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return twins.compare(Recommender(arguments), arguments, "recommender")


if __name__ == "__main__":
    sys.exit(twins.main(program, "recommender"))
