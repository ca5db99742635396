"""Leaves that have another address than the open round was opened with: contributors find them, by every client."""

from __future__ import annotations

import asyncio
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BINARY
from sparseagg import Client, TensorSpec, UnavailableError, Update, aio
from support.trees import NO_RETRY, RETRY, SPECS, bits, until, update, who

LARGE_ROWS = 20_000  # several chunks where a message has 64 KiB


def one(seed: int) -> Update:
    return Update(update(seed), **who(seed))


WAYS = {
    "submit": lambda handle, seed: handle.submit(update(seed), **who(seed)),
    "submit_many": lambda handle, seed: handle.submit_many([one(seed), one(seed + 1000)])[0],
    "chunks": lambda handle, seed: handle.submit(
        update(seed, LARGE_ROWS), **who(seed), encoding="coo.raw"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_leaf_that_has_moved_is_found(make_tree, way):
    tree = make_tree(2, flags=("--message-bytes-max", "65536"))
    root = tree.client.create_round(SPECS, "r1")
    before, after = tree.seeds_of(1, 2)
    send = WAYS[way]
    assert not send(root, before).duplicate
    tree.move(leaf1=0)
    assert not send(root, after).duplicate
    assert send(root, before).duplicate
    assert tree.targets[1] in {leaf.address for leaf in root._leaves._leaves}
    root.seal()
    one_round = tree.one_client.create_round(SPECS, "r1")
    for seed in (before, after):
        send(one_round, seed)
    one_round.seal()
    assert bits(root.result(timeout=60)) == bits(one_round.result(timeout=60))


def test_what_a_stream_has_not_sent_goes_to_the_new_address(make_tree):
    """The leaf goes away in the middle, and the arrays of a generator are filled again for each update."""
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    seeds = range(40)

    def updates():
        arrays = update(0)
        for seed in seeds:
            for name, tensor in update(seed).items():
                arrays[name] = tensor
            if seed == 20:
                tree.move(leaf1=0)
            yield Update(arrays, **who(seed))

    receipts = root.submit_many(updates())
    assert len(receipts) == len(seeds)
    root.seal()
    assert bits(root.result(timeout=60)) == tree.bits_of_one(seeds)


def test_the_client_for_asyncio_finds_it_too(make_tree):
    tree = make_tree(2)
    tree.client.create_round(SPECS, "r1")
    before, after, *many = tree.seeds_of(1, 8)

    async def send() -> None:
        async with aio.Client(tree.root.target, retry=RETRY, timeout=60) as client:
            root = client.round("r1")
            await root.submit(update(before), **who(before))
            await asyncio.to_thread(tree.move, leaf1=0)
            assert not (await root.submit(update(after), **who(after))).duplicate
            await asyncio.to_thread(tree.move, leaf1=0)
            assert len(await root.submit_many([one(seed) for seed in many])) == len(many)

    asyncio.run(send())
    root = tree.client.round("r1")
    root.seal()
    assert bits(root.result(timeout=60)) == tree.bits_of_one([before, after, *many])


def test_leaves_that_have_each_others_address_are_told_apart(make_tree):
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    seeds = [*tree.seeds_of(0, 2), *tree.seeds_of(1, 2)]
    for seed in seeds[::2]:
        root.submit(update(seed), **who(seed))
    ports = [leaf.port for leaf in tree.leaves]
    tree.move(leaf0=ports[1], leaf1=ports[0])
    for seed in seeds:
        assert root.submit(update(seed), **who(seed)).duplicate == (seed in seeds[::2])
    root.seal()
    assert bits(root.result(timeout=60)) == tree.bits_of_one(seeds)


def test_a_client_that_repeats_nothing_asks_before_its_next_update(make_tree):
    tree = make_tree(2)
    tree.client.create_round(SPECS, "r1")
    before, after = tree.seeds_of(1, 2)
    with Client(tree.root.target, retry=NO_RETRY, timeout=60) as impatient:
        root = impatient.round("r1")
        root.submit(update(before), **who(before))
        tree.move(leaf1=0)
        with pytest.raises(UnavailableError):
            root.submit(update(after), **who(after))
        until(lambda: is_reached(impatient), "the root is called again")
        assert not root.submit(update(after), **who(after)).duplicate


def is_reached(client) -> bool:
    try:
        return bool(client.info())
    except UnavailableError:
        return False


def test_the_cpp_client_finds_it_too(make_tree, tmp_path):
    """Its update is counted, the answer is lost, and the leaf moves while it waits."""
    tree = make_tree(2, proxied=True)
    spec = TensorSpec("w", [1000, 1], sparse_dim=2)
    root = tree.client.create_round([spec], "r1")
    matrix = tmp_path / "w.mtx"
    matrix.write_text("%%MatrixMarket matrix coordinate real general\n1000 1 1\n1 1 1.5\n")
    (seed,) = tree.seeds_of(1, 1)
    tree.proxies[1].lose_answers()
    flags = ["--contributor", f"c{seed}", "--encoding", "coo.raw", "--timeout", "60"]
    push = [BINARY, "push", "r1", f"w={matrix}", *flags]
    with ThreadPoolExecutor() as executor:
        pushed = executor.submit(
            subprocess.run,
            [*map(str, push), "--server", tree.root.target],
            capture_output=True,
            text=True,
            timeout=120,
        )
        until(lambda: tree.direct[1].round("r1").info().contributors, "the leaf has counted it")
        assert not pushed.done()
        tree.move(leaf1=0)
        tree.proxies[1].cut()
        done = pushed.result(120)
    assert done.returncode == 0, done.stderr
    root.seal()
    assert root.result(timeout=60).manifest.contributors == 1
