"""torch tensors in, torch tensors out."""

from __future__ import annotations

import numpy as np
import pytest
from sparseagg import (
    InvalidArgumentError,
    InvalidUpdateError,
    Result,
    SparseTensor,
    TensorSpec,
    as_tensor,
    sparse_count,
    sparse_sum,
    specs_of,
)
from support.random_updates import check_sum, dense_arrays, dense_sum, triples

torch = pytest.importorskip("torch")


def coo(update, device="cpu"):
    """An update as an uncoalesced COO tensor; hybrid where values have more than one dimension."""
    indices, values, shape = update
    indices = torch.from_numpy(indices.astype(np.int64).T.copy())
    return torch.sparse_coo_tensor(indices, torch.from_numpy(values), shape, device=device)


def dense_total(tensors):
    """Returns the sum that torch itself computes."""
    total = torch.zeros(tensors[0].shape)
    for tensor in tensors:
        total += tensor.cpu().to_dense()
    return total.numpy()


@pytest.mark.parametrize(("shape", "sparse_dim"), [([50], 1), ([40, 3], 1), ([30, 20], 2)])
def test_a_hundred_coo_tensors_give_their_dense_sum(where, shape, sparse_dim):
    updates = triples(shape, sparse_dim)
    tensors = [coo(update) for update in updates]
    total = sparse_sum(tensors, **where)
    assert total.layout == torch.sparse_coo
    assert total.is_coalesced()
    assert (total.sparse_dim(), total.dtype) == (sparse_dim, torch.float32)
    check_sum(total.to_dense().numpy(), updates, dense_total(tensors))
    dense = sparse_sum(tensors, **where, layout="dense")
    assert torch.equal(dense, total.to_dense())


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc"])
def test_compressed_layouts_come_back_as_they_were(where, layout):
    updates = triples([30, 20], 2, repeats=False)
    tensors = [getattr(coo(update), f"to_{layout}")() for update in updates]
    total = sparse_sum(tensors, **where)
    assert total.layout == getattr(torch, layout)
    check_sum(total.to_dense().numpy(), updates, dense_total(tensors))


def test_compressed_rows_with_int32_indices(where):
    rows, columns = (
        torch.tensor([0, 1, 3], dtype=torch.int32),
        torch.tensor([2, 0, 1], dtype=torch.int32),
    )
    tensor = torch.sparse_csr_tensor(rows, columns, torch.ones(3), (2, 4))
    assert torch.equal(sparse_sum([tensor], **where).to_dense(), tensor.to_dense())


def test_a_hundred_dense_tensors_give_their_sum(where):
    updates = dense_arrays([20, 3])
    tensors = [torch.from_numpy(values) for _, values, _ in updates]
    total = sparse_sum(tensors, **where)
    assert total.layout == torch.strided
    check_sum(total.numpy(), updates, torch.stack(tensors).sum(0).numpy())


def test_tensors_without_values_are_refused(where):
    meta = torch.ones(3, device="meta")
    with pytest.raises(InvalidUpdateError, match="meta"):
        sparse_sum([meta], **where)
    with pytest.raises(InvalidUpdateError, match="meta"):
        sparse_sum([coo(triples([50], 1, 1)[0]), coo(triples([50], 1, 1)[0], "meta")], **where)
    with pytest.raises(InvalidUpdateError, match="complex64"):
        sparse_sum([torch.ones(3, dtype=torch.complex64)], **where)
    with pytest.raises(InvalidUpdateError, match="layout torch._mkldnn"):
        sparse_sum([torch.ones(2, 3).to_mkldnn()], **where)


def test_a_view_with_the_other_sign_has_its_values(where):
    imaginary = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert imaginary.is_neg()
    assert sparse_sum([imaginary, imaginary], **where).tolist() == [-4, 8]


@pytest.mark.parametrize("make", [torch.nn.Embedding, torch.nn.EmbeddingBag])
def test_gradients_of_sparse_embeddings(where, make):
    torch.manual_seed(1)
    gradients, dense = [], torch.zeros(100, 8)
    for _ in range(100):
        layer = make(100, 8, sparse=True)
        words = torch.randint(0, 100, (4, 6))
        layer(words).pow(2).sum().backward()
        gradients.append(layer.weight.grad)
        dense += layer.weight.grad.to_dense()
    assert not gradients[0].is_coalesced()  # repeated rows are part of the test
    total = sparse_sum(gradients, **where)
    assert torch.allclose(total.to_dense(), dense, rtol=1e-4, atol=1e-4)


def test_a_state_dict_with_sparse_and_dense_and_a_scalar(where):
    layer = torch.nn.EmbeddingBag(10, 2, sparse=True)
    model = torch.nn.Sequential(layer, torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
    update = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    update["0.weight"] = torch.sparse_coo_tensor([[3, 3]], [[1.0, 2.0], [3.0, 4.0]], (10, 2))
    total = sparse_sum([update, update], **where)
    assert list(total) == list(update)
    assert total["0.weight"].to_dense()[3].tolist() == [8, 12]
    assert total["1.num_batches_tracked"].shape == ()
    assert torch.equal(total["2.weight"], 2 * update["2.weight"])
    specs = {spec.name: spec for spec in specs_of(model.state_dict(), sparse_dim={"0.weight": 1})}
    assert specs["0.weight"].sparse_dim == 1


def test_bfloat16_and_float16(where):
    for dtype in (torch.bfloat16, torch.float16):
        one = torch.sparse_coo_tensor([[2]], torch.tensor([1.5], dtype=dtype), (4,))
        total = sparse_sum([one, one], **where)
        assert total.dtype == dtype
        assert total.to_dense().tolist() == [0, 0, 3, 0]
        dense = sparse_sum([torch.ones(3, dtype=dtype)] * 2, **where)
        assert (dense.dtype, dense.tolist()) == (dtype, [2, 2, 2])


def test_arrays_that_are_not_contiguous(where):
    indices = torch.arange(40).reshape(2, 20)[:1, ::2]
    values = torch.arange(80.0).reshape(4, 20).T[::2]
    tensor = torch.sparse_coo_tensor(indices, values, (30, 4))
    assert torch.equal(sparse_sum([tensor], **where).to_dense(), tensor.to_dense())
    matrix = torch.arange(6.0).reshape(2, 3).T
    assert torch.equal(sparse_sum([matrix, matrix], **where), 2 * matrix)


def test_parameters_and_empty_tensors(where):
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    assert torch.equal(sparse_sum([parameter, parameter], **where), torch.full((2, 2), 2.0))
    empty = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 2), (5, 2))
    total = sparse_sum([empty, empty], **where)
    assert (total._nnz(), total.shape) == (0, (5, 2))


def test_counts(where):
    one = torch.sparse_coo_tensor([[2, 2, 3]], [1.0, 1.0, 1.0], (4,))
    assert sparse_count([one, one], **where).to_dense().tolist() == [0, 0, 2, 2]


def test_nothing_is_copied_on_the_way_in():
    values = torch.ones(5, 8)
    tensor = torch.sparse_coo_tensor(torch.arange(5)[None], values, (9, 8))
    taken = as_tensor(tensor)
    assert taken.values.ctypes.data == tensor._values().data_ptr()
    assert taken.indices.ctypes.data == tensor._indices().data_ptr()
    assert as_tensor(values).values.ctypes.data == values.data_ptr()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_on_several_devices(where):
    updates = triples([40, 3], 1)
    tensors = [coo(update, "cuda" if n % 2 == 0 else "cpu") for n, update in enumerate(updates)]
    total = sparse_sum(tensors, **where)
    exact, bound = dense_sum(updates)
    assert total.device.type == "cuda"
    assert (np.abs(total.cpu().to_dense().numpy() - exact) <= bound).all()


def test_torch_values_in_a_triple_and_in_a_dictionary(client):
    """bfloat16, too, of which numpy cannot make an array."""
    indices, shape = torch.tensor([2]), [4, 2]
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "f32")):
        values = torch.tensor([[1.0, 2.0]], dtype=dtype)
        parts = {"indices": indices, "values": values, "dense_shape": torch.tensor(shape)}
        result = client.reduce(
            [TensorSpec("emb", shape, name)], [{"emb": parts}, {"emb": (indices, values, shape)}]
        )
        total = result.like({"emb": torch.zeros(shape, dtype=dtype)})["emb"]
        assert (total.dtype, total.tolist()) == (dtype, [[0, 0], [0, 0], [2, 4], [0, 0]])


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_nested_tensors_are_refused_with_what_to_do(client, layout):
    parts = [torch.ones(2), torch.ones(3)]
    nested = torch.nested.nested_tensor(parts, layout=getattr(torch, layout))
    for look in (
        lambda: as_tensor(nested),
        lambda: specs_of({"a": nested}),
        lambda: sparse_sum([{"a": nested}], client=client),
        lambda: client.reduce([TensorSpec("a", [3], sparse_dim=0)], [{"a": nested}]),
    ):
        with pytest.raises(InvalidUpdateError, match="nested tensor.*to_padded_tensor"):
            look()
    with pytest.raises(InvalidArgumentError, match='tensor "a"'):
        Result({"a": np.ones(3)}, None).like({"a": nested})


@pytest.mark.parametrize("layout", ["strided", "sparse_coo", "sparse_csr"])
def test_one_tensor_in_the_place_of_a_list_is_refused(where, layout):
    tensor = torch.ones(3, 2)
    if layout != "strided":
        tensor = tensor.to_sparse(layout=getattr(torch, layout))
    with pytest.raises(InvalidArgumentError, match="give a list of them"):
        sparse_sum(tensor, **where)


def test_what_is_iterated_over_and_is_no_tensor_is_a_list(where):
    loader = torch.utils.data.DataLoader([torch.ones(2)] * 3, batch_size=None)
    assert sparse_sum(loader, **where).tolist() == [3, 3]
    parameters = torch.nn.ParameterList([torch.ones(2)] * 3)
    assert sparse_sum(parameters, **where).tolist() == [3, 3]


def test_a_number_that_int64_does_not_hold_is_refused():
    result = Result({"n": np.uint64([1, 2**63])}, None)
    with pytest.raises(
        InvalidArgumentError, match=r'tensor "n": value 9223372036854775808 at \[1\]'
    ):
        result.like({"n": torch.ones(2, dtype=torch.int64)})


def test_a_state_dict_with_buffers_without_values_and_of_truth_values(client):
    module = torch.nn.Linear(2, 1)
    module.register_buffer("empty", torch.zeros(0, dtype=torch.bool))
    state = module.state_dict()
    round = client.create_round(specs_of(state, "weighted_mean"))
    round.submit(state, contributor="a")
    round.seal()
    module.load_state_dict(round.result().like(state))
    module.register_buffer("mask", torch.ones(2, dtype=torch.bool))
    with pytest.raises(InvalidUpdateError, match='tensor "mask": .*bool.*leave them out'):
        specs_of(module.state_dict())


@pytest.mark.parametrize("layout", ["strided", "sparse_coo", "sparse_csr"])
def test_what_is_done_to_a_tensor_is_not_done_to_the_result(layout):
    is_dense = layout == "strided"
    table = SparseTensor([[0, 0], [1, 1]], np.float32([1, 2]), [2, 2])
    result = Result({"w": table.to_dense() if is_dense else table}, None)
    example = torch.ones(2, 2)
    if not is_dense:
        example = example.to_sparse(layout=getattr(torch, layout))
    changed = result.like({"w": example})["w"]
    (changed if is_dense else changed.values()).mul_(10)
    assert result.like({"w": example})["w"].to_dense().tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize("layout", ["sparse_bsr", "sparse_bsc"])
def test_blocks_come_back_as_blocks(where, layout):
    dense = torch.arange(24.0).reshape(4, 6)
    dense[:2, :3] = 0
    tensor = dense.to_sparse(layout=getattr(torch, layout), blocksize=(2, 3))
    total = sparse_sum([tensor, tensor], **where)
    assert (total.layout, total.values().shape[1:]) == (tensor.layout, (2, 3))
    assert torch.equal(total.to_dense(), 2 * dense)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_a_sparse_example_of_a_dense_result_is_refused(layout):
    result = Result({"w": np.ones((3, 2), np.float32)}, None)
    dense = torch.zeros(3, 2)
    with pytest.raises(InvalidArgumentError, match='tensor "w": .*sparse Tensor.*layout "sparse"'):
        result.like({"w": getattr(dense, f"to_sparse_{layout}")()})
    assert result.like({"w": dense})["w"].tolist() == [[1, 1]] * 3
