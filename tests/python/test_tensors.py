"""What a user hands in: shapes, types, other packages' tensors; no server needed."""

from __future__ import annotations

import numpy as np
import pytest
from sparseagg import (
    InvalidArgumentError,
    InvalidUpdateError,
    SparseTensor,
    TensorSpec,
    as_tensor,
    flatten,
)
from sparseagg._encode.wire import ByteString, EncodedUpdate, selection_to_proto


def test_one_indexed_dimension_needs_no_second_axis():
    tensor = SparseTensor([3, 1], np.ones((2, 4), np.float32), [10, 4])
    assert (tensor.nnz, tensor.sparse_dim, tensor.value_type) == (2, 1, "f32")
    assert tensor.indices.shape == (2, 1)


def test_scalar_coo_has_one_value_an_entry():
    tensor = SparseTensor([[0, 1], [2, 3]], np.array([1, 2], np.int32), [5, 5])
    assert (tensor.nnz, tensor.sparse_dim, tensor.value_type) == (2, 2, "i32")


def test_no_entries():
    tensor = SparseTensor([], np.empty((0, 4), np.float32), [10, 4])
    assert tensor.nnz == 0
    assert not tensor.to_dense().any()


@pytest.mark.parametrize(
    ("dtype", "width"), [(np.int32, 4), (np.int64, 8), (np.int16, 8), (np.uint32, 8)]
)
def test_int32_and_int64_indices_are_sent_as_they_are(dtype, width):
    tensor = SparseTensor(np.array([1, 2], dtype), np.ones(2, np.float32), [5])
    assert tensor.indices.itemsize == width


def test_nothing_is_copied_that_is_in_order_already():
    indices, values = np.arange(5), np.ones((5, 8), np.float32)
    taken = as_tensor((indices, values, [9, 8]))
    assert np.shares_memory(taken.indices, indices)
    assert np.shares_memory(taken.values, values)
    assert np.shares_memory(as_tensor(values).values, values)


def test_big_endian_and_strided_arrays_are_brought_in_order():
    indices = np.array([1, 2, 3, 4], ">i4")[::2]
    values = np.asfortranarray(np.arange(8, dtype=">f4").reshape(4, 2))[::2]
    tensor = SparseTensor(indices, values, [9, 2])
    assert tensor.indices.tobytes() == np.array([1, 3], "<i4").tobytes()
    assert tensor.values.tobytes() == np.array([[0, 1], [4, 5]], "<f4").tobytes()


@pytest.mark.parametrize(
    ("indices", "values", "shape", "reason", "message"),
    [
        ([0, 1], np.ones(3, np.float32), [5], "SHAPE_MISMATCH", r"\[3\].*need \[2\]"),
        ([0], np.ones((1, 3), np.float32), [5, 4], "SHAPE_MISMATCH", r"\[1, 3\].*need \[1, 4\]"),
        ([[0, 1, 2]], np.ones(1, np.float32), [5, 4], "SHAPE_MISMATCH", "rank 2"),
        ([0.5], np.ones(1, np.float32), [5], "INDEX_TYPE_UNSUPPORTED", "float64"),
        ([0], np.ones(1, bool), [5], "VALUE_TYPE_UNSUPPORTED", "bool"),
        ([0], np.ones(1, np.uint16), [5], "VALUE_TYPE_UNSUPPORTED", "bf16"),
        (
            np.array([[1, 2], [2**63, 0]], np.uint64),
            np.ones(2, np.float32),
            [5, 5],
            "INDEX_OUT_OF_RANGE",
            "9223372036854775808 at entry 1",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(indices, values, shape, reason, message):
    with pytest.raises(InvalidUpdateError, match=message) as caught:
        SparseTensor(indices, values, shape)
    assert caught.value.reason == reason


def test_bfloat16_is_uint16_with_a_name():
    tensor = SparseTensor([0], np.array([0x3F80], np.uint16), [5], value_type="bf16")
    assert tensor.value_type == "bf16"
    with pytest.raises(InvalidUpdateError, match="bf16"):
        SparseTensor([0], np.ones(1, np.float32), [5], value_type="bf16")


def test_bfloat16_of_ml_dtypes_is_recognised():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensor = SparseTensor([0], np.ones(1, ml_dtypes.bfloat16), [5])
    assert tensor.value_type == "bf16"
    assert tensor.values.tolist() == [0x3F80]


def test_bfloat16_as_a_dictionary_stays_bfloat16():
    tensor = SparseTensor([0], np.array([0x3F80], np.uint16), [5], value_type="bf16")
    again = as_tensor(tensor.to_dict())
    assert again.value_type == "bf16"
    assert again.to_dict().keys() == tensor.to_dict().keys()
    assert "value_type" not in as_tensor(([0], np.float32([1]), [5])).to_dict()


def test_bfloat16_is_no_scipy_matrix():
    with pytest.raises(InvalidArgumentError, match="bfloat16"):
        SparseTensor([[0, 0]], np.array([0x3F80], np.uint16), [5, 4], "bf16").to_scipy()


@pytest.mark.parametrize(
    "parts", [{"indices", "values"}, {"indices", "values", "dense_shape", "shape"}]
)
def test_a_dictionary_without_its_shape_is_no_model(parts):
    tensor = {"indices": [1], "values": [2.0], "dense_shape": [3], "shape": [3]}
    with pytest.raises(InvalidUpdateError, match='"a/emb".*dense_shape'):
        flatten({"a": {"emb": {name: tensor[name] for name in parts}}})


def test_to_dense_adds_equal_indices():
    tensor = SparseTensor([1, 1, 0], np.float32([2, 3, 4]), [3])
    assert tensor.to_dense().tolist() == [4, 5, 0]


def test_to_dense_puts_distinct_entries_in_place_and_adds_only_equal_ones():
    # Adding to zeros, entry by entry, took four times as long, and made 0.0 of -0.0.
    values = np.float32([-0.0, 2, -0.0, 3])
    dense = SparseTensor([5, 1, 3, 1], values, [6]).to_dense()
    assert dense.tolist() == [0, 5, 0, 0, 0, 0]
    assert np.signbit(dense).tolist() == [False, False, False, True, False, True]


def test_to_dense_refuses_to_add_bit_patterns():
    tensor = SparseTensor([1, 1], np.array([0x3F80, 0x3F80], np.uint16), [3], "bf16")
    with pytest.raises(ValueError, match="sparse_sum"):
        tensor.to_dense()


@pytest.mark.parametrize("kind", ["coo_matrix", "csr_matrix", "csc_matrix"])
def test_scipy_matrices_of_any_format_and_back(kind):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = getattr(sparse, kind)(np.array([[0, 2], [3, 0]], np.float32))
    tensor = as_tensor(matrix)
    assert tensor.dense_shape == (2, 2)
    assert (tensor.to_scipy() != matrix).nnz == 0


def test_a_hybrid_tensor_is_no_scipy_matrix():
    with pytest.raises(ValueError, match="both dimensions"):
        SparseTensor([0], np.ones((1, 4), np.float32), [5, 4]).to_scipy()


def test_a_tuple_is_indices_values_shape():
    tensor = as_tensor(([1], np.float32([2]), [3]))
    assert tensor.to_dense().tolist() == [0, 2, 0]


def test_a_specification_takes_numpy_types():
    assert TensorSpec("t", [3], np.float16).value_type == "f16"
    assert TensorSpec("t", [5, 2, 3], "f32").row_shape == (2, 3)


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_chunks_of_any_size_make_up_the_same_bytes(size):
    arrays = [np.arange(5, dtype="<i4"), np.empty(0, "<f4"), np.arange(7, dtype="<f8")]
    whole = b"".join(array.tobytes() for array in arrays)
    source = ByteString(arrays)
    copies = [np.zeros_like(array) for array in arrays]
    target = ByteString(copies)
    for offset in range(0, source.size, size):
        target.write(offset, source.read(offset, size))
    assert source.size == len(whole)
    assert b"".join(array.tobytes() for array in copies) == whole


def test_bytes_beyond_the_end_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        ByteString([np.zeros(2, np.uint8)]).write(1, b"ab")


def test_the_size_of_a_message_is_known_before_it_is_made():
    tensors = {f"t{n}": as_tensor(([1, 2], np.float32([3, 4]), [10])) for n in range(20)}
    update = EncodedUpdate(
        tensors, round_name="rounds/r", contributor="c" * 128, update_id="u" * 64, weight=2
    )
    assert update.message_bytes >= update.whole().ByteSize()


def test_masked_values_are_not_taken_for_values():
    masked = np.ma.array(np.float32([1, 2]), mask=[False, True])
    for tensor in (masked, ([0, 1], masked, [5])):
        with pytest.raises(InvalidUpdateError, match="filled"):
            as_tensor(tensor)


def test_masked_indices_are_not_taken_for_indices():
    masked = np.ma.array([1, 2], mask=[False, True])
    with pytest.raises(InvalidUpdateError, match="masked"):
        as_tensor((masked, np.float32([1, 2]), [5]))
    with pytest.raises(InvalidArgumentError, match='"w".*masked'):
        selection_to_proto("w", masked)
