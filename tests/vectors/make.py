#!/usr/bin/env python3
"""Writes encodings.bin and encodings.json: tensors, and the bytes that coo.packed makes of them (docs/wire_format.md).

tests/sparse/encoding_vectors_test.cc and tests/python/test_encodings.py hold C++ and Python to the same bytes. The files
are committed and change only with the format: run this, and look at the difference.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "python"))

from sparseagg._encode.encodings import EncodeOptions, encode_tensor, unflatten_rows  # noqa: E402
from sparseagg._encode.value_coding import decode_values  # noqa: E402
from sparseagg.tensors import VALUE_DTYPES, DenseValues, SparseTensor  # noqa: E402

random = np.random.default_rng(20261121)


def ascending(count: int, gap: int, first: int = 0) -> np.ndarray:
    """Strictly ascending rows, 1 to `gap` apart."""
    return np.cumsum(random.integers(1, gap + 1, count).astype(np.uint64)) + np.uint64(first)


def of_density(count: int, density: float) -> np.ndarray:
    """Rows as of a tensor that holds each with this probability."""
    return np.cumsum(random.geometric(density, count)).astype(np.uint64)


def with_gaps(end: int, gaps: int) -> np.ndarray:
    """All rows below `end` but `gaps`, each of one row."""
    return np.delete(np.arange(end, dtype=np.uint64), 1 + np.arange(gaps) * ((end - 2) // gaps))


def normal(count: int, value_type: str = "f32") -> np.ndarray:
    """Values like gradients."""
    return random.normal(size=count).astype(VALUE_DTYPES[value_type])


def index_cases() -> list[tuple[str, list[int], int, np.ndarray]]:
    """Name, shape, sparse_dim, rows."""
    top = (1 << 63) - 2
    repeats = np.sort(random.integers(0, 900, 300)).astype(np.uint64)
    return [
        ("example", [20], 1, np.array([3, 4, 7, 15], np.uint64)),
        ("one_entry", [1000], 1, np.array([812], np.uint64)),
        ("two_entries_far_apart", [top + 1], 1, np.array([0, top], np.uint64)),
        ("full_run", [600], 1, np.arange(600, dtype=np.uint64)),
        ("bitmaps", [4096], 1, of_density(700, 0.5)),
        ("repeats", [900], 1, repeats),
        ("all_equal", [900], 1, np.full(257, 5, np.uint64)),
        ("top_1_percent", [10_000_000], 1, of_density(1000, 0.01)),
        ("hashes", [1 << 62], 1, ascending(520, 1 << 50)),
        ("wide_then_narrow", [1 << 62], 1, np.concatenate([ascending(256, 1 << 40), ascending(256, 2, 1 << 60)])),
        ("two_dimensions", [3, 5000, 2], 2, ascending(300, 40)),
        ("block_255", [100_000], 1, ascending(255, 300)),
        ("block_256", [100_000], 1, ascending(256, 300)),
        ("block_257", [100_000], 1, ascending(257, 300)),
        ("differences_of_one_bit", [2000], 1, np.arange(0, 2000, 2, dtype=np.uint64)),
        ("few_gaps", [1000], 1, with_gaps(1000, 29)),
        ("a_gap_too_many_for_a_bitmap", [289], 1, with_gaps(289, 33)),
        ("as_many_gaps_as_a_bitmap_may_have", [288], 1, with_gaps(288, 32)),
        ("a_short_block_with_a_gap", [34], 1, with_gaps(34, 1)),
    ]  # fmt: skip


def value_cases() -> list[tuple[str, str, str, int, np.ndarray]]:
    """Name, value type, coding, seed, values of a dense tensor."""
    halves = np.array([0.1, 65504, 2.0**-24, 2.0**-25, -0.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 6e-8])
    brains = np.array([0.1, 3.3e38, 1e-40, -0.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8])
    spread = np.concatenate(
        [normal(128), np.zeros(128, "<f4"), 1e-45 * np.ones(3), 1e30 * normal(70)]
    )
    cases = [
        ("bf16_of_f32", "f32", "bf16", 0, brains),
        ("bf16_of_f64", "f64", "bf16", 0, brains),
        ("f16_of_f32", "f32", "f16", 0, halves),
        ("f16_of_f64", "f64", "f16", 0, halves),
        ("f32_of_f64", "f64", "f32", 0, normal(50, "f64")),
        ("raw_i64", "i64", "raw", 0, random.integers(-9, 9, 5)),
        ("raw_bf16", "bf16", "raw", 0, random.integers(0, 0x7F80, 5)),
    ]  # fmt: skip
    for coding in ("int8", "int4", "int8.stochastic", "int4.stochastic"):
        name = coding.replace(".", "_")
        cases.append((f"{name}_of_f32", "f32", coding, 77, spread))
        cases.append((f"{name}_of_f64", "f64", coding, (1 << 64) - 3, normal(257, "f64") * 1e-3))
    largest = np.float32([1, -1, 0.5]) * np.finfo("<f4").max
    for coding in ("int8", "int4.stochastic"):
        cases.append((f"{coding.replace('.', '_')}_of_the_largest", "f32", coding, 5, largest))
    return [(n, t, c, s, np.ascontiguousarray(v, VALUE_DTYPES[t])) for n, t, c, s, v in cases]


def main() -> None:
    """Writes the two files."""
    blob = bytearray()
    cases = []

    def put(data: bytes) -> list[int]:
        place = [len(blob), len(data)]
        blob.extend(data)
        return place

    def add(name, tensor, value_type, rows, coding, seed, sparse_dim):
        options = EncodeOptions("coo.packed", coding)
        encoded = encode_tensor(name, tensor, options, seed)
        count = tensor.values.size
        decoded = decode_values(encoded.values, count, value_type, encoded.values_encoding, name)
        cases.append(
            {
                "name": name,
                "value_type": value_type,
                "dense_shape": list(tensor.dense_shape),
                "sparse_dim": sparse_dim,
                "values_encoding": encoded.values_encoding,
                "rounding_seed": seed,
                "nnz": encoded.nnz,
                "rows": put(rows.astype("<u8").tobytes()),
                "values": put(tensor.values.tobytes()),
                "encoded_indices": put(encoded.indices.tobytes()),
                "encoded_values": put(encoded.values.tobytes()),
                "decoded_values": put(np.ascontiguousarray(decoded).tobytes()),
            }
        )

    for name, shape, sparse_dim, rows in index_cases():
        # The example has the values of the documentation; the others whole ones: what is tested are the indices.
        width = int(np.prod(shape[sparse_dim:], dtype=np.int64))
        values = np.resize(np.float32([1, -0.5, 2, 0.25]), (len(rows), *shape[sparse_dim:]))
        tensor = SparseTensor(unflatten_rows(rows, tuple(shape[:sparse_dim])), values, shape)
        assert tensor.values.size == len(rows) * width
        add(name, tensor, "f32", rows, "bf16", 0, sparse_dim)
    for name, value_type, coding, seed, values in value_cases():
        add(name, DenseValues(values, value_type), value_type, np.zeros(1), coding, seed, 0)
    (FOLDER / "encodings.bin").write_bytes(bytes(blob))
    lines = ",\n".join(json.dumps(case) for case in cases)
    (FOLDER / "encodings.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
