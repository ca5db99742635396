"""Sparse examples: renumbered to the features that they hold, and statistics of many contributors in one round."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import OrderedDict

import numpy as np
import pytest
from conftest import ROOT
from sparseagg import (
    InvalidArgumentError,
    InvalidUpdateError,
    SparseTensor,
    as_tensor,
    reduce,
)
from sparseagg.sparse_data import (
    FeatureStatistics,
    feature_statistics,
    local_features,
    statistics_specs,
)

FEATURES = 300


def random_examples(seed, rows=20, entries=200, dtype=np.float32, features=FEATURES):
    """Entries in any order, some of equal indices."""
    random = np.random.default_rng(seed)
    indices = np.stack([random.integers(0, n, entries) for n in (rows, features)], axis=1)
    values = random.integers(1, 100, entries)
    if np.dtype(dtype).kind != "u":
        values -= 50
    return SparseTensor(indices, values.astype(dtype), [rows, features])


def held(examples):
    """[examples, features] where there is an entry, also one of 0."""
    mask = np.zeros(examples.dense_shape, bool)
    mask[tuple(examples.indices.T)] = True
    return mask


def expected_statistics(contributors):
    """The statistics by plain, dense numpy."""
    dense = np.concatenate([one.to_dense() for one in contributors])
    mask = np.concatenate([held(one) for one in contributors])
    features = np.flatnonzero(mask.any(axis=0))
    columns = [dense[mask[:, feature], feature] for feature in features]
    return {
        "examples": len(dense),
        "features": features,
        "document_frequency": mask.sum(axis=0)[features],
        "contributors": sum(held(one).any(axis=0).astype(int) for one in contributors)[features],
        "total": dense.sum(axis=0, dtype=np.float64)[features],
        "minimum": np.array([column.min() for column in columns]),
        "maximum": np.array([column.max() for column in columns]),
    }


def check(found, contributors):
    for name, expected in expected_statistics(contributors).items():
        assert np.array_equal(getattr(found, name), expected), name


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u4", "u8"])
def test_statistics_of_one_round_are_those_of_all_examples(client, dtype):
    contributors = [random_examples(seed, dtype=dtype) for seed in range(5)]
    round = client.create_round(statistics_specs(FEATURES, dtype))
    for number, one in enumerate(contributors):
        round.submit(feature_statistics(one), contributor=str(number))
    round.seal()
    found = FeatureStatistics.of(round.result())
    check(found, contributors)
    assert found.minimum.dtype == found.maximum.dtype == np.dtype(dtype)
    assert found.total.dtype == np.dtype(f"{dtype[0]}8")


def test_statistics_in_one_call(where):
    contributors = [random_examples(seed) for seed in range(3)]
    updates = [feature_statistics(one) for one in contributors]
    check(FeatureStatistics.of(reduce(statistics_specs(FEATURES), updates, **where)), contributors)


def test_statistics_in_structures_of_indices_and_values():
    """They are what `sparseagg.tff.SparseRound` gives."""
    update = feature_statistics(random_examples(1))
    structure = {
        name: tensor
        if name == "examples"
        else OrderedDict(indices=tensor.indices[:, 0], values=tensor.values)
        for name, tensor in update.items()
    }
    check(FeatureStatistics.of(structure), [random_examples(1)])


def test_contributors_without_entries_and_without_examples(client):
    none = SparseTensor(np.empty((0, 2), np.int64), np.empty(0, np.float32), [3, FEATURES])
    nobody = SparseTensor(np.empty((0, 2), np.int64), np.empty(0, np.float32), [0, FEATURES])
    some = random_examples(1)
    updates = [feature_statistics(one) for one in (none, some, nobody)]
    found = FeatureStatistics.of(reduce(statistics_specs(FEATURES), updates, client=client))
    check(found, [none, some, nobody])
    assert found.examples == 23
    of_none = FeatureStatistics.of(reduce(statistics_specs(FEATURES), updates[:1], client=client))
    assert (of_none.examples, len(of_none.features), len(of_none.minimum)) == (3, 0, 0)
    features, local = local_features(none)
    assert features.tolist() == []
    assert local.dense_shape == (3, 0)


def test_an_explicit_zero_counts_as_held():
    examples = SparseTensor([[0, 5], [1, 5]], np.float32([0, 4]), [2, FEATURES])
    update = feature_statistics(examples)
    assert update["document_frequency"].values.tolist() == [2]
    assert update["minimum"].values.tolist() == [0]


def test_entries_of_equal_indices_are_one_value():
    examples = SparseTensor([[0, 5], [0, 5], [1, 5]], np.float32([3, 4, 1]), [2, FEATURES])
    update = feature_statistics(examples)
    assert update["document_frequency"].values.tolist() == [2]
    assert update["maximum"].values.tolist() == [7]
    assert local_features(examples)[1].values.tolist() == [7, 1]


def test_features_up_to_two_to_the_63(client):
    largest = 2**63 - 2
    examples = ([[0, largest], [1, 2], [1, largest]], np.float32([3, 5, 7]), [2, 2**63 - 1])
    features, local = local_features(examples)
    assert features.tolist() == [2, largest]
    assert local.to_dense().tolist() == [[0, 3], [5, 7]]
    result = reduce(statistics_specs(2**63 - 1), [feature_statistics(examples)], client=client)
    assert FeatureStatistics.of(result).total.tolist() == [5, 10]


def test_inverse_document_frequencies():
    found = FeatureStatistics.of(feature_statistics(random_examples(1)))
    expected = np.log((1 + 20) / (1 + found.document_frequency)) + 1
    assert found.inverse_document_frequency().tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_local_features_hold_the_same_values(seed):
    examples = random_examples(seed)
    features, local = local_features(examples)
    dense = examples.to_dense()
    assert features.dtype == np.int64
    assert features.tolist() == np.flatnonzero(held(examples).any(axis=0)).tolist()
    assert np.array_equal(local.to_dense(), dense[:, features])
    # The product with a table needs the rows of these features only, and its gradient has no others.
    table = np.random.default_rng(seed).standard_normal((FEATURES, 4))
    assert np.allclose(local.to_dense() @ table[features], dense @ table)


def test_what_is_given_back_has_memory_of_its_own():
    examples = SparseTensor([[0, 1], [0, 4]], np.float32([1, 2]), [1, 9])
    local = local_features(examples)[1]
    local.values[:] = 0
    assert examples.values.tolist() == [1, 2]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_examples_of_scipy_come_back_in_their_format(form):
    sparse = pytest.importorskip("scipy.sparse")
    dense = random_examples(4).to_dense()
    examples = sparse.coo_matrix(dense).asformat(form)
    features, local = local_features(examples)
    assert local.format == form
    assert np.array_equal(local.toarray(), dense[:, features])
    expected = feature_statistics(as_tensor(sparse.csr_matrix(dense)))
    for name, tensor in feature_statistics(examples).items():
        if name != "examples":
            assert tensor.values.tolist() == expected[name].values.tolist()


def test_the_benchmark_finds_the_same_results_dense(tmp_path):
    pytest.importorskip("scipy")
    out = tmp_path / "sparse_data.json"
    command = [
        sys.executable,
        str(ROOT / "bench/sparse_data/run.py"),
        "--quick",
        "--json",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    works = {row["work"] for row in json.loads(out.read_text())["rows"]}
    assert works == {"making", "statistics", "renumbering", "gradient", "all"}


MATRIX = [2, 9]
REFUSED = {
    "a dense array": (np.zeros((2, 9)), "2, 9] with 0 indexed"),
    "rows": (([1], np.float32([[1, 2]]), [2, 2]), "2, 2] with 1 indexed"),
    "three dimensions": (([[0, 1, 0]], np.float32([1]), [2, 2, 2]), "with 3 indexed"),
    "a feature beyond the shape": (([[0, 1], [1, 9]], np.float32([1, 2]), MATRIX), "feature 9 at entry 1"),
    "a feature beyond 32 bits": (([[0, 2**32 + 1]], np.float32([1]), MATRIX), "feature 4294967297 at"),
    "an example below 0": (([[-1, 1]], np.float32([1]), MATRIX), "example -1 at entry 0"),
}  # fmt: skip


@pytest.mark.parametrize("call", [local_features, feature_statistics])
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_matrix_of_examples_is_named(call, what):
    examples, message = REFUSED[what]
    with pytest.raises(InvalidUpdateError, match=message.replace("[", r"\[")):
        call(examples)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_named(value):
    examples = SparseTensor([[0, 1], [1, 7]], np.float32([1, value]), MATRIX)
    with pytest.raises(
        InvalidUpdateError, match="of feature 7 in example 1 is not finite"
    ) as error:
        feature_statistics(examples)
    assert error.value.reason == "NON_FINITE_VALUE"


@pytest.mark.parametrize(("dtype", "value"), [("i8", 2**62), ("u8", 2**63), ("i8", -(2**63))])
def test_a_sum_that_does_not_fit_is_named(dtype, value):
    examples = SparseTensor([[0, 1], [0, 7], [1, 7]], np.array([1, value, value], dtype), MATRIX)
    with pytest.raises(InvalidUpdateError, match="sum of feature 7 does not fit in u?int64"):
        feature_statistics(examples)


def test_entries_of_equal_indices_whose_sum_does_not_fit_are_named():
    examples = SparseTensor([[0, 7], [0, 7]], np.int32([2**30, 2**30]), MATRIX)
    with pytest.raises(InvalidUpdateError, match="sum of feature 7 does not fit in int32"):
        local_features(examples)


def test_bfloat16():
    bits = np.array([0x3F80, 0x4000], np.uint16)  # 1 and 2
    apart = SparseTensor([[0, 1], [0, 4]], bits, MATRIX, "bf16")
    local = local_features(apart)[1]
    assert (local.value_type, local.values.tolist()) == ("bf16", bits.tolist())
    equal = SparseTensor([[0, 1], [0, 1]], bits, MATRIX, "bf16")
    with pytest.raises(InvalidUpdateError, match="convert them to f32"):
        local_features(equal)
    with pytest.raises(InvalidUpdateError, match="convert it to f32"):
        feature_statistics(apart)
    with pytest.raises(InvalidArgumentError, match="convert it to f32"):
        statistics_specs(9, "bf16")


@pytest.mark.parametrize("number", [0, 2**63, 1.5])
def test_a_number_of_features_that_is_none(number):
    with pytest.raises(InvalidArgumentError, match="num_features"):
        statistics_specs(number)
