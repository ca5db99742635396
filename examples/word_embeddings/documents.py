"""Documents as contributors: reading a folder of text, words, and the hash that stands for a word before there is a
vocabulary.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Words are counted at hash(word) in an index space of this size, so that nobody needs a common word list first. With
# 2^62 places, two of a million words meet with a chance of one in ten million.
HASH_SPACE = 1 << 62

WORDS_MAX = 8_000  # of one document; a few very long ones would keep everyone waiting

_WORD = re.compile(r"[a-z]{2,}")
_WORDS_MIN = 200  # fewer give too little to train on and too little to measure the loss by
_DOCUMENTS_MIN = 20
_WORD_DOCUMENTS_MIN = 2  # a word must be in this many documents to enter the vocabulary


class TooFewDocumentsError(Exception):
    """There is not enough text; the message says what to do."""


@dataclass(frozen=True)
class Document:
    """One contributor's text."""

    name: str
    words: list[str]


def read_documents(folder: Path | None, count_max: int, words_max: int) -> list[Document]:
    """Documents of at least 200 words, no two of the same content, each cut after `words_max` words.

    folder: every file below it; None takes the copyright files of this machine's packages.
    """
    documents: list[Document] = []
    seen = set()
    for path in _paths(folder):
        words = _WORD.findall(path.read_text(encoding="utf-8", errors="ignore").lower())
        content = hashlib.sha256(" ".join(words).encode()).digest()
        if len(words) < _WORDS_MIN or content in seen:
            continue
        seen.add(content)
        documents.append(Document(_contributor_name(path), words[:words_max]))
        if len(documents) == count_max:
            break
    if len(documents) < _DOCUMENTS_MIN:
        where = folder or "/usr/share/doc/*/copyright"
        raise TooFewDocumentsError(
            f"{where}: {len(documents)} different text files of at least {_WORDS_MIN} words, {_DOCUMENTS_MIN} are "
            f"needed; give a folder with more text: --data DIR"
        )
    return documents


def _paths(folder: Path | None) -> list[Path]:
    paths = Path("/usr/share/doc").glob("*/copyright") if folder is None else folder.rglob("*")
    return sorted(path for path in paths if path.is_file())


def _contributor_name(path: Path) -> str:
    """A name the server accepts: up to 128 of its characters, distinct for distinct paths."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", f"{path.parent.name}-{path.stem}")[-80:]
    return f"{readable}-{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"


def word_hash(word: str) -> int:
    """The index of a word in the space of `HASH_SPACE`; the same on every machine."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little") % HASH_SPACE


def hash_counts(words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """(hashes, how often each occurs) of the distinct words of a document, both int64 `[nnz]`."""
    counts: dict = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    hashes = np.fromiter((word_hash(word) for word in counts), np.int64, len(counts))
    return hashes, np.fromiter(counts.values(), np.int64, len(counts))


@dataclass(frozen=True)
class Vocabulary:
    """The words of the model as everyone gets them: `hashes[i]` stands for the word with id i, and occurs
    `counts[i]` times in all training documents together. The most frequent come first.
    """

    hashes: np.ndarray  # int64 [size]
    counts: np.ndarray  # int64 [size]

    @property
    def size(self) -> int:
        """Number of words, which is the number of rows of the embeddings."""
        return len(self.hashes)

    def ids_of(self, words: list[str]) -> np.ndarray:
        """int64 ids of the words that the vocabulary has, in the order of the text."""
        order = np.argsort(self.hashes)
        known = {word: word_hash(word) for word in set(words)}
        hashes = np.fromiter((known[word] for word in words), np.int64, len(words))
        place = np.minimum(np.searchsorted(self.hashes, hashes, sorter=order), self.size - 1)
        ids = order[place]
        return ids[self.hashes[ids] == hashes]


def common_words(hashes: np.ndarray, occurrences: np.ndarray, documents: np.ndarray) -> Vocabulary:
    """The vocabulary of the words that two documents have, or more. All arrays are [n]: a word's hash, how often it occurs,
    and in how many documents.

    Raises TooFewDocumentsError when there is no such word.
    """
    common = documents >= _WORD_DOCUMENTS_MIN
    if not common.any():
        raise TooFewDocumentsError(
            "the documents have no word in common; give more text: --data DIR"
        )
    hashes, occurrences = hashes[common], occurrences[common]
    order = np.lexsort((hashes, -occurrences))  # most frequent first
    return Vocabulary(hashes[order], occurrences[order])
