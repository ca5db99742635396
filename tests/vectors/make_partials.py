#!/usr/bin/env python3
"""Writes partials.bin and partials.json: partial aggregates as bytes (docs/partials.md), and digests of their results.

tests/service/engine/partial/ and tests/python/partials/ hold C++ and Python to the same bytes. The files are
committed and change only with the format: run this, and look at the difference.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import sys
from fractions import Fraction
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "python" / "support"))

import partial_format  # noqa: E402
from partial_format import VALUE_TYPES, Partial, Tensor  # noqa: E402

random.seed(20261127)
OPS = ["sum", "weighted_mean", "mean_of_contributors", "count", "min", "max"]


def value(value_type: str) -> Fraction:
    """A value of the type that sums of a few stay in range of."""
    if value_type[0] in "iu":
        return Fraction(random.randint(0 if value_type[0] == "u" else -9999, 9999))
    bits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[value_type]
    spread = 6 if value_type == "f16" else 20
    number = random.randint(-(1 << bits) + 1, (1 << bits) - 1)
    return number * Fraction(2) ** (random.randint(-spread, spread) - bits - 4)


def tensor(
    name: str, op: str, value_type: str, rows: list[int], width: int = 3, addends: int = 3
) -> Tensor:
    made = Tensor(name, op, value_type, [max(rows) + 7, width], 1, addends * len(rows))
    for row in rows:
        held = random.randint(1, addends)
        if op in ("min", "max"):
            numbers = [value(value_type) for _ in range(width)]
        else:
            numbers = [
                sum((value(value_type) for _ in range(held)), Fraction(0))
                for _ in range(made.values)
            ]
        made.rows[row] = numbers + ([Fraction(held)] if made.has_row_slot else [])
    return made


def covered(count: int) -> list[tuple[str, str, float, bytes]]:
    return [(f"client-{i:02}", f"u{i}", 1.0 + i % 2, bytes([i] * 32)) for i in range(count)]


def cases() -> list[tuple[str, Partial]]:
    rows = sorted(random.sample(range(200_000), 40))
    found = []
    for op in OPS:
        tensors = [tensor(f"{op}.{kind}", op, kind, rows) for kind in VALUE_TYPES]
        names = covered(9)
        weight = sum((Fraction(weight) for _, _, weight, _ in names), Fraction(0))
        found.append((op, Partial(tensors, len(names), weight, names)))
    empty = Tensor("nothing", "sum", "f32", [10], 1, 0)
    found.append(("empty", Partial([empty], 0, Fraction(0), [])))
    anonymous = tensor("t", "sum", "f32", [0, 5, 65_535, 65_536, 1 << 40], 1)
    found.append(("anonymous", Partial([anonymous], 3, Fraction(7, 2))))
    one = tensor("raw", "sum", "f32", list(range(100)), 64, 1)
    found.append(("raw_rows", Partial([one], 1, Fraction(1), covered(1))))
    far = Tensor("far", "sum", "f64", [100], 1, 40)
    for row in range(20):
        far.rows[row] = [Fraction(3 * 2**900) - Fraction(row, 2**1000)]
    found.append(("far_apart", Partial([far], 2, Fraction(2))))
    infinite = Tensor(
        "infinite",
        "max",
        "bf16",
        [9, 2],
        1,
        3,
        {4: [math.inf, Fraction(1)], 5: [Fraction(0), -math.inf]},
    )
    found.append(("infinite", Partial([infinite], 2, Fraction(2))))
    dense = Tensor("dense", "sum", "f32", [2, 75], 0, 2)
    dense.rows[0] = [value("f32") + value("f32") for _ in range(150)]
    found.append(("dense", Partial([dense], 2, Fraction(2))))
    modular = Tensor(
        "modular", "sum", "u32", [4], 1, 9, {1: [Fraction(5)], 3: [Fraction(2**32 - 1)]}, True
    )
    found.append(("modular", Partial([modular], 3, Fraction(3))))
    return found


def main() -> None:
    blob = b""
    described = []
    for name, partial in cases():
        data = partial_format.write(partial)
        described.append(
            {
                "name": name,
                "offset": len(blob),
                "bytes": len(data),
                "digest": data[-32:].hex(),
                "contributors": partial.contributors,
                "tensors": [
                    {
                        "name": own.name,
                        "rows": len(own.rows),
                        "sha256": hashlib.sha256(
                            partial_format.result_of(partial, own)
                        ).hexdigest(),
                    }
                    for own in partial.tensors
                ],
            }
        )
        blob += data
    (FOLDER / "partials.bin").write_bytes(blob)
    lines = ",\n".join(json.dumps(case) for case in described)
    (FOLDER / "partials.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
