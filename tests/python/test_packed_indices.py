"""Bytes of coo.packed in which two things are wrong: Python names the one that the server, which is C++, names."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
from sparseagg import SparseAggError, SparseTensor, TensorSpec
from sparseagg._encode.encodings import EncodeOptions, encode_tensor
from sparseagg._encode.packed_indices import BLOCK_ENTRIES, _encode_blocks, block_key, encode_rows
from sparseagg._encode.wire import Answer
from sparseagg._proto import aggregation_pb2, types_pb2

ENTRY = np.dtype([("first", "<u8"), ("begin", "<u4"), ("tag", "<u4")])
LAST_ROW = (1 << 63) - 2
# By the forms that blocks get: none, no words, a run, bitmaps, differences, repeats, wide differences.
ROWS = (
    [],
    [8],
    range(100, 700),
    np.flatnonzero(np.arange(4000) % 5 % 2),
    np.sort(np.arange(600) * 7919 % (1 << 20)),
    np.repeat(np.arange(300), 2),
    range(1, LAST_ROW, LAST_ROW // 600),
    [0, 5, LAST_ROW],
)
ATTEMPTS = 100
TAMPERING = {
    "first": np.array([0, 1 << 30, 1 << 62, 1 << 63, (1 << 64) - 1], np.uint64),
    "begin": np.array([0, 1, 1 << 31, (1 << 32) - 1], np.uint32),
    "tag": np.array([0, 7, 63, 64, 127, 128, 129, 255], np.uint32),
    "word": np.array([0, 1, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32),
}


def resealed(entry, words):
    """The tag of a block with the check that its content needs."""
    form, first = int(entry["tag"]) & 0xFF, int(entry["first"])
    parts = [1, first & 0xFFFFFFFF, first >> 32, form, *map(int, words)]
    keys = map(int, block_key(np.arange(1, len(parts) + 1)))
    check = sum(key * part for key, part in zip(keys, parts)) % (1 << 64) >> 40
    return form | check << 8


def tampered(indices, nnz, random):
    """`indices` with one thing wrong: their size, a bit, or a block whose check agrees with what it has become."""
    bad = np.array(indices)
    blocks = -(-nnz // BLOCK_ENTRIES)
    directory = blocks * ENTRY.itemsize
    kind = random.choice(["size", "bit", *TAMPERING])
    if kind == "size" or not nnz or len(bad) < directory or len(bad) % 4:
        change = int(random.choice([-4, -1, 1, 4]))
        return bad[:change] if change < 0 else np.append(bad, np.zeros(change, np.uint8))
    if kind == "bit":
        bad[random.integers(len(bad))] ^= 1 << int(random.integers(8))
        return bad
    entries, words = bad[:directory].view(ENTRY), bad[directory:].view("<u4")
    block = random.integers(blocks)
    if kind != "word":
        entries[kind][block] = random.choice(TAMPERING[kind])
    begin = int(entries["begin"][block])
    own = words[begin : int(entries["begin"][block + 1]) if block + 1 < blocks else len(words)]
    if kind == "word" and len(own):
        own[random.choice([0, -1])] = random.choice(TAMPERING[kind])
    entries["tag"][block] = resealed(entries[block], own)
    return bad


def damaged(good, random):
    """The indices and values of an encoded tensor with one or two things wrong."""
    indices, values = tampered(good.indices, good.nnz, random), np.array(good.values)
    second = random.choice(
        ["nothing", "indices", "size of values", "scale"], p=[0.2, 0.6, 0.1, 0.1]
    )
    if second == "indices":
        indices = tampered(indices, good.nnz, random)
    elif second == "size of values":
        values = np.append(values, np.uint8(0))
    elif second == "scale" and good.nnz:
        values[:4] = 0xFF  # NaN
    return indices.tobytes(), values.tobytes()


def refusal(action):
    """The reason of what `action` raises, and the block or row that it names; None where it raises nothing."""
    try:
        action()
    except SparseAggError as failure:
        place = re.search(r"block \d+|row \d+ at entry \d+", failure.message)
        return failure.reason, place and place[0]
    return None


def submit(client, round, contributor, header, indices, values):
    """Sends these bytes as they are."""
    update = types_pb2.UpdateHeader(round=round.name, contributor=contributor, update_id="once")
    tensor = types_pb2.Tensor(header=header, indices=indices, values=values)
    request = aggregation_pb2.SubmitUpdateRequest(header=update, tensors=[tensor])
    client._transport.unary("SubmitUpdate", request, for_update=True)


def receive(header, indices, values):
    """Reads these bytes as an answer."""
    answer = Answer(aggregation_pb2.AggregateHeader(tensors=[header]))
    answer.add(aggregation_pb2.AggregateChunk(data=indices + values))
    answer.tensors(dense=False)


def test_of_two_things_that_are_wrong_python_names_the_one_that_the_server_names(client):
    random = np.random.default_rng(20261123)
    reasons = set()
    for number, rows in enumerate(ROWS):
        shape = [max(rows, default=0) + 1]
        tensor = SparseTensor(np.array(rows, "<i8"), np.ones(len(rows), "<f4"), shape)
        good = encode_tensor("t", tensor, EncodeOptions("coo.packed", "int8"))
        round = client.create_round([TensorSpec("t", shape)])
        for attempt in range(ATTEMPTS):
            indices, values = damaged(good, random)
            header = types_pb2.TensorHeader(
                name="t",
                encoding=good.encoding,
                values_encoding=good.values_encoding,
                value_type=types_pb2.VALUE_TYPE_F32,
                dense_shape=shape,
                sparse_dim=1,
                nnz=good.nnz,
                indices_bytes=len(indices),
                values_bytes=len(values),
            )
            parts = (header, indices, values)
            theirs = refusal(partial(submit, client, round, str(attempt), *parts))
            assert refusal(partial(receive, *parts)) == theirs, f"rows {number}, attempt {attempt}"
            reasons.add(theirs and theirs[0])
        round.abort()
        round.delete()
    wanted = {"SIZE_MISMATCH", "MALFORMED_BLOCK", "CHECKSUM_MISMATCH", "INDEX_OUT_OF_RANGE", None}
    assert reasons == wanted


def test_a_block_by_itself_has_the_same_bytes_as_among_others():
    random = np.random.default_rng(5)
    for _ in range(3000):
        top = int(random.choice([2, 40, 300, 5000, 1 << 20, 1 << 40, LAST_ROW]))
        rows = np.sort(random.integers(0, top, random.integers(1, BLOCK_ENTRIES + 1)))
        if random.integers(2):
            rows = np.unique(rows)
        rows = rows.astype(np.uint64)
        among_others = b"".join(part.tobytes() for part in _encode_blocks(rows))
        assert encode_rows(rows).tobytes() == among_others, rows.tolist()
