"""Values of updates: ordinary ones, and those that are hard to sum exactly."""

from __future__ import annotations

import numpy as np

KINDS = ("normal", "subnormal", "exponents")


def draw(kind: str, count: int, random: np.random.Generator) -> np.ndarray:
    """float32 [count].

    normal:    as gradients are, standard deviation 0.01
    subnormal: every value is one (below 2^-126)
    exponents: all bit patterns of finite values alike, so exponents from 1e-45 to 3e38
    """
    if kind == "normal":
        values = random.standard_normal(count, dtype=np.float32)
        values *= np.float32(0.01)
        return values
    bits = random.integers(0, 1 << 32, count, dtype=np.uint32)
    if kind == "subnormal":
        return (bits & np.uint32(0x807FFFFF)).view(np.float32)
    if kind == "exponents":
        # An exponent of 255 is an infinity or NaN: the highest bit of the exponent is cleared there.
        infinite = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
        bits[infinite] &= np.uint32(0xBFFFFFFF)
        return bits.view(np.float32)
    raise ValueError(f"there are no values {kind}")
