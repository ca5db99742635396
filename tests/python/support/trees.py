"""Trees of servers: a root, its leaves, and one server that gets every update, which the tree is compared with."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np
from sparseagg import Client, RetryPolicy, SparseTensor, TensorSpec
from sparseagg._net.rendezvous import choose_leaf

from support.flaky_proxy import FlakyProxy

BINARY = os.environ.get("SPARSEAGG_BINARY") or (
    Path(__file__).resolve().parents[3] / "build/dev/bin/sparseagg"
)
SEEDS = int(os.environ.get("SPARSEAGG_TREE_SEEDS", "1"))
SPECS = [
    TensorSpec("emb", [20_000, 4], op="weighted_mean"),
    TensorSpec("sum", [500], "f64"),
    TensorSpec("hits", [500], "i64"),
    TensorSpec("seen", [500], "f64", op="mean_of_contributors"),
    TensorSpec("least", [500], op="min"),
    TensorSpec("most", [500], op="max"),
    TensorSpec("count", [500], op="count"),
]
RETRY = RetryPolicy(attempts=1000, initial_delay=0.01, max_delay=0.05)
NO_RETRY = RetryPolicy(attempts=1)


def update(seed: int, rows: int = 50) -> dict:
    """Of sums that no f64 holds; 16 bytes for each of the rows of "emb"."""
    generator = np.random.default_rng(seed)
    scale = np.exp2(generator.integers(-60, 60, (rows, 4)))
    values = (generator.standard_normal((rows, 4)) * scale).astype(np.float32)
    tensors = {"emb": SparseTensor(generator.integers(0, 20_000, rows), values, [20_000, 4])}
    for spec in SPECS[1:]:
        touched = np.unique(generator.integers(0, 500, 20))
        numbers = generator.integers(-9, 9, touched.size)
        dtype = {"i64": np.int64, "f64": np.float64}.get(spec.value_type, np.float32)
        tensors[spec.name] = SparseTensor(touched, numbers.astype(dtype), [500])
    return tensors


def who(seed: int) -> dict:
    return {"contributor": f"c{seed}", "weight": float(1 + seed % 5), "update_id": f"u{seed}"}


def bits(result, specs=SPECS) -> list:
    """All that must be equal in the results of a tree and of one server."""
    manifest = result.manifest
    tensors = []
    for spec in specs:
        found = result[spec.name]
        parts = (found,) if isinstance(found, np.ndarray) else (found.indices, found.values)
        tensors.append([(str(part.dtype), part.shape, part.tobytes()) for part in parts])
    counts = (manifest.contributors, manifest.total_weight)
    return [*tensors, counts, manifest.updates_digest, manifest.result_digest]


def until(holds, what: str, seconds: float = 60):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
    return answer


class Tree:
    """A root, its leaves and a server without leaves, all with data directories.

    proxied: the leaves are reached through proxies only. flags: of all servers. folders: other data directories, by
    name: "root", "leaf0", ... owners: the leaves may own ranges of rows. root_flags: of the root.
    """

    def __init__(
        self,
        own_server,
        folder,
        leaves: int,
        *,
        proxied=False,
        flags=(),
        folders=None,
        owners=False,
        root_flags=(),
    ) -> None:
        self.folder = folder

        def start(name: str, *own_flags: str):
            data = (folders or {}).get(name, folder / name)
            common = ("--data-dir", str(data), "--store-free-bytes-min", "0", *flags)
            return own_server(*common, *own_flags)

        self.start = start
        self.leaves = [start(f"leaf{number}") for number in range(leaves)]
        self.proxies = [FlakyProxy(leaf.port) for leaf in self.leaves] if proxied else []
        self.targets = [reached.target for reached in self.proxies or self.leaves]
        self.ids = [f"leaf-{number}" for number in range(leaves)]
        for leaf in self.leaves if owners else ():
            leaf.kill()
            leaf.add_flags("--peers", self._root_flags()[1])
            leaf.start()
        self.root = start("root", *root_flags, *self._root_flags())
        self.one = start("one")
        self.client = Client(self.root.target, retry=RETRY, timeout=60)
        self.one_client = Client(self.one.target, retry=RETRY, timeout=60)
        self.direct = [Client(leaf.target, retry=RETRY, timeout=60) for leaf in self.leaves]

    def _root_flags(self) -> tuple[str, str]:
        return "--leaves", ",".join(map("=".join, zip(self.ids, self.targets)))

    def move(self, **ports: int) -> None:
        """Leaves go on at other ports, on their data; the root starts again, and is told. ports: by name, "leaf0", ...;
        0: a free one."""
        moved = [int(name[len("leaf") :]) for name in ports]
        for number in moved:
            self.leaves[number].kill()
        for number, port in zip(moved, ports.values()):
            self.leaves[number].port = port
            self.leaves[number].start()
            self.targets[number] = self.leaves[number].target
            self.direct[number].close()
            self.direct[number] = Client(self.targets[number], retry=RETRY, timeout=60)
        self.root.kill()
        kept = self.root._flags[: -len(self._root_flags())]
        self.root._flags = (*kept, *self._root_flags())
        self.root.start()

    def leaf_of(self, name: str, round_id: str = "r1") -> int:
        """The number of a contributor's leaf."""
        return choose_leaf(f"rounds/{round_id}", name, self.ids)

    def seeds_of(self, leaf: int, count: int, first: int = 0) -> list[int]:
        """Seeds of updates that belong to a leaf."""
        belonging = (seed for seed in range(first, 10**6) if self.leaf_of(f"c{seed}") == leaf)
        return [next(belonging) for _ in range(count)]

    def bits_of_one(self, seeds, update=update, round_id: str = "r1") -> list:
        """What one server makes of these updates."""
        one = self.one_client.create_round(SPECS, round_id)
        for seed in seeds:
            one.submit(update(seed), **who(seed))
        one.seal()
        return bits(one.result(timeout=60))

    def status(self) -> dict:
        """What the root knows of its leaves, by id."""
        command = [BINARY, "tree", "status", "--json", "--server", self.root.target]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return {leaf["id"]: leaf for leaf in json.loads(shown.stdout)["leaves"]}

    def close(self) -> None:
        for client in (self.client, self.one_client, *self.direct):
            client.close()
        for proxy in self.proxies:
            proxy.close()


def stranger(client: Client, name: str = "r1"):
    """A handle of a round that sends to its own server, as a client that knows no leaves."""
    handle = client.round(name)
    handle._specs_within(None)
    handle._leaves = None
    return handle
