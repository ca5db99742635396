"""The cases of the GPU benchmarks: what gpu_reduce, gpu_predict and peers.py measure or predict.

A case is a batch of f32 updates: `entries` of all `contributors` together, in `rows` coordinates, `indices` drawn as
"uniform", "zipf" (exponent about 1.05) or "overlap" (half of each update's rows are everybody's), `sorted` and without
duplicates or not, `width` values a row. `end_to_end`: from page-locked memory to the result on the host, too.

usage: grid.py quick|full|tiny OUTPUT
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

MILLION = 10**6


@dataclasses.dataclass(frozen=True)
class Case:
    entries: int
    rows: int
    contributors: int
    indices: str = "uniform"
    sorted: bool = True
    width: int = 1
    end_to_end: bool = False

    def __post_init__(self) -> None:
        if self.entries < self.contributors or self.indices not in ("uniform", "zipf", "overlap"):
            raise ValueError(self)
        if self.sorted and self.entries > self.rows * self.contributors:
            raise ValueError(f"an update has more distinct rows than there are: {self}")

    def line(self) -> str:
        """As gpu_reduce reads it."""
        numbers = (
            self.entries,
            self.rows,
            self.contributors,
            self.indices,
            int(self.sorted),
            self.width,
        )
        return " ".join(str(n) for n in (*numbers, int(self.end_to_end)))

    def key(self) -> tuple:
        """What a measurement and its prediction share."""
        return (self.entries, self.rows, self.contributors, self.indices, self.sorted, self.width)


def key_of(line: dict) -> tuple:
    """The key of a line of results."""
    return tuple(
        line[name] for name in ("entries", "rows", "contributors", "indices", "sorted", "width")
    )


def scalars() -> Iterator[Case]:
    """Every combination of the grid that can be: updates without duplicates have no more entries than there are rows."""
    for entries in (MILLION, 100 * MILLION, 500 * MILLION):
        for rows in (MILLION, 100 * MILLION, 1000 * MILLION, MILLION * MILLION):
            for indices in ("uniform", "zipf", "overlap"):
                for contributors in (8, 64, 1000):
                    yield Case(entries, rows, contributors, indices, sorted=False)
                    if entries <= rows * contributors // 2:
                        yield Case(entries, rows, contributors, indices, sorted=True)


def rows_of_values() -> Iterator[Case]:
    """1.6 GB of values each."""
    for width in (16, 64, 128, 512):
        for rows in (MILLION, 10 * MILLION, 100 * MILLION):
            for contributors in (8, 64, 1000):
                for in_order in (True, False):
                    entries = 400 * MILLION // width
                    if not in_order or entries <= rows * contributors // 2:
                        yield Case(entries, rows, contributors, "uniform", in_order, width)


DENSITY_ROWS = 10 * MILLION
DENSITY_CONTRIBUTORS = 8


def densities() -> Iterator[Case]:
    """Against dense addition of as many updates on the same GPU."""
    for density in (1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.25, 0.5, 1.0):
        entries = round(density * DENSITY_ROWS) * DENSITY_CONTRIBUTORS
        yield Case(entries, DENSITY_ROWS, DENSITY_CONTRIBUTORS, end_to_end=True)


def quick() -> list[Case]:
    """What decides most comes first: the time may run out."""
    big = 100 * MILLION
    cases = [
        Case(big, 1000 * MILLION, 64, end_to_end=True),
        Case(big, 1000 * MILLION, 64, sorted=False, end_to_end=True),
        Case(400 * MILLION // 64, 10 * MILLION, 64, sorted=False, width=64, end_to_end=True),
        *densities(),
        Case(big, MILLION, 1000),
        Case(big, MILLION, 64, sorted=False),
        Case(big, MILLION * MILLION, 64),
        Case(big, MILLION * MILLION, 64, sorted=False),
        Case(big, 100 * MILLION, 64),
        Case(big, 100 * MILLION, 64, sorted=False),
        *(
            Case(400 * MILLION // w, 10 * MILLION, 64, sorted=False, width=w)
            for w in (16, 128, 512)
        ),
        Case(big, 1000 * MILLION, 8),
        Case(big, 1000 * MILLION, 1000),
        Case(big, 1000 * MILLION, 64, "overlap"),
        Case(big, 1000 * MILLION, 64, "zipf", sorted=False),
        Case(MILLION, 1000 * MILLION, 64),
        Case(MILLION, 1000 * MILLION, 64, sorted=False),
        Case(MILLION, MILLION, 64),
        Case(5 * big, 1000 * MILLION, 64),
        Case(5 * big, 1000 * MILLION, 64, sorted=False),
    ]
    return cases


def full() -> list[Case]:
    """The whole grid, the quick one first."""
    cases = {case.key(): case for case in quick()}
    for case in (*scalars(), *rows_of_values()):
        cases.setdefault(case.key(), case)
    return list(cases.values())


def tiny() -> list[Case]:
    """For tests on the emulated GPU."""
    return [
        Case(1000, 100_000, 8, end_to_end=True),
        Case(1000, 500, 4, "zipf", sorted=False),
        Case(1000, 500, 8, "overlap"),
        Case(1000, 2000, 2, "zipf"),
        Case(64, 100, 4, sorted=False, width=16, end_to_end=True),
    ]


GRIDS = {"quick": quick, "full": full, "tiny": tiny}


def write(path: Path, cases: list[Case]) -> None:
    path.write_text("".join(case.line() + "\n" for case in cases), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[2]), GRIDS[sys.argv[1]]())
