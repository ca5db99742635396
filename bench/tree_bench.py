#!/usr/bin/env python3
"""Rounds through a tree of servers, with 1, 2 and 4 leaves, against the same updates through one server.

    PYTHONPATH=python python3 bench/tree_bench.py SERVER --json FILE [--quick] [--durability durable] [--case NAME...]

All servers run on this machine beside the sender, so leaves cannot make a round shorter here: `times` is what a tree costs. A
round begins with its creation and ends when the sender has read the result, whose digest must be that of one server. The
deployments take turns, in another order each turn; `times` is the median of the ratios to one server (`leaves` 0) of the same
turn, and the other numbers are medians. `cpu_times` is the same of the servers' processor time.

`stages` are processor seconds of the servers, from /proc, of rounds with pauses between the stages: `ingest` until all updates
are folded (leaves), `send` from the seal until the result is published (leaves: make and send their partial aggregates), `merge`
the same at the root (receive, merge, publish), and `poll` of the root during the first stage. Without leaves, `ingest` and
`publish` are the server's. `partial_mb` is what the root received.

`model` predicts the processor time of all servers with 2 and 4 leaves from the stages of 1 leaf: ingest as it is; send and
merge by the bytes of the partial aggregates; and the root's publication once. Needs python3-grpcio, python3-numpy and
python3-protobuf.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import secrets
import statistics
import tempfile
import time
from dataclasses import dataclass

import numpy as np
from crowd_bench import Server
from sparseagg import Client, TensorSpec, Update
from sparseagg._proto import aggregation_pb2

LEAVES = (0, 1, 2, 4)
QUIET_SECONDS = 0.1  # without a hundredth of processor time


@dataclass(frozen=True)
class Case:
    """The tensor of a round, its contributors, and how many rows each of them touches."""

    rows: int
    width: int
    contributors: int
    touched: int

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec("emb", [self.rows, self.width], op="weighted_mean")

    @property
    def update_mb(self) -> float:
        return self.contributors * self.touched * (8 + 4 * self.width) / 1e6

    def updates(self, share: int) -> list[Update]:
        random = np.random.default_rng(1)
        found = []
        for number in range(max(1, self.contributors // share)):
            rows = np.sort(random.choice(self.rows, self.touched, replace=False))
            values = random.standard_normal((self.touched, self.width), np.float32)
            tensors = {"emb": (rows, values, [self.rows, self.width])}
            found.append(Update(tensors, contributor=f"c{number}"))
        return found


CASES = {
    "every row": Case(5_000, 64, 256, 5_000),
    "rows of 64": Case(100_000, 64, 64, 10_000),
    "scalars": Case(1_000_000, 1, 1_000, 10_000),
    "updates of 1 KB": Case(50_000, 16, 20_000, 14),
}


class Deployment:
    """One server, or a root with some of the leaves; all stay up for the whole run."""

    def __init__(self, root: Server, leaves: list[Server]) -> None:
        self.leaves, self.root = leaves, root
        self.client = Client(root.address)
        self._leaf_clients = [Client(leaf.address) for leaf in leaves]

    def close(self) -> None:
        for client in (self.client, *self._leaf_clients):
            client.close()

    def cpu_seconds(self) -> tuple[float, float]:
        """Of the root, or the one server, and of the leaves together."""
        return self.root.cpu_seconds(), sum(leaf.cpu_seconds() for leaf in self.leaves)

    def partial_bytes(self) -> int:
        """What the root has received since it started."""
        request = aggregation_pb2.GetServerInfoRequest()
        answer = self.client._transport.unary("GetServerInfo", request)
        return sum(leaf.partial_bytes for leaf in answer.leaves)

    def wait_until_idle(self) -> None:
        last, since = self.cpu_seconds(), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            time.sleep(0.01)
            now = self.cpu_seconds()
            if sum(now) - sum(last) > 0.005:
                last, since = now, time.monotonic()

    def run(self, case: Case, updates: list[Update], durability: str, pauses: bool) -> dict:
        """One round, from its creation until it is erased everywhere."""
        self.wait_until_idle()
        bytes_before, marks = self.partial_bytes(), [self.cpu_seconds()]
        begin = time.monotonic()
        # Roots that share leaves must not make up the same name.
        name = f"bench-{secrets.token_hex(8)}"
        round_ = self.client.create_round([case.spec], name, durability=durability)
        round_.submit_many(updates, encoding="coo.raw", values="raw")
        submitted = time.monotonic()
        if pauses:
            self.wait_until_idle()
        marks.append(self.cpu_seconds())
        sealed = time.monotonic()
        round_.seal()
        round_.wait()
        published = time.monotonic()
        marks.append(self.cpu_seconds())
        result = round_.result()
        end = time.monotonic()
        if result.manifest.contributors != len(updates):
            raise SystemExit(f"{round_.name} has another number of contributors")
        round_.delete()
        while any(next(client.rounds(), None) for client in (self.client, *self._leaf_clients)):
            time.sleep(0.01)
        first, second, third = marks
        return {
            "digest": result.manifest.result_digest,
            "seconds": end - begin,
            "submit_s": submitted - begin,
            "seal_s": published - sealed,
            "partial_mb": (self.partial_bytes() - bytes_before) / 1e6,
            "root_until_seal": second[0] - first[0],
            "leaves_until_seal": second[1] - first[1],
            "root_after": third[0] - second[0],
            "leaves_after": third[1] - second[1],
            "cpu_s": sum(third) - sum(first),
        }


def median_of(runs: list[dict], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def measure(
    deployments: dict[int, Deployment],
    case: Case,
    updates: list[Update],
    durability: str,
    turns: int,
    pauses: bool,
) -> dict[int, list[dict]]:
    found: dict[int, list[dict]] = {leaves: [] for leaves in deployments}
    for turn in range(turns):
        order = list(deployments) if turn % 2 == 0 else list(deployments)[::-1]
        for leaves in order:
            found[leaves].append(deployments[leaves].run(case, updates, durability, pauses))
    if len({run["digest"] for runs in found.values() for run in runs}) != 1:
        raise SystemExit("the results differ")
    return found


def time_rows(name: str, durability: str, runs: dict[int, list[dict]]) -> list[dict]:
    def ratio(leaves: int, what: str) -> float:
        return statistics.median(
            run[what] / max(alone[what], 0.01) for run, alone in zip(runs[leaves], runs[0])
        )

    return [
        {
            "case": name,
            "durability": durability,
            "leaves": leaves,
            "seconds": median_of(runs[leaves], "seconds"),
            "times": ratio(leaves, "seconds"),
            "submit_s": median_of(runs[leaves], "submit_s"),
            "seal_s": median_of(runs[leaves], "seal_s"),
            "cpu_s": median_of(runs[leaves], "cpu_s"),
            "cpu_times": ratio(leaves, "cpu_s"),
        }
        for leaves in runs
    ]


def stage_rows(name: str, durability: str, mb: float, runs: dict[int, list[dict]]) -> list[dict]:
    rows = []
    for leaves, found in runs.items():
        median = {key: median_of(found, key) for key in found[0] if key != "digest"}
        row = {"case": name, "durability": durability, "leaves": leaves, "update_mb": mb}
        if leaves:
            row.update(
                partial_mb=median["partial_mb"],
                ingest=median["leaves_until_seal"],
                send=median["leaves_after"],
                merge=median["root_after"],
                poll=median["root_until_seal"],
                publish=0.0,
            )
        else:
            row.update(partial_mb=0.0, ingest=median["root_until_seal"], send=0.0, merge=0.0)
            row.update(poll=0.0, publish=median["root_after"])
        rows.append({**row, "cpu_s": median["cpu_s"]})
    return rows


def model_rows(stages: list[dict]) -> list[dict]:
    """What the stages of one leaf predict for more."""
    alone, one, *more = stages
    merge = max(one["merge"] - alone["publish"], 0.0)  # without the publication
    rows = []
    for row in more:
        scale = row["partial_mb"] / one["partial_mb"]
        model = one["ingest"] + one["poll"] + alone["publish"] + scale * (one["send"] + merge)
        rows.append(
            {
                **{name: row[name] for name in ("case", "durability", "leaves")},
                "cpu_s": row["cpu_s"],
                "model_cpu_s": model,
                "measured_to_model": row["cpu_s"] / model,
            }
        )
    return rows


def run_all(deployments: dict[int, Deployment], arguments: argparse.Namespace) -> dict:
    tables: dict[str, list[dict]] = {"tree": [], "stages": [], "model": []}
    share, turns = (8, 1) if arguments.quick else (1, arguments.turns)
    for name in arguments.case:
        case = CASES[name]
        updates = case.updates(share)
        options = (deployments, case, updates, arguments.durability)
        measure(*options, 1, False)  # makes threads and memory
        rows = time_rows(name, arguments.durability, measure(*options, turns, False))
        stages = stage_rows(
            name,
            arguments.durability,
            case.update_mb / share,
            measure(*options, max(1, turns // 2), True),
        )
        tables["tree"] += rows
        tables["stages"] += stages
        tables["model"] += model_rows(stages)
        for row in (*rows, *stages, *tables["model"][-2:]):
            print(json.dumps(row), flush=True)
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="an eighth of the updates, one turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--durability", choices=("memory", "durable"), default="memory")
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    os.environ.setdefault("SPARSEAGG_LOG_LEVEL", "warning")  # each round has several lines
    servers: list[Server] = []
    deployments: dict[int, Deployment] = {}
    with tempfile.TemporaryDirectory(dir=arguments.json.resolve().parent) as folder:

        def start(name: str, *flags: str) -> Server:
            place = pathlib.Path(folder, name)
            place.mkdir()
            servers.append(Server(arguments.server, place, *flags))
            return servers[-1]

        try:
            leaves = [start(f"leaf{number}") for number in range(max(LEAVES))]
            for number in LEAVES:
                own = leaves[:number]
                names = ",".join(f"leaf-{i}={leaf.address}" for i, leaf in enumerate(own))
                root = start(f"root{number}", *(("--leaves", names) if own else ()))
                deployments[number] = Deployment(root, own)
            tables = run_all(deployments, arguments)
        finally:
            for deployment in deployments.values():
                deployment.close()
            for server in servers:
                server.stop()
    report = {"benchmark": "tree", "tables": tables}
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
