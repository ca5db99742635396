"""coo.packed in numpy: the vectors that C++ is held to as well, malformed bytes, the choice, and the real server."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sparseagg import SparseAggError, SparseTensor, TensorSpec
from sparseagg._encode.encodings import (
    EncodeOptions,
    encode_tensor,
    flatten_indices,
    rounding_seed,
    unflatten_rows,
)
from sparseagg._encode.packed_indices import decode_rows, encode_rows
from sparseagg._encode.value_coding import (
    VALUE_CODINGS,
    decode_values,
    smallest_exact_coding,
    value_codings_of,
)
from sparseagg._encode.wire import Answer
from sparseagg._proto import aggregation_pb2, types_pb2
from sparseagg._requests import Server
from sparseagg.errors import InvalidArgumentError, InvalidUpdateError
from sparseagg.tensors import VALUE_DTYPES, DenseValues

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
BLOB = (VECTORS / "encodings.bin").read_bytes()
CASES = json.loads((VECTORS / "encodings.json").read_text())


def part(case, name):
    """One of the arrays of a vector, as bytes."""
    begin, size = case[name]
    return np.frombuffer(BLOB[begin : begin + size], np.uint8)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_vectors_become_the_same_bytes_and_come_back(case, packed_by):
    shape, sparse_dim = case["dense_shape"], case["sparse_dim"]
    rows = part(case, "rows").view("<u8")
    values = part(case, "values").view(VALUE_DTYPES[case["value_type"]])
    if sparse_dim:
        indices = unflatten_rows(rows, tuple(shape[:sparse_dim]))
        values = values.reshape(len(rows), *shape[sparse_dim:])
        tensor = SparseTensor(indices, values, shape, case["value_type"])
    else:
        tensor = DenseValues(values.reshape(shape), case["value_type"])
    options = EncodeOptions("coo.packed", case["values_encoding"] or "raw")
    encoded = encode_tensor("t", tensor, options, case["rounding_seed"])
    assert encoded.nnz == case["nnz"]
    assert encoded.indices.tobytes() == part(case, "encoded_indices").tobytes()
    assert encoded.values.tobytes() == part(case, "encoded_values").tobytes()

    if sparse_dim:
        num_rows = int(np.prod([int(d) for d in shape[:sparse_dim]], dtype=object))
        again = decode_rows(part(case, "encoded_indices"), len(rows), num_rows, "t")
        assert (again == rows).all()
    decoded = decode_values(
        part(case, "encoded_values"), values.size, case["value_type"], case["values_encoding"], "t"
    )
    assert decoded.tobytes() == part(case, "decoded_values").tobytes()


@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 1025])
@pytest.mark.parametrize("gap", [1, 2, 300, 1 << 40])
@pytest.mark.parametrize("repeats", [False, True])
def test_decoding_undoes_encoding(count, gap, repeats):
    random = np.random.default_rng(count + gap)
    steps = random.integers(0 if repeats else 1, gap + 1, count).astype(np.uint64)
    rows = np.cumsum(steps, dtype=np.uint64)
    data = np.frombuffer(encode_rows(rows), np.uint8)
    assert (decode_rows(data, count, 1 << 62, "t") == rows).all()


def test_flipped_and_truncated_bytes_are_errors_that_name_the_block():
    random = np.random.default_rng(1)
    rows = np.cumsum(random.geometric(0.5, 600)).astype(np.uint64)
    rows[300:] = rows[300:] * 50
    data = np.frombuffer(encode_rows(rows), np.uint8)
    for position in range(len(data)):
        bad = data.copy()
        bad[position] ^= 1 << int(random.integers(8))
        with pytest.raises(SparseAggError, match='tensor "t": (block|row)') as failure:
            decode_rows(bad, 600, 1 << 40, "t")
        assert failure.value.reason in ("MALFORMED_BLOCK", "CHECKSUM_MISMATCH")
    for size in range(len(data)):
        with pytest.raises(SparseAggError):
            decode_rows(data[:size], 600, 1 << 40, "t")
    with pytest.raises(SparseAggError, match="is not below 7 rows"):
        decode_rows(data, 600, 7, "t")


def test_the_smallest_exact_coding_changes_nothing():
    def of(values, value_type):
        return smallest_exact_coding(np.asarray(values, VALUE_DTYPES[value_type]), value_type)

    assert of([1, -0.5, -0.0], "f32") == "bf16"
    assert of([1 + 2.0**-10], "f32") == "f16"
    assert of([0.1], "f32") == "raw"
    assert of([np.float32(0.1)], "f64") == "f32"
    assert of([1e300], "f64") == "raw"
    assert of([np.nan], "f32") == "raw"
    assert of([1], "i64") == "raw"


def test_auto_takes_the_smaller_one_and_leaves_wrong_indices_to_the_server():
    values = np.full(500, 0.1, "f4")
    packed = encode_tensor("t", SparseTensor(np.arange(500), values, [9999]), EncodeOptions())
    assert (packed.encoding, packed.values_encoding) == ("coo.packed", "")
    few = encode_tensor("t", SparseTensor([5], values[:1], [9999]), EncodeOptions())
    assert few.encoding == "coo.raw"
    wrong = SparseTensor(np.arange(500), values, [499])
    assert encode_tensor("t", wrong, EncodeOptions()).encoding == "coo.raw"
    with pytest.raises(InvalidUpdateError, match="index 499 of dimension 0 at entry 499"):
        encode_tensor("t", wrong, EncodeOptions("coo.packed"))


def test_unsorted_entries_are_sorted_and_repeated_rows_keep_their_order(packed_by):
    tensor = SparseTensor([9, 4, 9, 0], np.float32([1, 2, 3, 4]), [50])
    encoded = encode_tensor("t", tensor, EncodeOptions("coo.packed", "raw"))
    assert decode_rows(encoded.indices, 4, 50, "t").tolist() == [0, 4, 9, 9]
    assert encoded.values.view("<f4").tolist() == [4, 2, 1, 3]


# One value is wrong: at entry 2, which is sent last.
UNSORTED = {
    "a vector": (SparseTensor([9, 4, 30, 0], np.float32([1, 2, np.nan, 4]), [50]), "(row 30)"),
    "rows": (
        SparseTensor([9, 4, 30, 0], np.float64([[1, 2], [3, 4], [5, np.nan], [7, 8]]), [50, 2]),
        "(row 30), value 1",
    ),
    "a matrix": (
        SparseTensor([[1, 4], [0, 4], [3, 7], [0, 0]], np.float32([1, 2, np.nan, 4]), [5, 10]),
        "(index [3, 7])",
    ),
}


@pytest.mark.parametrize("what", UNSORTED)
@pytest.mark.parametrize("values", ["auto", "raw", "bf16", "int8", "int4.stochastic"])
def test_a_value_is_named_as_it_was_handed_in(packed_by, what, values):
    tensor, place = UNSORTED[what]
    with pytest.raises(InvalidUpdateError) as caught:
        encode_tensor("t", tensor, EncodeOptions("coo.packed", values))
    is_rounded = values not in ("auto", "raw")
    assert caught.value.reason == ("VALUE_NOT_CODABLE" if is_rounded else "NON_FINITE_VALUE")
    assert str(caught.value).startswith(f'tensor "t": entry 2 {place} is ')


@pytest.mark.parametrize(
    ("bits", "word"), [(0x7FC0, "NaN"), (0x7F80, "infinite"), (0xFF80, "infinite")]
)
def test_bits_of_bfloat16_that_are_no_number_are_named(packed_by, bits, word):
    values = np.array([0x3F80, bits, 0x4000], np.uint16)
    tensor = SparseTensor([[2, 1], [1, 1], [0, 0]], values, [5, 10], "bf16")
    for encoding in ("auto", "coo.raw", "coo.packed"):
        with pytest.raises(InvalidUpdateError, match=rf"entry 1 \(index \[1, 1\]\) is {word}$"):
            encode_tensor("t", tensor, EncodeOptions(encoding))


def test_options_are_checked_where_they_are_given():
    with pytest.raises(InvalidArgumentError, match="coo.zip"):
        EncodeOptions("coo.zip")
    with pytest.raises(InvalidArgumentError, match="int7"):
        EncodeOptions("auto", {"emb": "int7"})
    with pytest.raises(InvalidUpdateError, match="coo.raw has no values encoding"):
        encode_tensor("t", DenseValues(np.ones(4, "f4")), EncodeOptions("coo.raw", "bf16"))
    with pytest.raises(InvalidUpdateError, match='tensor "t": value 1 is inf'):
        encode_tensor("t", DenseValues(np.float32([1, np.inf])), EncodeOptions("coo.packed", "f16"))


def test_an_older_server_gets_what_it_knows():
    assert EncodeOptions().for_server(frozenset(["coo.raw"])).encoding == "coo.raw"
    assert EncodeOptions("auto", "bf16").for_server(frozenset()).values == "auto"
    assert EncodeOptions("coo.packed").for_server(frozenset()).encoding == "coo.packed"


def test_rounding_seeds_differ_by_contributor_and_stay_over_retries():
    assert rounding_seed("rounds/r", "a", "t") == rounding_seed("rounds/r", "a", "t")
    assert rounding_seed("rounds/r", "a", "t") != rounding_seed("rounds/r", "b", "t")


def test_indices_of_several_dimensions_are_flattened_row_major():
    indices = np.array([[2, 4], [0, 0], [1, 3]])
    rows = flatten_indices(indices, (3, 5))
    assert rows.tolist() == [14, 0, 8]
    assert (unflatten_rows(rows, (3, 5)) == indices).all()


def test_the_server_takes_every_encoding(client):
    random = np.random.default_rng(3)
    indices = random.permutation(5000)[:700]
    whole = random.integers(-8, 9, (700, 3)).astype("f4")
    tensor = SparseTensor(indices, whole, [5000, 3])
    choices = [("coo.raw", "auto"), ("auto", "auto"), ("auto", {"emb": "f16"})]
    choices += [("coo.packed", coding) for coding in VALUE_CODINGS]
    for encoding, values in choices:
        round = client.create_round([TensorSpec("emb", [5000, 3])])
        receipt = round.submit({"emb": tensor}, contributor="a", encoding=encoding, values=values)
        chosen = receipt.encodings["emb"]
        if encoding != "auto":
            assert chosen.encoding == encoding
        if values in value_codings_of("f32"):
            assert chosen.values_encoding == values
        round.seal()
        order = np.argsort(indices)
        for wanted in ("coo.raw", "coo.packed"):
            result = round.result(encoding=wanted)["emb"]
            assert (result.indices.ravel() == indices[order]).all()
            if chosen.values_encoding.startswith("int"):
                assert np.abs(result.values - whole[order]).max() <= 8 / 7
            else:
                assert (result.values == whole[order]).all()
        round.delete()


def test_large_packed_updates_go_in_chunks(client):
    nnz = 1_500_000
    values = np.random.default_rng(4).normal(size=(nnz, 4)).astype("f4")
    tensor = SparseTensor(np.arange(0, 2 * nnz, 2), values, [2 * nnz, 4])
    round = client.create_round([TensorSpec("emb", [2 * nnz, 4])])
    receipt = round.submit({"emb": tensor}, contributor="a", encoding="coo.packed")
    assert receipt.encodings["emb"].nbytes > 16 << 20
    round.seal()
    result = round.result()["emb"]
    assert (result.indices == tensor.indices).all()
    assert (result.values == values).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"encoding": "coo.zip"}, "UNKNOWN_ENCODING"),
        ({"value_type": 99}, "UNKNOWN_VALUE_TYPE"),
        ({"index_type": 99}, "UNKNOWN_INDEX_TYPE"),
        ({"index_type": types_pb2.INDEX_TYPE_I32}, "SIZE_MISMATCH"),
        ({"indices_bytes": 15}, "SIZE_MISMATCH"),
        ({"values_bytes": 4}, "SIZE_MISMATCH"),
        ({"sparse_dim": 2}, "SHAPE_MISMATCH"),
        ({"sparse_dim": 0, "dense_shape": [1], "indices_bytes": 0}, "SIZE_MISMATCH"),
    ],
)
def test_answers_that_cannot_be_read_are_errors_of_the_package(change, reason):
    header = {"name": "t", "value_type": types_pb2.VALUE_TYPE_F32, "dense_shape": [9]}
    header |= {"sparse_dim": 1, "nnz": 2, "indices_bytes": 16, "values_bytes": 8, **change}
    tensors = [types_pb2.TensorHeader(**header)]
    answer = Answer(aggregation_pb2.AggregateHeader(tensors=tensors))
    answer.add(aggregation_pb2.AggregateChunk(data=bytes(answer.size)))
    if not reason:
        assert answer.tensors(dense=False)["t"].nnz == 2
        return
    with pytest.raises(SparseAggError, match='tensor "t": ') as failure:
        answer.tensors(dense=False)
    assert failure.value.reason == reason


def test_what_the_server_knows_comes_from_its_info(client):
    server = Server.of(client.info())
    assert {"coo.raw", "coo.packed"} <= server.encodings
    assert client.info().values_encodings == VALUE_CODINGS


@pytest.mark.parametrize(("coding", "largest"), [("int8", 8e-44), ("int4.stochastic", 4e-45)])
def test_numbers_that_become_zeros_are_warned_of_once(caplog, coding, largest):
    values = np.zeros(300, np.float32)
    values[200] = largest
    tensor = DenseValues(values)
    name = f"tiny {coding}"
    for _ in range(3):
        encoded = encode_tensor(name, tensor, EncodeOptions("coo.packed", coding))
        sent = decode_values(encoded.values, 300, "f32", coding, name)
        assert not sent.any()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert name in told[0] and coding in told[0]
    encode_tensor("zeros", DenseValues(np.zeros(300, "f4")), EncodeOptions("coo.packed", coding))
    assert len(caplog.records) == 1
