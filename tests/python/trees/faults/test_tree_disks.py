"""Disks that are full, at a leaf and at the root: what was acknowledged stays, the rest is refused and can be sent again."""

from __future__ import annotations

import subprocess

import pytest
from conftest import Server
from sparseagg import Client, ResourceExhaustedError, SparseAggError
from support.small_disk import SmallDisk
from support.trees import NO_RETRY, SEEDS, SPECS, bits, until, update, who

MIB = 1 << 20
FULL = "the disk of the data directory is full"
ROWS = 10_000  # 200 KB


def large_update(seed: int) -> dict:
    return update(seed, ROWS)


@pytest.fixture
def small_disk(tmp_path):
    """A function that makes a small disk."""
    made = []

    def make(size_bytes: int) -> SmallDisk:
        try:
            made.append(SmallDisk(tmp_path / f"disk{len(made)}", size_bytes))
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", None) or error
            pytest.skip(f"a tmpfs cannot be mounted here: {why}")
        return made[-1]

    yield make
    for disk in made:
        disk.close()


@pytest.fixture
def impatient():
    """A function that connects a client that repeats nothing."""
    made = []

    def connect(server) -> Client:
        made.append(Client(server.target, retry=NO_RETRY, timeout=60))
        return made[-1]

    yield connect
    for client in made:
        client.close()


def submit_all(round, seeds) -> None:
    for seed in seeds:
        assert not round.submit(update(seed), **who(seed)).duplicate


def make_room(disk: SmallDisk, server: Server, killed: bool) -> None:
    """Once there is room the server goes on, also if it was killed, and has started on the full disk."""
    for _ in range(2 * killed):
        disk.fill()
        server.kill()
        server.start()
    disk.make_room()


def test_a_leaf_whose_disk_is_full_refuses_updates_and_keeps_those_it_has(
    make_tree, small_disk, impatient
):
    disk = small_disk(3 * MIB)
    tree = make_tree(2, folders={"leaf1": disk.folder / "data"})
    tree.client.create_round(SPECS, "r1")
    round = impatient(tree.root).round("r1")
    seeds = tree.seeds_of(1, 30)
    receipts = {}
    refusals = []
    for seed in seeds:
        try:
            receipts[seed] = round.submit(large_update(seed), **who(seed))
        except ResourceExhaustedError as error:
            refusals.append(error.reason)
    assert len(receipts) >= 3 and len(refusals) >= 3
    assert set(refusals) == {"STORE_FULL"}
    there = tree.direct[1].round("r1")
    assert there.info().contributors == len(receipts)
    other = tree.seeds_of(0, 3)
    for seed in other:  # another leaf has room
        round.submit(large_update(seed), **who(seed))
    tree.leaves[1].kill()
    tree.leaves[1].start()
    assert there.info().contributors == len(receipts)
    for seed, first in receipts.items():
        again = round.submit(large_update(seed), **who(seed))
        assert (again.duplicate, again.sequence) == (True, first.sequence)
    disk.resize(64 * MIB)
    for seed in seeds:
        assert round.submit(large_update(seed), **who(seed)).duplicate == (seed in receipts)
    round.seal()
    assert bits(round.result(timeout=60)) == tree.bits_of_one([*seeds, *other], large_update)


@pytest.mark.parametrize("killed", [False, True] if SEEDS > 1 else [True])
def test_a_leaf_whose_disk_is_full_at_the_seal_delays_it(make_tree, small_disk, killed):
    disk = small_disk(8 * MIB)
    tree = make_tree(2, folders={"leaf1": disk.folder / "data"})
    round = tree.client.create_round(SPECS, "r1")
    seeds = range(10)
    submit_all(round, seeds)
    disk.fill()
    assert round.seal().state == "SEALED"
    until(lambda: tree.status()["leaf-0"]["partial_bytes"], "leaf 0 is counted")
    until(lambda: FULL in tree.status()["leaf-1"]["error"], "the root shows what leaf 1 lacks")
    assert tree.direct[1].round("r1").info().state == "OPEN"
    assert round.info().state == "SEALED"
    make_room(disk, tree.leaves[1], killed)
    assert bits(round.result(timeout=60)) == tree.bits_of_one(seeds)


def test_a_root_whose_disk_is_full_refuses_rounds_and_seals(make_tree, small_disk, impatient):
    disk = small_disk(8 * MIB)
    tree = make_tree(2, folders={"root": disk.folder / "data"})
    client = impatient(tree.root)
    round = client.create_round(SPECS, "r1")
    seeds = range(8)
    submit_all(round, seeds)
    disk.fill()
    for call in (round.seal, lambda: client.create_round(SPECS, "other")):
        with pytest.raises(SparseAggError) as refused:
            call()
        assert refused.value.reason == "STORE_FULL"
    assert round.info().state == "OPEN"
    late = tree.seeds_of(0, 1, first=100) + tree.seeds_of(1, 1, first=100)
    submit_all(round, late)  # the leaves have room, and the round is open
    for direct in tree.direct:
        assert [info.name for info in direct.rounds()] == ["rounds/r1"]
    disk.make_room()
    other = client.create_round(SPECS, "other")
    other.submit(update(1), **who(1))
    round.seal()
    assert bits(round.result(timeout=60)) == tree.bits_of_one([*seeds, *late])
    other.seal()
    assert other.result(timeout=60).manifest.contributors == 1


def test_a_leaf_that_is_killed_starts_on_its_full_disk_and_answers(
    make_tree, small_disk, impatient
):
    disk = small_disk(8 * MIB)
    tree = make_tree(2, folders={"leaf1": disk.folder / "data"})
    root = tree.client.create_round(SPECS, "r1")
    first, late = tree.seeds_of(1, 2)
    root.submit(update(first), **who(first))
    for _ in range(3):
        disk.fill()
        tree.leaves[1].kill()
        tree.leaves[1].start()
        disk.fill()
        assert root.submit(update(first), **who(first)).duplicate
        with pytest.raises(ResourceExhaustedError) as refused:
            impatient(tree.root).round("r1").submit(large_update(late), **who(late))
        assert refused.value.reason == "STORE_FULL"
        assert tree.direct[1].round("r1").info().contributors == 1
    disk.make_room()
    assert not root.submit(large_update(late), **who(late)).duplicate


@pytest.mark.parametrize("killed", [False, True] if SEEDS > 1 else [False])
def test_a_root_whose_disk_is_full_when_partial_aggregates_come(make_tree, small_disk, killed):
    disk = small_disk(8 * MIB)
    tree = make_tree(2, folders={"root": disk.folder / "data"})
    round = tree.client.create_round(SPECS, "r1")
    seeds = range(10)
    submit_all(round, seeds)
    for leaf in tree.leaves:
        leaf.pause()
    assert round.seal().state == "SEALED"
    disk.fill()
    for leaf in tree.leaves:
        leaf.resume()
    until(
        lambda: all(direct.round("r1").info().state == "PUBLISHED" for direct in tree.direct),
        "the leaves are sealed, and have their partial aggregates",
    )
    whose = "the root does not take its partial aggregate: "
    until(
        lambda: any(
            leaf["error"].startswith(whose) and FULL in leaf["error"]
            for leaf in tree.status().values()
        ),
        "the root shows that it lacks space itself",
    )
    assert round.info().state == "SEALED"
    make_room(disk, tree.root, killed)
    assert round.info().state in ("SEALED", "PUBLISHED")
    assert bits(round.result(timeout=60)) == tree.bits_of_one(seeds)
