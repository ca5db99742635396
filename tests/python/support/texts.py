"""A folder of generated texts, for the examples that train on documents."""

from __future__ import annotations

import random
from pathlib import Path


def write_texts(folder: Path, documents: int = 30, words: int = 400) -> Path:
    """Documents of two topics, whose words share no letter; the same in each call."""
    generator = random.Random(1)
    folder.mkdir()
    for number in range(documents):
        topic = "abcdefg"[number % 2 :: 2]
        text = [generator.choice(topic) * 2 + generator.choice(topic) * 2 for _ in range(words)]
        (folder / f"{number}.txt").write_text(" ".join(text))
    return folder
