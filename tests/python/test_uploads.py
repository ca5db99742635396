"""Updates beyond the message limit, broken connections, servers that go away and come back."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from sparseagg import (
    AlreadyCountedError,
    Client,
    InvalidUpdateError,
    Receipt,
    ResourceExhaustedError,
    RetryPolicy,
    Round,
    SparseTensor,
    TensorSpec,
    Update,
    as_tensor,
    sparse_sum,
)
from sparseagg._encode.encodings import EncodeOptions
from sparseagg._encode.wire import EncodedUpdate
from sparseagg._net import retry as _retry
from sparseagg._proto import aggregation_pb2
from sparseagg._proto.types_pb2 import Tensor
from sparseagg._requests import encode_update
from sparseagg._uploads import take_together
from support.flaky_proxy import FlakyProxy

ROWS, WIDTH = 1_000_000, 64
SPECS = [TensorSpec("emb", [ROWS, WIDTH]), TensorSpec("bias", [5], sparse_dim=0)]


def large_update(seed: int, nnz: int = 100_000) -> dict:
    """About 26 MB in the rows of an embedding, beyond the limit of 16 MiB."""
    generator = np.random.default_rng(seed)
    rows = generator.choice(ROWS, nnz, replace=False)
    values = generator.integers(-(1 << 20), 1 << 20, (nnz, WIDTH)).astype(np.float32)
    return {
        "emb": SparseTensor(rows, values, [ROWS, WIDTH]),
        "bias": np.arange(5, dtype=np.float32),
    }


@pytest.fixture
def proxy(server):
    """Cuts the first connection after 8 MB."""
    running = FlakyProxy(server.port, cut_after_bytes=8_000_000)
    yield running
    running.close()


def test_a_large_update_goes_in_chunks(client):
    round = client.create_round(SPECS)
    tensors = large_update(1)
    receipt = round.submit(tensors, contributor="large")
    assert (receipt.sequence, receipt.duplicate) == (1, False)
    assert round.submit(tensors, contributor="large", update_id=receipt.update_id).duplicate
    round.seal()
    result = round.result()
    order = np.argsort(tensors["emb"].indices[:, 0])
    assert np.array_equal(result["emb"].indices, tensors["emb"].indices[order])
    assert np.array_equal(result["emb"].values, tensors["emb"].values[order])
    assert result["bias"].tolist() == [0, 1, 2, 3, 4]
    round.delete()


def test_a_broken_upload_is_resumed_and_not_sent_again(client, proxy):
    round = client.create_round(SPECS)
    tensors = large_update(2)
    size = tensors["emb"].nbytes
    with Client(proxy.target) as unlucky:
        receipt = unlucky.round(round.name).submit(tensors, contributor="unlucky")
    assert receipt.sequence == 1
    assert proxy.connections >= 2
    assert (
        proxy.bytes_from_client < size + 12_000_000
    )  # 8 MB before the cut, of which most were kept
    assert round.info().contributors == 1
    round.abort()
    round.delete()


def test_many_updates_survive_a_broken_connection(client, server):
    round = client.create_round([TensorSpec("one", [2000, 512])])
    running = FlakyProxy(server.port, cut_after_bytes=1_000_000)
    updates = [
        Update({"one": SparseTensor([n], np.ones((1, 512), np.float32), [2000, 512])}, f"c{n}")
        for n in range(2000)
    ]
    with Client(running.target) as unlucky:
        receipts = unlucky.round(round.name).submit_many(updates)
    running.close()
    assert running.connections >= 2
    assert sorted(receipt.sequence for receipt in receipts) == list(range(1, 2001))
    round.seal()
    assert np.array_equal(round.result("dense")["one"], np.ones((2000, 512), np.float32))
    round.delete()


def test_large_and_small_updates_share_a_stream(client):
    round = client.create_round(SPECS)
    small = {"emb": SparseTensor([1], np.ones((1, WIDTH), np.float32), [ROWS, WIDTH])}
    updates = [
        Update(small, "a"),
        Update(large_update(3), "b"),
        Update(small, "c"),
        Update(large_update(4), "d"),
    ]
    receipts = round.submit_many(updates)
    assert [receipt.contributor for receipt in receipts] == ["a", "b", "c", "d"]
    assert round.info().contributors == 4
    round.abort()
    round.delete()


def test_large_tensors_through_sparse_sum(client):
    tensors = [large_update(seed)["emb"] for seed in (5, 6)]
    total = sparse_sum(tensors, client=client, layout="sparse")
    rows = np.union1d(*(tensor.indices[:, 0] for tensor in tensors))
    assert np.array_equal(total.indices[:, 0], rows)
    expected = np.zeros((len(rows), WIDTH), np.float32)
    for tensor in tensors:  # small whole numbers: every order of addition is exact
        expected[np.searchsorted(rows, tensor.indices[:, 0])] += tensor.values
    assert np.array_equal(total.values, expected)


def test_a_smaller_message_limit_of_the_server_is_respected(own_server):
    limited = own_server("--message-bytes-max", "1048576")
    with Client(limited.target) as client:
        round = client.create_round(SPECS)
        assert round.submit(large_update(7, nnz=10_000), contributor="a").sequence == 1
        round.seal()
        assert round.result()["emb"].nnz == 10_000


@contextmanager
def half_sent_update(client: Client, round: Round):
    """Begins an update that keeps 26 MB of the staging memory for itself; gives it and its stream."""
    update = EncodedUpdate(
        {name: as_tensor(tensor) for name, tensor in large_update(8).items()},
        round_name=round.name,
        contributor="first",
        update_id="first",
    )
    with client._transport.stream("StreamUpdates", idle_timeout=60) as stream:
        stream.send(aggregation_pb2.StreamUpdatesRequest(begin=update.begin()))
        assert stream.receive().WhichOneof("body") == "progress"
        yield update, stream


def test_an_overloaded_server_is_asked_again_when_it_says(own_server, monkeypatch):
    """A half sent update fills the staging memory; a second one waits, and is counted once there is room."""
    server = own_server("--staging-bytes-max", "80000000")
    refused, room = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        refused.set()
        assert room.wait(60)

    monkeypatch.setattr(_retry.time, "sleep", pause)
    with Client(server.target) as client:
        round = client.create_round(SPECS)
        with (
            half_sent_update(client, round) as (first, half_sent),
            ThreadPoolExecutor(1) as threads,
        ):
            second = threads.submit(round.submit, large_update(9), contributor="second")
            assert refused.wait(60)
            for offset in range(0, first.payload.size, 1 << 20):
                chunk = first.chunk(offset, 1 << 20)
                half_sent.send(aggregation_pb2.StreamUpdatesRequest(chunk=chunk))
            assert half_sent.receive().receipt.contributor == "first"
            room.set()
            assert second.result(60).contributor == "second"
        round.seal()
        assert round.result().manifest.contributors == 2


class Clock:
    """In place of the module `time`: a pause is over at once, and counts."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 60, "asked again beyond the timeout"


def test_a_large_update_that_gets_no_further_is_given_up(own_server, monkeypatch):
    """The server takes its beginning each time, and has no room for the rest."""
    server = own_server("--staging-bytes-max", "80000000")
    clock = Clock()
    monkeypatch.setattr(_retry, "time", clock)
    with Client(server.target, timeout=10) as client:
        round = client.create_round(SPECS)
        with half_sent_update(client, round), pytest.raises(ResourceExhaustedError) as refusal:
            round.submit(large_update(9), contributor="second")
        assert refusal.value.reason == "STAGING_FULL"
        assert clock.now >= 5  # more than 10 where the server took more of it meanwhile
        assert round.info().contributors == 0


def test_calls_wait_for_a_server_that_comes_back(own_server):
    server = own_server()
    retry = RetryPolicy(attempts=1000, initial_delay=0.01, max_delay=0.05)
    with Client(server.target, retry=retry, timeout=30) as client:
        version = client.info().version
        server.kill()
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(client.info().version))
        waiting.start()
        server.start()
        waiting.join(30)
        assert answers == [version]


def wait_for_the_end_of_streams() -> None:
    """Returns when every stream of this process has ended."""
    for thread in threading.enumerate():
        if thread.name == "sparseagg-stream":
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize("attempts", [1, 6])
def test_an_iterable_may_pause_longer_than_the_server_keeps_a_silent_stream(own_server, attempts):
    server = own_server("--stream-idle-ms", "50")
    with Client(server.target, retry=RetryPolicy(attempts=attempts)) as client:
        round = client.create_round([TensorSpec("n", [10], "i64")])

        def updates():
            for number in range(3):
                yield Update({"n": ([number], np.array([1]), [10])}, f"c{number}")
                wait_for_the_end_of_streams()

        receipts = round.submit_many(updates())
        assert [receipt.sequence for receipt in receipts] == [1, 2, 3]
        assert round.info().contributors == 3


def updates_of_which_one_is_refused_here():
    """Number 1 has a type that no encoding can hold, so it never gets to the server."""
    for number in range(4):
        values = np.ones(1, np.int64 if number != 1 else bool)
        yield Update({"n": ([number], values, [10])}, f"c{number}")


def test_an_update_that_is_refused_here_does_not_stop_the_others(client):
    round = client.create_round([TensorSpec("n", [10], "i64")])
    outcomes = round.submit_many(updates_of_which_one_is_refused_here(), return_exceptions=True)
    assert isinstance(outcomes[1], InvalidUpdateError)
    others = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    assert [receipt.contributor for receipt in others] == ["c0", "c2", "c3"]
    assert round.info().contributors == 3
    round.abort()
    round.delete()


def test_a_refusal_here_is_raised_when_the_others_are_counted(client):
    round = client.create_round([TensorSpec("n", [10], "i64")])
    with pytest.raises(InvalidUpdateError, match='update 1: .*tensor "n".*bool'):
        round.submit_many(updates_of_which_one_is_refused_here())
    assert round.info().contributors == 3
    round.abort()
    round.delete()


def _waiting(*sizes):
    """Yields messages of whole updates with about these bytes each; 0 stands for the chunk of another update."""
    for number, size in enumerate(sizes):
        if size == 0:
            chunk = aggregation_pb2.UpdateChunk(update_id=str(number), data=b"1")
            yield aggregation_pb2.StreamUpdatesRequest(chunk=chunk)
            continue
        update = aggregation_pb2.SubmitUpdateRequest(tensors=[Tensor(values=bytes(size))])
        update.header.update_id = str(number)
        yield aggregation_pb2.StreamUpdatesRequest(update=update, takes_more=True)


def _taken(*sizes):
    """What is sent of them: a list of ids for a batch, the kind of message for one alone."""
    unsent = deque(_waiting(*sizes))
    taken = []
    while unsent:
        message = take_together(unsent)
        kind = message.WhichOneof("body")
        if kind == "batch":
            assert message.takes_more
            assert message.ByteSize() <= 64 << 10
        updates = message.batch.updates
        taken.append([int(update.header.update_id) for update in updates] or kind)
    return taken


def test_small_updates_that_wait_are_sent_together():
    assert _taken(1000) == ["update"]
    assert _taken(1000, 1000, 1000) == [[0, 1, 2]]
    assert _taken(1000, 0, 1000, 1000) == ["update", "chunk", [2, 3]]
    assert _taken(1000, 70_000, 1000, 60_000, 5000) == ["update", "update", [2, 3], "update"]
    assert [len(ids) for ids in _taken(*[1] * 2500)] == [1000, 1000, 500]


def test_of_updates_that_are_sent_together_each_has_its_outcome(client):
    round = client.create_round([TensorSpec("one", [2000], sparse_dim=1)])
    updates = [
        Update({"one": SparseTensor([n], np.ones(1, np.float32), [2000])}, f"c{n % 1200}")
        for n in range(1500)
    ]
    outcomes = round.submit_many(updates, return_exceptions=True)
    assert [receipt.contributor for receipt in outcomes[:1200]] == [f"c{n}" for n in range(1200)]
    assert sorted(receipt.sequence for receipt in outcomes[:1200]) == list(range(1, 1201))
    assert all(isinstance(refused, AlreadyCountedError) for refused in outcomes[1200:])
    round.seal()
    assert np.array_equal(round.result("dense")["one"], np.arange(2000) < 1200)
    round.delete()


def ids_of(count):
    """Of updates to which none is given."""
    specs = {"n": TensorSpec("n", [10])}
    update = Update({}, "a")
    return [
        encode_update("rounds/r", specs, update, EncodeOptions()).update_id for _ in range(count)
    ]


def test_ids_that_are_made_up_are_random_once_for_each_process(monkeypatch):
    random = []

    def uuid4(make=uuid.uuid4):
        random.append(make())
        return random[-1]

    monkeypatch.setattr(uuid, "uuid4", uuid4)
    ids = ids_of(1000)
    assert len(set(ids)) == 1000
    assert len(random) <= 1
    assert all(len(one) <= 64 for one in ids)
    monkeypatch.setattr("os.getpid", lambda: -1)  # as a forked child
    child = ids_of(1000)
    assert not set(child) & set(ids)
    assert child[0].partition("-")[0] != ids[0].partition("-")[0]
