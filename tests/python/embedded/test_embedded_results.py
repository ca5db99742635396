"""Sums in this process equal those of a server in every bit."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from sparseagg import SparseTensor, TensorSpec, reduce, sparse_sum

OPERATORS = ["sum", "weighted_mean", "mean_of_contributors", "count", "min", "max"]
VALUE_TYPES = ["f16", "bf16", "f32", "f64", "i32", "i64", "u32", "u64"]
# Shape and sparse_dim: scalars, rows of values, two indexed dimensions, dense tensors, rows beyond 32 bits.
SHAPES = {
    "scalars": ([40], 1),
    "rows": ([40, 3], 1),
    "matrix": ([8, 5], 2),
    "rows of a cube": ([4, 5, 3], 2),
    "dense": ([6, 7], 0),
    "hashes": ([1 << 62], 1),
}
CONTRIBUTORS = 9


def values_of(generator, value_type, shape):
    if value_type == "bf16":
        return (generator.standard_normal(shape, np.float32).view(np.uint32) >> 16).astype("<u2")
    dtype = {"f": "float", "i": "int", "u": "uint"}[value_type[0]] + value_type[1:]
    if value_type[0] == "f":
        # The exponents are far apart, so that the order would change the bits of an ordinary sum.
        scale = np.exp2(generator.integers(-12, 12, shape))
        return (generator.standard_normal(shape) * scale).astype(dtype)
    return generator.integers(0, 1000, shape).astype(dtype)


def update_of(generator, shape, sparse_dim, value_type):
    """Returns an update that is unsorted, has repeated indices, is sometimes empty, and has either index type."""
    if sparse_dim == 0:
        return values_of(generator, value_type, shape)
    nnz = int(generator.integers(0, 60))
    limits = np.minimum(shape[:sparse_dim], 1 << 31)
    columns = [generator.integers(0, limit, nnz) for limit in limits]
    indices = np.stack(columns, axis=1).astype(generator.choice(["i4", "i8"]))
    if shape[0] > 1 << 31:
        indices = indices.astype(np.int64) * ((1 << 31) - 1)
    values = values_of(generator, value_type, (nnz, *shape[sparse_dim:]))
    return SparseTensor(indices, values, shape, "bf16" if value_type == "bf16" else None)


def bits(result):
    """Returns everything of a result that a caller can see."""
    found = []
    for name, tensor in result.items():
        parts = (tensor.indices, tensor.values) if isinstance(tensor, SparseTensor) else (tensor,)
        found.append((name, [(part.dtype, part.shape, part.tobytes()) for part in parts]))
    return found


@pytest.mark.parametrize("layout", ["sparse", "dense"])
@pytest.mark.parametrize("kind", list(SHAPES))
@pytest.mark.parametrize("value_type", VALUE_TYPES)
def test_every_bit_is_that_of_a_server(client, in_process, value_type, kind, layout):
    shape, sparse_dim = SHAPES[kind]
    if kind == "hashes" and layout == "dense":
        layout = "sparse"  # no machine has such an array
    seed = VALUE_TYPES.index(value_type) * len(SHAPES) + list(SHAPES).index(kind)
    generator = np.random.default_rng(seed)
    weights = [float(n) for n in generator.integers(0, 5, CONTRIBUTORS)]
    specs = [TensorSpec(op, shape, value_type, sparse_dim, op) for op in OPERATORS]
    updates = []
    for _ in weights:
        tensor = update_of(generator, shape, sparse_dim, value_type)
        updates.append({op: tensor for op in OPERATORS})
    here = reduce(specs, updates, weights=weights, layout=layout, **in_process)
    there = client.reduce(specs, updates, weights=weights, layout=layout)
    assert bits(here) == bits(there)
    assert here.manifest.contributors == CONTRIBUTORS
    assert here.manifest.total_weight == there.manifest.total_weight == sum(weights)
    assert here.manifest.infinite_values == there.manifest.infinite_values


def test_many_entries_in_and_out_of_order(client, in_process):
    """The workloads are large enough for each plan: entries in order, out of order, and in every row."""
    generator = np.random.default_rng(7)
    rows = 200_000
    ordered = [np.sort(generator.choice(rows, rows // 4, replace=False)) for _ in range(6)]
    shuffled = [generator.permutation(each) for each in ordered]
    for indices in (ordered, shuffled, [np.arange(rows)] * 3):
        updates = [
            (each, generator.standard_normal(len(each), np.float32), [rows]) for each in indices
        ]
        here, there = sparse_sum(updates, **in_process), sparse_sum(updates, client=client)
        assert here.indices.tobytes() == there.indices.tobytes()
        assert here.values.tobytes() == there.values.tobytes()


@pytest.mark.parametrize(
    "options",
    [{"values": "int8"}, {"values": "int8.stochastic"}, {"encoding": "coo.packed"}],
    ids=lambda options: "-".join(options.values()),
)
def test_rounded_values_are_rounded_as_on_the_wire(client, in_process, options):
    generator = np.random.default_rng(3)
    rows = np.sort(generator.choice(5000, 1000, replace=False))
    updates = [
        (rows, generator.standard_normal((1000, 4), np.float32), [5000, 4]) for _ in range(3)
    ]
    here, there = (
        sparse_sum(updates, **where, **options) for where in (in_process, {"client": client})
    )
    assert here.values.tobytes() == there.values.tobytes()
    assert here.indices.tobytes() == there.indices.tobytes()


def test_torch_tensors(client, in_process):
    torch = pytest.importorskip("torch")
    rows, values = torch.tensor([[5, 0, 5]]), torch.tensor([[1.0, 2], [3, 4], [5, 6]])
    gradient = torch.sparse_coo_tensor(rows, values, (9, 2))
    here, there = (
        sparse_sum([gradient] * 2, **in_process),
        sparse_sum([gradient] * 2, client=client),
    )
    assert torch.equal(here.to_dense(), there.to_dense())
    assert here.is_coalesced()


def test_the_arrays_handed_in_stay_as_they_are(in_process):
    indices, values = np.array([5, 0, 5, 2]), np.float32([1, 2, 3, 4])
    dense = np.arange(6.0)
    before = [array.copy() for array in (indices, values, dense)]
    for array in (indices, values, dense):
        array.flags.writeable = False
    update = {"t": (indices, values, [9]), "d": dense}
    total = sparse_sum([update, update], **in_process)
    assert total["t"].values.tolist() == [4, 8, 8]
    for array, old in zip((indices, values, dense), before):
        assert np.array_equal(array, old)


def test_arrays_may_be_filled_again_by_a_generator(in_process):
    indices, values = np.empty(3, np.int64), np.empty(3, np.float32)

    def updates():
        for n in range(50):
            indices[:] = [n, n + 1, n + 2]
            values[:] = n
            yield indices, values, [52]

    total = sparse_sum(updates(), **in_process)
    expected = np.zeros(52)
    for n in range(50):
        expected[n : n + 3] += n
    assert np.array_equal(total.to_dense(), expected)


@pytest.mark.parametrize("every_row", [False, True])
def test_a_result_keeps_its_memory_and_belongs_to_the_caller(in_process, every_row):
    rows = np.arange(100_000) * (1 if every_row else 3)
    update = (rows, np.full(len(rows), 2, np.float32), [int(rows[-1]) + 1])
    values = sparse_sum([update, update], **in_process).values
    indices = sparse_sum([update], **in_process).indices
    gc.collect()
    others = [sparse_sum([update], **in_process) for _ in range(3)]  # these take the freed memory
    assert (values == 4).all()
    assert np.array_equal(indices.ravel(), rows)
    values *= 10
    indices += 1
    assert (values == 40).all()
    assert all((other.values == 2).all() for other in others)


def test_nothing_is_a_result_of_nothing(in_process):
    empty = ([], [], [7, 2])
    specs = [TensorSpec("t", [7, 2]), TensorSpec("d", [3], sparse_dim=0)]
    result = reduce(specs, [], **in_process)
    assert (result["t"].nnz, result["t"].values.shape) == (0, (0, 2))
    assert result["d"].tolist() == [0, 0, 0]
    assert reduce(specs[:1], [{"t": empty}], layout="dense", **in_process)["t"].sum() == 0
