"""The bytes of a partial aggregate (docs/partials.md), written and read with Python's whole numbers and fractions: slow, and
without a line of the C++ code. It makes tests/vectors/partials.bin."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass, field
from fractions import Fraction

MAGIC = b"spagpart"
VERSION = 1
SLICE_ROWS = 1 << 16
BLOCK_SLOTS = 64
LAST_BIT = -1074
FORM_DIGITS = 0xFFFE
FORM_RAW = 0xFFFF
VALUE_TYPES = ["f16", "bf16", "f32", "f64", "i32", "i64", "u32", "u64"]  # from 1
RAW = {"f16": "e", "f32": "f", "f64": "d", "i32": "i", "i64": "q", "u32": "I", "u64": "Q"}


@dataclass
class Tensor:
    """One tensor's state. A row has row_width numbers, and, for mean_of_contributors and count, its weight or number last."""

    name: str
    op: str
    value_type: str
    dense_shape: list[int]
    sparse_dim: int
    entries: int
    rows: dict[int, list[Fraction]] = field(default_factory=dict)
    modular: bool = False

    @property
    def values(self) -> int:
        if self.op == "count":
            return 0
        width = 1
        for dimension in self.dense_shape[self.sparse_dim :]:
            width *= dimension
        return width

    @property
    def has_row_slot(self) -> bool:
        return self.op in ("count", "mean_of_contributors")


@dataclass
class Partial:
    tensors: list[Tensor]
    contributors: int
    total_weight: Fraction
    covered: list[tuple[str, str, float, bytes]] | None = (
        None  # contributor, update_id, weight, digest
    )
    digest: bytes = b""


def exponent_of(number: Fraction) -> int:
    """Of the lowest bit set of a number that is a multiple of a power of two."""
    assert number.denominator & (number.denominator - 1) == 0
    if number.denominator > 1:
        return 1 - number.denominator.bit_length()
    return (number.numerator & -number.numerator).bit_length() - 1


def in_units(number: Fraction, lsb: int) -> int:
    scaled = number * Fraction(2) ** -lsb
    assert scaled.denominator == 1
    return scaled.numerator


def digits(number: Fraction) -> list[tuple[int, int]]:
    """Balanced digits in base 2^32: (position, digit), ascending."""
    rest = in_units(number, LAST_BIT)
    found = []
    position = 0
    while rest:
        digit = (rest + (1 << 31)) % (1 << 32) - (1 << 31)
        if digit:
            found.append((position, digit))
        rest = (rest - digit) >> 32
        position += 1
    return found


def write_digits(number: Fraction) -> bytes:
    found = digits(number)
    return bytes([len(found)]) + b"".join(struct.pack("<Bi", *digit) for digit in found)


def raw(number: Fraction | float, value_type: str) -> bytes | None:
    """The number as a value of the type, if it is one. Of min and max, a float is an infinity."""
    if isinstance(number, float):
        return (
            struct.pack("<f", number)[2:]
            if value_type == "bf16"
            else struct.pack("<" + RAW[value_type], number)
        )
    try:
        if value_type == "bf16":
            data = struct.pack("<f", float(number))
            return (
                data[2:] if data[:2] == b"\0\0" and read_raw(data[2:], "bf16") == number else None
            )
        if value_type[0] in "iu":
            return (
                struct.pack("<" + RAW[value_type], number.numerator)
                if number.denominator == 1
                else None
            )
        data = struct.pack("<" + RAW[value_type], float(number))
    except (OverflowError, struct.error):
        return None
    return data if read_raw(data, value_type) == number else None


def read_raw(data: bytes, value_type: str) -> Fraction | float | None:
    if value_type == "bf16":
        data, value_type = b"\0\0" + data, "f32"
    value = struct.unpack("<" + RAW[value_type], data)[0]
    if value != value:
        return None
    return value if value in (math.inf, -math.inf) else Fraction(value)


def write_block(numbers: list[Fraction], value_type: str | None, only_raw: bool) -> bytes:
    if not any(numbers):
        return struct.pack("<H", 0)
    as_raw = [raw(number, value_type) for number in numbers] if value_type else [None]
    forms = []
    if None not in as_raw:
        forms.append(struct.pack("<H", FORM_RAW) + b"".join(as_raw))
    if not only_raw:
        lsb = min(exponent_of(number) for number in numbers if number)
        whole = [in_units(number, lsb) for number in numbers]
        width = max(abs(number).bit_length() for number in whole) // 8 + 1
        fixed = b"".join(number.to_bytes(width, "little", signed=True) for number in whole)
        forms.append(struct.pack("<Hh", width, lsb) + fixed)
        forms.append(struct.pack("<H", FORM_DIGITS) + b"".join(map(write_digits, numbers)))
    return min(forms, key=len)  # the first of equally long ones


def write_slices(tensor: Tensor) -> list[bytes]:
    slices: dict[int, list[int]] = {}
    for row in sorted(tensor.rows):
        slices.setdefault(row // SLICE_ROWS, []).append(row)
    out = []
    for number, rows in slices.items():
        body = b"".join(struct.pack("<H", row % SLICE_ROWS) for row in rows)
        values = [value for row in rows for value in tensor.rows[row][: tensor.values]]
        for at in range(0, len(values), BLOCK_SLOTS):
            block = values[at : at + BLOCK_SLOTS]
            body += write_block(block, tensor.value_type, tensor.op in ("min", "max"))
        if tensor.has_row_slot:
            weights = [tensor.rows[row][-1] for row in rows]
            for at in range(0, len(weights), BLOCK_SLOTS):
                body += write_block(weights[at : at + BLOCK_SLOTS], None, False)
        out.append(struct.pack("<QIQ", number, len(rows), len(body)) + body)
    return out


def write(partial: Partial) -> bytes:
    slices = [write_slices(tensor) for tensor in partial.tensors]
    head = MAGIC + struct.pack(
        "<IIQB", VERSION, len(slices), partial.contributors, partial.covered is not None
    )
    head += write_digits(partial.total_weight)
    for tensor, own in zip(partial.tensors, slices):
        name, op = tensor.name.encode(), tensor.op.encode()
        head += struct.pack("<H", len(name)) + name + bytes([len(op)]) + op
        head += bytes([1 + VALUE_TYPES.index(tensor.value_type), 2 if tensor.modular else 1])
        head += bytes([len(tensor.dense_shape), tensor.sparse_dim])
        head += struct.pack(f"<{len(tensor.dense_shape)}q", *tensor.dense_shape)
        head += struct.pack("<QQ", tensor.entries, len(own))
    covered = b""
    for contributor, update_id, weight, digest in partial.covered or []:
        for text in (contributor, update_id):
            covered += bytes([len(text)]) + text.encode()
        covered += struct.pack("<f", weight) + digest
    parts = [part for own in slices for part in own]
    hashes = b"".join(hashlib.sha256(part).digest() for part in [covered, *parts])
    return head + covered + b"".join(parts) + hashlib.sha256(head + hashes).digest()


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        assert self.at + size <= len(self.data)
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self, code: str) -> tuple:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))

    def number(self, code: str) -> int:
        return self.numbers(code)[0]

    def digits(self) -> Fraction:
        total = Fraction(0)
        for _ in range(self.number("B")):
            position, digit = self.numbers("Bi")
            total += digit * Fraction(2) ** (LAST_BIT + 32 * position)
        return total

    def block(self, count: int, value_type: str | None) -> list[Fraction]:
        form = self.number("H")
        if form == 0:
            return [Fraction(0)] * count
        if form == FORM_RAW:
            size = 2 if value_type in ("f16", "bf16") else struct.calcsize(RAW[value_type])
            return [read_raw(self.take(size), value_type) for _ in range(count)]
        if form == FORM_DIGITS:
            return [self.digits() for _ in range(count)]
        unit = Fraction(2) ** self.number("h")
        return [int.from_bytes(self.take(form), "little", signed=True) * unit for _ in range(count)]

    def blocks(self, count: int, value_type: str | None) -> list[Fraction]:
        numbers: list[Fraction] = []
        while len(numbers) < count:
            numbers += self.block(min(BLOCK_SLOTS, count - len(numbers)), value_type)
        return numbers

    def tensor_head(self) -> tuple[Tensor, int]:
        name = self.take(self.number("H")).decode()
        op = self.take(self.number("B")).decode()
        value_type, overflow, rank, sparse_dim = self.numbers("4B")
        shape = list(self.numbers(f"{rank}q"))
        entries, slices = self.numbers("QQ")
        value_type = VALUE_TYPES[value_type - 1]
        return Tensor(name, op, value_type, shape, sparse_dim, entries, {}, overflow == 2), slices

    def slice_of(self, tensor: Tensor) -> None:
        number, count, size = self.numbers("QIQ")
        end = self.at + size
        rows = [number * SLICE_ROWS + offset for offset in self.numbers(f"{count}H")]
        values = self.blocks(count * tensor.values, tensor.value_type)
        weights = self.blocks(count, None) if tensor.has_row_slot else []
        assert self.at == end
        for i, row in enumerate(rows):
            tensor.rows[row] = (
                values[i * tensor.values : (i + 1) * tensor.values] + weights[i : i + 1]
            )


def read(data: bytes) -> Partial:
    """Reads bytes and checks them by writing them again."""
    reader = Reader(data[:-32])
    assert reader.take(8) == MAGIC
    version, tensors, contributors, named = reader.numbers("IIQB")
    assert version == VERSION
    total_weight = reader.digits()
    heads = [reader.tensor_head() for _ in range(tensors)]
    covered = None
    if named:
        covered = []
        for _ in range(contributors):
            names = [reader.take(reader.number("B")).decode() for _ in range(2)]
            covered.append((*names, reader.number("f"), reader.take(32)))
    for tensor, slices in heads:
        for _ in range(slices):
            reader.slice_of(tensor)
    assert reader.at == len(reader.data)
    partial = Partial(
        [tensor for tensor, _ in heads], contributors, total_weight, covered, data[-32:]
    )
    assert write(partial) == data
    return partial


def round_to(number: Fraction, value_type: str) -> bytes:
    """Rounds once, to nearest with ties to even, to the bytes of a value. The number must be in the type's range."""
    if isinstance(number, float):
        return raw(number, value_type)
    if value_type[0] in "iu":
        return struct.pack("<" + RAW[value_type], number.numerator)
    if value_type == "bf16":
        precision, lowest = 8, -133
    else:
        precision, lowest = {"f16": (11, -24), "f32": (24, -149), "f64": (53, -1074)}[value_type]
    if number == 0:
        return bytes(2 if value_type in ("f16", "bf16") else struct.calcsize(RAW[value_type]))
    magnitude = abs(number)
    top = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    top -= 1 if Fraction(2) ** top > magnitude else 0  # 2^top <= magnitude < 2^(top + 1)
    unit = Fraction(2) ** max(top - precision + 1, lowest)
    rounded = round(number / unit) * unit  # Python rounds halves to even
    if rounded == 0:
        return round_to(Fraction(0), value_type)
    data = raw(rounded, value_type)
    assert data is not None
    return data


def result_of(partial: Partial, tensor: Tensor) -> bytes:
    """The values of the result, row by row."""
    out = b""
    for _, numbers in sorted(tensor.rows.items()):
        if tensor.op == "count":
            out += struct.pack("<Q", numbers[-1].numerator)
            continue
        for number in numbers[: tensor.values]:
            if tensor.op in ("weighted_mean", "mean_of_contributors"):
                divisor = partial.total_weight if tensor.op == "weighted_mean" else numbers[-1]
                number = quotient(number, divisor, tensor.value_type)
            out += round_to(number, tensor.value_type)
    return out


def quotient(dividend: Fraction, divisor: Fraction, value_type: str) -> Fraction:
    """docs/numerics.md: both are rounded once to f64 and divided in IEEE f64."""
    if divisor == 0:
        return Fraction(0)
    as_f64 = [struct.unpack("<d", round_to(number, "f64"))[0] for number in (dividend, divisor)]
    mean = Fraction(as_f64[0] / as_f64[1])
    return Fraction(round(mean)) if value_type[0] in "iu" else mean
