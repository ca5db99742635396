"""Receipts of a tree that are lost, and contributors who send to two nodes: nothing counts twice, and nothing is lost."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sparseagg import Client, SparseAggError, UnavailableError, Update
from support.trees import NO_RETRY, SEEDS, SPECS, bits, stranger, until, update, who

LARGE_ROWS = 20_000  # several chunks where a message has 64 KiB
LAST_BYTES = 20_000  # that go without an answer to those before them

WAYS = {
    "submit": lambda handle, seed: handle.submit(update(seed), **who(seed)),
    "submit_many": lambda handle, seed: handle.submit_many([Update(update(seed), **who(seed))])[0],
    "chunks": lambda handle, seed: handle.submit(
        update(seed, LARGE_ROWS), **who(seed), encoding="coo.raw"
    ),
}


def send_by(way: str, handle):
    return lambda seed: WAYS[way](handle, seed)


def lose_receipt(tree, leaf: int, send, seed: int, executor, passing):
    """Sends an update whose answer is lost, though its leaf has counted it; returns what comes of the call then."""
    there = tree.direct[leaf].round("r1")
    before = there.info().contributors
    tree.proxies[leaf].lose_answers(after_request_bytes=passing)
    receipt = executor.submit(send, seed)
    until(lambda: there.info().contributors > before, "the leaf has counted the update")
    assert not receipt.done()
    tree.proxies[leaf].cut()
    return receipt


@pytest.mark.parametrize("way", WAYS)
def test_an_update_whose_receipt_is_lost_counts_once_at_its_leaf_only(make_tree, way):
    tree = make_tree(2, proxied=True, flags=("--message-bytes-max", "65536"))
    tree.client.create_round(SPECS, "r1")
    seeds = []
    with (
        ThreadPoolExecutor() as executor,
        Client(tree.root.target, retry=NO_RETRY, timeout=60) as impatient,
    ):
        for leaf in range(2):
            first, again, elsewhere = tree.seeds_of(leaf, 3)
            seeds += [first, again, elsewhere]
            # The client repeats it by itself.
            handle = tree.client.round("r1")
            before = tree.proxies[leaf].bytes_from_client
            assert not WAYS[way](handle, first).duplicate
            size = tree.proxies[leaf].bytes_from_client - before
            passing = size - LAST_BYTES if way == "chunks" else None
            lost = lose_receipt(tree, leaf, send_by(way, handle), again, executor, passing)
            receipt = lost.result(60)
            assert receipt.duplicate
            assert WAYS[way](handle, again).sequence == receipt.sequence
            # The client gives up, and the contributor tries each node before it comes to the right one.
            handle = impatient.round("r1")
            assert WAYS[way](handle, first).duplicate
            lost = lose_receipt(tree, leaf, send_by(way, handle), elsewhere, executor, passing)
            assert isinstance(lost.exception(60), UnavailableError)
            for other in (tree.client, tree.direct[1 - leaf]):
                with pytest.raises(SparseAggError) as refused:
                    WAYS[way](stranger(other), elsewhere)
                assert refused.value.reason == "WRONG_LEAF"
                assert refused.value.metadata["address"] == tree.proxies[leaf].target
            tree.leaves[leaf].kill()
            tree.leaves[leaf].start()
            assert WAYS[way](stranger(tree.direct[leaf]), elsewhere).duplicate
    tree.client.round("r1").seal()
    result = tree.client.round("r1").result(timeout=60)
    assert result.manifest.contributors == len(seeds)
    one = tree.one_client.create_round(SPECS, "r1")
    for seed in seeds:
        WAYS[way](one, seed)
    one.seal()
    assert bits(result) == bits(one.result(timeout=60))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_different_updates_of_one_contributor_to_two_nodes_count_one(make_tree, seed):
    print(f"seed {seed}")
    choose = random.Random(seed)
    tree = make_tree(choose.choice((2, 3)))
    tree.client.create_round(SPECS, "r1")
    nodes = [stranger(client) for client in (tree.client, *tree.direct)]
    names = [f"n{choose.getrandbits(32)}" for _ in range(12)]
    accepted = []
    for name in names:
        own = nodes[1 + tree.leaf_of(name)]
        other = choose.choice(nodes)  # also the own leaf, and the root
        contents = [update(choose.getrandbits(32)) for _ in range(2)]
        both_ready = threading.Barrier(2)

        def send(node, number, name=name, contents=contents, both_ready=both_ready):
            both_ready.wait()
            try:
                node.submit(contents[number], contributor=name, update_id=f"{name}-{number}")
            except SparseAggError as error:
                return error.reason
            return None

        with ThreadPoolExecutor(2) as executor:
            order = choose.sample([own, other], 2)
            refusals = list(executor.map(send, order, (0, 1)))
        expected = "CONTRIBUTOR_ALREADY_COUNTED" if other is own else "WRONG_LEAF"
        assert set(refusals) == {expected, None}, (name, refusals)
        number = refusals.index(None)
        assert order[number] is own, (name, refusals)
        accepted.append(Update(contents[number], name, update_id=f"{name}-{number}"))
    assert sum(client.round("r1").info().contributors for client in tree.direct) == len(names)
    root = tree.client.round("r1")
    root.seal()
    one = tree.one_client.create_round(SPECS, "r1")
    one.submit_many(accepted)
    one.seal()
    assert bits(root.result(timeout=60)) == bits(one.result(timeout=60))


def test_a_partial_aggregate_that_covers_a_contributor_of_another_leaf_is_refused(make_tree):
    """Somebody carries one to the root by hand, for leaf 1, with a contributor of leaf 0 in it."""
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    seeds = [tree.seeds_of(leaf, 1)[0] for leaf in range(2)]
    forged = tree.one_client.create_round(SPECS, "forged", publish_partial=True)
    for seed in seeds:
        root.submit(update(seed), **who(seed))
        forged.submit(update(seed), **who(seed))
    forged.seal()
    partial = forged.partial(timeout=60)
    for node in ("leaf-1", "leaf/leaf-1"):
        with pytest.raises(SparseAggError) as refused:
            root.submit_partial(partial, node=node)
        assert refused.value.reason == "WRONG_LEAF"
    assert refused.value.metadata["contributor"] == f"c{seeds[0]}"
    assert refused.value.metadata["leaf"] == "leaf-0"
    root.seal()
    assert bits(root.result(timeout=60)) == tree.bits_of_one(seeds)
