"""A root or leaf that is killed after any step of its disk, in a round and in a start: what was answered holds, and the bits are
the same."""

from __future__ import annotations

import itertools
import os

import pytest
from support.disk_steps import DiskSteps, kill_in_start, skip_without_strace
from support.tree_network import CONTRIBUTORS, place_or_skip
from support.trees import until

STRIDE = int(os.environ.get("SPARSEAGG_TREE_STEP_STRIDE", "60"))  # 1: all steps
START_STRIDE = max(1, STRIDE // 6)
FOUR = CONTRIBUTORS[:4]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    skip_without_strace()
    with place_or_skip(tmp_path_factory.mktemp("network")) as made:
        made.expected(FOUR)
        yield made


def server_of(place, killed: str, name: str):
    """The root, or the leaf of the first contributor."""
    return place.root if killed == "root" else place.leaves[place.leaf_of(name, FOUR[0])]


def finish(place, name: str) -> None:
    """From the seal to the deletion. Updates that are sent again after the result are known."""
    root = place.root
    place.ask(root, "round", "seal", name)
    assert place.outcome(root, name) == place.expected(FOUR)
    again = place.push_all(root, name, FOUR)
    assert [pushed["receipt"]["duplicate"] for pushed in again] == [True] * len(FOUR)
    place.ask(root, "round", "delete", name)
    for leaf in place.leaves:
        until(lambda leaf=leaf: place.rounds_at(leaf, name) == [], "the leaf has erased the round")


@pytest.mark.parametrize("killed", ["root", "leaf"])
def test_a_kill_after_any_step_of_a_round_loses_nothing_and_changes_no_bit(place, killed):
    for last in itertools.count(1 + STRIDE // 2, STRIDE):
        name = f"{killed}{last}"
        with DiskSteps(server_of(place, killed, name), last) as steps:
            place.open(place.root, name)
            place.push_all(place.root, name, FOUR)
            finish(place, name)
        if not steps.has_killed:
            break
    print(f"{killed}: {steps.count} steps in a round, killed after each {STRIDE}th")
    assert steps.count > 50


@pytest.mark.parametrize("killed", ["root", "leaf"])
def test_a_kill_after_any_step_of_a_start_loses_nothing_and_changes_no_bit(place, killed):
    name = f"start-{killed}"
    server = server_of(place, killed, name)
    place.open(place.root, name)
    place.push_all(place.root, name, FOUR)
    server.kill()
    last = 1 + START_STRIDE // 2
    while kill_in_start(server, last):
        last += START_STRIDE
    server.start()
    print(f"{killed}: fewer than {last} steps in a start, killed after each {START_STRIDE}th")
    assert last > 10
    finish(place, name)
