"""Packages with words and tags, by maintainer: a contributor is a maintainer, its data are its packages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from packages import Package, read_packages

_WORD_PACKAGES_MIN = 5
_PACKAGES_OF_ONE = (3, 100)  # who has less is left out, of who has more only so many count


@dataclass(frozen=True)
class Contributor:
    """words: ids of the words of its packages, ascending. bags: `[packages, len(words)]`, 1 where the package has the
    word. labels: `[packages, tags]`, 1 where it has the tag."""

    words: np.ndarray
    bags: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Tagged:
    """All of the data; words and tags count the different ones."""

    words: int
    tags: int
    training: Sequence[Contributor]
    held_out: Sequence[Contributor]

    def sample(self, count: int, seed: Sequence[int]) -> list[Contributor]:
        """`count` different contributors, the same for the same seed."""
        random = np.random.default_rng(list(seed))
        share = min(count, len(self.training))
        chosen = random.choice(len(self.training), share, replace=False)
        return [self.training[i] for i in chosen]

    def summary(self) -> str:
        """One line."""
        packages = sum(len(c.labels) for c in (*self.training, *self.held_out))
        return (
            f"{packages} packages of {len(self.training) + len(self.held_out)} maintainers "
            f"({len(self.held_out)} held out), {self.words} words, {self.tags} tags"
        )


def read(packages_max: int, tags_max: int, seed: int) -> Tagged:
    """The packages of this machine's distribution. Raises ValueError when there are too few."""
    packages = read_packages(packages_max)
    word_counts = Counter(word for package in packages for word in package.words)
    tag_counts = Counter(tag for package in packages for tag in package.tags)
    vocabulary = sorted(w for w, count in word_counts.items() if count >= _WORD_PACKAGES_MIN)
    words = {word: number for number, word in enumerate(vocabulary)}
    tags = {tag: number for number, (tag, _) in enumerate(tag_counts.most_common(tags_max))}
    by_maintainer: dict[str, list[Package]] = defaultdict(list)
    for package in packages:
        by_maintainer[package.maintainer].append(package)
    contributors = [
        _contributor(owned[: _PACKAGES_OF_ONE[1]], words, tags)
        for _, owned in sorted(by_maintainer.items())
        if len(owned) >= _PACKAGES_OF_ONE[0]
    ]
    contributors = [one for one in contributors if len(one.words)]
    if len(contributors) < 10:
        raise ValueError(f"only {len(contributors)} maintainers have enough packages")
    order = np.random.default_rng(seed).permutation(len(contributors))
    cut = max(1, len(contributors) // 10)
    return Tagged(
        len(words),
        len(tags),
        [contributors[i] for i in order[cut:]],
        [contributors[i] for i in order[:cut]],
    )


def _contributor(owned: list[Package], words: dict[str, int], tags: dict[str, int]) -> Contributor:
    ids = [np.array([words[w] for w in p.words if w in words], np.int64) for p in owned]
    own = np.unique(np.concatenate(ids))
    bags = np.zeros((len(owned), len(own)), np.float32)
    labels = np.zeros((len(owned), len(tags)), np.float32)
    for row, package in enumerate(owned):
        bags[row, np.searchsorted(own, ids[row])] = 1
        labels[row, [tags[tag] for tag in package.tags if tag in tags]] = 1
    return Contributor(own, bags, labels)
