"""A root or leaf that is killed after any step of its disk in a round: what was answered holds, and the bits are the same."""

from __future__ import annotations

import itertools
import os

import pytest
from support.disk_steps import DiskSteps
from support.tree_network import CONTRIBUTORS, place_or_skip
from support.trees import until

STRIDE = int(os.environ.get("SPARSEAGG_TREE_STEP_STRIDE", "60"))  # 1: all steps
FOUR = CONTRIBUTORS[:4]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with place_or_skip(tmp_path_factory.mktemp("network")) as made:
        yield made


def life_of_a_round(place, name: str) -> None:
    """From its creation to its deletion. Updates that are sent again after the result are known."""
    root = place.root
    place.open(root, name)
    place.push_all(root, name, FOUR)
    place.ask(root, "round", "seal", name)
    assert place.outcome(root, name) == place.expected(FOUR)
    again = place.push_all(root, name, FOUR)
    assert [pushed["receipt"]["duplicate"] for pushed in again] == [True] * len(FOUR)
    place.ask(root, "round", "delete", name)
    for leaf in place.leaves:
        until(lambda leaf=leaf: place.rounds_at(leaf, name) == [], "the leaf has erased the round")


@pytest.mark.parametrize("killed", ["root", "leaf"])
def test_a_kill_after_any_step_loses_nothing_and_changes_no_bit(place, killed):
    place.expected(FOUR)
    for last in itertools.count(1 + STRIDE // 2, STRIDE):
        name = f"{killed}{last}"
        leaf = place.leaves[place.leaf_of(name, FOUR[0])]
        with DiskSteps(leaf if killed == "leaf" else place.root, last) as steps:
            life_of_a_round(place, name)
        if not steps.has_killed:
            break
    print(f"{killed}: {steps.count} steps in a round, killed after each {STRIDE}th")
    assert steps.count > 50
