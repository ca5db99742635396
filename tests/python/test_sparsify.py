"""Dense updates made sparse; no server needed."""

from __future__ import annotations

import numpy as np
import pytest
from sparseagg import InvalidArgumentError, InvalidUpdateError
from sparseagg.sparsify import ChangedRows, TopK, above, changed_rows, top_k


def test_changed_rows_are_those_that_differ():
    before = np.arange(12, dtype=np.float32).reshape(4, 3)
    after = before.copy()
    after[1, 2] += 1
    after[3] *= 2
    change = changed_rows(after, before)
    assert change.indices.ravel().tolist() == [1, 3]
    assert change.values.tolist() == [[0, 0, 1], [9, 10, 11]]
    assert changed_rows(after, after).nnz == 0


def test_a_row_with_nan_is_not_lost():
    before = np.zeros((3, 2), np.float32)
    after = before.copy()
    after[2, 0] = np.nan
    assert changed_rows(after, before).indices.ravel().tolist() == [2]


def test_changed_rows_since_the_last_call():
    model = {"emb": {"weight": np.zeros((5, 2), np.float32)}, "bias": np.zeros(2)}
    changes = ChangedRows(model, ["emb/weight"])
    model["emb"]["weight"][1] = 7
    first = changes.since_last(model)
    model["emb"]["weight"][4] = 3
    second = changes.since_last(model)
    assert list(first) == ["emb/weight"]
    assert first["emb/weight"].indices.ravel().tolist() == [1]
    assert second["emb/weight"].indices.ravel().tolist() == [4]
    assert changes.since_last(model)["emb/weight"].nnz == 0


def test_a_change_is_not_lost_where_a_later_table_is_refused():
    model = {"a": np.zeros(3), "b": np.zeros(2)}
    changes = ChangedRows(model)
    model["a"][1] = 7
    with pytest.raises(InvalidArgumentError, match="differ"):
        changes.since_last({**model, "b": np.zeros(5)})
    assert changes.since_last(model)["a"].indices.ravel().tolist() == [1]


def test_tables_of_two_types_are_not_compared():
    with pytest.raises(InvalidArgumentError, match="int64 and uint64 differ"):
        changed_rows(np.int64([2**53 + 1]), np.uint64([2**53]))


def test_top_k_takes_the_largest_magnitudes_and_of_ties_the_first():
    array = np.float32([[1, -5, 2], [5, 0, -2]])
    assert top_k(array, 2).to_dense().tolist() == [[0, -5, 0], [5, 0, 0]]
    assert top_k(array, 3).to_dense().tolist() == [[0, -5, 2], [5, 0, 0]]
    assert top_k(array, 0).nnz == 0
    assert top_k(array, 99).to_dense().tolist() == array.tolist()


def test_values_above_a_threshold():
    assert above(np.float32([0.5, -1, 2]), 1).indices.ravel().tolist() == [1, 2]


@pytest.mark.parametrize("fraction", [0.01, 0.1, 1])
def test_error_feedback_loses_nothing(fraction):
    generator = np.random.default_rng(1)
    compressor = TopK(fraction)
    given = np.zeros((20, 10))
    sent = np.zeros((20, 10))
    for _ in range(50):
        update = generator.integers(-8, 8, (20, 10)).astype(np.float64)
        compressed = compressor.compress({"w": update})["w"]
        assert compressed.nnz == max(1, round(fraction * 200))
        given += update
        sent += compressed.to_dense()
    left = compressor._left_out["w"]
    assert np.array_equal(given, sent + left)


def test_what_cannot_be_compressed_is_refused():
    with pytest.raises(InvalidArgumentError, match="fraction"):
        TopK(0)
    with pytest.raises(InvalidArgumentError, match="differ"):
        changed_rows(np.zeros((2, 2)), np.zeros((3, 2)))
    with pytest.raises(InvalidArgumentError, match="dense"):
        top_k(([1], np.float32([1]), [5]), 1)
    with pytest.raises(InvalidUpdateError, match="bool"):
        top_k(np.ones(3, bool), 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named_and_not_dropped(bad):
    array = np.float32([[1, 2, 3], [4, bad, np.nan]])
    for sparsify in (lambda: top_k(array, 2), lambda: above(array, 1)):
        with pytest.raises(InvalidUpdateError, match=r"value -?(nan|inf) at \[1, 1\]") as caught:
            sparsify()
        assert caught.value.reason == "NON_FINITE_VALUE"


def test_an_update_that_is_not_finite_leaves_the_error_feedback_as_it_was():
    compressor = TopK(0.5)
    compressor.compress({"a": np.float64([5, 1]), "b": np.float64([7, 2])})
    with pytest.raises(InvalidUpdateError, match=r'"b": value nan at \[1\]'):
        compressor.compress({"a": np.float64([1, 1]), "b": np.float64([1, np.nan])})
    sent = compressor.compress({"a": np.float64([0, 0]), "b": np.float64([0, 0])})
    assert sent["a"].to_dense().tolist() == [0, 1]
    assert sent["b"].to_dense().tolist() == [0, 2]


def test_a_total_that_overflows_is_refused():
    compressor = TopK(0.5)
    compressor.compress({"a": np.float32([3.4e38, 3e38])})
    with np.errstate(over="ignore"), pytest.raises(InvalidUpdateError, match=r"inf at \[1\]"):
        compressor.compress({"a": np.float32([0, 3e38])})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.int32([9, 8]), np.int32([0, 2**31 - 8])),
        (np.int64([-9, -8]), np.int64([0, -(2**63) + 7])),
        (np.uint32([9, 8]), np.uint32([0, 2**32 - 8])),
    ],
)
def test_whole_numbers_do_not_wrap_in_the_error_feedback(first, second):
    compressor = TopK(0.5)
    compressor.compress({"a": first, "b": first})
    with pytest.raises(InvalidArgumentError, match='"b".*do not fit in u?int'):
        compressor.compress({"a": first, "b": second})
    again = compressor.compress({"a": 0 * first, "b": 0 * first})
    assert [again[name].values.tolist() for name in "ab"] == [[first[1]]] * 2


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_smallest_integer_has_the_largest_magnitude(dtype):
    least = np.iinfo(dtype).min
    values = np.array([least + 1, least, 5], dtype)
    assert top_k(values, 1).values.tolist() == [least]
    assert above(values, 6).values.tolist() == [least + 1, least]
    assert TopK(0.3).compress({"w": values})["w"].values.tolist() == [least]


@pytest.mark.parametrize(
    ("after", "before"),
    [
        (np.uint32([1, 7]), np.uint32([4, 7])),
        (np.array([2**31 - 1], np.int32), np.int32([-1])),
        (np.array([-(2**63)]), np.array([1])),
    ],
)
def test_a_difference_that_its_type_cannot_hold_is_refused(after, before):
    with pytest.raises(InvalidArgumentError, match="does not fit in u?int"):
        changed_rows(after, before)


def test_a_table_without_rows_has_not_changed():
    assert changed_rows(np.empty((0, 3)), np.empty((0, 3))).nnz == 0
