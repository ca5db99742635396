"""TensorFlow tensors in, TensorFlow tensors out."""

from __future__ import annotations

import numpy as np
import pytest
from sparseagg import (
    InvalidArgumentError,
    InvalidUpdateError,
    Result,
    SparseTensor,
    as_tensor,
    sparse_sum,
)
from support.random_updates import check_sum, dense_arrays, dense_sum, triples

tf = pytest.importorskip("tensorflow")
try:  # two devices on any machine
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
except RuntimeError:
    pass  # TensorFlow has started already


@pytest.mark.parametrize(("shape", "sparse_dim"), [([50], 1), ([30, 20], 2)])
def test_a_hundred_sparse_tensors_give_their_dense_sum(where, shape, sparse_dim):
    updates = triples(shape, sparse_dim, repeats=False)
    tensors = [tf.SparseTensor(i.astype(np.int64), v, s) for i, v, s in updates]
    total = sparse_sum(tensors, **where)
    assert isinstance(total, tf.SparseTensor)
    found = tf.sparse.to_dense(total).numpy()
    check_sum(found, updates, sum(tf.sparse.to_dense(tensor).numpy() for tensor in tensors))
    dense = sparse_sum(tensors, **where, layout="dense")
    assert np.array_equal(dense.numpy(), found)


def test_a_hundred_indexed_slices_with_repeated_rows_and_both_index_types(where):
    updates = triples([40, 3], 1)
    slices = [tf.IndexedSlices(tf.constant(v), tf.constant(i[:, 0]), s) for i, v, s in updates]
    total = sparse_sum(slices, **where)
    assert isinstance(total, tf.IndexedSlices)
    assert total.indices.dtype == slices[0].indices.dtype
    own = sum(tf.convert_to_tensor(piece).numpy() for piece in slices)
    check_sum(tf.convert_to_tensor(total).numpy(), updates, own)


def test_a_hundred_sparse_tensors_with_repeated_indices(where):
    updates = triples([30, 20], 2)  # tf.sparse.to_dense refuses these, so the sum is taken in numpy
    tensors = [tf.SparseTensor(i.astype(np.int64), v, s) for i, v, s in updates]
    total = sparse_sum(tensors, **where)
    check_sum(tf.sparse.to_dense(total).numpy(), updates, dense_sum(updates)[0])


def test_a_hundred_dense_tensors_give_their_sum(where):
    updates = dense_arrays([20, 3])
    tensors = [tf.constant(values) for _, values, _ in updates]
    total = sparse_sum(tensors, **where)
    assert isinstance(total, tf.Tensor)
    check_sum(total.numpy(), updates, tf.add_n(tensors).numpy())


def test_the_gradient_of_a_gather(where):
    table = tf.Variable(tf.ones([10, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 4, 1]) ** 2)
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    total = sparse_sum([gradient, gradient], **where)
    dense = tf.convert_to_tensor(total).numpy()
    assert dense[[1, 4]].tolist() == [[8, 8], [4, 4]]
    assert dense.sum() == 24
    # What tf.function, tf.nest and shapes take it for.
    assert total.dense_shape.dtype == gradient.dense_shape.dtype
    assert total.shape == gradient.shape
    assert tf.function(lambda slices: slices.values * 2)(total).numpy().sum() == 48


def test_a_model_of_variables_with_bfloat16_and_a_scalar(where):
    model = {
        "w": tf.Variable([[1.0, 2.0]]),
        "half": tf.constant([1.5], tf.bfloat16),
        "rows": tf.IndexedSlices(tf.constant([[2.5]], tf.bfloat16), tf.constant([3]), (5, 1)),
        "step": tf.constant(3, tf.int64),
    }
    total = sparse_sum([model, model], **where)
    assert total["w"].numpy().tolist() == [[2, 4]]
    assert total["half"].dtype == total["rows"].values.dtype == tf.bfloat16
    assert total["rows"].values.numpy().tolist() == [[5]]
    assert (total["step"].shape, int(total["step"])) == ((), 6)


def test_nothing_is_copied_on_the_way_in():
    values, indices = tf.ones([50, 8]), tf.range(50, dtype=tf.int64)
    taken = as_tensor(tf.IndexedSlices(values, indices, (90, 8)))
    assert np.shares_memory(taken.values, np.asarray(values))
    assert np.shares_memory(taken.indices, np.asarray(indices))
    assert np.shares_memory(as_tensor(values).values, np.asarray(values))


def test_empty_tensors(where):
    empty = tf.SparseTensor(np.zeros((0, 2), np.int64), np.zeros(0, np.float32), [3, 4])
    assert sparse_sum([empty, empty], **where).indices.shape == (0, 2)


def test_tensors_on_several_devices(where):
    if len(tf.config.list_logical_devices("CPU")) < 2:
        pytest.skip("needs two logical devices")
    pieces = []
    for number in range(4):
        with tf.device(f"CPU:{number % 2}"):
            pieces.append(tf.SparseTensor([[number % 2]], [1.0], [2]))
    total = sparse_sum(pieces, **where)
    assert tf.sparse.to_dense(total).numpy().tolist() == [2, 2]


def test_what_cannot_be_aggregated_is_refused():
    with pytest.raises(InvalidUpdateError, match="to_sparse"):
        sparse_sum([tf.ragged.constant([[1.0], [2.0, 3.0]])])
    with pytest.raises(InvalidUpdateError, match="dense_shape"):
        sparse_sum([tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))])


def test_indices_beyond_32_bits_are_not_those_of_other_rows():
    like = tf.IndexedSlices(tf.ones([1]), tf.constant([1]), tf.constant([2**36]))
    tensor = SparseTensor([2**35], np.float32([1]), [2**36])
    restored = Result({"w": tensor}, None).like({"w": like})["w"]
    assert restored.indices.numpy().tolist() == [2**35]
    assert restored.dense_shape.numpy().tolist() == [2**36]


@pytest.mark.parametrize("kind", ["dense", "sparse", "slices"])
def test_one_tensor_in_the_place_of_a_list_is_refused(where, kind):
    one = {
        "dense": tf.ones([3, 2]),
        "sparse": tf.sparse.from_dense(tf.ones([3, 2])),
        "slices": tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([9, 2])),
    }[kind]
    with pytest.raises(InvalidArgumentError, match="give a list of them"):
        sparse_sum(one, **where)


def test_a_tensor_does_not_change_with_the_result():
    memory = np.zeros(128 + 64, np.uint8)
    begin = -memory.ctypes.data % 64  # TensorFlow may keep memory that is aligned so
    result = Result({"w": memory[begin : begin + 128].view(np.float32)}, None)
    tensor = result.like({"w": tf.ones(32)})["w"]
    result["w"][:] = 7
    assert float(tensor[0]) == 0


def test_a_sparse_example_of_a_dense_result_is_refused():
    result = Result({"w": np.ones((3, 2), np.float32)}, None)
    for like in (
        tf.SparseTensor([[1, 0]], [1.0], [3, 2]),
        tf.IndexedSlices(tf.ones((1, 2)), tf.constant([1]), tf.constant([3, 2])),
    ):
        with pytest.raises(InvalidArgumentError, match='tensor "w": .*sparse.*layout "sparse"'):
            result.like({"w": like})
    assert result.like({"w": tf.zeros((3, 2))})["w"].numpy().tolist() == [[1, 1]] * 3
