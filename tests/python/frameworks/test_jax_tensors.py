"""JAX arrays in, JAX arrays out."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sparseagg import (
    InvalidArgumentError,
    InvalidUpdateError,
    Result,
    SparseTensor,
    as_tensor,
    sparse_count,
    sparse_sum,
)
from support.random_updates import check_sum, dense_arrays, dense_sum, triples

# Two devices on any machine; read when JAX starts.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
jax = pytest.importorskip("jax")
sparse = pytest.importorskip("jax.experimental.sparse")
jnp = jax.numpy


def bcoo(update, device=None):
    """An update as a BCOO matrix padded to 64 entries, as JAX makes them."""
    indices, values, shape = update
    missing = 64 - len(indices)
    padding = np.full((missing, indices.shape[1]), shape[: indices.shape[1]], indices.dtype)
    indices = np.concatenate([indices, padding])
    values = np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])
    pair = jax.device_put((jnp.asarray(values), jnp.asarray(indices)), device)
    return sparse.BCOO(pair, shape=shape)


@pytest.mark.parametrize(("shape", "sparse_dim"), [([50], 1), ([40, 3], 1), ([30, 20], 2)])
def test_a_hundred_matrices_give_their_dense_sum(where, shape, sparse_dim):
    updates = triples(shape, sparse_dim)
    matrices = [bcoo(update) for update in updates]
    total = sparse_sum(matrices, **where)
    assert isinstance(total, sparse.BCOO)
    assert total.n_dense == len(shape) - sparse_dim
    found = np.asarray(total.todense())
    check_sum(found, updates, sum(np.asarray(matrix.todense()) for matrix in matrices))
    dense = sparse_sum(matrices, **where, layout="dense")
    assert isinstance(dense, jax.Array)
    assert np.array_equal(dense, found)


def test_a_hundred_dense_arrays_and_views_give_their_sum(where):
    updates = dense_arrays([20, 3])
    arrays = [jnp.asarray(values.T).T for _, values, _ in updates]
    total = sparse_sum(arrays, **where)
    assert isinstance(total, jax.Array)
    check_sum(np.asarray(total), updates, np.asarray(sum(arrays)))


def test_indices_of_64_bits_stay_so(where):
    jax.config.update("jax_enable_x64", True)
    try:
        matrix = sparse.BCOO((jnp.ones(2), jnp.array([[4], [1]], jnp.int64)), shape=(2**33,))
        total = sparse_sum([matrix, matrix], **where)
    finally:
        jax.config.update("jax_enable_x64", False)
    assert total.indices.dtype == jnp.int64
    assert total.indices.ravel().tolist() == [1, 4]


def test_compressed_rows_come_back_as_they_were(where):
    matrix = sparse.BCSR.fromdense(jnp.eye(4))
    total = sparse_sum([matrix, matrix], **where)
    assert isinstance(total, sparse.BCSR)
    assert np.array_equal(total.todense(), 2 * np.eye(4))


def test_a_model_with_bfloat16_and_a_scalar(where):
    model = {
        "layer": [jnp.ones((2, 3)), jnp.ones(3, jnp.bfloat16)],
        "emb": sparse.BCOO((jnp.ones((1, 2), jnp.bfloat16), jnp.array([[4]])), shape=(6, 2)),
        "step": jnp.int32(3),
    }
    total = sparse_sum([model, model], **where)
    assert np.array_equal(total["layer"][0], 2 * np.ones((2, 3)))
    assert total["layer"][1].dtype == total["emb"].dtype == jnp.bfloat16
    assert float(total["emb"].todense()[4, 1]) == 2
    assert (total["step"].shape, int(total["step"])) == ((), 6)


def test_matrices_on_several_devices(where):
    devices = jax.devices()
    assert len(devices) == 2
    updates = triples([40, 3], 1)
    matrices = [bcoo(update, devices[(n + 1) % 2]) for n, update in enumerate(updates)]
    total = sparse_sum(matrices, **where)
    exact, bound = dense_sum(updates)
    assert total.data.devices() == {devices[1]}
    assert (np.abs(np.asarray(total.todense()) - exact) <= bound).all()


def test_nothing_is_copied_on_the_way_in():
    values, indices = jnp.ones((50, 8)), jnp.arange(50)[:, None]
    taken = as_tensor(sparse.BCOO((values, indices), shape=(90, 8)))
    assert taken.values.ctypes.data == values.unsafe_buffer_pointer()
    assert taken.indices.ctypes.data == indices.unsafe_buffer_pointer()
    assert as_tensor(values).values.ctypes.data == values.unsafe_buffer_pointer()


def test_an_empty_matrix(where):
    empty = sparse.BCOO((jnp.zeros((0, 2)), jnp.zeros((0, 1), jnp.int32)), shape=(5, 2))
    assert sparse_sum([empty], **where).nse == 0


def test_batch_dimensions_are_refused():
    batched = sparse.BCOO.fromdense(jnp.ones((2, 3)), n_batch=1)
    with pytest.raises(InvalidUpdateError, match="batch"):
        sparse_sum([batched])


@pytest.mark.parametrize("kind", ["CSR", "CSC", "COO"])
def test_the_older_sparse_classes_are_refused_with_words(kind):
    matrix = getattr(sparse, kind).fromdense(jnp.eye(3))
    with pytest.raises(InvalidUpdateError, match=f"a {kind} of JAX"):
        sparse_sum([matrix])


def padded(rows):
    """A BCOO matrix with indices of 32 bits."""
    return sparse.BCOO((jnp.ones(1), jnp.array([[3]])), shape=(rows,))


CHANGED_IN_32_BITS = {
    "a whole number": (np.int64([1, 2**40]), "value 1099511627776 at \\[1\\]"),
    "a whole number without a sign": (np.uint64([2**32]), "value 4294967296"),
    "a number beyond f32": (np.float64([[1], [1e300]]), "value 1e\\+300 at \\[1, 0\\]"),
    "a number below f32": (np.float64([1e-60]), "value 1e-60"),
    "a number between those of f32": (np.float64([1 + 2**-40]), "value 1.0000"),
    "a sparse number": (SparseTensor([3], np.int64([2**40]), [9]), "value 1099511627776"),
    "an index": (SparseTensor([2**35], np.float32([1]), [2**36]), "index 34359738368"),
}


@pytest.mark.parametrize("kind", CHANGED_IN_32_BITS)
def test_what_has_no_place_in_32_bits_is_refused_by_name(kind):
    tensor, words = CHANGED_IN_32_BITS[kind]
    is_sparse = isinstance(tensor, SparseTensor)
    like = padded(*tensor.dense_shape) if is_sparse else jnp.ones(tensor.shape)
    with pytest.raises(InvalidArgumentError, match=f'tensor "w": {words}.*jax_enable_x64'):
        Result({"w": tensor}, None).like({"w": like})
    jax.config.update("jax_enable_x64", True)
    try:
        restored = Result({"w": tensor}, None).like({"w": like})["w"]
    finally:
        jax.config.update("jax_enable_x64", False)
    if is_sparse:
        assert np.asarray(restored.indices).tolist() == tensor.indices.tolist()
        assert np.asarray(restored.data).tolist() == tensor.values.tolist()
    else:
        assert np.asarray(restored).tolist() == tensor.tolist()


def test_what_has_a_place_in_32_bits_comes_back(where):
    wide = {"i": np.int64([-(2**31)]), "u": np.uint64([2**32 - 1]), "f": np.float64([0.5, np.nan])}
    restored = Result(wide, None).like(
        {name: jnp.ones(value.shape) for name, value in wide.items()}
    )
    assert int(restored["i"][0]) == -(2**31)
    assert int(restored["u"][0]) == 2**32 - 1
    assert float(restored["f"][0]) == 0.5
    assert sparse_count([padded(5)] * 2, **where).data.tolist() == [2]  # counts are u64


def test_an_array_of_jax_does_not_change_with_the_result():
    memory = np.zeros(128 + 64, np.uint8)
    begin = -memory.ctypes.data % 64  # JAX keeps memory that is aligned so
    result = Result({"w": memory[begin : begin + 128].view(np.float32)}, None)
    array = result.like({"w": jnp.ones(32)})["w"]
    result["w"][:] = 7
    assert float(array[0]) == 0


@pytest.mark.parametrize("one", ["dense", "BCOO", "BCSR"])
def test_one_tensor_in_the_place_of_a_list_is_refused(where, one):
    tensor = jnp.ones((3, 2))
    if one != "dense":
        tensor = getattr(sparse, one).fromdense(tensor)
    with pytest.raises(InvalidArgumentError, match="give a list of them"):
        sparse_sum(tensor, **where)


def test_what_jax_raises_under_jit_is_an_error_of_this_package():
    with pytest.raises(InvalidUpdateError, match="Tracer"):
        jax.jit(lambda x: as_tensor(x).values)(jnp.ones(3))


@pytest.mark.parametrize("kind", [sparse.BCOO, sparse.BCSR])
def test_a_sparse_example_of_a_dense_result_is_refused(kind):
    result = Result({"w": np.ones((3, 2), np.float32)}, None)
    with pytest.raises(InvalidArgumentError, match=f'tensor "w": .*sparse {kind.__name__}'):
        result.like({"w": kind.fromdense(jnp.ones((3, 2)))})
    assert result.like({"w": jnp.zeros((3, 2))})["w"].tolist() == [[1, 1]] * 3
