"""The model after a round, in a file: a ServerApp that starts again goes on with it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord

_ROUNDS = "rounds done"


def save(path: Path, rounds: int, arrays: ArrayRecord) -> None:
    """Replaces the file at once, so that it is whole whenever the process dies."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        values = {name: array.numpy() for name, array in arrays.items()}
        np.savez(file, **values, **{_ROUNDS: rounds})
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def load(path: Path, arrays: ArrayRecord) -> tuple[int, ArrayRecord]:
    """The number of rounds done, and the model after them: `arrays` where there is no file yet."""
    if not path.exists():
        return 0, arrays
    with np.load(path) as file:
        return int(file[_ROUNDS]), ArrayRecord({name: Array(file[name]) for name in arrays})
