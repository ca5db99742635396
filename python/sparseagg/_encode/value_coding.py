"""How the values of `coo.packed` travel, in numpy; docs/wire_format.md has the grammar. The same bytes as C++ makes.

Every operation on numbers is one of IEEE arithmetic, rounded to nearest, in the order that sparse/encodings/ has.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Callable

import numpy as np

from sparseagg._encode.packed_indices import block_key
from sparseagg.errors import InvalidUpdateError, SparseAggError
from sparseagg.tensors import VALUE_DTYPES

if TYPE_CHECKING:
    from sparseagg.tensors import Array

_LOG = logging.getLogger("sparseagg")
VALUE_CODINGS = (
    "raw",
    "f32",
    "bf16",
    "f16",
    "int8",
    "int8.stochastic",
    "int4",
    "int4.stochastic",
)
_SCALE_VALUES = 128
_VALUES_AT_ONCE = 1 << 16  # of which a few copies are in memory
_LIMITS = {"int8": 127.0, "int4": 7.0}


def value_codings_of(value_type: str) -> tuple[str, ...]:
    """Returns the codings that values of this type may have."""
    if value_type == "f64":
        return VALUE_CODINGS
    if value_type == "f32":
        return tuple(coding for coding in VALUE_CODINGS if coding != "f32")
    return ("raw",)


def smallest_exact_coding(values: Array, value_type: str) -> str:
    """Returns the smallest coding that changes none of these values, which are flat. Takes a small part of them at a
    time, and ends with the first that only "raw" leaves as it is."""
    left = {"f32": ["bf16", "f16"], "f64": ["bf16", "f16", "f32"]}.get(value_type, [])
    for begin in range(0, len(values), _VALUES_AT_ONCE):
        if not left:
            break
        left = _exact_codings(values[begin : begin + _VALUES_AT_ONCE], left)
    return left[0] if left else "raw"


def _exact_codings(values: Array, codings: list[str]) -> list[str]:
    """Those of `codings` that change none of the values."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        single = values.astype("<f4")
        if not np.isfinite(single).all() or not _same_bits(single.astype(values.dtype), values):
            return []
        exact = {
            "bf16": lambda: not (single.view("<u4") & np.uint32(0xFFFF)).any(),
            "f16": lambda: _same_bits(single.astype("<f2").astype("<f4"), single),
            "f32": lambda: values.itemsize > 4,
        }
        return [coding for coding in codings if exact[coding]()]


def _same_bits(a: Array, b: Array) -> bool:
    bits = f"<u{a.itemsize}"
    return bool((a.view(bits) == b.view(bits)).all())


def exact_values(values: Array, coding: str) -> Array:
    """Flat values in a coding that changes none of them."""
    return values if coding == "raw" else _coded_floats(values, coding)[0]


def encode_values(
    values: Array,
    value_type: str,
    coding: str,
    seed: int,
    name: str,
    place: Callable[[int], str] = "value {}".format,
) -> bytes:
    """Returns `values`, flat, in this coding. Raises InvalidUpdateError for a value that it cannot hold, which `place`
    names by its position."""
    if coding == "raw":
        return values.tobytes()
    if coding not in value_codings_of(value_type):
        raise InvalidUpdateError(
            f'tensor "{name}": {value_type} values have no encoding "{coding}"; there are '
            f"{', '.join(value_codings_of(value_type))}",
            reason="UNKNOWN_VALUES_ENCODING",
        )
    if coding.startswith("int"):
        return _encode_scaled(values, coding, seed, name, place)
    coded, good = _coded_floats(values, coding)
    _refuse(values, good, coding, name, place)
    return coded.tobytes()


def _coded_floats(values: Array, coding: str) -> tuple[Array, Array]:
    """Returns the values as f32, bf16 or f16, and which of them these can hold."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        single = values.astype("<f4")
        coded: Array = single
        good = np.isfinite(single)
        if coding == "f16":
            coded = single.astype("<f2")
            good &= np.isfinite(coded)
        elif coding == "bf16":
            bits = single.view("<u4")
            rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
            coded = (rounded >> np.uint32(16)).astype("<u2")
            good &= (coded & np.uint16(0x7F80)) != 0x7F80
    return coded, good


def _encode_scaled(
    values: Array, coding: str, seed: int, name: str, place: Callable[[int], str]
) -> bytes:
    limit = _LIMITS[coding[:4]]
    _refuse(values, np.isfinite(values), coding, name, place)
    blocks = -(-len(values) // _SCALE_VALUES)
    wide = np.zeros((blocks, _SCALE_VALUES))
    wide.reshape(-1)[: len(values)] = values
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        magnitudes = np.abs(wide)
        scales = (magnitudes.max(axis=1) / limit).astype("<f4")
        codable = np.ones(wide.shape, bool)
        codable[np.arange(blocks), magnitudes.argmax(axis=1)] = np.isfinite(scales)
        _refuse(values, codable.reshape(-1)[: len(values)], coding, name, place)
        # Beside the largest number of the type the nearest scale may lead beyond it.
        beyond = ~np.isfinite((limit * scales.astype(np.float64)).astype(values.dtype))
        scales[beyond] = np.nextafter(scales[beyond], np.float32(0))
        quotients = wide / scales.astype(np.float64)[:, None]
    if coding.endswith(".stochastic"):
        position = np.uint64(seed) + np.arange(wide.size, dtype=np.uint64)
        uniform = (block_key(position) >> np.uint64(40)).astype(np.float64) * 2.0**-24
        q = np.floor(quotients + uniform.reshape(wide.shape))
    else:
        q = np.rint(quotients)
    q[scales == 0] = 0
    if (magnitudes[scales == 0] != 0).any():
        _warn_of_zeros(name, coding)
    flat = np.clip(q, -limit, limit).astype(np.int8).reshape(-1)[: len(values)]
    if coding.startswith("int8"):
        return bytes(scales.tobytes() + flat.tobytes())
    nibbles = np.zeros(len(flat) + len(flat) % 2, np.uint8)
    nibbles[: len(flat)] = flat.view(np.uint8) & np.uint8(0xF)
    return bytes(scales.tobytes() + (nibbles[::2] | nibbles[1::2] << np.uint8(4)).tobytes())


@functools.lru_cache(maxsize=1000)
def _warn_of_zeros(name: str, coding: str) -> None:
    """Once for each tensor."""
    _LOG.warning(
        'tensor "%s": values are so small that %s makes zeros of them (up to 8.9e-44 of int8, 4.9e-45 of int4); send them raw '
        "where they count (this is logged once)",
        name,
        coding,
    )


def _refuse(
    values: Array, good: Array, coding: str, name: str, place: Callable[[int], str]
) -> None:
    if good.all():
        return
    position = int((~good).argmax())
    raise InvalidUpdateError(
        f'tensor "{name}": {place(position)} is {values[position]}, which {coding} cannot hold; send it raw',
        reason="VALUE_NOT_CODABLE",
    )


def check_values(size: int, count: int, value_type: str, coding: str, name: str) -> None:
    """Raises SparseAggError for a coding that is none of the type's, or where `count` values are not `size` bytes."""
    coding = coding or "raw"
    if coding not in value_codings_of(value_type):
        raise SparseAggError(
            f'tensor "{name}": this version knows no values encoding "{coding}" of {value_type}',
            reason="UNKNOWN_VALUES_ENCODING",
        )
    if size != coded_bytes(coding, VALUE_DTYPES[value_type].itemsize, count):
        raise SparseAggError(
            f'tensor "{name}": {count} values as {coding} are not {size} bytes',
            reason="SIZE_MISMATCH",
        )


def decode_values(data: Array, count: int, value_type: str, coding: str, name: str) -> Array:
    """Returns `count` values of `value_type`, which have passed `check_values`. Raises SparseAggError for a bad
    scale."""
    coding = coding or "raw"
    dtype = VALUE_DTYPES[value_type]
    if coding == "raw":
        return data.view(dtype)
    if coding in ("f32", "f16"):
        return data.view(VALUE_DTYPES[coding]).astype(dtype)
    if coding == "bf16":
        bits = data.view("<u2").astype("<u4") << np.uint32(16)
        return bits.view("<f4").astype(dtype)
    blocks = -(-count // _SCALE_VALUES)
    scales = data[: 4 * blocks].view("<f4")
    bad = ~(np.isfinite(scales) & (scales >= 0))
    if bad.any():
        block = int(bad.argmax())
        raise SparseAggError(
            f'tensor "{name}": the scale of value block {block} is {scales[block]}',
            reason="MALFORMED_BLOCK",
        )
    coded = data[4 * blocks :]
    if coding.startswith("int4"):
        halves = np.empty(2 * len(coded), np.uint8)
        halves[::2], halves[1::2] = coded << np.uint8(4), coded & np.uint8(0xF0)
        coded = (halves.view(np.int8) >> np.int8(4))[:count]
    q = coded.view(np.int8).astype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        values: Array = q * np.repeat(scales.astype(dtype), _SCALE_VALUES)[:count]
        return values


def coded_bytes(coding: str, value_bytes: int, count: int) -> int:
    """Returns the bytes of `count` values."""
    scales = -(-count // _SCALE_VALUES) * 4
    if coding.startswith("int8"):
        return scales + count
    if coding.startswith("int4"):
        return scales + (count + 1) // 2
    return count * {"raw": value_bytes, "f32": 4}.get(coding, 2)
