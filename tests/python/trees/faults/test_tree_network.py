"""A leaf whose link is cut, in network namespaces: the round ends with the same bits, or names the leaf that it gave up."""

from __future__ import annotations

import itertools
import random

import pytest
from support.namespaces import CUTS
from support.tree_network import CONTRIBUTORS, Case, place_or_skip
from support.trees import SEEDS, until

PHASES = ("updates", "seal", "transfer", "published")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with place_or_skip(tmp_path_factory.mktemp("network")) as made:
        yield made


def combinations():
    """(seed, phase, way to cut): one way for each phase, or all of them many times."""
    if SEEDS > 1:
        return [
            (s, *c) for s in range(max(1, SEEDS // 10)) for c in itertools.product(PHASES, CUTS)
        ]
    ways = random.Random(0).choices(CUTS, k=len(PHASES))
    return [(0, phase, way) for phase, way in zip(PHASES, ways)]


@pytest.mark.parametrize("seed, phase, cut", combinations())
def test_a_link_that_is_cut_and_comes_back_changes_no_bit(place, seed, phase, cut):
    print(f"seed {seed}")
    choose = random.Random(f"{seed} {phase} {cut}")
    with Case(place, f"{phase}-{cut}-{seed}", cut) as case:
        root, name = place.root, case.name
        place.push_all(root, name, case.elsewhere if phase == "updates" else CONTRIBUTORS)
        if phase == "updates":
            case.cut()
            failed = place.push(root, name, case.here[0], "--timeout", "2", ok=False)
            assert failed["error"]["code"] in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), failed
            case.join()
            place.push_all(root, name, case.here)
        if phase in ("seal", "transfer"):
            case.cut_at(phase, choose)
            case.root_waits()
            case.join()
        else:
            sealed = place.ask(root, "round", "seal", name)
            assert sealed["state"] in ("SEALED", "PUBLISHED")
        assert place.outcome(root, name) == place.expected()
        if phase == "published":
            case.cut()
            assert place.outcome(root, name) == place.expected()
            place.ask(root, "round", "delete", name)
            case.join()
            until(lambda: case.rounds_at_leaf() == [], "the leaf has erased the round")
        else:
            assert place.push(root, name, case.here[0])["receipt"]["duplicate"]


@pytest.mark.skipif(SEEDS == 1, reason="half a minute for each; only with SPARSEAGG_TREE_SEEDS")
@pytest.mark.parametrize("phase", ["seal", "transfer"])
@pytest.mark.parametrize("cut", CUTS)
def test_a_link_that_is_cut_for_longer_than_a_connection_lives(place, phase, cut):
    choose = random.Random(f"{phase} {cut}")
    with Case(place, f"long-{phase}-{cut}", cut) as case:
        root, name = place.root, case.name
        place.push_all(root, name, CONTRIBUTORS)
        case.cut_at(phase, choose)
        until(lambda: not case.is_up(), "the root shows that the leaf is silent")
        until(lambda: not root.node.is_connected_to(case.leaf.node), "the connection is given up")
        assert place.state(root, name) == "SEALED"
        case.join()
        assert place.outcome(root, name) == place.expected()
        assert case.is_up()


@pytest.mark.parametrize("seed", range(max(1, SEEDS // 10)))
@pytest.mark.parametrize("phase", ["seal", "transfer"])
def test_a_leaf_behind_a_cut_link_is_given_up_and_named(place, phase, seed):
    print(f"seed {seed}")
    choose = random.Random(f"{seed} {phase}")
    cut = choose.choice(CUTS)
    with Case(place, f"given-up-{phase}-{seed}", cut, "--leaf-wait", "1s") as case:
        root, name = place.root, case.name
        place.push_all(root, name, CONTRIBUTORS)
        case.cut_at(phase, choose)
        found = place.outcome(root, name)
        assert f"leaf-{case.number}" in found[1]["given_up_leaves"]
        assert found == case.expected_without(found[1]["given_up_leaves"])
        case.join()
        # Also one that has published its part.
        until(lambda: case.leaf_has_ended(), "the leaf has ended its round")
        assert place.outcome(root, name) == found
        place.ask(root, "round", "delete", name)
        until(lambda: case.rounds_at_leaf() == [], "the leaf has erased the round")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_leaf_that_comes_back_when_it_is_given_up_counts_wholly_or_not_at_all(place, seed):
    print(f"seed {seed}")
    choose = random.Random(seed)
    with Case(place, f"race-{seed}", choose.choice(CUTS), "--leaf-wait", "1s") as case:
        root, name = place.root, case.name
        place.push_all(root, name, CONTRIBUTORS)
        case.cut()
        place.ask(root, "round", "seal", name)
        if choose.random() < 0.5:
            case.root_misses_leaf()
        case.join()
        found = place.outcome(root, name)
    print(f"given up: {found[1]['given_up_leaves']}")
    assert found == case.expected_without(found[1]["given_up_leaves"])


PAIRS = ((0, 1), (0, 2), (1, 2))  # two of the three leaves own rows


@pytest.mark.parametrize("pair", PAIRS)
def test_leaves_that_do_not_reach_each_other_delay_a_result_with_owners(place, pair):
    one, other = (place.leaves[number].node for number in pair)
    name = f"owners-{pair[0]}{pair[1]}"
    place.open(place.root, name, "--owners")
    place.push_all(place.root, name, CONTRIBUTORS)
    place.network.part(one, other)
    try:
        place.ask(place.root, "round", "seal", name)
        until(lambda: one.waits_for(other) or other.waits_for(one), "an owner misses the other")
        assert place.state(place.root, name) == "SEALED"
    finally:
        place.network.reunite(one, other)
    assert place.outcome(place.root, name) == place.expected()


@pytest.mark.parametrize("pair", PAIRS)
def test_with_leaf_wait_the_round_ends_and_names_both(place, pair):
    one, other = (place.leaves[number].node for number in pair)
    name = f"owners-end-{pair[0]}{pair[1]}"
    place.open(place.root, name, "--owners", "--leaf-wait", "2s")
    place.push_all(place.root, name, CONTRIBUTORS)
    place.network.part(one, other)
    try:
        place.ask(place.root, "round", "seal", name)
        until(lambda: place.state(place.root, name) == "ABORTED", "the round is aborted")
    finally:
        place.network.reunite(one, other)
    failure = place.ask(place.root, "round", "show", name)["failure"]
    assert failure.startswith("OWNER_FAILED: "), failure
    assert all(f"leaf-{number}" in failure for number in pair), failure
    place.ask(place.root, "round", "delete", name)
    until(lambda: not any(place.rounds_at(leaf, name) for leaf in place.leaves), "all is erased")
