"""A leaf whose link is cut, in network namespaces: the round ends with the same bits, or names the leaf that it gave up."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import BINARY, Server
from support.namespaces import CUTS, Network
from support.trees import SEEDS, choose_leaf, until

CONTRIBUTORS = [f"c{number}" for number in range(8)]
TENSOR = "emb:f32:100000x4:sparse_dim=1:op=weighted_mean"
ROWS = 4_000  # a partial aggregate of a leaf has several 100 KB
BITS_PER_SECOND = 8_000_000
COUNTED = ("contributors", "total_weight", "updates_digest", "result_digest", "given_up_leaves")


def files(folder) -> dict:
    """A file for each contributor, of sums that no f64 holds."""
    made = {}
    for number, name in enumerate(CONTRIBUTORS):
        generator = np.random.default_rng(number)
        values = generator.standard_normal((ROWS, 4)) * np.exp2(generator.integers(-60, 60, (ROWS, 4)))
        made[name] = folder / f"{name}.npz"
        np.savez(
            made[name],
            **{"emb/indices": generator.integers(0, 100_000, (ROWS, 1))},
            **{"emb/values": values.astype(np.float32), "emb/dense_shape": [100_000, 4]},
        )
    return made


class Place:
    """Three leaves, a root, a place of contributors, each on a machine of its own, and one server beside the contributors."""

    def __init__(self, folder) -> None:
        self.network = Network()
        self.home = self.network.add()
        self._folder = folder
        self._files = files(folder)
        self._expected: dict = {}
        self.leaves = [self._server(f"leaf{number}", self.network.add()) for number in range(3)]
        addresses = ",".join(f"leaf-{i}={leaf.target}" for i, leaf in enumerate(self.leaves))
        self.root = self._server("root", self.network.add(), "--leaves", addresses)
        self.one = self._server("one", self.home)

    def _server(self, name: str, node, *flags: str) -> Server:
        folder = self._folder / name
        folder.mkdir()
        common = ("--data-dir", str(folder / "data"), "--store-free-bytes-min", "0")
        common += ("--allow-plaintext",)
        server = Server(folder, *common, *flags, host=node.address, prefix=node.prefix)
        server.start()
        server.node = node
        return server

    def ask(self, server: Server, *arguments: str, ok: bool = True) -> dict:
        """What a command prints that contributors, or the owner, run."""
        command = [*self.home.prefix, BINARY, *arguments, "--json", "--server", server.target]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode == 0) == ok, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout if ok else done.stderr)

    def push(self, server: Server, name: str, who: str, *options: str, ok: bool = True) -> dict:
        number = str(1 + CONTRIBUTORS.index(who) % 5)
        options += ("--contributor", who, "--weight", number)
        return self.ask(server, "push", name, str(self._files[who]), *options, ok=ok)

    def push_all(self, server: Server, name: str, contributors) -> None:
        with ThreadPoolExecutor(4) as executor:
            list(executor.map(lambda who: self.push(server, name, who), contributors))

    def open(self, server: Server, name: str, *options: str) -> None:
        self.ask(server, "round", "create", "--id", name, "--tensor", TENSOR, *options)

    def state(self, server: Server, name: str) -> str:
        return self.ask(server, "round", "show", name)["state"]

    def outcome(self, server: Server, name: str) -> tuple:
        """(the bytes of the result, what the manifest says), once the round is published."""
        out = self._folder / "result.npz"
        self.ask(server, "pull", name, "--wait", "--wait-timeout", "60", "-o", str(out))
        manifest = self.ask(server, "round", "show", name)["manifest"]
        return out.read_bytes(), {key: manifest[key] for key in COUNTED}

    def expected(self, contributors=CONTRIBUTORS, given_up=()) -> tuple:
        """The outcome of one server that has the updates of these contributors."""
        key = tuple(sorted(contributors))
        if key not in self._expected:
            name = f"one{len(self._expected)}"
            self.open(self.one, name)
            self.push_all(self.one, name, key)
            self.ask(self.one, "round", "seal", name)
            self._expected[key] = self.outcome(self.one, name)
        result, manifest = self._expected[key]
        return result, {**manifest, "given_up_leaves": list(given_up)}

    def leaf_of(self, name: str, who: str) -> int:
        return choose_leaf(f"rounds/{name}", who, [f"leaf-{i}" for i in range(3)])

    def close(self) -> None:
        for server in (*self.leaves, self.root, self.one):
            server.kill()
        self.network.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    try:
        made = Place(tmp_path_factory.mktemp("network"))
    except OSError as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    yield made
    made.close()


PHASES = ("updates", "seal", "transfer", "published")


def combinations():
    """(seed, phase, way to cut): one way for each phase, or all of them many times."""
    if SEEDS > 1:
        return [(s, *c) for s in range(SEEDS // 10) for c in itertools.product(PHASES, CUTS)]
    ways = random.Random(0).choices(CUTS, k=len(PHASES))
    return [(0, phase, way) for phase, way in zip(PHASES, ways)]


class Case:
    """A round, and the leaf whose link is cut: that of the first contributor."""

    def __init__(self, place: Place, name: str, cut: str, *options: str) -> None:
        self.place, self.name, self._cut, self._is_cut = place, name, cut, False
        self.number = place.leaf_of(name, CONTRIBUTORS[0])
        self.leaf = place.leaves[self.number]
        self.here = [who for who in CONTRIBUTORS if place.leaf_of(name, who) == self.number]
        self.elsewhere = [who for who in CONTRIBUTORS if who not in self.here]
        place.open(place.root, name, *options)

    def __enter__(self) -> Case:
        return self

    def __exit__(self, *error) -> None:
        if self._is_cut:
            self.join()

    def cut(self) -> None:
        self.place.network.cut(self.leaf.node, self._cut)
        self._is_cut = True

    def join(self) -> None:
        self.place.network.join(self.leaf.node, self._cut)
        self._is_cut = False

    def cut_during_transfer(self, choose: random.Random) -> None:
        """Seals, and cuts when some of the partial aggregate has passed."""
        root, network = self.place.root, self.place.network
        network.slow_down(root.node, BITS_PER_SECOND)
        before = network.bytes_to(root.node)
        self.place.ask(root, "round", "seal", self.name)
        some = choose.randrange(50_000, 200_000)
        until(lambda: network.bytes_to(root.node) - before > some, "the transfer has begun")
        self.cut()
        network.speed_up(root.node)

    def root_misses_leaf(self) -> None:
        """Returns when the root has sent something to the leaf again, in vain."""
        root = self.place.root
        until(lambda: root.node.waits_for(self.leaf.node), "the root misses the leaf")

    def root_waits(self) -> None:
        """The same, and nothing is published then."""
        self.root_misses_leaf()
        assert self.place.state(self.place.root, self.name) == "SEALED"

    def leaf_has_ended(self) -> bool:
        return self.place.state(self.leaf, self.name) in ("ABORTED", "PUBLISHED")

    def rounds_at_leaf(self) -> list:
        listed = self.place.ask(self.leaf, "round", "list")["rounds"]
        return [round for round in listed if round["name"] == f"rounds/{self.name}"]


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
        elif phase == "seal":
            case.cut()
        if phase == "transfer":
            case.cut_during_transfer(choose)
        else:
            sealed = place.ask(root, "round", "seal", name)
            assert sealed["state"] in ("SEALED", "PUBLISHED")
        if phase in ("seal", "transfer"):
            case.root_waits()
            case.join()
        assert place.outcome(root, name) == place.expected()
        if phase == "published":
            case.cut()
            assert place.outcome(root, name) == place.expected()
            place.ask(root, "round", "delete", name)
            case.join()
            until(lambda: case.rounds_at_leaf() == [], "the leaf has erased the round")
        else:
            assert place.push(root, name, case.here[0])["receipt"]["duplicate"]


@pytest.mark.parametrize("seed", range(max(1, SEEDS // 10)))
@pytest.mark.parametrize("phase", ["seal", "transfer"])
def test_a_leaf_behind_a_cut_link_is_given_up_and_named(place, phase, seed):
    print(f"seed {seed}")
    choose = random.Random(f"{seed} {phase}")
    cut = choose.choice(CUTS)
    with Case(place, f"given-up-{phase}-{seed}", cut, "--leaf-wait", "1s") as case:
        root, name = place.root, case.name
        place.push_all(root, name, CONTRIBUTORS)
        expected = place.expected(case.elsewhere, [f"leaf-{case.number}"])
        if phase == "seal":
            case.cut()
            place.ask(root, "round", "seal", name)
        else:
            case.cut_during_transfer(choose)
        assert place.outcome(root, name) == expected
        case.join()
        # A leaf that has its partial aggregate already keeps it until the round is deleted.
        until(lambda: case.leaf_has_ended(), "the leaf has ended its round")
        assert place.outcome(root, name) == expected
        place.ask(root, "round", "delete", name)
        until(lambda: case.rounds_at_leaf() == [], "the leaf has erased the round")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_leaf_that_comes_back_when_it_is_given_up_counts_wholly_or_not_at_all(place, seed):
    print(f"seed {seed}")
    choose = random.Random(seed)
    with Case(place, f"race-{seed}", choose.choice(CUTS), "--leaf-wait", "500ms") as case:
        root, name = place.root, case.name
        place.push_all(root, name, CONTRIBUTORS)
        case.cut()
        place.ask(root, "round", "seal", name)
        if choose.random() < 0.5:
            case.root_misses_leaf()
        case.join()
        found = place.outcome(root, name)
    print(f"given up: {found[1]['given_up_leaves']}")
    if found[1]["given_up_leaves"]:
        assert found == place.expected(case.elsewhere, [f"leaf-{case.number}"])
    else:
        assert found == place.expected()
