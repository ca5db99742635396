#!/usr/bin/env python3
"""Is a round as fast, and as small, as the best plan would have made it? Asked blind: through the real server, with nothing told in
advance, automatic against every plan that can be forced (docs/decisions/0014-adaptive-plans.md).

  bench/planner_bench.py SERVER [--quick] [--only REGEX] [--json FILE]

A row is a shape of a round: rows x width, contributors x entries of each, and how its indices lie. Each plan has a server of its
own. `publish` is the time from sealing to the published result, of the first round ("cold") and the median of three more; `whole`
begins with the first byte. `memory` is the most that the server held beyond its idle state during the first round, in MiB;
`allowed` is 4 times the bytes of entries and result, and 16 MiB. `best` is the fastest forced plan, which nobody knows in advance.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402
from sparseagg import Client, SparseTensor, TensorSpec, Update  # noqa: E402
from sparseagg.errors import SparseAggError  # noqa: E402

ROWS = (10**4, 10**6, 10**7, 10**9, 2**40)
WIDTHS = (1, 16, 64, 512)
CONTRIBUTORS = (1, 10, 1000)
ENTRIES = (1, 100, 10**4)
ROUND_BYTES_MAX = 700e6
WARM_ROUNDS = 3
MIB = 2**20


def shapes(quick: bool) -> list[dict]:
    found = []
    for rows in ROWS:
        for width in WIDTHS:
            for contributors in CONTRIBUTORS:
                for entries in ENTRIES:
                    size = contributors * entries * (8 + 4 * width)
                    # An index space beyond 2^63 values, and rounds that are larger than what is asked here.
                    if rows * width >= 2**63 or size > ROUND_BYTES_MAX or entries > rows:
                        continue
                    shape = {"rows": rows, "width": width, "contributors": contributors}
                    found.append({**shape, "entries": entries, "indices": "sorted"})
                    if entries > 1 and width in (1, 64):
                        for indices in ("shuffled", "skewed"):
                            found.append({**shape, "entries": entries, "indices": indices})
    return found[:: 7 if quick else 1]


def name_of(shape: dict) -> str:
    rows = "2^40" if shape["rows"] == 2**40 else f"1e{len(str(shape['rows'])) - 1}"
    return f"{rows}x{shape['width']}_{shape['contributors']}x{shape['entries']}_{shape['indices']}"


def updates_of(shape: dict) -> list[SparseTensor]:
    random = np.random.default_rng(1)
    dense_shape = [shape["rows"], shape["width"]] if shape["width"] > 1 else [shape["rows"]]
    updates = []
    for _ in range(shape["contributors"]):
        if shape["indices"] == "skewed":
            indices = (random.pareto(1.1, shape["entries"]) % shape["rows"]).astype(np.int64)
        else:
            indices = random.integers(0, shape["rows"], shape["entries"])
        if shape["indices"] == "sorted":
            indices = np.unique(indices)
        values = random.standard_normal((len(indices), *dense_shape[1:]), dtype=np.float32)
        updates.append(SparseTensor(indices, values, dense_shape))
    return updates


class Server:
    """A process of its own, and what it holds."""

    def __init__(self, binary: str):
        self._folder = tempfile.TemporaryDirectory()
        port_file = pathlib.Path(self._folder.name) / "port"
        self._process = subprocess.Popen(
            [
                binary,
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--admin-listen",
                "none",
                "--port-file",
                port_file,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not port_file.is_file() or not port_file.read_text().strip():
            if self._process.poll() is not None:
                raise SystemExit(f"{binary} ended with {self._process.returncode}")
            time.sleep(0.01)
        self.address = f"127.0.0.1:{port_file.read_text().split()[0]}"

    def resident(self, key: str) -> int:
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(rf"^{key}:\s+(\d+)", status, re.MULTILINE).group(1)) * 1024

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


def one_round(
    client: Client, shape: dict, updates: list[SparseTensor], plan: str
) -> tuple[float, float, int]:
    """Seconds from sealing and from the first byte to the published result, and its bytes."""
    spec = TensorSpec("t", updates[0].dense_shape, "f32", sparse_dim=1, plan=plan)
    round_ = client.create_round([spec], durability="memory")
    begin = time.perf_counter()
    round_.submit_many(
        (Update({"t": update}, str(i)) for i, update in enumerate(updates)), encoding="coo.raw"
    )
    sealed = time.perf_counter()
    round_.seal()
    info = round_.wait()
    end = time.perf_counter()
    nnz = info.tensor_status[0].nnz_result
    round_.delete()
    return end - sealed, end - begin, nnz * (8 + 4 * shape["width"])


def measure(binary: str, shape: dict, updates: list[SparseTensor], plan: str) -> dict | None:
    """None: the plan does not fit, or cannot be forced here."""
    server = Server(binary)
    try:
        with Client(server.address) as client:
            client.info()
            idle = server.resident("VmRSS")
            begin = time.perf_counter()
            try:
                cold, cold_whole, result_bytes = one_round(client, shape, updates, plan)
            except SparseAggError as error:
                if error.reason in ("PLAN_TOO_LARGE", "AGGREGATION_FULL"):
                    return None
                raise
            memory = server.resident("VmHWM") - idle
            # A plan that takes seconds for its first round has shown enough.
            count = WARM_ROUNDS if time.perf_counter() - begin < 5 else 1
            warm = [one_round(client, shape, updates, plan)[:2] for _ in range(count)]
    finally:
        server.stop()
    entries_bytes = sum(len(u.indices) for u in updates) * (8 + 4 * shape["width"])
    return {
        "cold_s": cold,
        "cold_whole_s": cold_whole,
        "publish_s": statistics.median(seconds for seconds, _ in warm),
        "whole_s": statistics.median(whole for _, whole in warm),
        "memory_mib": memory / MIB,
        "allowed_mib": 4 * (entries_bytes + result_bytes) / MIB + 16,
    }


def row_of(binary: str, shape: dict, plans: tuple[str, ...]) -> dict:
    updates = updates_of(shape)
    # Not counted: a virtual machine may have to get from its host what memory the first server touches, for longer than
    # the round itself takes.
    measure(binary, shape, updates, "")
    automatic = measure(binary, shape, updates, "")
    forced = {plan: measure(binary, shape, updates, plan) for plan in plans}
    forced = {plan: figures for plan, figures in forced.items() if figures is not None}
    row = {"name": name_of(shape), **shape, "automatic": automatic, "forced": forced}
    for figure in ("cold_s", "publish_s", "whole_s"):
        best = min(figures[figure] for figures in forced.values())
        row[f"{figure[:-2]}_ratio"] = automatic[figure] / best
        row[f"{figure[:-2]}_over_s"] = automatic[figure] - best
    row["best"] = min(forced, key=lambda plan: forced[plan]["whole_s"])
    return row


def rounded(row: dict) -> dict:
    """With numbers that a reader can take in."""
    return {
        key: rounded(value)
        if isinstance(value, dict)
        else float(f"{value:.4g}")
        if isinstance(value, float)
        else value
        for key, value in row.items()
    }


def show(row: dict) -> None:
    auto = row["automatic"]
    late = row["publish_over_s"] > 0.002 and row["publish_ratio"] > 3
    large = auto["memory_mib"] > auto["allowed_mib"]
    print(
        f"{row['name']:32} publish {auto['publish_s'] * 1e3:9.2f} ms ({row['publish_ratio']:5.2f} of best), "
        f"cold {auto['cold_s'] * 1e3:9.2f} ({row['cold_ratio']:5.2f}), whole {auto['whole_s'] * 1e3:9.2f} ({row['whole_ratio']:5.2f}), "
        f"memory {auto['memory_mib']:8.1f} of {auto['allowed_mib']:8.1f} MiB, best {row['best']}"
        f"{'  LATE' if late else ''}{'  LARGE' if large else ''}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", help="the program, as build/release/bin/sparseagg")
    parser.add_argument("--quick", action="store_true", help="every seventh shape")
    parser.add_argument("--only", default="", metavar="REGEX", help="shapes whose name matches")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    chosen = [shape for shape in shapes(options.quick) if re.search(options.only, name_of(shape))]
    server = Server(options.server)
    with Client(server.address) as client:
        plans = next(backend.plans for backend in client.info().backends if backend.selected)
    server.stop()
    rows = []
    for shape in chosen:
        rows.append(row_of(options.server, shape, plans))
        show(rows[-1])
    for figure in ("publish_ratio", "whole_ratio"):
        ratios = sorted(row[figure] for row in rows)
        print(
            f"{figure}: median {statistics.median(ratios):.2f}, worst {ratios[-1]:.2f} of {len(ratios)} shapes"
        )
    if options.json:
        lines = ",\n".join(json.dumps(rounded(row)) for row in rows)
        options.json.write_text(f'{{"benchmark": "planner", "rows": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
