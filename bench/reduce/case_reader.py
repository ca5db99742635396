"""Reads the files of cases.py for contenders in Python. The format is described in case_file.h."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

_HEADER_BYTES = 64


@dataclass(frozen=True)
class Updates:
    """The entries of all contributors, one contributor's after the other's."""

    space: int
    width: int
    offsets: np.ndarray  # int64 [contributors + 1]
    rows: np.ndarray  # int64 [entries]
    values: (
        np.ndarray
    )  # float32 [entries] for width 1, else [entries, width]; already multiplied by the weights

    @property
    def contributors(self) -> int:
        """Number of updates."""
        return len(self.offsets) - 1

    @property
    def entries(self) -> int:
        """Number of entries of all updates."""
        return len(self.rows)

    @property
    def input_bytes(self) -> int:
        """Returns the bytes of the entries in memory."""
        return self.rows.nbytes + self.values.nbytes

    @property
    def dense_bytes(self) -> int:
        """Returns the bytes of a dense float32 array over the index space."""
        return 4 * self.space * self.width

    def is_canonical(self) -> bool:
        """Returns whether every update's rows are strictly ascending."""
        ascending = self.rows[1:] > self.rows[:-1]
        begins = self.offsets[1:-1]
        begins = begins[(begins > 0) & (begins < self.entries)]
        ascending[begins - 1] = True  # between two updates
        return bool(ascending.all())

    def clipped(self, entries: int) -> Updates:
        """The first entries, with all contributors."""
        return Updates(
            self.space,
            self.width,
            np.minimum(self.offsets, entries),
            self.rows[:entries],
            self.values[:entries],
        )


def read(path: Path) -> Updates:
    """The updates of a case, in memory."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        if header[:8] != b"SACASE01":
            raise ValueError(f"{path} is not a benchmark case")
        space, width, contributors, entries = np.frombuffer(header, "<u8", 4, 8).tolist()
        offsets = np.fromfile(file, "<i8", contributors + 1)
        weights = np.fromfile(file, "<f4", contributors)
        file.seek(-4 * contributors % 8, 1)
        rows = np.fromfile(file, "<i8", entries)
        values = np.fromfile(file, "<f4", entries * width)
    if width > 1:
        values = values.reshape(entries, width)
    if not (weights == 1).all():
        factors = np.repeat(weights, np.diff(offsets))
        values *= factors if width == 1 else factors[:, None]
    return Updates(space, width, offsets, rows, values)
