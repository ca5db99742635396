"""Leaves that are not what they were: two processes with one data directory, an empty one, an older copy."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress

import pytest
from conftest import BINARY
from sparseagg import NotFoundError, RoundAbortedError, RoundNotOpenError, SparseAggError
from support.trees import SPECS, bits, stranger, until, update, who


def submit_all(tree, handle, count: int = 12) -> list[int]:
    """Sends updates of which each leaf has some; returns their seeds."""
    for seed in range(count):
        handle.submit(update(seed), **who(seed))
    assert all(client.round("r1").info().contributors for client in tree.direct)
    return list(range(count))


def seeds_at(tree, leaf: int, seeds: list[int]) -> list[int]:
    return [seed for seed in seeds if tree.leaf_of(f"c{seed}") == leaf]


def restart_with(tree, server, name: str, folder) -> None:
    """The server is killed, and started at the same address with this as its data directory; None: with an empty one."""
    server.kill()
    shutil.rmtree(tree.folder / name)
    if folder is not None:
        shutil.copytree(folder, tree.folder / name)
    server.start()


def copy_of(tree, server, name: str):
    """A copy of a server's data directory. The server is killed for it, and goes on."""
    server.kill()
    copy = shutil.copytree(tree.folder / name, tree.folder / f"copy of {name}")
    server.start()
    return copy


def test_a_second_server_with_the_data_directory_of_a_leaf_does_not_start(make_tree):
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    seeds = submit_all(tree, root)
    for name in ("leaf0", "root"):
        data = tree.folder / name
        second = subprocess.run(
            [BINARY, "serve", "--listen", "127.0.0.1:0", "--admin-listen=none", "--data-dir", data],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode != 0
        assert "another process uses the data directory" in second.stdout + second.stderr
    root.seal()
    assert bits(root.result(timeout=60)) == tree.bits_of_one(seeds)


def test_a_leaf_that_comes_back_empty_ends_the_round_or_is_given_up(make_tree):
    tree = make_tree(2)
    strict = tree.client.create_round(SPECS, "strict")
    round = tree.client.create_round(SPECS, "r1", leaf_wait=3600)
    seeds = submit_all(tree, round)
    for seed in seeds:
        strict.submit(update(seed), **who(seed))
    lost = seeds_at(tree, 1, seeds)
    restart_with(tree, tree.leaves[1], "leaf1", None)
    # Its contributors hear that it has no round; they are not counted by an empty leaf in silence.
    for seed in (lost[0], tree.seeds_of(1, 1, first=100)[0]):
        with pytest.raises((NotFoundError, SparseAggError)) as refused:
            round.submit(update(seed), **who(seed))
        assert refused.value.reason in ("ROUND_NOT_FOUND", "ROUND_LOST")
    strict.seal()
    with pytest.raises(RoundAbortedError):
        strict.result(timeout=60)
    round.seal()
    result = round.result(
        timeout=60
    )  # without the wait of an hour: the leaf has said that it has nothing
    assert result.manifest.given_up_leaves == ("leaf-1",)
    assert bits(result) == tree.bits_of_one(seeds_at(tree, 0, seeds))


@pytest.mark.parametrize("leaf_wait", [None, 3600])
@pytest.mark.parametrize("others_come", [False, True])
def test_a_leaf_that_is_replaced_by_an_older_copy_is_lost(make_tree, leaf_wait, others_come):
    """Once the root has seen how many contributors the leaf had, as many others do not hide that some are missing."""
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1", leaf_wait=leaf_wait)
    early = submit_all(tree, root)
    older = copy_of(tree, tree.leaves[1], "leaf1")
    late = tree.seeds_of(1, 4, first=100)
    receipts = [root.submit(update(seed), **who(seed)) for seed in late]
    assert not any(receipt.duplicate for receipt in receipts)
    seen = len(early) + len(late)
    until(lambda: root.info().contributors == seen, "the root has seen them")
    restart_with(tree, tree.leaves[1], "leaf1", older)
    there = stranger(tree.direct[1])
    assert there.info().contributors == len(seeds_at(tree, 1, early))
    if others_come:
        with suppress(RoundNotOpenError):  # the root was faster
            for seed in tree.seeds_of(1, 6, first=200):
                there.submit(update(seed), **who(seed))
    if leaf_wait is None:
        with pytest.raises(RoundAbortedError, match="LEAF_LOST.*leaf-1.*older copy"):
            root.wait(timeout=60)
    else:
        root.seal()
        result = root.result(timeout=60)  # without the wait of an hour
        assert result.manifest.given_up_leaves == ("leaf-1",)
        assert bits(result) == tree.bits_of_one(seeds_at(tree, 0, early))
    until(lambda: there.info().state == "ABORTED", "the older copy has ended its round")
    with pytest.raises(RoundNotOpenError, match="LEAF_GIVEN_UP"):
        there.submit(update(late[0]), **who(late[0]))


def test_a_copy_of_a_leaf_that_lacks_nothing_goes_on(make_tree):
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    seeds = submit_all(tree, root)
    until(lambda: root.info().contributors == len(seeds), "the root has seen them")
    restart_with(tree, tree.leaves[1], "leaf1", copy_of(tree, tree.leaves[1], "leaf1"))
    late = tree.seeds_of(1, 2, first=100)
    for seed in late:
        root.submit(update(seed), **who(seed))
    root.seal()
    assert bits(root.result(timeout=60)) == tree.bits_of_one([*seeds, *late])


def test_an_older_copy_after_the_transfer_changes_nothing(make_tree):
    """The root has what it counted; a leaf that is older now, and open again, is not asked a second time."""
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    early = submit_all(tree, root)
    older = copy_of(tree, tree.leaves[1], "leaf1")
    late = tree.seeds_of(1, 4, first=100)
    for seed in late:
        root.submit(update(seed), **who(seed))
    tree.leaves[0].kill()
    root.seal()
    until(
        lambda: tree.status()["leaf-1"]["partial_bytes"], "the partial aggregate of leaf 1 is there"
    )
    restart_with(tree, tree.leaves[1], "leaf1", older)
    assert tree.direct[1].round("r1").info().state == "OPEN"
    tree.leaves[0].start()
    result = root.result(timeout=60)
    assert bits(result) == tree.bits_of_one([*early, *late])
    root.delete()
    until(lambda: not list(tree.direct[1].rounds()), "the older copy is erased, too")


def test_an_older_copy_of_the_root_asks_its_leaves_again(make_tree):
    """The round was sealed and published after the copy was made; the leaves have their partial aggregates still."""
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    early = submit_all(tree, root)
    older = copy_of(tree, tree.root, "root")
    late = [seed for leaf in range(2) for seed in tree.seeds_of(leaf, 2, first=100)]
    for seed in late:
        root.submit(update(seed), **who(seed))
    root.seal()
    expected = tree.bits_of_one([*early, *late])
    assert bits(root.result(timeout=60)) == expected
    restart_with(tree, tree.root, "root", older)
    assert root.info().state == "OPEN"
    root.seal()
    assert bits(root.result(timeout=60)) == expected


def test_a_copy_that_takes_over_the_address_of_a_leaf_which_goes_on_is_noticed(make_tree):
    tree = make_tree(2, proxied=True)
    root = tree.client.create_round(SPECS, "r1")
    early = submit_all(tree, root)
    copy = tree.start(copy_of(tree, tree.leaves[1], "leaf1").name)
    for seed in tree.seeds_of(1, 2, first=100):
        assert not root.submit(update(seed), **who(seed)).duplicate
    until(lambda: root.info().contributors == len(early) + 2, "the root has seen them")
    tree.proxies[1].forward_to(copy.port)
    tree.proxies[1].cut()
    with pytest.raises(RoundAbortedError, match="LEAF_LOST.*leaf-1.*older copy"):
        root.wait(timeout=60)
