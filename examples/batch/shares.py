"""What the three programs share: the data, how it is cut, the sum of a share, and the comparison with one process."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sparseagg import Partial, Reduction, SparseTensor, TensorSpec, merge_partials

SPECS = [
    TensorSpec("emb", [200_000, 4], "f32", op="weighted_mean"),
    TensorSpec("words", [1_000_000], "i64", op="sum"),
]
ENTRIES = 5_000  # of each tensor in an update, so 1,000 contributors have 10^7
SEED = 20


def update_of(contributor: int) -> dict[str, SparseTensor]:
    """One contributor's update. It follows from the number alone, so each worker makes its own share.

    Low rows are frequent. Values differ in size, so that a floating-point sum depends on the order of its terms.
    """
    random = np.random.default_rng([SEED, contributor])
    rows = (200_000 * random.random(ENTRIES) ** 2).astype(np.int64)
    scales = np.exp2(random.integers(-8, 8, (ENTRIES, 4)))
    values = (random.standard_normal((ENTRIES, 4)) * scales).astype(np.float32)
    words = (1_000_000 * random.random(ENTRIES) ** 3).astype(np.int64)
    return {
        "emb": SparseTensor(rows, values, [200_000, 4]),
        "words": SparseTensor(words, random.integers(1, 100, ENTRIES), [1_000_000]),
    }


def weight_of(contributor: int) -> int:
    """The number of its examples."""
    return 1 + contributor % 500


@dataclass(frozen=True)
class Share:
    """A range of contributors that one task sums.

    trace: a folder in which each attempt leaves a file, or "".
    fatal: the first attempt kills its process before the last contributor.
    """

    contributors: range
    trace: str = ""
    fatal: bool = False

    @property
    def name(self) -> str:
        """Returns the name of its files."""
        return f"{self.contributors.start}-{self.contributors.stop}"


def partial_of(share: Share) -> Partial:
    """The sum of a share: the whole work of a task. It depends on the share alone, so an engine may run it twice."""
    attempt = _attempt(share) if share.trace else 0
    reduction = Reduction(SPECS)
    for contributor in share.contributors:
        if share.fatal and attempt == 0 and contributor == share.contributors[-1]:
            os.kill(os.getpid(), signal.SIGKILL)
        reduction.add(update_of(contributor), weight_of(contributor))
    return reduction.snapshot()


def merged(a: Partial, b: Partial) -> Partial:
    """The operation of a tree: associative and commutative, bit by bit."""
    return merge_partials([a, b])


def _attempt(share: Share) -> int:
    """Counts this attempt, and returns how many there were before."""
    number = 0
    while True:
        try:
            Path(share.trace, f"attempt.{share.name}.{number}").touch(exist_ok=False)
            return number
        except FileExistsError:
            number += 1


class Job:
    """One run of a program: its shares, and what is printed at its end.

    folder: takes the traces of attempts; by default there are some only where a task is to be killed, in a new folder.
    """

    def __init__(self, options: argparse.Namespace, folder: Path | None = None) -> None:
        self._options = options
        self._own = tempfile.TemporaryDirectory() if options.kill and not folder else None
        self._trace = Path(self._own.name) if self._own else folder
        self._start = time.perf_counter()
        number, contributors = options.shares, options.contributors
        cuts = [contributors * n // number for n in range(number + 1)]
        self.shares = [
            Share(range(a, b), str(self._trace or ""), options.kill and n == number // 2)
            for n, (a, b) in enumerate(zip(cuts, cuts[1:]))
        ]

    def compare(self, how: str, total: Partial) -> bool:
        """Compares the sum of the engine with that of one process, and prints both. Returns whether they are equal."""
        seconds = time.perf_counter() - self._start
        numbers = {"seconds": seconds, **digests(total)}
        print(f"{how}: {len(self.shares)} shares, {seconds:.1f} s, {_described(numbers)}")
        if self._trace:
            numbers["attempts"] = len(list(self._trace.glob("attempt.*")))
            print(f"tasks: {numbers['attempts']} attempts")
        start = time.perf_counter()
        alone = digests(partial_of(Share(range(self._options.contributors))))
        print(f"one process: {time.perf_counter() - start:.1f} s, {_described(alone)}")
        passed = all(numbers[name] == found for name, found in alone.items())
        print(f"VERDICT: {'PASSED, the same bits' if passed else 'FAILED, other bits'}")
        if self._options.out:
            self._options.out.write_text(json.dumps(numbers))
        return passed


def digests(total: Partial) -> dict[str, int | str]:
    """The number of contributors, and digests of the partial aggregate and of the result."""
    data = total.to_bytes()
    reduction = Reduction(SPECS)
    reduction.merge(total)
    result = reduction.result()
    bits = hashlib.sha256()
    for spec in SPECS:
        bits.update(result[spec.name].indices.tobytes())
        bits.update(result[spec.name].values.tobytes())
    return {
        "contributors": result.manifest.contributors,
        "bytes": len(data),
        "partial": hashlib.sha256(data).hexdigest(),
        "result": bits.hexdigest(),
    }


def _described(numbers: dict[str, int | str]) -> str:
    entries = numbers["contributors"] * len(SPECS) * ENTRIES
    return (
        f"{entries:,} entries of {numbers['contributors']:,} contributors in {numbers['bytes']:,} bytes, "
        f"result {numbers['result'][:16]}"
    )


def parser(description: str) -> argparse.ArgumentParser:
    """The options that all programs have."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("--contributors", type=int, default=1_000, help="default: %(default)s")
    found.add_argument("--shares", type=int, default=8, help="tasks; default: %(default)s")
    found.add_argument("--kill", action="store_true", help="kill one task's process once")
    found.add_argument("--out", type=Path, help="a file for the numbers, as JSON")
    return found
