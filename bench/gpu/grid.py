"""The cases of the GPU benchmarks, and the steps that gpu_reduce, gpu_predict and peers.py read: a case and what reduces it.

A case is a batch of f32 updates: `entries` of all `contributors` together, in `rows` coordinates, `indices` drawn as
"uniform", "zipf" (exponent about 1.05) or "overlap" (half of each update's rows are everybody's), `sorted` and without
duplicates or not, `width` values a row.

usage: grid.py OUTPUT    the full grid, for gpu_predict
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

MILLION = 10**6

# The plans that reduce a case. Ours come first everywhere, so that a failure of another one loses none of their numbers.
OURS = ("tile_merge", "radix_segments", "row_reduce", "dense_accumulate")
LIBRARIES = ("thrust_sort_reduce", "cusparse_dense", "cusparse_spmm")  # plans that a library does
ROUNDED = "row_reduce_rounded"  # row_reduce, where the batch is the whole round: results in place of slots
END_TO_END = "end_to_end"
CUB = "cub_sort_reduce"
COALESCE = "torch_coalesce"
DENSE = "dense_addition"
REFERENCE = "reference"  # digest by the CPU


@dataclasses.dataclass(frozen=True)
class Case:
    entries: int
    rows: int
    contributors: int
    indices: str = "uniform"
    sorted: bool = True
    width: int = 1

    def __post_init__(self) -> None:
        if self.entries < self.contributors or self.indices not in ("uniform", "zipf", "overlap"):
            raise ValueError(self)
        if self.sorted and self.entries > self.rows * self.contributors:
            raise ValueError(f"an update has more distinct rows than there are: {self}")

    def key(self) -> tuple:
        """Returns the key that a measurement and its prediction share."""
        return dataclasses.astuple(self)

    def scaled(self, scale: float) -> Case:
        """Returns a case of the same kind with `scale` times the entries and rows."""
        if scale == 1:
            return self
        rows = max(1000, round(self.rows * scale))
        entries = max(self.contributors, round(self.entries * scale))
        return dataclasses.replace(self, rows=rows, entries=entries)


# A case, and what reduces it.
Step = tuple[Case, str]


def line_of(step: Step) -> str:
    """Returns the step as the programs read it."""
    case, plan = step
    return " ".join(str(int(x) if isinstance(x, bool) else x) for x in (*case.key(), plan))


def write(path: Path, steps: Iterable[Step]) -> None:
    path.write_text("".join(line_of(step) + "\n" for step in steps), encoding="utf-8")


def members(step: Step) -> dict:
    """Returns the fields of a step that the programs write in each line of results."""
    case, plan = step
    return {"plan": plan, **dataclasses.asdict(case)}


def case_of(line: dict) -> Case:
    """The case of a line of results."""
    return Case(**{field.name: line[field.name] for field in dataclasses.fields(Case)})


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


# The three cases that the aims are about.
CANONICAL = Case(100 * MILLION, 1000 * MILLION, 64)
UNSORTED = Case(100 * MILLION, 1000 * MILLION, 64, sorted=False)
ROWS = Case(400 * MILLION // 64, 10 * MILLION, 64, sorted=False, width=64)
DECISIVE = (CANONICAL, UNSORTED, ROWS)
# The plans that each is meant for.
MEANT = (
    (CANONICAL, "tile_merge"),
    (UNSORTED, "radix_segments"),
    (ROWS, "row_reduce"),
    (ROWS, ROUNDED),
)


DENSITY_ROWS = 10 * MILLION
DENSITY_CONTRIBUTORS = 8


def densities() -> Iterator[Case]:
    """Against dense addition of as many updates on the same GPU."""
    for density in (1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.25, 0.5, 1.0):
        entries = round(density * DENSITY_ROWS) * DENSITY_CONTRIBUTORS
        yield Case(entries, DENSITY_ROWS, DENSITY_CONTRIBUTORS)


def density_of(case: Case) -> float:
    return case.entries / case.contributors / case.rows


def quick() -> list[Case]:
    """What decides most comes first: the time may run out."""
    big = 100 * MILLION
    return [
        *DECISIVE,
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


def full() -> list[Case]:
    """The whole grid, the quick one first."""
    cases = {case.key(): case for case in quick()}
    for case in (*scalars(), *rows_of_values()):
        cases.setdefault(case.key(), case)
    return list(cases.values())


def smoke() -> list[Case]:
    """Small enough for the reference: canonical scalars, scalars with duplicates, rows."""
    return [
        Case(100_000, 1_000_000, 8),
        Case(100_000, 50_000, 8, "zipf", sorted=False),
        Case(10_000, 20_000, 8, sorted=False, width=64),
    ]


def plans_for(case: Case, plans: Iterable[str]) -> list[str]:
    """Those that reduce the case in their own way: tile_merge takes unsorted updates and rows to radix_segments."""
    merged = case.sorted and case.width == 1
    return [plan for plan in plans if merged or plan != "tile_merge"]


if __name__ == "__main__":
    write(Path(sys.argv[1]), [(case, END_TO_END) for case in full()])
