"""A root that is killed between its steps: seal, transfer, merge, publish. What was answered holds, and the bits are the same."""

from __future__ import annotations

import random
import threading
import time

import pytest
from sparseagg import NotFoundError
from support.trees import SEEDS, SPECS, bits, until, update, who

LARGE_ROWS = 20_000


def large_update(seed: int) -> dict:
    return update(seed, LARGE_ROWS)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_root_that_is_killed_after_the_seal_publishes_the_same_bits(make_tree, seed):
    """It is killed at random times of the few that it needs for all steps, and the seal is never asked for again."""
    print(f"seed {seed}")
    choose = random.Random(seed)
    tree = make_tree(choose.choice((2, 3)))
    root = tree.client.create_round(SPECS, "r1")
    seeds = range(12)
    for number in seeds:
        root.submit(update(number, 2000), **who(number))
    expected = tree.bits_of_one(seeds, lambda number: update(number, 2000))
    state = root.seal().state
    kills = []
    while state != "PUBLISHED" and len(kills) < 6:
        began = time.monotonic()
        threading.Event().wait(choose.uniform(0.0, 0.12))
        tree.root.kill()
        kills.append(round(1000 * (time.monotonic() - began)))
        tree.root.start()
        state = root.info().state
        assert state in ("SEALED", "PUBLISHED"), f"{state} after the kills {kills}"
    print(f"killed after {kills} ms")
    assert kills
    assert bits(root.result(timeout=60)) == expected
    tree.root.kill()
    tree.root.start()
    assert bits(root.result(timeout=60)) == expected


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_root_that_is_killed_while_it_is_asked_to_seal(make_tree, seed):
    """The answered seal holds. One that was not answered may be asked for again, which changes nothing."""
    print(f"seed {seed}")
    choose = random.Random(seed)
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    for number in range(8):
        root.submit(update(number), **who(number))
    expected = tree.bits_of_one(range(8))
    states = []
    asking = threading.Thread(target=lambda: states.append(root.seal().state))
    asking.start()
    threading.Event().wait(choose.uniform(0.0, 0.01))
    tree.root.kill()
    tree.root.start()
    asking.join(60)
    assert states and states[0] in ("SEALED", "PUBLISHED")
    assert bits(root.result(timeout=60)) == expected


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_root_that_is_killed_during_a_transfer_goes_on_where_it_was(make_tree, seed):
    print(f"seed {seed}")
    choose = random.Random(seed)
    tree = make_tree(2, proxied=True)
    root = tree.client.create_round(SPECS, "r1")
    seeds = [number for leaf in range(2) for number in tree.seeds_of(leaf, 6)]
    for number in seeds:
        root.submit(large_update(number), **who(number))
    expected = tree.bits_of_one(seeds, large_update)
    slow = choose.choice(tree.proxies)
    before = slow.bytes_from_server
    part = choose.randrange(200_000, 1_500_000)
    slow.lose_answers(part)
    root.seal()
    until(lambda: slow.has_lost_answers, "the transfer has begun")
    assert root.info().state == "SEALED"
    tree.root.kill()
    at_kill = slow.bytes_from_server
    slow.cut()
    tree.root.start()
    assert bits(root.result(timeout=60)) == expected
    first, second = at_kill - before, slow.bytes_from_server - at_kill
    print(f"{first} bytes before the kill, {second} after it")
    assert first >= part


def test_a_root_that_is_killed_while_it_erases_goes_on_erasing(make_tree):
    tree = make_tree(2)
    root = tree.client.create_round(SPECS, "r1")
    for number in range(4):
        root.submit(update(number), **who(number))
    root.seal()
    root.wait(timeout=60)
    tree.leaves[1].kill()
    root.delete()
    tree.root.kill()
    tree.root.start()
    tree.leaves[1].start()
    for client in tree.direct:
        until(lambda client=client: not list(client.rounds()), "the leaf has erased the round")
    with pytest.raises(NotFoundError):
        root.info()
