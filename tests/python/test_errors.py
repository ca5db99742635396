"""Every refusal is an exception with code, reason and a message that names the tensor; the connection lives on."""

from __future__ import annotations

import asyncio
import pickle

import grpc
import numpy as np
import pytest
from sparseagg import (
    AlreadyCountedError,
    AlreadyExistsError,
    Client,
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidUpdateError,
    NotFoundError,
    ResourceExhaustedError,
    RetryPolicy,
    RoundAbortedError,
    RoundNotOpenError,
    SparseAggError,
    SparseTensor,
    TensorSpec,
    UnavailableError,
    aio,
)
from sparseagg._net.status_details import parse_status_details

SPECS = [TensorSpec("emb", [800, 2]), TensorSpec("bias", [3], sparse_dim=0)]


def rows(*indices, values=None, shape=(800, 2), dtype=np.float32):
    """An update of "emb" with the rows `indices`."""
    filled = np.ones((len(indices), shape[1]), dtype) if values is None else np.array(values, dtype)
    return SparseTensor(np.array(indices, np.int64), filled, shape)


@pytest.mark.parametrize(
    ("tensors", "weight", "reason", "words"),
    [
        ({"emb": rows(1, 812)}, 1, "INDEX_OUT_OF_RANGE", ["emb", "812", "800"]),
        ({"emb": rows(-1)}, 1, "INDEX_OUT_OF_RANGE", ["emb", "-1"]),
        ({"emb": rows(3, values=[[1, np.nan]])}, 1, "NON_FINITE_VALUE", ["emb"]),
        ({"emb": rows(3, values=[[-np.inf, 0]])}, 1, "NON_FINITE_VALUE", ["emb"]),
        ({"emb": rows(3), "bias": np.float32([1, np.inf, 0])}, 1, "NON_FINITE_VALUE", ["bias"]),
        ({"emb": rows(3, dtype=np.float64)}, 1, "TYPE_MISMATCH", ["emb", "f64", "f32"]),
        ({"emb": rows(3, shape=(801, 2))}, 1, "SHAPE_MISMATCH", ["emb", "801", "800"]),
        (
            {"emb": rows(3), "bias": np.zeros(4, np.float32)},
            1,
            "SHAPE_MISMATCH",
            ["bias", "4", "3"],
        ),
        ({"emb": rows(3), "other": rows(3)}, 1, "UNKNOWN_TENSOR", ["other"]),
        ({"emb": rows(3)}, -1, "INVALID_WEIGHT", ["-1"]),
        ({"emb": rows(3)}, float("nan"), "INVALID_WEIGHT", ["nan"]),
    ],
)
@pytest.mark.parametrize("way", ["submit", "submit_many", "reduce"])
def test_a_bad_update_is_refused_and_nothing_counted(client, tensors, weight, reason, words, way):
    round = client.create_round(SPECS)
    with pytest.raises(InvalidUpdateError) as caught:
        if way == "submit":
            round.submit(tensors, contributor="c", weight=weight)
        elif way == "submit_many":
            round.submit_many([_update(tensors, weight)])
        else:
            complete = {"bias": np.zeros(3, np.float32), **tensors}
            client.reduce(SPECS, [complete], weights=[weight])
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.reason == reason
    assert "\n" not in caught.value.message
    for word in words:
        assert word in caught.value.message
    assert round.info().contributors == 0
    assert round.submit({"emb": rows(3)}, contributor="c").sequence == 1


@pytest.mark.parametrize("encoding", ["auto", "coo.raw", "coo.packed"])
@pytest.mark.parametrize(("number", "word"), [(np.nan, "NaN"), (-np.inf, "infinite")])
@pytest.mark.parametrize(
    ("shape", "place"), [([5000], "row 11"), ([100, 50], "index [0, 11]")], ids=["rows", "matrix"]
)
def test_the_entry_of_a_bad_value_is_the_one_that_was_handed_in(
    client, encoding, number, word, shape, place
):
    """Of updates that are sent in another order, and by rows."""
    descending = np.arange(1000)[::-1]
    indices = np.stack(np.unravel_index(descending, shape), axis=1)
    values = np.where(descending == 11, np.float32(number), np.float32(1))
    update = {"m": SparseTensor(indices, values, shape)}
    spec = TensorSpec("m", shape, sparse_dim=len(shape))
    round = client.create_round([spec])
    for refused in (
        lambda: round.submit(update, contributor="c", encoding=encoding),
        lambda: round.submit_many([_update(update, 1)], encoding=encoding),
        lambda: client.reduce([spec], [update], encoding=encoding),
    ):
        with pytest.raises(InvalidUpdateError) as caught:
            refused()
        assert caught.value.reason == "NON_FINITE_VALUE"
        assert str(caught.value).endswith(f'tensor "m": entry 988 ({place}) is {word}')
    assert round.info().contributors == 0


def _update(tensors, weight):
    from sparseagg import Update

    return Update(tensors, "c", weight)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (TensorSpec("t", [10], op="median"), "UNKNOWN_OPERATOR"),
        (TensorSpec("t", [10], plan="magic"), "UNKNOWN_PLAN"),
        (TensorSpec("t", [2**40, 2**40], sparse_dim=2), "INDEX_SPACE_TOO_LARGE"),
        (TensorSpec("t", [0]), "INVALID_SPEC"),
        (TensorSpec("", [10]), "INVALID_SPEC"),
        (TensorSpec("t", [10], sparse_dim=2), "INVALID_SPEC"),
    ],
)
def test_a_bad_specification_is_refused(client, spec, reason):
    with pytest.raises(InvalidArgumentError) as caught:
        client.create_round([spec])
    assert caught.value.reason == reason


def test_a_round_that_is_not_there(client):
    with pytest.raises(NotFoundError) as caught:
        client.round("never-opened").info()
    assert caught.value.reason == "ROUND_NOT_FOUND"


def test_a_name_that_is_taken(client):
    round = client.create_round(SPECS, round_id="taken-name")
    with pytest.raises(AlreadyExistsError) as caught:
        client.create_round(SPECS, round_id="taken-name")
    assert caught.value.reason == "ROUND_EXISTS"
    round.abort()
    round.delete()


def test_a_sealed_round_takes_no_update(client):
    round = client.create_round(SPECS)
    round.seal()
    with pytest.raises(RoundNotOpenError):
        round.submit({"emb": rows(1)}, contributor="late")


def test_another_update_of_a_counted_contributor(client):
    round = client.create_round(SPECS)
    round.submit({"emb": rows(1)}, contributor="c", update_id="first")
    with pytest.raises(AlreadyCountedError):
        round.submit({"emb": rows(1)}, contributor="c", update_id="second")


def test_the_same_id_with_other_bytes(client):
    round = client.create_round(SPECS)
    round.submit({"emb": rows(1)}, contributor="c", update_id="first")
    with pytest.raises(InvalidUpdateError) as caught:
        round.submit({"emb": rows(2)}, contributor="c", update_id="first")
    assert caught.value.reason == "DIGEST_CONFLICT"


def test_an_aborted_round_has_no_result(client):
    round = client.create_round(SPECS)
    round.abort()
    with pytest.raises(RoundAbortedError):
        round.result()


def test_an_integer_overflow_aborts_the_round_and_says_where(client):
    round = client.create_round([TensorSpec("clicks", [10], "i32")])
    for contributor in ("a", "b"):
        tensor = SparseTensor([7], np.array([2**30 * 2 - 1], np.int32), [10])
        round.submit({"clicks": tensor}, contributor=contributor)
    round.seal()
    with pytest.raises(RoundAbortedError, match=r"clicks.*7"):
        round.result()


def test_an_open_round_keeps_a_reader_waiting_until_the_deadline(client):
    round = client.create_round(SPECS)
    with pytest.raises(DeadlineExceededError, match="seal"):
        round.result(timeout=0.05)


def test_a_published_result_needs_no_time_to_wait(client):
    async def scenario():
        async with aio.Client(client.target) as other:
            return await other.round(round.name).result(timeout=0)

    round = client.create_round([TensorSpec("n", [10], "i64")])
    with pytest.raises(DeadlineExceededError, match="seal"):
        round.result(timeout=0)
    round.submit({"n": ([1], np.array([2]), [10])}, contributor="c")
    round.seal()
    round.wait()
    for result in (round.result(timeout=0), asyncio.run(scenario())):
        assert result["n"].values.tolist() == [2]
    round.delete()


def test_an_unknown_tensor_of_the_result(client):
    round = client.create_round(SPECS)
    round.seal()
    with pytest.raises(InvalidArgumentError) as caught:
        round.result(tensors=["other"])
    assert caught.value.reason == "UNKNOWN_TENSOR"
    with pytest.raises(InvalidArgumentError, match="layout"):
        round.result("square")


def test_a_server_that_is_not_there():
    retry = RetryPolicy(attempts=2, initial_delay=0.001)
    with (
        Client("127.0.0.1:1", retry=retry) as nowhere,
        pytest.raises(UnavailableError, match="127.0.0.1:1: .*running") as caught,
    ):
        nowhere.info()
    assert isinstance(caught.value, ConnectionError)


def test_errors_survive_pickling():
    error = ResourceExhaustedError(
        "full", reason="STAGING_FULL", metadata={"limit": "7"}, retry_after=0.5
    )
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is ResourceExhaustedError
    assert (copy.message, copy.code, copy.reason, copy.metadata, copy.retry_after) == (
        "full",
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "STAGING_FULL",
        {"limit": "7"},
        0.5,
    )


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def test_details_of_a_status_are_read():
    entry = _field(1, b"limit") + _field(2, b"800")
    error_info = _field(1, b"STAGING_FULL") + _field(2, b"sparseagg") + _field(3, entry)
    retry_info = _field(1, bytes([8, 2, 16, 0x80, 0xE5, 0x9A, 0x77]))  # 2 s and 250,000,000 ns
    status = b"\x08\x08" + _field(2, b"message")
    for name, value in ((b"ErrorInfo", error_info), (b"RetryInfo", retry_info)):
        status += _field(3, _field(1, b"type.googleapis.com/google.rpc." + name) + _field(2, value))
    details = parse_status_details(status)
    assert (details.reason, details.metadata, details.retry_after) == (
        "STAGING_FULL",
        {"limit": "800"},
        2.25,
    )
    for end in range(len(status)):
        parse_status_details(status[:end])  # a cut trailer hides no error behind another one


def test_details_that_are_no_status_are_ignored():
    assert parse_status_details(b"\xff\xff\xff").reason == ""


def test_every_class_is_a_sparse_agg_error():
    for kind in (AlreadyCountedError, InvalidUpdateError, RoundAbortedError, UnavailableError):
        assert issubclass(kind, SparseAggError)
