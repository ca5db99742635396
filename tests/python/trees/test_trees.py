"""Trees of servers: a root with real leaves has the bits of one server, also after kills."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest
from sparseagg import (
    Client,
    DeadlineExceededError,
    InvalidArgumentError,
    RoundNotPublishedError,
    SparseAggError,
    Update,
    aio,
)
from support.trees import RETRY, SEEDS, SPECS, bits, stranger, update, who

NUMBERS_OF_LEAVES = (1, 2, 3, 8) if SEEDS > 1 else (1, 3)


@pytest.mark.parametrize("leaves", NUMBERS_OF_LEAVES)
def test_a_tree_has_the_bits_of_one_server(make_tree, leaves):
    tree = make_tree(leaves)
    root = tree.client.create_round(SPECS, "r1", keep_updates=True)
    one = tree.one_client.create_round(SPECS, "r1")
    seeds = range(6 * leaves + 4)
    half = len(seeds) // 2
    for seed in seeds[:half]:
        receipt = root.submit(update(seed), **who(seed))
        assert not receipt.duplicate
    root.submit_many([Update(update(seed), **who(seed)) for seed in seeds[half:]])
    one.submit_many([Update(update(seed), **who(seed)) for seed in seeds])
    assert root.submit(update(0), **who(0)).duplicate
    direct = [Client(leaf.target) for leaf in tree.leaves]
    counts = [client.round("r1").info().contributors for client in direct]
    assert sum(counts) == len(seeds)
    assert len([count for count in counts if count]) >= min(leaves, 2), counts
    root.seal()
    one.seal()
    assert bits(root.result(timeout=60)) == bits(one.result(timeout=60))
    assert root.info().manifest.given_up_leaves == ()
    assert root.verify().contributors == len(seeds)
    root.delete()
    deadline = time.monotonic() + 30
    for client in direct:
        while list(client.rounds()):
            assert time.monotonic() < deadline, "the leaves still have the round"
        client.close()


def test_an_update_for_another_leaf_is_refused_with_the_address_of_its_own(make_tree):
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    root.submit(update(1), **who(1))
    refused = []
    for server in (tree.root, *tree.leaves):
        with Client(server.target) as client:
            try:
                assert stranger(client).submit(update(1), **who(1)).duplicate
            except SparseAggError as error:
                assert error.reason == "WRONG_LEAF"
                refused.append(error.metadata["address"])
    assert len(refused) == 2
    assert len(set(refused)) == 1
    assert refused[0] in [leaf.target for leaf in tree.leaves]


def test_the_client_for_asyncio_follows_leaves_too(make_tree):
    tree = make_tree(3)

    async def send() -> None:
        async with aio.Client(tree.root.target, retry=RETRY) as client:
            root = await client.create_round(SPECS, "r1")
            await root.submit(update(0), **who(0))
            updates = [Update(update(seed), **who(seed)) for seed in range(1, 12)]
            await root.submit_many(updates)
            await root.seal()

    asyncio.run(send())
    one = tree.one_client.create_round(SPECS, "r1")
    one.submit_many([Update(update(seed), **who(seed)) for seed in range(12)])
    one.seal()
    result = tree.client.round("r1").result(timeout=60)
    assert bits(result) == bits(one.result(timeout=60))


async def given_up_by_asyncio(tree, names) -> tuple:
    async with aio.Client(tree.root.target, retry=RETRY) as client:
        return await client.round("hasty").given_up(names)


def test_a_leaf_that_stays_away_delays_or_is_given_up(make_tree):
    tree = make_tree(2)
    patient = tree.client.create_round(SPECS, "patient")
    hasty = tree.client.create_round(SPECS, "hasty", leaf_wait=0.5)
    for seed in range(8):
        patient.submit(update(seed), **who(seed))
        hasty.submit(update(seed), **who(seed))
    with Client(tree.leaves[1].target) as client:
        lost = client.round("hasty").info().contributors
    assert 0 < lost < 8
    tree.leaves[1].kill()
    patient.seal()
    hasty.seal()
    manifest = hasty.result(timeout=60).manifest
    assert (manifest.given_up_leaves, manifest.contributors) == (("leaf-1",), 8 - lost)
    names = [f"c{seed}" for seed in range(8)]
    not_counted = tuple(name for name in names if tree.leaf_of(name, "hasty") == 1)
    assert len(not_counted) == lost
    assert hasty.given_up(names) == not_counted
    assert asyncio.run(given_up_by_asyncio(tree, names)) == not_counted
    with pytest.raises(InvalidArgumentError, match=r'give a list of names: \["c1"\]'):
        hasty.given_up("c1")
    with pytest.raises(RoundNotPublishedError, match="rounds/patient.*SEALED"):
        patient.given_up(names)
    with pytest.raises(DeadlineExceededError, match='SEALED.*LEAF_UNAVAILABLE: leaf "leaf-1"'):
        patient.wait(timeout=1)
    assert patient.info().stall.startswith('LEAF_UNAVAILABLE: leaf "leaf-1" does not answer: ')
    tree.leaves[1].start()
    manifest = patient.result(timeout=60).manifest
    assert (manifest.given_up_leaves, manifest.contributors) == ((), 8)
    assert patient.info().stall == ""
    assert patient.given_up(names) == ()
    with Client(tree.leaves[0].target) as client:  # a leaf has no leaves to give up
        assert client.round("patient").given_up(names) == ()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_at_random_it_goes_on_with_the_same_bits(make_tree, seed):
    print(f"seed {seed}")
    choose = random.Random(seed)
    tree = make_tree(choose.choice(NUMBERS_OF_LEAVES[1:]))
    root = tree.client.create_round(SPECS, "r1")
    one = tree.one_client.create_round(SPECS, "r1")
    one.submit_many([Update(update(number), **who(number)) for number in range(16)])
    one.seal()
    done = threading.Event()

    def kill() -> None:
        while not done.is_set():
            server = choose.choice([tree.root, *tree.leaves])
            server.kill()
            server.start()
            done.wait(choose.uniform(0.0, 0.4))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for number in range(16):
            root.submit(update(number), **who(number))
        root.seal()
        done.wait(choose.uniform(0.5, 1.5))
    finally:
        done.set()
        killer.join()
    assert bits(root.result(timeout=60)) == bits(one.result(timeout=60))
