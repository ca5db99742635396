"""Rounds from open to published, against the real server."""

from __future__ import annotations

import random
import time
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sparseagg import (
    AlreadyCountedError,
    Client,
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidUpdateError,
    RoundState,
    SparseTensor,
    TensorSpec,
    Update,
    _requests,
    records,
    sparse_sum,
)
from sparseagg._proto import types_pb2
from support import oracle

SPECS = [
    TensorSpec("emb", [100, 3], op="weighted_mean"),
    TensorSpec("bias", [4], sparse_dim=0, op="weighted_mean"),
]


def test_a_round_from_open_to_deleted(client):
    round = client.create_round(SPECS, round_id="whole-life")
    assert round.info().state is RoundState.OPEN
    assert round.info().tensors == tuple(SPECS)
    first = round.submit(
        {
            "emb": SparseTensor([7, 5], np.float32([[1, 2, 3], [4, 5, 6]]), [100, 3]),
            "bias": np.float32([1, 2, 3, 4]),
        },
        contributor="a",
        weight=3,
        update_id="a-1",
    )
    assert (first.sequence, first.duplicate, first.contributor, first.update_id) == (
        1,
        False,
        "a",
        "a-1",
    )
    assert len(first.digest) == 32
    round.submit({"emb": SparseTensor([5], np.float32([[0, 1, 2]]), [100, 3])}, contributor="b")
    assert round.seal().state in (RoundState.SEALED, RoundState.PUBLISHED)
    info = round.wait(timeout=30)
    assert info.state is RoundState.PUBLISHED
    assert info.publish_time >= info.seal_time >= info.create_time
    result = round.result()
    assert result["emb"].indices[:, 0].tolist() == [5, 7]
    assert result["emb"].values.tolist() == [[3, 4, 5], [0.75, 1.5, 2.25]]
    assert result["bias"].tolist() == [0.75, 1.5, 2.25, 3]
    assert (result.manifest.contributors, result.manifest.total_weight) == (2, 4)
    assert list(result) == ["emb", "bias"]
    plans = next(backend.plans for backend in client.info().backends if backend.selected)
    assert {tensor.name: tensor.nnz_received for tensor in info.tensor_status} == {
        "emb": 3,
        "bias": 1,
    }
    for tensor in info.tensor_status:
        assert tensor.plan in plans
        assert tensor.plan_reason
        assert tensor.measured_seconds > 0
    round.delete()
    assert "rounds/whole-life" not in [other.name for other in client.rounds()]


def test_the_status_of_a_tensor_has_what_the_server_tells():
    message = types_pb2.Round(state=types_pb2.ROUND_STATE_OPEN)
    message.tensors.add(
        name="emb",
        backend="cpu",
        plan="sweep",
        plan_reason="it suits",
        nnz_received=30,
        nnz_result=17,
        predicted_seconds=0.25,
        measured_seconds=0.5,
    )
    assert records.round_from_proto(message).tensor_status == (
        records.TensorStatus("emb", "cpu", "sweep", "it suits", 30, 17, 0.25, 0.5),
    )


def test_a_resend_is_answered_with_the_first_receipt(client):
    round = client.create_round(SPECS)
    tensors = {"emb": SparseTensor([1], np.ones((1, 3), np.float32), [100, 3])}
    first = round.submit(tensors, contributor="a", update_id="once")
    second = round.submit(tensors, contributor="a", update_id="once")
    assert second.duplicate
    assert (second.sequence, second.digest) == (first.sequence, first.digest)
    assert round.info().contributors == 1


def test_opening_twice_with_one_request_id_opens_one_round(client):
    first = client.create_round(SPECS, request_id="only-once")
    second = client.create_round(SPECS, request_id="only-once")
    assert first.name == second.name


def test_the_result_dense_and_in_parts(client):
    round = client.create_round(SPECS)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    round.submit({"emb": SparseTensor([2, 9], values, [100, 3])}, contributor="a")
    round.seal()
    dense = round.result("dense")["emb"]
    assert dense.shape == (100, 3)
    assert dense[[2, 9]].tolist() == values.tolist()
    assert dense.sum() == values.sum()
    asked = np.array([9, 4, 2, 9])
    picked = round.result("dense", tensors=["emb"], indices={"emb": asked})
    assert list(picked) == ["emb"]
    assert picked["emb"].tolist() == dense[asked].tolist()
    found = round.result(indices={"emb": np.array([9, 4], np.int32)})["emb"]
    assert found.indices[:, 0].tolist() == [9]
    assert found.values.tolist() == [[3, 4, 5]]


def test_selected_elements_of_a_matrix(client):
    round = client.create_round([TensorSpec("m", [50, 60], "f64", sparse_dim=2)])
    round.submit(
        {"m": SparseTensor([[1, 2], [49, 59]], np.array([5.0, 7.0]), [50, 60])}, contributor="a"
    )
    round.seal()
    picked = round.result("dense", indices={"m": [[49, 59], [0, 0], [1, 2]]})["m"]
    assert picked.tolist() == [7, 0, 5]
    assert round.result()["m"].to_scipy().toarray()[49, 59] == 7


def test_an_empty_round_gives_empty_tensors(client):
    round = client.create_round(SPECS)
    round.seal()
    result = round.result()
    assert result["emb"].nnz == 0
    assert result["bias"].tolist() == [0, 0, 0, 0]
    assert not round.result("dense")["emb"].any()


@pytest.mark.parametrize("value_type", ["f16", "bf16", "f32", "f64", "i32", "i64", "u32", "u64"])
def test_every_value_type_sparse_and_dense(client, value_type):
    one = {"bf16": np.array([0x3F80], np.uint16), "f16": np.float16([1])}.get(value_type)
    if one is None:
        kind = {"f": "float", "i": "int", "u": "uint"}[value_type[0]]
        one = np.array([1], kind + value_type[1:])
    two = sum_of_two_ones(value_type, one)
    round = client.create_round(
        [TensorSpec("rows", [9], value_type), TensorSpec("all", [1], value_type, sparse_dim=0)]
    )
    for contributor in ("a", "b"):
        # uint16 needs no further word here: the round says that it is bfloat16.
        sparse = SparseTensor([4], one, [9], value_type)
        round.submit({"rows": sparse, "all": one}, contributor=contributor)
    round.seal()
    result = round.result()
    assert result["rows"].value_type == value_type
    assert result["rows"].values.tobytes() == two.tobytes()
    assert result["all"].tobytes() == two.tobytes()


def sum_of_two_ones(value_type, one):
    """2 as an array of the type."""
    return np.array([0x4000], np.uint16) if value_type == "bf16" else one + one


def test_dense_tensors_through_sparse_sum(client):
    total = sparse_sum(
        [np.float32([[1, 2], [3, 4]]), np.float32([[10, 20], [30, 40]])], client=client
    )
    assert total.tolist() == [[11, 22], [33, 44]]


def test_scipy_matrices_through_sparse_sum(server):
    sparse = pytest.importorskip("scipy.sparse")
    random_matrix = sparse.random(40, 30, 0.1, "csr", np.float64, random_state=1)
    total = sparse_sum([random_matrix, random_matrix], target=server.target)
    assert total.format == "csr"
    assert np.array_equal(total.toarray(), (2 * random_matrix).toarray())
    dense = sparse_sum([random_matrix, random_matrix], target=server.target, layout="dense")
    assert np.array_equal(dense, total.toarray())


def test_watching_a_round_ends_with_its_publication(client):
    round = client.create_round(SPECS)
    seen = round.watch(min_interval=0.001)
    assert next(seen).state is RoundState.OPEN
    round.seal()
    states = [info.state for info in seen]
    assert states[-1] is RoundState.PUBLISHED


def test_rounds_are_listed_page_by_page(client):
    names = {client.create_round(SPECS).name for _ in range(5)}
    listed = [info.name for info in client.rounds(page_size=2)]
    assert names <= set(listed)
    assert listed == sorted(set(listed))


def test_the_server_tells_about_itself(client):
    info = client.info()
    assert {"sum", "weighted_mean", "mean_of_contributors", "count", "min", "max"} <= set(
        info.operators
    )
    assert set(info.value_types) == {*oracle.FORMATS, *oracle.INTEGER_BITS}
    assert info.limits["message-bytes-max"] > 0
    assert sum(backend.selected for backend in info.backends) == 1


def test_many_updates_over_one_stream_with_refusals_between(client):
    round = client.create_round([TensorSpec("one", [1000])])
    updates = [
        Update(
            {"one": SparseTensor([n if n != 500 else 1000], np.float32([1]), [1000])},
            f"contributor-{n}",
        )
        for n in range(1000)
    ]
    outcomes = round.submit_many(updates, return_exceptions=True)
    assert outcomes[500].reason == "INDEX_OUT_OF_RANGE"
    receipts = outcomes[:500] + outcomes[501:]
    assert sorted(receipt.sequence for receipt in receipts) == list(range(1, 1000))
    assert [r.contributor for r in receipts] == [
        u.contributor for u in updates if u.contributor != "contributor-500"
    ]
    round.seal()
    total = round.result("dense")["one"]
    assert total.sum() == 999
    assert total[500] == 0


def test_a_refusal_is_raised_after_the_others_are_counted(client):
    round = client.create_round([TensorSpec("one", [10])])
    updates = [Update({"one": SparseTensor([n], np.float32([1]), [10])}, "same") for n in range(2)]
    updates.append(Update({"one": SparseTensor([3], np.float32([1]), [10])}, "other"))
    with pytest.raises(AlreadyCountedError):
        round.submit_many(updates)
    assert round.info().contributors == 2


def test_the_refusal_of_one_of_many_updates_tells_its_position(client):
    round = client.create_round([TensorSpec("one", [10])])
    updates = [
        Update({"one": ([row], np.float32([1]), [10])}, f"c{row}") for row in (0, 1, 10, 11, 2)
    ]
    with pytest.raises(InvalidUpdateError) as refusal:
        round.submit_many(updates)
    assert str(refusal.value) == 'update 2: tensor "one": index 10 at entry 0 is not below 10'
    assert refusal.value.reason == "INDEX_OUT_OF_RANGE"
    assert round.info().contributors == 3


def test_the_same_update_twice_in_one_stream_is_counted_once(client):
    round = client.create_round([TensorSpec("one", [10])])
    update = Update({"one": SparseTensor([3], np.float32([1]), [10])}, "c", update_id="same")
    outcomes = round.submit_many([update, update])
    assert [receipt.duplicate for receipt in outcomes] == [False, True]


def test_each_of_many_contributors_is_counted_exactly_once(server):
    """Contributor n sends 1 at coordinate n; 2,000 of them over 16 connections, with random resends."""
    contributors, connections = 2000, 16
    with Client(server.target) as owner:
        round = owner.create_round([TensorSpec("seen", [contributors], "i64")])

        def submit_share(share: int) -> int:
            generator = random.Random(share)
            resends = 0
            with Client(server.target) as own:
                handle = own.round(round.name)
                for n in range(share, contributors, connections):
                    tensor = SparseTensor([n], np.array([1]), [contributors])
                    for attempt in range(generator.choice([1, 1, 2, 3])):
                        receipt = handle.submit(
                            {"seen": tensor}, contributor=f"c{n}", update_id=f"u{n}"
                        )
                        assert receipt.duplicate == (attempt > 0)
                        resends += attempt > 0
            return resends

        with ThreadPoolExecutor(connections) as threads:
            resends = sum(threads.map(submit_share, range(connections)))
        round.seal()
        result = round.result("dense")
        assert result["seen"].tolist() == [1] * contributors
        assert (result.manifest.contributors, result.manifest.duplicates) == (contributors, resends)


def test_one_client_serves_many_threads(client):
    round = client.create_round([TensorSpec("sum", [8], "f64")])

    def submit(n: int) -> None:
        round.submit({"sum": SparseTensor([n % 8], np.array([0.1]), [8])}, contributor=f"c{n}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(submit, range(80)))
    round.seal()
    assert round.result("dense")["sum"].tolist() == [1.0] * 8  # ten times 0.1, exactly added


def test_waiting_ends_in_time_though_the_server_says_nothing(own_server):
    server = own_server()
    with Client(server.target, timeout=0.5) as client:
        round = client.create_round(SPECS)
        server.pause()
        begin = time.monotonic()
        with pytest.raises(DeadlineExceededError, match="within 0.1 s"):
            round.wait(timeout=0.1)
        assert time.monotonic() - begin < 10  # a slice is 30 s
        server.resume()


def test_waiting_without_a_limit_outlasts_a_server_that_says_nothing(own_server, monkeypatch):
    monkeypatch.setattr(_requests, "WAIT_SLICE_SECONDS", 0.05)
    server = own_server()
    with Client(server.target, timeout=0.2) as client, Client(server.target) as other:
        round = client.create_round(SPECS)
        with ThreadPoolExecutor(1) as threads:
            server.pause()
            waiting = threads.submit(round.wait)
            with pytest.raises(futures.TimeoutError):
                waiting.result(1)  # four slices
            assert not waiting.done()
            server.resume()
            other.round(round.name).seal()
            assert waiting.result(30).state is RoundState.PUBLISHED


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (np.array([True, False, True]), "bool, not integers; of a mask"),
        ([2.0, 9.0], "float64, not integers"),
        (np.array(["2"]), "not integers"),
        (np.array([2**63], np.uint64), "9223372036854775808 is not below"),
    ],
)
def test_only_integers_select_rows(client, wanted, words):
    round = client.create_round(SPECS)
    with pytest.raises(InvalidArgumentError, match=f'"emb".*{words}'):
        round.result(indices={"emb": wanted}, timeout=1)
    round.abort()
    round.delete()


@pytest.mark.parametrize("dtype", [bool, np.float64, np.int32, np.uint64])
def test_no_rows_may_be_selected_with_an_empty_array_of_any_type(client, dtype):
    round = client.create_round(SPECS)
    round.submit({"emb": SparseTensor([2], np.ones((1, 3), np.float32), [100, 3])}, contributor="a")
    round.seal()
    assert round.result("dense", indices={"emb": np.empty(0, dtype)})["emb"].shape == (0, 3)
    round.delete()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("pairs", [[1, 2, 3], [3, 4, 5]]), ("pairs", [1, 2, 3, 4]), ("rows", [[1, 2], [3, 4]])],
)
def test_a_selection_of_another_shape_is_refused(client, name, wanted):
    specs = [
        TensorSpec("pairs", (50, 60), "f32", sparse_dim=2),
        TensorSpec("rows", (50, 3), "f32", sparse_dim=1),
    ]
    round = client.create_round(specs)
    with pytest.raises(InvalidArgumentError, match=rf'"{name}".*must be \(n, [12]\)'):
        round.result(indices={name: wanted}, timeout=1)


def test_a_weight_that_would_be_rounded_is_refused(client):
    round = client.create_round([TensorSpec("n", (5,), "i64", op="weighted_mean")])
    update = {"n": ([1], np.array([1], np.int64), (5,))}
    with pytest.raises(InvalidArgumentError, match="16777217 is not a number of f32"):
        round.submit(update, contributor="a", weight=16_777_217)
    assert round.info().contributors == 0


INTEGERS = [np.array([5, 0, 3], np.int32), np.array([2, 7, 0], np.int32)]


@pytest.mark.parametrize(("op", "total"), [("count", [2]), ("max", [5, 7, 3]), ("min", [2, 0, 0])])
def test_any_weight_will_do_where_weights_play_no_part(client, op, total):
    specs = [TensorSpec("n", [3], "i32", sparse_dim=0, op=op)]
    weights = [0.1, 16_777_217]
    round = client.create_round(specs)
    round.submit({"n": INTEGERS[0]}, contributor="a", weight=weights[0])
    round.submit_many([Update({"n": INTEGERS[1]}, "b", weights[1])])
    round.seal()
    assert round.result()["n"].tolist() == total
    updates = [{"n": array} for array in INTEGERS]
    assert client.reduce(specs, updates, weights=weights)["n"].tolist() == total
    round.delete()


@pytest.mark.parametrize("op", ["sum", "weighted_mean", "mean_of_contributors"])
@pytest.mark.parametrize("weight", [0.1, 0.5, 16_777_217, 1e9 + 0.5])
def test_a_weight_of_integers_that_is_not_whole_is_refused(client, op, weight):
    """The client refuses what it can check, and the server the rest."""
    specs = [TensorSpec("n", [3], "i32", sparse_dim=0, op=op)]
    round = client.create_round(specs)
    update = {"n": INTEGERS[0]}
    for submit in (
        lambda: round.submit(update, contributor="a", weight=weight),
        lambda: round.submit_many([Update(update, "a", weight)]),
        lambda: client.reduce(specs, [update], weights=[weight]),
    ):
        with pytest.raises(InvalidUpdateError) as caught:
            submit()
        assert caught.value.reason == "INVALID_WEIGHT"
    assert round.info().contributors == 0
    round.abort()
    round.delete()


def test_bfloat16_bits_in_a_dictionary(client):
    round = client.create_round([TensorSpec("emb", [10, 2], "bf16")])
    bits = np.array([[0x3F80, 0x4000]], np.uint16)  # 1 and 2
    tensor = {"indices": np.array([3]), "values": bits, "dense_shape": np.array([10, 2])}
    round.submit({"emb": tensor}, contributor="a")
    round.submit_many([Update({"emb": tensor}, "b")])
    round.seal()
    total = round.result()["emb"]
    assert total.value_type == "bf16"
    assert total.values.tolist() == [[0x4000, 0x4080]]  # 2 and 4
    again = client.reduce([TensorSpec("emb", [10, 2], "bf16")], [{"emb": total.to_dict()}])
    assert again["emb"].values.tolist() == total.values.tolist()
    round.delete()


def test_what_the_server_tells_can_be_hashed(client):
    round = client.create_round([TensorSpec("n", [10])])
    receipt = round.submit({}, contributor="a")
    round.seal()
    published = round.wait()
    records = {receipt, published, published.manifest, client.info()}
    assert len(records) == 4
    assert round.info() in records
