"""Real text that every Debian or Ubuntu machine has: its licences, as bags of words, one for each paragraph.

A feature is a word's CRC-32 modulo `FEATURES`, so contributors need no common list of words. Eight
contributors hold every ninth paragraph of each licence, and one more is for the test. A label is the number of the licence that the paragraph is from.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FEATURES = 2**18
FOLDER = Path("/usr/share/common-licenses")
LICENCES = ("Apache-2.0", "Artistic", "GFDL-1.3", "GPL-3", "MPL-2.0")
_CONTRIBUTORS = 8
_WORD = re.compile(r"[a-z]+")
_WORDS_MIN = 8  # of a paragraph; shorter ones are headings


@dataclass(frozen=True)
class Contributor:
    """indices: `[nnz, 2]` int64, paragraph and feature, ascending. values: `[nnz]` f32, how often the paragraph has the word.
    dense_shape: `[paragraphs, FEATURES]`. labels: `[paragraphs]`."""

    name: str
    indices: np.ndarray
    values: np.ndarray
    dense_shape: tuple[int, int]
    labels: np.ndarray


def feature_of(word: str) -> int:
    """The feature that stands for a word."""
    return zlib.crc32(word.encode()) % FEATURES


def read() -> tuple[list[Contributor], Contributor]:
    """Those who train, and one who does not. Raises OSError where the licences are not there."""
    paragraphs = [
        (number % (_CONTRIBUTORS + 1), label, words)
        for label, licence in enumerate(LICENCES)
        for number, words in enumerate(_paragraphs((FOLDER / licence).read_text("utf-8")))
    ]
    everyone = [
        _contributor(
            f"reader-{one}", [(label, words) for who, label, words in paragraphs if who == one]
        )
        for one in range(_CONTRIBUTORS + 1)
    ]
    return everyone[:-1], everyone[-1]


def _paragraphs(text: str) -> Iterator[list[str]]:
    for paragraph in re.split(r"\n\s*\n", text.lower()):
        words = _WORD.findall(paragraph)
        if len(words) >= _WORDS_MIN:
            yield words


def _contributor(name: str, paragraphs: Iterable[tuple[int, list[str]]]) -> Contributor:
    labels, indices, values = [], [], []
    for number, (label, words) in enumerate(paragraphs):
        labels.append(label)
        for feature, count in sorted(Counter(map(feature_of, words)).items()):
            indices.append((number, feature))
            values.append(count)
    shape = (len(labels), FEATURES)
    return Contributor(
        name, np.array(indices, np.int64), np.array(values, np.float32), shape, np.array(labels)
    )
