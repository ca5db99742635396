"""Results that stay with their owners: how they are read, verified, erased, and what their servers refuse."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from sparseagg import (
    Client,
    InvalidArgumentError,
    RetryPolicy,
    SparseAggError,
    SparseTensor,
    TensorSpec,
    UnavailableError,
    aio,
)
from sparseagg._proto import aggregation_pb2
from support.trees import RETRY, bits, until, who

# Owners divide rows by 65,536, so "big" has ten pieces, "pair" five and "small" and "dense" one.
SPECS = [
    TensorSpec("big", [650_000, 4], op="weighted_mean"),
    TensorSpec("pair", [1000, 300], "f64", sparse_dim=2),
    TensorSpec("small", [50], "i64"),
    TensorSpec("dense", [3, 5], sparse_dim=0),
]
ONCE = RetryPolicy(attempts=1)


def update(seed: int, rows: int = 400) -> dict:
    generator = np.random.default_rng(seed)

    def some(shape, sparse_dim, count, dtype=np.float32):
        indices = np.stack([generator.integers(0, d, count) for d in shape[:sparse_dim]], axis=1)
        values = 1000 * generator.standard_normal((count, *shape[sparse_dim:]))
        return SparseTensor(indices, values.astype(dtype), shape)

    return {
        "big": some([650_000, 4], 1, rows),
        "pair": some([1000, 300], 2, rows, np.float64),
        "small": some([50], 1, 20, np.int64),
        "dense": generator.standard_normal((3, 5)).astype(np.float32),
    }


def published(tree, **options):
    """The same round at the root, with owners, and at one server."""
    made = []
    for client, more in ((tree.client, {"owners": True}), (tree.one_client, {})):
        made.append(client.create_round(SPECS, "r1", **options, **more))
        for seed in range(12):
            made[-1].submit(update(seed), **who(seed))
        made[-1].seal()
        made[-1].wait(60)
    return made


def rounds_at(tree) -> list[str]:
    return [info.name for client in tree.direct for info in client.rounds()]


def test_every_way_of_reading_has_the_bytes_of_one_server(make_tree):
    tree = make_tree(3, owners=True)
    divided, one = published(tree)
    assert len(divided.info().manifest.parts) == 3
    assert bits(divided.result(), SPECS) == bits(one.result(), SPECS)
    shown, of_one = divided.info(), one.info()
    for mine, theirs in zip(shown.tensor_status, of_one.tensor_status):
        assert (mine.nnz_result, mine.nnz_received) == (theirs.nnz_result, theirs.nnz_received)
    generator = np.random.default_rng(1)
    touched = one.result()["big"].indices[:, 0]
    chosen = {
        "big": np.concatenate([generator.choice(touched, 50), generator.integers(0, 650_000, 50)]),
        "pair": generator.integers(0, 300, (40, 2)),
        "small": np.int64([]),
    }
    asked = [
        {"layout": "dense"},
        {"layout": "dense", "tensors": ["pair"]},
        {"encoding": "coo.packed"},
        {"tensors": ["dense", "big"]},
        {"indices": chosen},
        {"indices": chosen, "layout": "dense"},
    ]
    for options in asked:
        found, expected = divided.result(**options), one.result(**options)
        assert list(found) == list(expected), options
        for name, tensor in expected.items():
            pairs = [(found[name], tensor)]
            if isinstance(tensor, SparseTensor):
                pairs = [(found[name].indices, tensor.indices), (found[name].values, tensor.values)]
            for mine, theirs in pairs:
                assert mine.shape == theirs.shape, (options, name)
                assert mine.tobytes() == theirs.tobytes(), (options, name)


def test_a_part_of_the_answer_is_read_from_any_offset(make_tree):
    tree = make_tree(2, owners=True)
    divided, one = published(tree)
    whole = []
    for round in (divided, one):
        read = b""
        while True:
            request = aggregation_pb2.ReadResultRequest(offset=len(read), bytes=7001)
            request.result.name = round.name
            answer = round._transport.unary("ReadResult", request)
            read += answer.chunk.data
            if len(read) == answer.total_bytes:
                break
        whole.append(read)
    assert whole[0] == whole[1]
    request.offset = len(read) + 1
    with pytest.raises(InvalidArgumentError) as refused:
        divided._transport.unary("ReadResult", request)
    assert refused.value.reason == "OFFSET_OUT_OF_RANGE"
    with pytest.raises(InvalidArgumentError) as refused:
        divided.result(tensors=["none"])
    assert refused.value.reason == "UNKNOWN_TENSOR"


def test_the_parts_of_the_owners_are_the_result(make_tree):
    tree = make_tree(3, owners=True)
    divided, _ = published(tree)
    parts = [part.result() for part in divided.parts()]
    assert len(parts) == 3
    whole = divided.result()
    for name in ("big", "pair", "small"):
        indices = np.concatenate([part[name].indices for part in parts])
        values = np.concatenate([part[name].values for part in parts])
        assert indices.tobytes() == whole[name].indices.tobytes()
        assert values.tobytes() == whole[name].values.tobytes()
    assert min(part["big"].indices.size for part in parts) > 100

    async def read() -> int:
        async with aio.Client(tree.root.target) as client:
            return sum(
                [
                    len((await part.result())["big"].indices)
                    for part in await client.round("r1").parts()
                ]
            )

    assert asyncio.run(read()) == len(whole["big"].indices)


def test_verify_asks_the_owners_and_delete_reaches_them(make_tree):
    tree = make_tree(2, owners=True)
    divided, one = published(tree, keep_updates=True)
    verified = divided.verify(60)
    assert verified.contributors == 12
    assert verified.result_digest == one.verify(60).result_digest
    assert len(rounds_at(tree)) == 4
    divided.delete()
    until(lambda: not rounds_at(tree), "the owners have no part")
    again = tree.client.create_round(SPECS, "r2", owners=True)
    again.abort()
    until(lambda: not rounds_at(tree) or again.info().state == "ABORTED", "it is aborted")
    again.delete()
    until(lambda: not rounds_at(tree), "the leaves have no round")


def test_without_kept_updates_verify_compares_the_digests(make_tree):
    tree = make_tree(2, owners=True)
    divided, _ = published(tree)
    with pytest.raises(SparseAggError) as refused:
        divided.verify(60)
    assert refused.value.reason == "UPDATES_NOT_KEPT"


def test_an_owner_that_does_not_answer_is_named_until_it_is_back(make_tree):
    tree = make_tree(2, owners=True)
    divided, one = published(tree)
    tree.leaves[1].kill()
    with Client(tree.root.target, retry=ONCE) as client, pytest.raises(UnavailableError) as refused:
        client.round("r1").result()
    assert refused.value.reason == "OWNER_UNAVAILABLE"
    assert "leaf-1" in str(refused.value)
    tree.leaves[1].start()
    assert bits(divided.result(), SPECS) == bits(one.result(), SPECS)


def test_an_owner_that_has_lost_its_part_fails_visibly(make_tree):
    tree = make_tree(2, owners=True)
    divided, _ = published(tree, durability="memory")
    tree.leaves[0].kill()
    tree.leaves[0].start()
    with Client(tree.root.target, retry=ONCE) as client, pytest.raises(SparseAggError) as refused:
        client.round("r1").result()
    assert refused.value.reason == "OWNER_LOST"
    assert divided.info().state == "PUBLISHED"


def test_leaves_without_peers_own_nothing(make_tree):
    tree = make_tree(2)
    with pytest.raises(SparseAggError) as refused:
        tree.client.create_round(SPECS, "r1", owners=True)
    assert refused.value.reason == "UNKNOWN_PEER"
    assert tree.client.create_round(SPECS, "r1").name == "rounds/r1"
    with pytest.raises(InvalidArgumentError) as refused:
        tree.one_client.create_round(SPECS, "r2", owners=True)
    assert refused.value.reason == "INVALID_SPEC"
    with pytest.raises(InvalidArgumentError) as refused:
        tree.client.create_round(SPECS, "r3", owners=True, publish_partial=True)
    assert refused.value.reason == "INVALID_SPEC"


def test_a_leaf_that_is_given_up_owns_nothing(make_tree):
    tree = make_tree(3, owners=True)
    root = tree.client.create_round(SPECS, "r1", owners=True, leaf_wait=1)
    seeds = [*tree.seeds_of(0, 3), *tree.seeds_of(2, 3)]
    lost = tree.seeds_of(1, 2)
    for seed in (*seeds, *lost):
        root.submit(update(seed), **who(seed))
    tree.leaves[1].kill()
    root.seal()
    manifest = root.wait(60).manifest
    assert manifest.given_up_leaves == ("leaf-1",)
    assert [part.owner for part in manifest.parts] == ["leaf-0", "leaf-2"]
    one = tree.one_client.create_round(SPECS, "r1")
    for seed in seeds:
        one.submit(update(seed), **who(seed))
    one.seal()
    assert bits(root.result(), SPECS) == bits(one.result(timeout=60), SPECS)


def test_contributors_cannot_send_to_an_owner(make_tree):
    tree = make_tree(2, owners=True)
    divided, _ = published(tree)
    part = divided.parts()[0]
    assert part.info().state == "PUBLISHED"
    with Client(tree.leaves[0].target, retry=RETRY) as client:
        names = [info.name for info in client.rounds()]
    assert part.name in names
    assert divided.name in names
