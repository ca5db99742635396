"""How far a transfer is, for people who wait."""

from __future__ import annotations

import sys
from typing import Any, Callable, Union

# False: silent. True: a bar on standard error where tqdm is installed. A function: called with (done, total).
Progress = Union[bool, Callable[[int, "int | None"], None]]


class Meter:
    """Counts bytes and shows them. `total` is None where it is not known."""

    def __init__(self, progress: Progress, total: int | None, what: str) -> None:
        self._total = total
        self._done = 0
        self._report = progress if callable(progress) else None
        self._bar: Any = None
        if progress is True:
            try:
                from tqdm import tqdm  # only who asks for a bar needs it
            except ImportError:
                return
            self._bar = tqdm(total=total, desc=what, unit="B", unit_scale=True, file=sys.stderr)

    def advance(self, done: int) -> None:
        """Adds `done` bytes. Bytes that are sent again after a broken connection are not counted beyond the total."""
        if self._total is not None:
            done = min(done, self._total - self._done)
        self._done += done
        if self._bar is not None:
            self._bar.update(done)
        if self._report is not None:
            self._report(self._done, self._total)

    def finish(self) -> None:
        """All of a known total is done: reports what is missing, as of what went in one message."""
        if self._total is not None and (self._done < self._total or self._done == 0):
            self.advance(self._total - self._done)

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
