"""Dense updates made sparse, and what becomes of them where they are refused."""

from __future__ import annotations

import numpy as np
import pytest
from sparseagg import (
    InvalidArgumentError,
    InvalidUpdateError,
    RoundNotOpenError,
    TensorSpec,
    UnavailableError,
)
from sparseagg.sparsify import ChangedRows, TopK, above, changed_rows, top_k
from support.float_settings import flush_to_zero


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


def small_pairs(dtype):
    """Two tables of pairs of numbers that are small, or near each other, of both signs, and the bits of their difference."""
    random = np.random.default_rng(3)
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    digits = np.finfo(dtype).nmant + 1
    size = 20_000

    def numbers(below):
        sign = random.integers(0, 2, size, bits) << (8 * bits.itemsize - 1)
        return random.integers(0, below, size, bits) | sign

    new, old = numbers((digits + 4) << (digits - 1)), numbers((digits + 4) << (digits - 1))
    new[: size // 4] = old[: size // 4] ^ random.integers(0, 16, size // 4, bits)
    old[size // 4 : size // 2] = 0
    new[-3:], old[-3:] = [1, 0, 1 << (8 * bits.itemsize - 1)], [0, 1, 0]  # the last: -0 and 0
    new, old = new.view(dtype), old.view(dtype)
    return new.reshape(-1, 1), old.reshape(-1, 1), (new - old).view(bits)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_no_change_is_lost_where_the_smallest_numbers_are_flushed_to_zero(dtype):
    new, old, difference = small_pairs(dtype)
    with np.errstate(all="ignore"):
        expected = np.flatnonzero(new != old)
        with flush_to_zero():
            tiny = np.uint32([1]).view(np.float32)
            assert not (tiny != 0).any(), "nothing is flushed"
            change = changed_rows(new, old)
            dense = change.to_dense()
    assert change.indices.ravel().tolist() == expected.tolist()
    assert change.values.view(difference.dtype).ravel().tolist() == difference[expected].tolist()
    assert dense[expected].view(difference.dtype).ravel().tolist() == difference[expected].tolist()


def test_zeros_of_two_signs_are_no_change():
    assert changed_rows(np.float32([0.0, -0.0]), np.float32([-0.0, 0.0])).nnz == 0


@pytest.mark.parametrize("names", ["emb", b"emb", {"emb": 1}, [1]])
def test_names_are_a_list_of_strings(names):
    with pytest.raises(InvalidArgumentError, match="names"):
        ChangedRows({name: np.zeros(2) for name in ("emb", "e", "m", "b")}, names)


def test_a_generator_of_names_watches_these_tables():
    model = {"emb": np.zeros(3), "bias": np.zeros(2)}
    changes = ChangedRows(model, (name for name in ["emb"]))
    assert list(changes.since_last(model)) == ["emb"]


def test_a_model_that_lacks_a_watched_table_is_refused():
    changes = ChangedRows({"emb": np.zeros(3)})
    for model in ({}, {"bias": np.zeros(2)}):
        with pytest.raises(InvalidArgumentError, match='"emb"'):
            changes.since_last(model)


def test_a_table_without_rows_has_not_changed():
    assert changed_rows(np.empty((0, 3)), np.empty((0, 3))).nnz == 0


@pytest.fixture
def closed_round(client):
    """A round that takes no more updates, as every late contributor meets it."""
    round = client.create_round([TensorSpec("w", [2]), TensorSpec("table", [4, 2])])
    round.abort()
    return round


def test_top_k_sends_a_refused_update_with_the_next_one(closed_round):
    compressor = TopK(0.5)
    with pytest.raises(RoundNotOpenError), compressor.sending({"w": np.float32([1, 10])}) as update:
        closed_round.submit(update, contributor="late")
    again = [compressor.compress({"w": np.float32([0, 0])})["w"].to_dense() for _ in range(3)]
    assert [array.tolist() for array in again] == [[0, 10], [1, 0], [0, 0]]


def test_changed_rows_of_a_refused_update_are_in_the_next_one(closed_round):
    model = {"table": np.zeros((4, 2), np.float32)}
    changes = ChangedRows(model)
    model["table"][1] = 7
    with pytest.raises(RoundNotOpenError), changes.sending(model) as update:
        closed_round.submit(update, contributor="late")
    model["table"][3] = 2
    assert changes.since_last(model)["table"].to_dense().tolist() == model["table"].tolist()
    assert changes.since_last(model)["table"].nnz == 0


@pytest.mark.parametrize("sparsifier", [TopK(0.5), ChangedRows({"w": np.zeros(2)})])
def test_an_update_that_may_be_counted_is_not_taken_back(sparsifier):
    with pytest.raises(UnavailableError), sparsifier.sending({"w": np.array([1.0, 10.0])}):
        raise UnavailableError("the connection broke")
    rest = {"w": np.array([0.0, 0.0] if isinstance(sparsifier, TopK) else [1.0, 10.0])}
    with sparsifier.sending(rest) as update:
        assert 10 not in update["w"].values


def test_undo_takes_back_one_update_and_needs_nothing_of_the_callers():
    compressor = TopK(0.5)
    update = compressor.compress({"w": np.float32([1, 10])})
    update["w"].values[:] = np.nan
    compressor.undo()
    compressor.undo()
    assert compressor.compress({"w": np.float32([0, 0])})["w"].to_dense().tolist() == [0, 10]

    changes = ChangedRows({"w": np.zeros(3)})
    update = changes.since_last({"w": np.array([0, 5.0, 0])})
    update["w"].indices[:] = 0
    changes.undo()
    changes.undo()
    assert changes.since_last({"w": np.array([0, 5.0, 1])})["w"].to_dense().tolist() == [0, 5, 1]


def test_a_fraction_may_be_of_any_type():
    update = {"w": np.arange(200_000, dtype=np.float32)}  # more than float16 can count
    assert TopK(np.float16(0.5)).compress(update)["w"].nnz == 100_000


def test_an_update_keeps_its_type_whatever_was_left_out_before():
    compressor = TopK(0.5)
    compressor.compress({"w": np.float64([1, 10])})
    sent = compressor.compress({"w": np.float32([0, 0])})["w"]
    assert (sent.value_type, sent.values.tolist()) == ("f32", [1])


def test_whole_numbers_of_another_type_stay_whole():
    compressor = TopK(0.5)
    compressor.compress({"w": np.int64([2**53 + 1, 2**60])})
    sent = compressor.compress({"w": np.uint64([0, 0])})["w"]
    assert (sent.value_type, sent.values.tolist()) == ("u64", [2**53 + 1])
    compressor.compress({"w": np.int64([-1, -5])})
    with pytest.raises(InvalidArgumentError, match="do not fit in uint64"):
        compressor.compress({"w": np.uint64([0, 0])})
    with pytest.raises(InvalidArgumentError, match="is of float64"):
        compressor.compress({"w": np.zeros(2)})


def test_error_feedback_of_float32_loses_nothing_to_rounding():
    compressor = TopK(0.1)
    given, sent = np.zeros(20), np.zeros(20)
    random = np.random.default_rng(5)
    for _ in range(50):
        update = (random.normal(size=20) * 10.0 ** random.integers(0, 6, 20)).astype(np.float32)
        given += update
        sent += compressor.compress({"w": update})["w"].to_dense()
    assert np.abs(given - sent - compressor._left_out["w"]).max() < 1e-6


def test_nothing_to_watch_is_refused():
    for arguments in ([{}], [{"w": np.zeros(2)}, []], [{"w": np.zeros(2)}, iter(())]):
        with pytest.raises(InvalidArgumentError, match="no table to watch"):
            ChangedRows(*arguments)


def test_a_table_that_a_whole_model_gains_is_not_passed_over():
    changes = ChangedRows({"a": np.zeros(2)})
    with pytest.raises(InvalidArgumentError, match="gained b"):
        changes.since_last({"a": np.ones(2), "b": np.ones(2)})
    assert changes.since_last({"a": np.ones(2)})["a"].nnz == 2
    some = ChangedRows({"a": np.zeros(2)}, ["a"])
    assert list(some.since_last({"a": np.ones(2), "b": np.ones(2)})) == ["a"]
