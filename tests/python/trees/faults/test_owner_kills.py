"""Kills while a result is divided among owners, and what it takes of the root's memory."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from sparseagg import RoundAbortedError, SparseTensor, TensorSpec
from support.trees import SEEDS, bits, who

SHAPE = [1_300_000, 4]
SPECS = [TensorSpec("emb", SHAPE, op="weighted_mean"), TensorSpec("hits", [200_000], "i64")]


def update(seed: int, rows: int = 20_000) -> dict:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((rows, 4)) * 1000
    hits = generator.integers(0, 200_000, 1000)
    return {
        "emb": SparseTensor(
            generator.integers(0, SHAPE[0], rows), values.astype(np.float32), SHAPE
        ),
        "hits": SparseTensor(hits, np.ones(hits.size, np.int64), [200_000]),
    }


def of_one(tree, seeds) -> list:
    one = tree.one_client.create_round(SPECS, "r1")
    for seed in seeds:
        one.submit(update(seed), **who(seed))
    one.seal()
    return bits(one.result(timeout=60), SPECS)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("victim", ["root", "owner", "any"])
def test_a_server_that_is_killed_while_the_result_is_divided(make_tree, victim, seed):
    """At random times of the few that all steps need. The seal is never asked for again."""
    print(f"{victim}, seed {seed}")
    choose = random.Random(f"{victim} {seed}")
    tree = make_tree(3, owners=True)
    root = tree.client.create_round(SPECS, "r1", owners=True, keep_updates=True)
    seeds = range(12)
    for number in seeds:
        root.submit(update(number), **who(number))
    expected = of_one(tree, seeds)
    state = root.seal().state
    kills = 0
    while state != "PUBLISHED" and kills < 6:
        threading.Event().wait(choose.uniform(0.0, 0.3))
        servers = {"root": [tree.root], "owner": tree.leaves, "any": [tree.root, *tree.leaves]}
        killed = choose.choice(servers[victim])
        killed.kill()
        kills += 1
        killed.start()
        state = root.info().state
        assert state in ("SEALED", "PUBLISHED"), f"{state} after {kills} kills"
    print(f"{kills} kills")
    assert kills
    assert bits(root.result(timeout=120), SPECS) == expected
    for server in (tree.root, *tree.leaves):
        server.kill()
        server.start()
    assert bits(root.result(timeout=120), SPECS) == expected
    assert root.verify(120).contributors == len(seeds)


def test_an_owner_that_loses_its_memory_before_the_publication_ends_the_round(make_tree):
    tree = make_tree(2, owners=True)
    root = tree.client.create_round(SPECS, "r1", owners=True, durability="memory")
    for number in range(8):
        root.submit(update(number), **who(number))
    tree.leaves[0].pause()
    root.seal()
    tree.leaves[0].kill()
    tree.leaves[0].start()
    with pytest.raises(RoundAbortedError) as ended:
        root.wait(60)
    assert "LEAF_LOST" in str(ended.value)
    assert root.info().state == "ABORTED"


def peak_bytes(server) -> int:
    """The most memory that the process has had."""
    with open(f"/proc/{server.pid}/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def test_the_root_never_holds_the_result(make_tree):
    """It may use a twentieth of the result for updates, and as much for results."""
    rows, width, step = 650_000, 64, 65_000
    limit = 8 << 20
    tree = make_tree(
        2,
        owners=True,
        root_flags=("--staging-bytes-max", str(limit), "--aggregation-bytes-max", str(limit)),
    )
    spec = TensorSpec("emb", [rows, width])
    root = tree.client.create_round([spec], "r1", owners=True, durability="memory")
    before = peak_bytes(tree.root)
    for number, first in enumerate(range(0, rows, step)):
        values = np.full((step, width), number + 1, np.float32)
        change = SparseTensor(np.arange(first, first + step), values, spec.dense_shape)
        root.submit({"emb": change}, **who(5 * number))
    root.seal()
    result_bytes = rows * (8 + 4 * width)
    found = root.result(timeout=300)["emb"]
    assert found.values.shape == (rows, width)
    assert np.array_equal(found.values[:, 0], 1 + np.arange(rows) // step)
    grown = peak_bytes(tree.root) - before
    print(f"a result of {result_bytes >> 20} MB; the root has grown by {grown >> 20} MB")
    assert grown < result_bytes / 4
