"""A tree of servers on machines of a network (namespaces.py), whose contributors and owner run commands."""

from __future__ import annotations

import json
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from conftest import BINARY, Server

from support.namespaces import Network
from support.trees import choose_leaf, until

CONTRIBUTORS = [f"c{number}" for number in range(8)]
TENSOR = "emb:f32:100000x4:sparse_dim=1:op=weighted_mean"
ROWS = 4_000  # a partial aggregate has 98 KB of one update, 375 KB of three
BITS_PER_SECOND = 2_000_000  # so slow that a busy machine cuts a link before the end of a transfer
COUNTED = ("contributors", "total_weight", "updates_digest", "result_digest", "given_up_leaves")


def files(folder) -> dict:
    """A file for each contributor, of sums that no f64 holds."""
    made = {}
    for number, name in enumerate(CONTRIBUTORS):
        generator = np.random.default_rng(number)
        values = generator.standard_normal((ROWS, 4)) * np.exp2(
            generator.integers(-60, 60, (ROWS, 4))
        )
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
        self.network.slow_down(self.home, BITS_PER_SECOND)  # where this is not possible, nothing is
        self.network.speed_up(self.home)
        assert not self.home.waits_for(self.home)
        self._folder = folder
        self._files = files(folder)
        self._expected: dict = {}
        self.leaves = [self._server(f"leaf{number}", self.network.add()) for number in range(3)]
        addresses = ",".join(f"leaf-{i}={leaf.target}" for i, leaf in enumerate(self.leaves))
        for leaf in self.leaves:  # their addresses are known once they have started
            leaf.kill()
            leaf.add_flags("--peers", addresses)
            leaf.start()
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
        """What a command prints that contributors, or the owner, run. It looks for a server for longer than a start takes."""
        if "--timeout" not in arguments:
            arguments += ("--timeout", "60")
        command = [*self.home.prefix, BINARY, *arguments, "--json", "--server", server.target]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode == 0) == ok, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout if ok else done.stderr)

    def push(self, server: Server, name: str, who: str, *options: str, ok: bool = True) -> dict:
        number = str(1 + CONTRIBUTORS.index(who) % 5)
        options += ("--contributor", who, "--weight", number)
        return self.ask(server, "push", name, str(self._files[who]), *options, ok=ok)

    def push_all(self, server: Server, name: str, contributors) -> list:
        with ThreadPoolExecutor(4) as executor:
            return list(executor.map(lambda who: self.push(server, name, who), contributors))

    def open(self, server: Server, name: str, *options: str) -> None:
        self.ask(server, "round", "create", "--id", name, "--tensor", TENSOR, *options)

    def state(self, server: Server, name: str) -> str:
        return self.ask(server, "round", "show", name)["state"]

    def rounds_at(self, leaf: Server, name: str) -> list:
        """The round at a leaf, if it is there."""
        listed = self.ask(leaf, "round", "list")["rounds"]
        return [round for round in listed if round["name"] == f"rounds/{name}"]

    def outcome(self, server: Server, name: str) -> tuple:
        """(the bytes of the result, what the manifest says), once the round is published."""
        out = self._folder / "result.npz"
        self.ask(server, "pull", name, "--wait", "--wait-timeout", "60", "-o", str(out))
        manifest = self.ask(server, "round", "show", name)["manifest"]
        return out.read_bytes(), {key: manifest[key] for key in COUNTED}

    def expected(self, contributors=CONTRIBUTORS, given_up=()) -> tuple:
        """The outcome of one server that has the updates of these contributors."""
        key = tuple(contributors)
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


@contextmanager
def place_or_skip(folder):
    """A place, where network namespaces can be made."""
    try:
        made = Place(folder)
    except OSError as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    yield made
    made.close()


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
        # Of all leaves. One that has a single update sends 98 KB.
        some = choose.randrange(20_000, 80_000)
        until(lambda: network.bytes_to(root.node) - before > some, "the transfer has begun")
        self.cut()
        network.speed_up(root.node)

    def cut_at(self, phase: str, choose: random.Random) -> None:
        """Cuts the link before the round is sealed ("seal"), or after some of the partial aggregate has passed ("transfer")."""
        if phase == "transfer":
            self.cut_during_transfer(choose)
        else:
            self.cut()
            self.place.ask(self.place.root, "round", "seal", self.name)

    def expected_without(self, given_up: list) -> tuple:
        """The outcome without these leaves. Besides the one that is cut off another may be too slow where this machine is."""
        place = self.place
        left = [w for w in CONTRIBUTORS if f"leaf-{place.leaf_of(self.name, w)}" not in given_up]
        return place.expected(left, given_up)

    def root_misses_leaf(self) -> None:
        """Returns when the root has sent something to the leaf again, in vain."""
        root = self.place.root
        until(lambda: root.node.waits_for(self.leaf.node), "the root misses the leaf")

    def root_waits(self) -> None:
        """The same, and nothing is published then."""
        self.root_misses_leaf()
        state = self.place.state(self.place.root, self.name)
        assert state == "SEALED", state

    def is_up(self) -> bool:
        leaves = self.place.ask(self.place.root, "tree", "status")["leaves"]
        return leaves[self.number]["up"]

    def leaf_has_ended(self) -> bool:
        return self.place.state(self.leaf, self.name) == "ABORTED"

    def rounds_at_leaf(self) -> list:
        return self.place.rounds_at(self.leaf, self.name)
