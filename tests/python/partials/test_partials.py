"""Partial aggregates between real servers, and between a server and this process."""

from __future__ import annotations

import asyncio
import pickle
import random

import numpy as np
import pytest
from sparseagg import (
    AlreadyExistsError,
    Client,
    InvalidArgumentError,
    Partial,
    Reduction,
    RetryPolicy,
    SparseAggError,
    SparseTensor,
    TensorSpec,
    aio,
)

SPECS = [
    TensorSpec("emb", [200_000, 4], op="weighted_mean"),
    TensorSpec("hits", [500], "i64"),
    TensorSpec("seen", [500], "f64", op="mean_of_contributors"),
]
RETRY = RetryPolicy(attempts=1000, initial_delay=0.01, max_delay=0.05)


def update(seed: int) -> dict:
    """Of sums that no f64 holds."""
    generator = np.random.default_rng(seed)
    scale = np.exp2(generator.integers(-60, 60, (200, 4)))
    values = (generator.standard_normal((200, 4)) * scale).astype(np.float32)
    rows = generator.integers(0, 500, 20)
    return {
        "emb": SparseTensor(generator.integers(0, 200_000, 200), values, [200_000, 4]),
        "hits": SparseTensor(rows, generator.integers(-9, 9, 20), [500]),
        "seen": SparseTensor(rows, generator.standard_normal(20), [500]),
    }


def weight(seed: int) -> float:
    return float(1 + seed % 5)


def bits(result) -> list:
    manifest = result.manifest
    tensors = [
        (result[spec.name].indices.tobytes(), result[spec.name].values.tobytes()) for spec in SPECS
    ]
    counts = (manifest.contributors, manifest.total_weight)
    return [*tensors, counts, manifest.updates_digest, manifest.result_digest]


@pytest.fixture
def tree(own_server, tmp_path):
    """Clients of a root, three leaves and a server that gets every update."""
    servers = [
        own_server("--data-dir", str(tmp_path / f"data{number}"), "--store-free-bytes-min", "0")
        for number in range(5)
    ]
    clients = [Client(server.target, retry=RETRY, timeout=60) for server in servers]
    yield servers, clients
    for client in clients:
        client.close()


def test_a_tree_of_servers_has_the_bits_of_one_though_all_are_killed(tree):
    servers, (root_client, *leaf_clients, one_client) = tree
    one = one_client.create_round(SPECS)
    root = root_client.create_round(SPECS)
    leaves = [client.create_round(SPECS, publish_partial=True) for client in leaf_clients]
    assert leaves[0].info().publish_partial
    where = random.Random(5)
    for seed in range(24):
        contributor = {"contributor": f"c{seed}", "weight": weight(seed), "update_id": f"u{seed}"}
        for round in (one, where.choice(leaves)):
            round.submit(update(seed), **contributor)
    for leaf in leaves:
        leaf.seal()
        leaf.wait(30)
    for server in servers:
        server.kill()
        server.start()
    receipts = [
        root.submit_partial(leaf.partial(), node=f"leaf-{i}") for i, leaf in enumerate(leaves)
    ]
    servers[0].kill()
    servers[0].start()
    for i, leaf in enumerate(leaves):
        again = root.submit_partial(leaf.partial(), node=f"leaf-{i}")
        assert (again.duplicate, again.sequence) == (True, receipts[i].sequence)
    with pytest.raises(
        AlreadyExistsError, match='covers contributor "c.*which the one of "leaf-0" covers'
    ) as caught:
        root.submit_partial(leaves[0].partial(), node="leaf-9")
    assert caught.value.reason == "CONTRIBUTORS_OVERLAP"
    assert root.info().contributors == 24
    for round in (one, root):
        round.seal()
    assert bits(root.result()) == bits(one.result())


def test_a_large_partial_goes_in_chunks_and_is_the_same_update(own_server):
    server = own_server("--message-bytes-max", "65536")
    with Client(server.target, retry=RETRY) as client:
        leaf = client.create_round(SPECS, publish_partial=True)
        for seed in range(20):
            leaf.submit(update(seed), contributor=f"c{seed}")
        leaf.seal()
        partial = leaf.partial(30)
        assert len(partial) > 65536
        root = client.create_round(SPECS)
        assert not root.submit_partial(partial, node="leaf").duplicate
        assert root.submit_partial(partial, node="leaf").duplicate
        with pytest.raises(InvalidArgumentError, match="partial aggregate"):
            root.submit_partial(partial[:-1], node="other")
        assert root.info().contributors == 20


def test_what_is_not_allowed_says_so(client):
    leaf = client.create_round(SPECS, publish_partial=True)
    leaf.submit(update(1), contributor="a")
    leaf.seal()
    partial = leaf.partial(30)
    with pytest.raises(SparseAggError) as caught:
        leaf.result()
    assert caught.value.reason == "RESULT_IS_PARTIAL"
    other = client.create_round([TensorSpec("emb", [200_000, 4]), *SPECS[1:]])
    with pytest.raises(
        SparseAggError, match='tensor "emb".*operator "weighted_mean", not "sum"'
    ) as caught:
        other.submit_partial(partial, node="leaf")
    assert caught.value.reason == "SPEC_MISMATCH"
    other.seal()
    with pytest.raises(SparseAggError) as caught:
        other.partial(30)
    assert caught.value.reason == "RESULT_NOT_PARTIAL"
    with pytest.raises(InvalidArgumentError, match="no partial aggregate"):
        other.submit_partial("text", node="leaf")
    with pytest.raises(InvalidArgumentError, match="publish_partial is 2"):
        client.create_round(SPECS, publish_partial=2)


def test_rounds_of_asyncio(client, server):
    async def run():
        async with aio.Client(server.target) as there:
            leaf = await there.create_round(SPECS, publish_partial=True)
            await leaf.submit(update(1), contributor="a")
            await leaf.seal()
            root = await there.create_round(SPECS)
            receipt = await root.submit_partial(await leaf.partial(30), node="leaf")
            await root.seal()
            return receipt, await root.result()

    receipt, result = asyncio.run(run())
    assert (receipt.contributor, receipt.duplicate) == ("leaf", False)
    assert result.manifest.contributors == 1


@pytest.mark.usefixtures("in_process")
def test_a_server_and_this_process_share_the_format(client):
    leaf = client.create_round(SPECS, publish_partial=True)
    expected = Reduction(SPECS)
    reduction = Reduction(SPECS)
    for seed in range(9):
        (leaf.submit if seed % 3 == 0 else reduction.add)(
            update(seed),
            weight=weight(seed),
            **({"contributor": f"c{seed}"} if seed % 3 == 0 else {}),
        )
        expected.add(update(seed), weight=weight(seed))
    leaf.seal()
    partial = Partial.from_bytes(leaf.partial(30))
    reduction.merge(pickle.loads(pickle.dumps(partial)))
    assert reduction.snapshot().to_bytes() == expected.snapshot().to_bytes()
    assert bits(reduction.result()) == bits(expected.result())
    root = client.create_round(SPECS)
    with pytest.raises(InvalidArgumentError) as caught:
        root.submit_partial(Reduction(SPECS).snapshot(), node="process")
    assert caught.value.reason == "PARTIAL_NOT_NAMED"
