"""The numerics contract in rational arithmetic: the exact answer, rounded once. Slow, and independent of the server.

Numbers are `fractions.Fraction`; rounding to a binary format is done on integers. An aggregate is computed from a list
of (weight, {index: [values of that index in this update]}).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary floating-point format of IEEE 754: `precision` bits with the leading one, exponents up to `exponent_max`."""

    precision: int
    exponent_max: int
    dtype: str
    bits_dtype: str

    @property
    def exponent_min(self) -> int:
        """Returns the exponent of the smallest normal number."""
        return 1 - self.exponent_max

    def round(self, value: Fraction) -> int:
        """The bit pattern of `value`, rounded to nearest, ties to even; infinity beyond the range. 0 is +0."""
        sign = 1 if value < 0 else 0
        significand, exponent = _round_to_integer(abs(value), self.precision, self.exponent_min)
        fraction_bits = self.precision - 1
        if significand == 0:
            return 0
        if exponent > self.exponent_max:
            magnitude = (2 * self.exponent_max + 1) << fraction_bits
        elif significand < 1 << fraction_bits:
            magnitude = significand  # subnormal
        else:
            biased = exponent + self.exponent_max
            magnitude = (biased << fraction_bits) + significand - (1 << fraction_bits)
        width = np.dtype(self.bits_dtype).itemsize * 8
        return sign << (width - 1) | magnitude

    def value(self, bits: int) -> Fraction:
        """The number behind a bit pattern, which must be finite."""
        fraction_bits = self.precision - 1
        width = np.dtype(self.bits_dtype).itemsize * 8
        biased = bits >> fraction_bits & (2 * self.exponent_max + 1)
        significand = bits & ((1 << fraction_bits) - 1)
        assert biased <= 2 * self.exponent_max, "an infinity or NaN"
        if biased:
            significand += 1 << fraction_bits
        scale = max(biased, 1) - self.exponent_max - fraction_bits
        magnitude = Fraction(significand) * Fraction(2) ** scale
        return -magnitude if bits >> (width - 1) & 1 else magnitude


def _round_to_integer(value: Fraction, precision: int, exponent_min: int) -> tuple[int, int]:
    """(integer significand, exponent of its leading bit as if it had `precision` bits) of `value` >= 0."""
    if value == 0:
        return 0, exponent_min
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    exponent = max(exponent, exponent_min)
    scaled = value / Fraction(2) ** (exponent - precision + 1)
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    twice = 2 * rest
    if twice > scaled.denominator or (twice == scaled.denominator and whole % 2):
        whole += 1
    if whole == 1 << precision:
        return whole // 2, exponent + 1
    return whole, exponent


FORMATS = {
    "f16": Format(11, 15, "<f2", "<u2"),
    "bf16": Format(8, 127, "<u2", "<u2"),
    "f32": Format(24, 127, "<f4", "<u4"),
    "f64": Format(53, 1023, "<f8", "<u8"),
}
_F64 = FORMATS["f64"]
INTEGER_BITS = {"i32": 32, "i64": 64, "u32": 32, "u64": 64}


def bits_of(value_type: str, values: np.ndarray) -> list[int]:
    """Bit patterns of an array as the package gives them (bf16: it is the patterns)."""
    return np.ascontiguousarray(values).view(FORMATS[value_type].bits_dtype).ravel().tolist()


def rounded_f64(value: Fraction) -> Fraction:
    """`value` rounded once to f64."""
    return _F64.value(_F64.round(value))


class Contribution:
    """One contributor's part at one index: its weight, and its values (more than one: equal indices in its update)."""

    def __init__(self, weight: Fraction, values: list[Fraction], value_type: str) -> None:
        self.weight = weight
        self.values = values
        products = [weight * value for value in values]
        # For f64 the product is the IEEE one, rounded; for the narrower types it is exact in f64 anyway.
        self.products = [rounded_f64(p) for p in products] if value_type == "f64" else products

    @property
    def total(self) -> Fraction:
        """The exact sum of its products."""
        return sum(self.products, Fraction(0))


def aggregate_float(
    op: str, value_type: str, here: list[Contribution], round_weight: Fraction
) -> int:
    """The bit pattern of the result at one index that the contributions `here` touch.

    op: any but "count". round_weight: total weight of all contributors of the round.
    """
    fmt = FORMATS[value_type]
    total = sum((c.total for c in here), Fraction(0))
    if op == "sum":
        return fmt.round(total)
    if op == "weighted_mean":
        return _quotient(fmt, total, round_weight)
    if op == "mean_of_contributors":
        return _quotient(fmt, total, sum((c.weight for c in here), Fraction(0)))
    assert op in ("min", "max")
    # A contributor's value is the exact sum of its entries; its weight plays no part.
    own = [sum(c.values, Fraction(0)) for c in here]
    return fmt.round(min(own) if op == "min" else max(own))


def _quotient(fmt: Format, total: Fraction, weight: Fraction) -> int:
    """Total and weight each rounded to f64, divided in IEEE f64, rounded to the value type."""
    if weight == 0:
        return 0
    return fmt.round(rounded_f64(rounded_f64(total) / rounded_f64(weight)))
