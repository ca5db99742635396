"""JAX arrays in, JAX arrays out."""

from __future__ import annotations

import os

import numpy as np
import pytest
from random_updates import check_sum, dense_arrays, dense_sum, triples
from sparseagg import InvalidUpdateError, as_tensor, sparse_sum

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
def test_a_hundred_matrices_give_their_dense_sum(client, shape, sparse_dim):
    updates = triples(shape, sparse_dim)
    matrices = [bcoo(update) for update in updates]
    total = sparse_sum(matrices, client=client)
    assert isinstance(total, sparse.BCOO)
    assert total.n_dense == len(shape) - sparse_dim
    found = np.asarray(total.todense())
    check_sum(found, updates, sum(np.asarray(matrix.todense()) for matrix in matrices))
    dense = sparse_sum(matrices, client=client, layout="dense")
    assert isinstance(dense, jax.Array)
    assert np.array_equal(dense, found)


def test_a_hundred_dense_arrays_and_views_give_their_sum(client):
    updates = dense_arrays([20, 3])
    arrays = [jnp.asarray(values.T).T for _, values, _ in updates]
    total = sparse_sum(arrays, client=client)
    assert isinstance(total, jax.Array)
    check_sum(np.asarray(total), updates, np.asarray(sum(arrays)))


def test_indices_of_64_bits_stay_so(client):
    jax.config.update("jax_enable_x64", True)
    try:
        matrix = sparse.BCOO((jnp.ones(2), jnp.array([[4], [1]], jnp.int64)), shape=(2**33,))
        total = sparse_sum([matrix, matrix], client=client)
    finally:
        jax.config.update("jax_enable_x64", False)
    assert total.indices.dtype == jnp.int64
    assert total.indices.ravel().tolist() == [1, 4]


def test_compressed_rows_come_back_as_they_were(client):
    matrix = sparse.BCSR.fromdense(jnp.eye(4))
    total = sparse_sum([matrix, matrix], client=client)
    assert isinstance(total, sparse.BCSR)
    assert np.array_equal(total.todense(), 2 * np.eye(4))


def test_a_model_with_bfloat16_and_a_scalar(client):
    model = {
        "layer": [jnp.ones((2, 3)), jnp.ones(3, jnp.bfloat16)],
        "emb": sparse.BCOO((jnp.ones((1, 2), jnp.bfloat16), jnp.array([[4]])), shape=(6, 2)),
        "step": jnp.int32(3),
    }
    total = sparse_sum([model, model], client=client)
    assert np.array_equal(total["layer"][0], 2 * np.ones((2, 3)))
    assert total["layer"][1].dtype == total["emb"].dtype == jnp.bfloat16
    assert float(total["emb"].todense()[4, 1]) == 2
    assert (total["step"].shape, int(total["step"])) == ((), 6)


def test_matrices_on_several_devices(client):
    devices = jax.devices()
    assert len(devices) == 2
    updates = triples([40, 3], 1)
    matrices = [bcoo(update, devices[(n + 1) % 2]) for n, update in enumerate(updates)]
    total = sparse_sum(matrices, client=client)
    exact, bound = dense_sum(updates)
    assert total.data.devices() == {devices[1]}
    assert (np.abs(np.asarray(total.todense()) - exact) <= bound).all()


def test_nothing_is_copied_on_the_way_in():
    values, indices = jnp.ones((50, 8)), jnp.arange(50)[:, None]
    taken = as_tensor(sparse.BCOO((values, indices), shape=(90, 8)))
    assert taken.values.ctypes.data == values.unsafe_buffer_pointer()
    assert taken.indices.ctypes.data == indices.unsafe_buffer_pointer()
    assert as_tensor(values).values.ctypes.data == values.unsafe_buffer_pointer()


def test_an_empty_matrix(client):
    empty = sparse.BCOO((jnp.zeros((0, 2)), jnp.zeros((0, 1), jnp.int32)), shape=(5, 2))
    assert sparse_sum([empty], client=client).nse == 0


def test_batch_dimensions_are_refused():
    batched = sparse.BCOO.fromdense(jnp.ones((2, 3)), n_batch=1)
    with pytest.raises(InvalidUpdateError, match="batch"):
        sparse_sum([batched])


@pytest.mark.parametrize("kind", ["CSR", "CSC", "COO"])
def test_the_older_sparse_classes_are_refused_with_words(kind):
    matrix = getattr(sparse, kind).fromdense(jnp.eye(3))
    with pytest.raises(InvalidUpdateError, match=f"a {kind} of JAX"):
        sparse_sum([matrix])
