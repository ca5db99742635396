"""encoding="auto": what travels is what is there sooner, in little more memory than the update itself."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import sparseagg.aio
from sparseagg import Client, SparseTensor, TensorSpec, Update, sparse_sum, specs_of
from sparseagg._encode import auto_encoding as auto_encoding
from sparseagg._encode import wire as wire
from sparseagg._encode.encodings import EncodeOptions, encode_tensor
from sparseagg._encode.wire import EncodedUpdate
from sparseagg._net.address import parse
from sparseagg._net.upload_rate import UploadRate
from sparseagg.tensors import DenseValues

SLOW, FAST = 12.5e6, 1e9  # bytes a second: 100 Mbit/s, and a connection to this machine
MB = 1 << 20
RANDOM = np.random.default_rng(7)


def sparse(nnz, *, in_order, values=None):
    """Scalars of a long vector."""
    rows = np.cumsum(RANDOM.integers(1, 8, nnz))
    if not in_order:
        RANDOM.shuffle(rows)
    if values is None:
        values = RANDOM.standard_normal(nnz, dtype=np.float32)
    return SparseTensor(rows, values, [8 * nnz])


def chosen(tensor, bytes_per_second, values="auto"):
    options = EncodeOptions("auto", values, bytes_per_second)
    encoded = encode_tensor("t", tensor, options)
    return encoded.encoding, encoded.values_encoding


def test_indices_are_packed_where_that_is_sooner_there(packed_by):
    tensor = sparse(100_000, in_order=True)
    assert chosen(tensor, SLOW) == ("coo.packed", "")
    assert chosen(tensor, FAST) == ("coo.raw", "")
    unsorted = sparse(100_000, in_order=False)
    assert chosen(unsorted, SLOW) == ("coo.packed", "")
    assert chosen(unsorted, 5 * SLOW) == ("coo.raw", "")
    assert chosen(tensor, 5 * SLOW) == ("coo.packed", "")


def test_on_a_busy_machine_packing_is_tried_before(monkeypatch, packed_by):
    clock = itertools.count(0, 0.5)  # half a second for the trial of 1 of 8 parts
    monkeypatch.setattr(auto_encoding, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    tensor = sparse(8 << 16, in_order=True)
    assert chosen(tensor, SLOW) == ("coo.raw", "")
    assert chosen(tensor, SLOW / 50) == ("coo.packed", "")


def test_values_are_coded_where_that_is_sooner_there():
    whole = DenseValues(RANDOM.integers(-100, 100, 100_000).astype(np.float32))
    assert chosen(whole, SLOW) == ("coo.packed", "bf16")
    assert chosen(whole, FAST) == ("coo.raw", "")
    assert chosen(whole, SLOW, "raw") == ("coo.raw", "")
    assert chosen(DenseValues(RANDOM.normal(size=10_000)), SLOW) == ("coo.raw", "")
    singles = DenseValues(RANDOM.standard_normal(10_000, dtype=np.float32).astype(np.float64))
    assert chosen(singles, SLOW) == ("coo.packed", "f32")


def test_values_that_are_to_be_rounded_are_packed_on_any_connection():
    tensor = sparse(2000, in_order=True)
    assert chosen(tensor, FAST, "f16") == ("coo.packed", "f16")


def test_what_the_sample_did_not_see_is_not_lost(packed_by):
    values = np.ones(100_000, np.float32)
    values[77_777] = 0.1
    for tensor in (DenseValues(values), sparse(100_000, in_order=True, values=values)):
        assert chosen(tensor, SLOW)[1] == ""
    rows = np.arange(0, 1_000_000, 10)
    rows[60_001] = 3  # out of order
    tensor = SparseTensor(rows, values, [1_000_000])
    encoded = EncodedUpdate({"t": tensor}, options=EncodeOptions("auto", "auto", SLOW))
    want = EncodedUpdate({"t": tensor}, options=EncodeOptions("coo.packed"))
    assert encoded.payload.read(0, MB) == want.payload.read(0, MB)


def test_what_the_sample_took_for_sorted_is_not_sorted_at_any_price(monkeypatch, packed_by):
    rows = np.arange(100_000)
    rows[60_001] = 3
    tensor = SparseTensor(rows, np.ones(100_000, np.float32), [100_000])
    monkeypatch.setattr(auto_encoding, "EXTRA_BYTES_MAX", 400_000)  # 800,000 are needed
    assert chosen(tensor, SLOW) == ("coo.raw", "")
    monkeypatch.setattr(auto_encoding, "EXTRA_BYTES_MAX", 900_000)
    assert chosen(tensor, SLOW)[0] == "coo.packed"


def updates():
    """Large ones, by name."""
    rows = np.arange(0, 1_200_000, 3)
    table = RANDOM.standard_normal((400_000, 64), dtype=np.float32)
    yield "rows of 64", SparseTensor(rows, table, [1_200_000, 64])
    yield "dense", DenseValues(RANDOM.normal(size=13_000_000))
    yield "dense, exact in bf16", DenseValues(RANDOM.integers(-9, 9, 25_000_000).astype("f4"))
    yield "in order", sparse(8_000_000, in_order=True)
    yield "not in order", sparse(4_000_000, in_order=False)
    yield "many not in order", sparse(8_000_000, in_order=False)


@pytest.mark.parametrize("bytes_per_second", [0.0, SLOW, FAST])
def test_the_memory_beside_a_large_update_is_bounded(bytes_per_second):
    for name, tensor in updates():
        tracemalloc.start()
        encoded = EncodedUpdate(
            {"t": tensor}, options=EncodeOptions("auto", "auto", bytes_per_second)
        )
        if encoded.message_bytes < 16 * MB:
            encoded.whole()
        for offset in range(0, encoded.payload.size, MB):
            encoded.chunk(offset, MB)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 64 * MB, f"{name}: {peak / MB:.0f} MB"


SORTING = """
import pathlib
import numpy as np
from sparseagg import SparseTensor
from sparseagg._encode.encodings import EncodeOptions
from sparseagg._encode.wire import EncodedUpdate

def bytes_of(key):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))

random = np.random.default_rng(5)
rows = np.cumsum(random.integers(1, 4, 8_000_000))
random.shuffle(rows)
tensor = SparseTensor(rows, np.ones(len(rows), np.float32) / 3, [int(rows.max()) + 1])
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins with what is resident now
before = bytes_of("VmRSS:")
update = EncodedUpdate({"t": tensor}, options=EncodeOptions("auto", "auto", 1e5))
for offset in range(0, update.payload.size, 1 << 20):
    update.chunk(offset, 1 << 20)
print(update.encodings["t"].encoding, bytes_of("VmHWM:") - before)
"""


def test_the_library_sorts_more_entries_than_their_order_would_fit(in_process):
    """The system counts, since tracemalloc does not see the memory of the library. In numpy the order takes 64 MB, and
    these entries stay raw."""
    run = subprocess.run(
        [sys.executable, "-c", SORTING], capture_output=True, text=True, check=True
    )
    encoding, extra = run.stdout.split()
    assert encoding == "coo.packed"
    assert int(extra) < 64 * MB


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("width", [1, 3])
def test_bytes_that_are_made_when_they_are_read_are_those_of_the_whole(in_order, width, packed_by):
    nnz = 700_000
    rows = np.arange(nnz) * 2 if in_order else RANDOM.permutation(nnz) // 2
    values = RANDOM.integers(-9, 9, (nnz, width)).astype("f4")
    for coding in ("auto", "raw"):
        tensor = SparseTensor(rows, values, [2 * nnz, width])
        update = EncodedUpdate({"t": tensor}, options=EncodeOptions("coo.packed", coding))
        assert update.payload.is_made_when_read or (coding == "raw" and in_order)
        whole = update.payload.read(0, update.payload.size)
        assert len(whole) == update.payload.size
        message = update.whole().tensors[0]
        assert message.indices + message.values == whole
        pieces = [update.payload.read(at, 99_991) for at in range(0, len(whole), 99_991)]
        assert b"".join(pieces) == whole
        order = np.argsort(rows, kind="stable")
        dtype = "<f4" if coding == "raw" else "<u2"
        sent = np.frombuffer(message.values, dtype)
        if coding == "auto":
            sent = (sent.astype("<u4") << 16).view("<f4")
        assert (sent.reshape(nnz, width) == values[order]).all()
        update.keep()
        rows[:1], values[:1] = rows[:1], values[:1]
        assert update.payload.read(0, update.payload.size) == whole
        assert not update.payload.is_made_when_read


def test_the_speed_of_earlier_uploads_decides():
    here, elsewhere = UploadRate(parse("127.0.0.1:1")), UploadRate(parse("agg.example:1"))
    assert (here.bytes_per_second, elsewhere.bytes_per_second) == (1e9, 12.5e6)
    here.record(1000, 100)  # says nothing
    assert here.bytes_per_second == 1e9
    here.record(100 * MB, 100)
    assert here.bytes_per_second == MB
    here.record(100 * MB, 10)
    assert here.bytes_per_second == 5.5 * MB


def test_a_large_upload_is_measured(server):
    values = np.arange(6_000_000, dtype=np.float32)  # in chunks
    small = values[:2_000_000]  # in one message

    async def submit():
        rates = []
        async with sparseagg.aio.Client(server.target) as client:
            for part in (values, small):
                round = await client.create_round(specs_of({"w": part}))
                await round.submit({"w": part}, contributor="a")
                rates.append(client._transport.upload_rate.bytes_per_second)
                await round.abort()
        return rates

    rates = asyncio.run(submit())
    with Client(server.target) as client:
        for part in (values, small):
            round = client.create_round(specs_of({"w": part}))
            round.submit({"w": part}, contributor="a")
            rates.append(client._transport.upload_rate.bytes_per_second)
            round.abort()
        sparse_sum([values], client=client)
        rates.append(client._transport.upload_rate.bytes_per_second)
    assert len({1e9, *rates}) == 6


def test_sparse_sum_can_choose(client):
    tensor = (np.arange(5), np.float32([0.1, 0.2, 0.3, 0.4, 0.5]), [9])
    exact = sparse_sum([tensor], client=client, encoding="coo.raw").values
    assert exact.tolist() == tensor[1].tolist()
    rounded = sparse_sum([tensor], client=client, values="bf16").values
    assert rounded.tolist() != exact.tolist()
    assert np.abs(rounded - exact).max() < 2e-3


def test_asyncio_encodes_large_updates_beside_the_event_loop(server, monkeypatch):
    threads = []

    def encode(*arguments):
        threads.append(threading.current_thread() is threading.main_thread())
        return encode_tensor(*arguments)

    monkeypatch.setattr(wire, "encode_tensor", encode)
    large = {"w": RANDOM.integers(0, 9, 1_000_000).astype(np.float32)}
    small = {"w": RANDOM.integers(0, 9, 10).astype(np.float32)}

    async def scenario():
        async with sparseagg.aio.Client(server.target) as client:
            for update in (large, small):
                threads.clear()
                round = await client.create_round(specs_of(update))
                await round.submit(update, contributor="a", encoding="coo.packed")
                await round.submit_many(Update(update, f"c{n}") for n in range(3))
                await round.abort()
                await client.reduce([TensorSpec("w", update["w"].shape, "f32", 0)], [update])
                assert threads == [update is small] * 5

    asyncio.run(scenario())
