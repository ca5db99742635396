#!/usr/bin/python3
"""The cases of the reduction benchmark: what they are, and the files they are measured from.

    bench/reduce/cases.py list [REGEX]
    bench/reduce/cases.py make NAME FOLDER

A case is K updates of one tensor of f32 rows; all of it follows from the name and SEED. The format of a file is
described in bench/reduce/case_file.h. bench/README.md says how the distributions are drawn.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import indices
import numpy as np
import text_updates
import values

SEED = 20_240_611
MAGIC = b"SACASE01"
HEADER_BYTES = 64


class UnavailableCaseError(Exception):
    """The case cannot be made on this machine; the message says why."""


@dataclass(frozen=True)
class Case:
    """One case. `entries` are those of all contributors together; each has as many as every other, give or take one."""

    entries: int
    space: int
    contributors: int
    distribution: str = "uniform"  # indices.DISTRIBUTIONS
    order: str = "sorted"  # "sorted": strictly ascending in each update; "shuffled"
    width: int = 1
    values: str = "normal"  # values.KINDS
    text: str = ""  # updates of the demo instead: text_updates.TABLES
    label: str = ""  # overrides the name

    @property
    def name(self) -> str:
        """Unique, and all that is needed to make the case again."""
        if self.label:
            return self.label
        parts = [
            f"n{_short(self.entries)}",
            f"d{_short(self.space)}",
            f"k{_short(self.contributors)}",
            self.distribution,
            self.order,
        ]
        if self.width > 1:
            parts.append(f"w{self.width}")
        if self.values != "normal":
            parts.append(self.values)
        return "_".join(parts)

    @property
    def nnz_of_updates(self) -> np.ndarray:
        """Entries of each update."""
        if self.distribution == "one_contributor":
            nnz = np.zeros(self.contributors, np.int64)
            nnz[self.contributors // 2] = self.entries
            return nnz
        share, rest = divmod(self.entries, self.contributors)
        return share + (np.arange(self.contributors) < rest)

    @property
    def possible(self) -> bool:
        """Whether an update's entries find distinct indices, and are as many as there are contributors."""
        largest = int(self.nnz_of_updates.max())
        distinct = self.distribution not in ("one_index", "dense")
        full = self.distribution in ("uniform", "one_contributor")
        room = self.space if full else self.space // 2
        return self.entries >= self.contributors and (not distinct or largest <= room)

    @property
    def bytes(self) -> int:
        """Size of the file, about."""
        return self.entries * (8 + 4 * self.width)


def _short(number: int) -> str:
    """1000000 -> 1e6, 2500000 -> 2.5e6, 2^60 -> 2p60."""
    if number >= 1 << 32 and number & (number - 1) == 0:
        return f"2p{number.bit_length() - 1}"
    mantissa, exponent = f"{number:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


# ---------------------------------------------------------------------------------------------------------------------
# The lists.

SPACES = [10**6, 10**8, 10**10, 1 << 60]
HEADLINE = [
    Case(10**8, 10**8, 1000, "uniform", "sorted"),
    Case(10**8, 10**8, 1000, "uniform", "shuffled"),
]
TEXT = [
    Case(0, 0, 0, text="rows", label="text_rows_w64"),
    Case(0, 0, 0, text="words", label="text_words"),
]
ROWS = [
    Case(4_000_000 // width * 16, space, contributors, distribution, order, width)
    for width in (16, 64, 256)
    for space, contributors, distribution, order in (
        (10**6, 100, "uniform", "sorted"),
        (10**6, 100, "uniform", "shuffled"),
        (10**6, 1000, "zipf", "sorted"),
        (10**8, 100, "uniform", "sorted"),
        (10**5, 100, "uniform", "sorted"),
    )
]
# Each is compared with the ordinary case of the same shape (ordinary_of).
HOSTILE = [
    Case(c.entries, c.space, c.contributors, distribution, order, 1, kind)
    for c in (Case(10**6, 10**8, 10), Case(10**7, 10**7, 100))
    for distribution, order, kind in (
        ("uniform", "sorted", "subnormal"),
        ("uniform", "sorted", "exponents"),
        ("uniform", "shuffled", "exponents"),
        ("one_index", "sorted", "normal"),
        ("one_index", "sorted", "exponents"),
        ("one_contributor", "sorted", "normal"),
        ("one_contributor", "shuffled", "normal"),
    )
]
# The same where rows are touched ten times, so that nearly every addition is rounded.
HOSTILE += [
    Case(10**7, 10**6, 100, "uniform", "sorted", 1, "exponents"),
    Case(10**7, 10**6, 100, "uniform", "shuffled", 1, "exponents"),
    Case(10**6, 10**5, 100, "uniform", "sorted", 64, "exponents"),
]
HOSTILE_SMALL = [case for case in HOSTILE if case.entries <= 10**6]
# Where the libraries of peers.py run, too: they take minutes.
PEERS = [
    Case(10**4, 10**6, 10),
    Case(10**6, 10**6, 10),
    Case(10**6, 10**6, 10, "uniform", "shuffled"),
    Case(10**6, 10**6, 1000),
    Case(10**6, 10**6, 1000, "zipf", "sorted"),
    Case(10**6, 10**8, 10),
    Case(10**6, 10**8, 1000, "uniform", "shuffled"),
    Case(10**6, 10**8, 1000, "topk", "sorted"),
    Case(10**6, 10**10, 1000),
    Case(10**6, 1 << 60, 1000, "zipf", "shuffled"),
    Case(10**7, 10**8, 1000),
    Case(10**7, 10**8, 1000, "uniform", "shuffled"),
    *(c for c in ROWS if c.space == 10**6 and c.order == "sorted" and c.distribution == "uniform"),
    *TEXT,
    *HEADLINE,
]


def ordinary_of(case: Case) -> Case | None:
    """The case that a hostile one is compared with; None when it is not hostile."""
    if case not in HOSTILE:
        return None
    return Case(case.entries, case.space, case.contributors, "uniform", case.order, case.width)


def _grid(entries: list[int], spaces: list[int], contributors: list[int]) -> Iterator[Case]:
    for n in entries:
        for space in spaces:
            for k in contributors:
                for distribution in ("uniform", "zipf", "topk"):
                    for order in ("sorted", "shuffled"):
                        yield Case(n, space, k, distribution, order)


def _default_scalars() -> Iterator[Case]:
    yield from _grid([10**4], [10**6, 1 << 60], [10])
    yield from _grid([10**6], SPACES, [1000])
    for space in (10**6, 10**8):
        yield Case(10**6, space, 10)
        yield Case(10**6, space, 10, "uniform", "shuffled")
        yield Case(10**6, space, 100_000)
        yield Case(10**6, space, 100_000, "zipf", "shuffled")
    for order in ("sorted", "shuffled"):
        yield Case(10**7, 10**7, 100, "uniform", order)
        yield Case(10**7, 10**8, 1000, "uniform", order)
        yield Case(10**7, 1 << 60, 1000, "zipf_hashed", order)


def _full_scalars() -> Iterator[Case]:
    yield from _grid([10**4, 10**5], SPACES, [10, 1000])
    yield from _grid([10**6], SPACES, [10, 1000, 100_000])
    yield from _grid([10**7], SPACES, [1000])
    for space in SPACES:
        for contributors in (10, 100_000):
            yield Case(10**7, space, contributors)
            yield Case(10**7, space, contributors, "uniform", "shuffled")
    for space in SPACES:
        for order in ("sorted", "shuffled"):
            yield Case(10**6, space, 1000, "zipf_hashed", order)
    for order in ("sorted", "shuffled"):
        yield Case(10**8, 10**8, 1000, "zipf", order)
        yield Case(10**8, 1 << 60, 1000, "uniform", order)
    yield Case(10**8, 10**6, 1000, "uniform", "sorted")
    yield Case(10**8, 10**8, 10, "uniform", "sorted")
    yield Case(10**8, 10**8, 100_000, "topk", "sorted")
    yield from HEADLINE


def _quick() -> Iterator[Case]:
    for order in ("sorted", "shuffled"):
        yield Case(10**4, 10**6, 10, "uniform", order)
        yield Case(10**5, 10**8, 1000, "zipf", order)
        yield Case(10**6, 10**6, 1000, "uniform", order)
        yield Case(10**6, 10**8, 10, "uniform", order)
        yield Case(10**6, 1 << 60, 1000, "zipf", order)
    yield Case(10**6, 10**8, 10, "topk", "sorted")
    yield Case(10**6, 10**8, 100_000, "uniform", "sorted")
    yield Case(10**7, 10**8, 1000, "uniform", "sorted")
    yield Case(62_500, 10**6, 100, "uniform", "sorted", 64)
    yield TEXT[0]
    yield from (case for case in HOSTILE_SMALL if case.order == "sorted")


def _hostile() -> Iterator[Case]:
    for case in HOSTILE:
        yield case
        yield ordinary_of(case)


def cases_of(tier: str) -> list[Case]:
    """The cases of "quick", "default" or "full", small ones first, each once."""
    lists = {
        "quick": lambda: [*_quick()],
        "default": lambda: [*_default_scalars(), *ROWS, *TEXT, *HOSTILE_SMALL],
        "full": lambda: [*_default_scalars(), *_full_scalars(), *ROWS, *TEXT, *_hostile()],
    }
    cases = {c.name: c for c in lists[tier]() if c.text or c.possible}
    return sorted(cases.values(), key=lambda c: c.bytes)


def by_name(name: str) -> Case:
    """A listed case, or one that is not listed, from the parts of its name."""
    for case in cases_of("full"):
        if case.name == name:
            return case
    match = re.fullmatch(
        r"n(\S+?)_d(\S+?)_k(\S+?)_([a-z_]+?)_(sorted|shuffled)(?:_w(\d+))?(?:_([a-z]+))?", name
    )
    if not match:
        raise UnavailableCaseError(f"there is no case {name}")
    n, space, k = (_long(text) for text in match.group(1, 2, 3))
    return Case(n, space, k, match[4], match[5], int(match[6] or 1), match[7] or "normal")


def _long(text: str) -> int:
    return 1 << int(text[2:]) if text.startswith("2p") else int(float(text))


# ---------------------------------------------------------------------------------------------------------------------
# The files.


class CaseFile:
    """A file being written, update by update."""

    def __init__(self, path: Path, space: int, width: int, nnz: np.ndarray, weights: np.ndarray):
        entries, contributors = int(nnz.sum()), len(nnz)
        offsets = np.concatenate([[0], np.cumsum(nnz)]).astype("<u8")
        padding = b"\0" * (-4 * contributors % 8)
        rows_at = HEADER_BYTES + offsets.nbytes + 4 * contributors + len(padding)
        with path.open("wb") as file:
            header = np.array([space, width, contributors, entries, 0, 0, 0], "<u8")
            file.write(MAGIC + header.tobytes() + offsets.tobytes())
            file.write(weights.astype("<f4").tobytes() + padding)
        self._rows = path.open("r+b")
        self._values = path.open("r+b")
        self._rows.seek(rows_at)
        self._values.seek(rows_at + 8 * entries)

    def __enter__(self) -> CaseFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()
        self._values.close()

    def write(self, rows: np.ndarray, row_values: np.ndarray) -> None:
        """The next entries, of one or of several updates."""
        self._rows.write(np.ascontiguousarray(rows, "<u8"))
        self._values.write(np.ascontiguousarray(row_values, "<f4"))


def make(case: Case, path: Path) -> None:
    """Writes the file of a case."""
    if case.text:
        return _make_text(case, path)
    random = np.random.default_rng([SEED, *case.name.encode()])
    nnz = case.nnz_of_updates
    with CaseFile(
        path, case.space, case.width, nnz, np.ones(case.contributors, np.float32)
    ) as file:
        for rows in indices.draw(case.distribution, case.order, case.space, nnz, random):
            file.write(rows, values.draw(case.values, len(rows) * case.width, random))
    return None


def _make_text(case: Case, path: Path) -> None:
    try:
        updates = text_updates.record(case.text)
    except text_updates.NoTextError as error:
        raise UnavailableCaseError(str(error)) from error
    nnz = np.array([len(rows) for rows, _ in updates.entries])
    with CaseFile(path, updates.space, updates.width, nnz, updates.weights) as file:
        for rows, row_values in updates.entries:
            file.write(rows, row_values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="the cases")
    listing.add_argument("regex", nargs="?", default=".")
    listing.add_argument("--tier", default="full", choices=["quick", "default", "full"])
    making = commands.add_parser("make", help="write a case's file")
    making.add_argument("name")
    making.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "list":
        for case in cases_of(options.tier):
            if re.search(options.regex, case.name):
                print(case.name)
        return 0
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        path = options.folder / f"{options.name}.case"
        make(by_name(options.name), path)
    except UnavailableCaseError as error:
        print(f"cases.py: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
