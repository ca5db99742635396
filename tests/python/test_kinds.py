"""Tensors come back in the kind and the nesting they went in; numpy and scipy. The others: frameworks/."""

from __future__ import annotations

import array
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
import pytest
from sparseagg import (
    InvalidArgumentError,
    InvalidUpdateError,
    Result,
    SparseAggError,
    SparseTensor,
    TensorSpec,
    as_tensor,
    flatten,
    sparse_count,
    sparse_max,
    sparse_mean_of_contributors,
    sparse_min,
    sparse_sum,
    sparse_weighted_mean,
    specs_of,
    unflatten,
)
from sparseagg._encode.wire import EncodedUpdate
from support.random_updates import check_sum, dense_arrays, dense_sum, triples


@pytest.mark.parametrize(("shape", "sparse_dim"), [([50], 1), ([40, 3], 1), ([30, 20], 2)])
def test_a_hundred_numpy_triples_give_their_dense_sum(where, shape, sparse_dim):
    updates = triples(shape, sparse_dim)
    indices, values, dense_shape = sparse_sum(updates, **where)
    expected, bound = dense_sum(updates)
    assert dense_shape == tuple(shape)
    found = np.zeros(shape, np.float32)
    found[tuple(indices.T)] = values
    assert (np.abs(found - expected) <= bound).all()
    assert len(indices) == len(np.unique(np.concatenate([u[0] for u in updates]), axis=0))


@pytest.mark.parametrize("style", ["matrix", "array"])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "lil", "dia", "dok"])
def test_a_hundred_scipy_matrices_give_their_dense_sum(where, layout, style):
    sparse = pytest.importorskip("scipy.sparse")
    if not hasattr(sparse, f"coo_{style}"):
        pytest.skip("scipy has arrays from 1.8 on")
    kind, coo = getattr(sparse, f"{layout}_{style}"), getattr(sparse, f"coo_{style}")
    updates = triples([30, 20], 2)
    matrices = [kind(coo((v, tuple(i.T)), shape=shape)) for i, v, shape in updates]
    total = sparse_sum(matrices, **where)
    assert type(total) is kind
    check_sum(total.toarray(), updates, sum(matrix.toarray() for matrix in matrices))
    assert np.array_equal(sparse_sum(matrices, **where, layout="dense"), total.toarray())


def repeating_itself(sparse, layout):
    """A matrix in which values stand at the same place, as far as the format allows."""
    values, places = np.float32([1, 2, 4]), [1, 1, 0]
    if layout in ("csr", "csc"):
        kind = getattr(sparse, f"{layout}_matrix")
        return kind((values, places, [0, 2, 2, 3]), shape=(3, 3))
    if layout == "bsr":
        blocks = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2)
        return sparse.bsr_matrix((blocks, [0, 0], [0, 2, 2]), shape=(4, 4))
    return sparse.coo_matrix((values, ([0, 0, 2], places)), shape=(3, 3)).asformat(layout)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "lil", "dia", "dok"])
def test_scipy_entries_that_repeat_a_place_are_summed(client, layout):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = repeating_itself(sparse, layout)
    assert np.array_equal(sparse_sum([matrix], client=client).toarray(), matrix.toarray())
    round = client.create_round(specs_of({"m": matrix}))
    round.submit({"m": matrix}, contributor="a", weight=2)
    round.seal()
    total = round.result().like({"m": matrix})["m"]
    assert type(total) is type(matrix)
    assert np.array_equal(total.toarray(), 2 * matrix.toarray())


@pytest.mark.parametrize("layout", ["coo", "csr", "dok"])
def test_a_scipy_vector(where, layout):
    pytest.importorskip("scipy", minversion="1.15")
    sparse = pytest.importorskip("scipy.sparse")
    vector = getattr(sparse, f"{layout}_array")(np.float32([0, 3, 0, 5]))
    total = sparse_sum([vector, vector], **where)
    assert type(total) is type(vector)
    assert total.toarray().tolist() == [0, 6, 0, 10]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_scipy_slices_of_both_index_types_and_none(where, layout, index_dtype):
    sparse = pytest.importorskip("scipy.sparse")
    whole = sparse.random(40, 30, density=0.2, dtype=np.float32, random_state=1, format="csc")
    part = whole[::2, ::3].asformat(layout)
    for name in ("row", "col", "indices", "indptr"):
        if hasattr(part, name):
            setattr(part, name, getattr(part, name).astype(index_dtype))
    total = sparse_sum([part, part], **where)
    assert np.array_equal(total.toarray(), 2 * part.toarray())
    empty = sparse.coo_matrix((3, 4), dtype=np.float32).asformat(layout)
    assert sparse_sum([empty, empty], **where).nnz == 0


def test_a_hundred_dense_arrays_give_their_sum(where):
    updates = dense_arrays([20, 3])
    total = sparse_sum([values for _, values, _ in updates], **where)
    assert type(total) is np.ndarray
    check_sum(total, updates, sum(values for _, values, _ in updates))


def test_a_hundred_dictionaries_give_their_sum(where):
    updates = triples([40, 3], 1)
    names = ("indices", "values", "dense_shape")
    total = sparse_sum([dict(zip(names, update)) for update in updates], **where)
    assert set(total) == set(names)
    found = np.zeros((40, 3), np.float32)
    found[total["indices"].ravel()] = total["values"]
    check_sum(found, updates, dense_sum(updates)[0])


def test_arrays_that_are_not_contiguous(where):
    indices, values = np.arange(20)[::-2], np.arange(80, dtype=np.float32).reshape(20, 4)[::2, ::2]
    total = sparse_sum([(indices, values, [20, 2])], **where, layout="dense")
    expected = np.zeros((20, 2), np.float32)
    expected[indices] = values
    assert np.array_equal(total, expected)
    dense = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert np.array_equal(sparse_sum([dense, dense], **where), 2 * dense)


def model(scale):
    """Nested mappings and a list, of every kind that numpy and scipy have."""
    sparse = pytest.importorskip("scipy.sparse")
    return OrderedDict(
        embedding={"table": ([1, 1], np.float32([[1, 2], [3, 4]]) * scale, [5, 2])},
        cross=sparse.csr_matrix(np.eye(3) * scale),
        layers=[np.float64([1, 2]) * scale, np.ones((2, 2)) * scale],
        steps=np.int64(3),
    )


def test_a_model_comes_back_in_its_nesting(where):
    total = sparse_sum([model(1), model(2)], **where)
    assert type(total) is OrderedDict
    assert list(total) == ["embedding", "cross", "layers", "steps"]
    assert isinstance(total["embedding"]["table"], SparseTensor)
    assert total["embedding"]["table"].to_dense()[1].tolist() == [12, 18]
    assert total["cross"].format == "csr"
    assert total["cross"].toarray().tolist() == (3 * np.eye(3)).tolist()
    assert [layer.tolist() for layer in total["layers"]] == [[3, 6], [[3, 3], [3, 3]]]
    assert total["steps"].shape == ()
    assert total["steps"] == 6


def test_a_model_through_a_round(client):
    round = client.create_round(specs_of(model(1), "weighted_mean"))
    round.submit(model(1), contributor="a", weight=1)
    round.submit(model(4), contributor="b", weight=2)
    round.seal()
    result = round.result()
    mean = result.like(model(0))
    assert mean["cross"].toarray().tolist() == (3 * np.eye(3)).tolist()
    assert mean["layers"][0].tolist() == [3, 6]
    doubled = sparse_sum([result, result], client=client)  # a result is a model, too
    assert doubled["layers/0"].tolist() == [6, 12]


def test_names_are_the_ways_to_the_tensors():
    assert list(flatten(model(1))) == [
        "embedding/table",
        "cross",
        "layers/0",
        "layers/1",
        "steps",
    ]
    assert list(flatten(np.ones(3))) == ["tensor"]
    assert list(flatten({"w": [1.0, 2.0]})) == ["w"]  # a list of numbers is an array
    with pytest.raises(InvalidArgumentError, match="a/b"):
        flatten({"a": {"b": np.ones(1)}, "a/b": np.ones(1)})


def test_one_scipy_matrix_is_not_summed_by_rows():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(InvalidArgumentError, match="give a list"):
        sparse_sum(sparse.eye(3, format="csr"))


def test_rows_of_a_result_are_no_scipy_matrix(client):
    sparse = pytest.importorskip("scipy.sparse")
    round = client.create_round([TensorSpec("m", [3, 3], "f64")])  # one dimension is indexed
    round.seal()
    with pytest.raises(InvalidArgumentError, match=r"\[3, 3\] with sparse_dim 1 holds rows"):
        round.result().like({"m": sparse.eye(3, format="csr")})


@pytest.mark.parametrize("rows", [3, 4])
def test_a_tuple_of_arrays_is_neither_stacked_nor_taken_apart(rows):
    with pytest.raises(InvalidUpdateError, match='tensor "0": a tuple of 2 arrays'):
        sparse_sum([[(np.ones((rows, 4)), np.ones((3, 4)))]])


def test_lists_of_lists_are_layers_of_a_model_unless_they_are_numbers(where):
    def layers(factor, rows=(3, 3)):
        table = ([1], np.float32([factor]), [3])
        return [[np.full(n, factor), np.float64(factor)] for n in rows] + [[table]]

    for rows in ((3, 3), (3, 4)):  # numpy would stack those of one shape
        total = sparse_sum([layers(1.0, rows), layers(2.0, rows)], **where)
        assert [[np.shape(tensor) for tensor in layer] for layer in total[:2]] == [
            [(n,), ()] for n in rows
        ]
        assert [part.tolist() for layer in total[:2] for part in layer] == [
            [3.0] * rows[0],
            3.0,
            [3.0] * rows[1],
            3.0,
        ]
        assert total[2][0].to_dense().tolist() == [0, 3, 0]
    assert list(flatten(layers(1.0))) == ["0/0", "0/1", "1/0", "1/1", "2/0"]
    matrix = np.float32([[1, 2], [3, 4]])
    for numbers in (matrix.tolist(), [list(row) for row in matrix], [[(1, 2), (3, 4)]]):
        assert list(flatten(numbers)) == ["tensor"]


# Iterated over, these are arrays of one type and shape, whose sum is nonsense.
ONE_TENSOR = {
    "a sparse tensor": SparseTensor([3], [5], [9]),
    "a triple": ([3], [5], [9]),
    "a model": {1: np.ones(2), 2: np.ones(2)},
    "an array": np.ones((3, 2), np.float32),
    "a vector": np.arange(4),
    "a masked array": np.ma.array([1, 2], mask=[False, True]),
    "bytes": b"ab",
    "an array of Python": array.array("f", [1, 2]),
    "a string": "ab",
}


@pytest.mark.parametrize("kind", ONE_TENSOR)
def test_one_tensor_where_a_list_of_them_belongs_is_refused(client, kind):
    one = ONE_TENSOR[kind]
    with pytest.raises(InvalidArgumentError, match="tensors is one .*give a list of them: "):
        sparse_sum(one, client=client)
    with pytest.raises(InvalidArgumentError, match="updates is one .*give a list of them: "):
        client.reduce([TensorSpec("t", [9])], one)


def test_rows_are_summed_where_a_list_says_so(where):
    assert sparse_sum(list(np.ones((3, 2))), **where).tolist() == [3, 3]
    assert sparse_sum((np.ones(2), np.ones(2), np.ones(2)), **where).tolist() == [3, 3]
    assert sparse_sum(iter(np.ones((3, 2))), **where).tolist() == [3, 3]


NOTHING = {
    "lists": ([], [], [8, 2]),
    "arrays": (np.array([]), np.array([]), [8, 2]),
    "a dictionary": {"indices": [], "values": [], "dense_shape": [8, 2]},
    "a sparse tensor": SparseTensor([], [], [8, 2]),
}


@pytest.mark.parametrize("kind", NOTHING)
@pytest.mark.parametrize(("value_type", "sparse_dim"), [("f32", 1), ("bf16", 1), ("i64", 2)])
def test_an_update_without_entries_has_the_rounds_type_and_width(
    client, kind, value_type, sparse_dim
):
    specs = [TensorSpec("t", [8, 2], value_type, sparse_dim)]
    round = client.create_round(specs)
    round.submit({"t": NOTHING[kind]}, contributor="nobody")
    round.seal()
    for result in (round.result(), client.reduce(specs, [{"t": NOTHING[kind]}])):
        assert result.manifest.contributors == 1
        assert (result["t"].nnz, result["t"].value_type) == (0, value_type)
        assert result["t"].sparse_dim == sparse_dim


def test_an_update_without_entries_of_another_shape_is_refused(client):
    with pytest.raises(InvalidUpdateError, match=r"shape is \[8, 3\], .* \[8, 2\]"):
        client.reduce([TensorSpec("t", [8, 2])], [{"t": ([], [], [8, 3])}])


@pytest.mark.parametrize("kind", NOTHING)
def test_a_sum_with_updates_without_entries(where, kind):
    some = ([5], np.float32([[1, 2]]), [8, 2])
    for tensors in ([NOTHING[kind], some], [some, NOTHING[kind]], iter([some, NOTHING[kind]])):
        total = as_tensor(sparse_sum(tensors, **where))
        assert (total.value_type, total.values.tolist()) == ("f32", [[1, 2]])
    assert as_tensor(sparse_sum([NOTHING[kind]] * 2, **where)).dense_shape == (8, 2)


@pytest.mark.parametrize("kind", NOTHING)
def test_a_generator_may_begin_with_updates_without_entries(where, kind):
    """It fills the same array for each of the others."""
    values = np.empty((1, 2), np.float32)

    def updates():
        yield NOTHING[kind]
        yield NOTHING[kind]
        for number in (1, 2, 3):
            values[:] = number
            yield [5], values, [8, 2]

    total = as_tensor(sparse_sum(updates(), weights=[1, 1, 1, 10, 100], **where))
    assert (total.value_type, total.indices.tolist()) == ("f32", [[5]])
    assert total.values.tolist() == [[321, 321]]
    assert as_tensor(sparse_sum(iter([NOTHING[kind]] * 3), **where)).dense_shape == (8, 2)


def test_a_generator_of_models_may_begin_with_one_without_entries(where):
    nothing, some = ([], [], [8]), ([5], np.float32([1]), [8])
    models = [{"a": nothing, "b": nothing}, {"a": some, "b": some}]
    total = sparse_sum(iter(models), **where)
    assert [total[name].values.tolist() for name in "ab"] == [[1], [1]]


def test_buffers_without_values_are_in_no_round_and_stay_as_they_are(client):
    empty = np.empty((0, 3), np.bool_)
    state = {"w": np.float32([1, 2]), "buffers": [empty, np.empty(0)]}
    assert [spec.name for spec in specs_of(state)] == ["w"]
    round = client.create_round(specs_of(state))
    round.submit(state, contributor="a")
    round.seal()
    for total in (round.result().like(state), sparse_sum([state], client=client)):
        assert total["w"].tolist() == [1, 2]
        assert total["buffers"][0] is empty


def test_truth_values_are_refused_with_what_to_do():
    with pytest.raises(InvalidUpdateError, match='tensor "mask": .*bool.*leave them out.*int32'):
        specs_of({"mask": np.ones(2, bool)})


class Hostile:
    """Of another package: raises whatever is asked of it."""

    def __init__(self, error):
        self._error = error

    def __getattr__(self, name):
        if name.startswith("__array_") or name == "_error":  # protocols that numpy looks for first
            raise AttributeError(name)
        raise self._error

    def __array__(self, *_, **__):
        raise self._error


class Multiline(Exception):
    def __str__(self):
        return "first\nsecond"


class Silent(Exception):
    def __str__(self):
        raise ZeroDivisionError


ERRORS = [
    RuntimeError("a sparse array is not made dense"),
    KeyError("x"),
    OSError(5, "disk"),
    Multiline(),
    Silent(),
    NotImplementedError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_foreign_class_raises_is_an_error_of_this_package(client, error):
    foreign = Hostile(error)
    ways = {
        "tensor": lambda: as_tensor(foreign),
        "values": lambda: as_tensor(([1], foreign, [3])),
        "indices": lambda: as_tensor((foreign, [1.0], [3])),
        "shape": lambda: as_tensor(([1], [1.0], foreign)),
        "sum": lambda: sparse_sum([foreign], client=client),
        "one": lambda: sparse_sum(foreign, client=client),
        "model": lambda: specs_of({"a": [foreign]}),
        "reduce": lambda: client.reduce([TensorSpec("a", [3])], [{"a": foreign}]),
        "weight": lambda: client.reduce([], [{}], weights=[foreign]),
    }
    for way, look in ways.items():
        with pytest.raises(SparseAggError) as caught:
            look()
        assert isinstance(caught.value, InvalidArgumentError), way
        assert "\n" not in str(caught.value), way
        if way in ("sum", "reduce", "model") and not isinstance(error, Silent):
            assert type(error).__name__ in str(caught.value), way
            assert 'tensor "' in str(caught.value), way


def test_what_a_mapping_raises_and_a_list_that_holds_itself():
    class Broken(dict):
        def items(self):
            raise RuntimeError("changed while it was read")

    with pytest.raises(InvalidUpdateError, match="RuntimeError: changed"):
        specs_of({"a": Broken(b=1)})
    endless = []
    endless.append(endless)
    with pytest.raises(InvalidUpdateError, match="holds itself"):
        flatten(endless)


class ClosedFile(Mapping):
    """A mapping of a file that was closed, as h5py's: its names may still be known, or not even those."""

    def __init__(self, names):
        self._names = names

    def __getitem__(self, name):
        raise ValueError("the file is closed")

    def __iter__(self):
        if self._names is None:
            raise ValueError("the file is closed")
        return iter(self._names)

    def __len__(self):
        return len(self._names or ())


class Unbound:
    """Stands for an object that is not there yet, as a proxy of a context: its class cannot be asked for."""

    @property
    def __class__(self):
        raise RuntimeError("outside of the context")


class Unprintable:
    def __str__(self):
        raise RuntimeError("no name")


@pytest.mark.parametrize(
    "make",  # pytest looks at parameters
    [
        lambda: ClosedFile(None),
        lambda: ClosedFile(["a"]),
        lambda: ClosedFile(["indices", "values", "dense_shape"]),
        Unbound,
        lambda: {Unprintable(): np.ones(3, np.float32)},
    ],
    ids=["closed", "closed-with-names", "closed-triple", "unbound", "unprintable"],
)
def test_what_looking_at_a_model_raises_is_an_error_of_this_package(client, make):
    foreign = make()
    ways = {
        "specs": lambda: specs_of({"a": foreign}),
        "sum": lambda: sparse_sum([foreign], client=client),
        "one": lambda: sparse_sum(foreign, client=client),
        "update": lambda: client.reduce([TensorSpec("tensor", [3])], [foreign]),
        "like": lambda: unflatten(foreign, {}),
    }
    for way, look in ways.items():
        with pytest.raises(SparseAggError) as caught:
            look()
        assert isinstance(caught.value, InvalidArgumentError), way


def test_lack_of_memory_is_said_as_what_it_is():
    with pytest.raises(MemoryError):
        as_tensor(Hostile(MemoryError()))


def test_bits_of_bfloat16_are_no_scipy_matrix():
    sparse = pytest.importorskip("scipy.sparse")
    bits = SparseTensor([[0, 1]], np.uint16([0x3F80]), [3, 3], "bf16")
    with pytest.raises(InvalidArgumentError, match='tensor "m": scipy has no bfloat16'):
        Result({"m": bits}, None).like({"m": sparse.eye(3, format="csr")})


def test_what_is_dense_in_the_example_becomes_dense():
    tensor = SparseTensor([1], np.float32([[5, 6]]), [3, 2])
    restored = unflatten({"emb": np.zeros((3, 2))}, {"emb": tensor})
    assert restored["emb"].tolist() == [[0, 0], [5, 6], [0, 0]]
    with pytest.raises(KeyError, match="other"):
        Result({"emb": tensor}, None).like({"other": np.zeros(1)})


def test_an_example_of_another_shape_is_refused(client):
    model = {"emb": np.zeros((10, 2), np.float32)}
    round = client.create_round([TensorSpec("emb", [10, 2])])
    round.submit({"emb": SparseTensor([7], np.float32([[1, 2]]), [10, 2])}, contributor="a")
    round.seal()
    row = round.result("dense", indices={"emb": [7]})
    assert row["emb"].tolist() == [[1, 2]]
    for example in (model, {"emb": SparseTensor([0], np.zeros((1, 2), np.float32), [10, 2])}):
        with pytest.raises(
            InvalidArgumentError, match=r'"emb".*\[1, 2\].*\[10, 2\].*rows'
        ) as caught:
            row.like(example)
        assert caught.value.reason == "SHAPE_MISMATCH"
    with pytest.raises(InvalidArgumentError, match=r"\[10, 2\].*\[3, 2\]"):
        round.result().like({"emb": np.zeros((3, 2))})
    with pytest.raises(InvalidArgumentError, match="tensors has no name"):
        round.result(tensors=[])


def test_specs_of_a_model_whose_updates_are_sparse():
    parameters = {"emb": np.zeros((9, 4), np.float32), "bias": np.zeros(4)}
    emb, bias = specs_of(parameters, {"emb": "sum", "bias": "weighted_mean"}, sparse_dim={"emb": 1})
    assert (emb.dense_shape, emb.sparse_dim, emb.op) == ((9, 4), 1, "sum")
    assert (bias.dense_shape, bias.sparse_dim, bias.op) == ((4,), 0, "weighted_mean")
    with pytest.raises(InvalidArgumentError, match='"embb", only emb, bias'):
        specs_of(parameters, sparse_dim={"embb": 1})


def test_the_family_of_operators(where):
    a, b = ([0, 1], np.float32([2, 8]), [4]), ([1, 3], np.float32([4, 5]), [4])

    def dense(tensor):
        return tensor.to_dense().tolist()

    assert dense(sparse_weighted_mean([a, b], [1, 3], **where)) == [0.5, 5, 0, 3.75]
    assert dense(sparse_mean_of_contributors([a, b], [1, 3], **where)) == [2, 5, 0, 5]
    assert dense(sparse_min([a, b], **where)) == [2, 4, 0, 5]
    assert dense(sparse_max([a, b], **where)) == [2, 8, 0, 5]
    assert dense(sparse_count([a, b], **where)) == [1, 2, 0, 1]


@pytest.mark.parametrize(
    ("indices", "bytes_each"),
    [([0, 2**31 - 1], 4), ([0, 2**31], 8), ([-1, 0], 4), ([-(2**31) - 1], 8)],
)
def test_indices_travel_as_int32_where_they_fit(indices, bytes_each):
    tensor = SparseTensor(np.int64(indices), np.ones(len(indices), np.float32), [2**40])
    update = EncodedUpdate({"t": tensor})
    assert update.whole().tensors[0].header.indices_bytes == bytes_each * len(indices)


def result_of_both_kinds():
    """A dense and a sparse tensor."""
    table = SparseTensor([1, 3], np.float32([[1, 2], [3, 4]]), [5, 2])
    return Result({"w": np.zeros(4, np.float32), "emb": table}, None)


EXAMPLES = {
    "arrays": {"w": np.ones(4), "emb": np.ones((5, 2))},
    "sparse ones": {"w": np.ones(4), "emb": ([0], np.ones((1, 2)), [5, 2])},
    "dictionaries": {
        "w": np.ones(4),
        "emb": {"indices": [], "values": [], "dense_shape": [5, 2]},
    },
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_what_like_gives_shares_no_memory_with_the_result(example):
    def arrays(tensor):
        return list(tensor.values()) if isinstance(tensor, dict) else list(tensor)

    result = result_of_both_kinds()
    first, second = result.like(example), result.like(example)
    for model in (first, second):
        given = [array for tensor in model.values() for array in arrays(tensor)]
        assert not any(
            np.shares_memory(array, own)
            for array in given
            if isinstance(array, np.ndarray)
            for own in (result["w"], result["emb"].indices, result["emb"].values)
        )
    assert not np.shares_memory(first["w"], second["w"])


def test_scipy_matrices_share_no_memory_with_the_result():
    sparse = pytest.importorskip("scipy.sparse")
    result = Result({"m": SparseTensor([[0, 1]], np.float32([5]), [2, 2])}, None)
    for layout in ("coo", "csr"):
        result.like({"m": sparse.eye(2, format=layout)})["m"].data *= 10
    assert result["m"].values.tolist() == [5]


def test_numbers_come_back_as_numbers(where):
    model = {"python": 1.5, "whole": 2, "numpy": np.float32(2), "array": np.array(4.0)}
    total = sparse_sum([model, model], **where)
    assert total == {"python": 3.0, "whole": 4, "numpy": 4, "array": 8}
    kinds = {name: type(value) for name, value in total.items()}
    assert kinds == {"python": float, "whole": int, "numpy": np.float32, "array": np.ndarray}
    assert type(sparse_sum([1.0, 2.0], **where)) is float
