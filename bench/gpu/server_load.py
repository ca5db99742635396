#!/usr/bin/env python3
"""The server on a GPU beside the same server on the CPU, under `sparseagg bench`. One line of JSON for each measurement.

usage: server_load.py SPARSEAGG OUTPUT.jsonl SECONDS [SCALE]

Both servers are up all the time and are loaded in turn. A line has what bench says (payload bytes a second, seconds from
seal to published, whether the sum is exact) and the processor time of the server's process for a GB of payload.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BACKENDS = ("cuda", "cpu")
# Updates, entries of each, rows, values of a row; connections. What shows most first: the time may run out, most of which
# bench needs to make updates and to check their sum.
SCALARS = (64, 100_000, 1_000_000_000, 1)
ROWS = (64, 5_000, 200_000, 64)
LARGE = (16, 1_000_000, 1_000_000_000, 1)
LOADS = (
    (SCALARS, 4),
    (ROWS, 4),
    (LARGE, 4),
    (ROWS, 16),
    (ROWS, 1),
    (SCALARS, 16),
    (SCALARS, 1),
    (LARGE, 16),
)


class Server:
    def __init__(self, program: str, backend: str, folder: Path, over: float) -> None:
        port, log = folder / f"{backend}.port", folder / f"{backend}.log"
        options = ["--backend", backend, "--listen", "127.0.0.1:0", "--port-file", port]
        with open(log, "wb") as file:
            self.process = subprocess.Popen(
                [program, "serve", *options, "--admin-listen", "none"], stdout=file, stderr=file
            )
        self.address = None
        while self.process.poll() is None and time.monotonic() < over:
            if port.exists() and port.read_text(encoding="utf-8").strip():
                self.address = f"127.0.0.1:{port.read_text(encoding='utf-8').strip()}"
                return
            time.sleep(0.02)
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        self.error = said[-1][:300] if said else "it did not answer in time"

    def cpu_seconds(self) -> float:
        fields = (
            Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
        )
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def load(
    program: str, server: Server, shape: tuple, connections: int, seconds: float
) -> dict | None:
    """None when the time is over."""
    updates, nnz, rows, width = shape
    flags = ["--server", server.address, "--json", "--concurrency", connections, "--warm-up", 0]
    flags += ["--updates", updates, "--nnz", nnz, "--rows", rows, "--width", width]
    before = server.cpu_seconds()
    try:
        call = subprocess.run(
            [str(x) for x in (program, "bench", *flags)],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        level = json.loads(call.stdout)["levels"][0]
    except subprocess.TimeoutExpired:
        return None
    except (ValueError, LookupError):
        return {"error": (call.stderr.strip().splitlines() or ["no result"])[-1][:300]}
    used = server.cpu_seconds() - before
    return {
        "gb_s": level["payload_bytes_per_s"] / 1e9,
        "entries_per_s": level["entries_per_s"],
        "seal_ms": level["seal_seconds"] * 1e3,
        "cpu_seconds_per_gb": used / (level["payload_bytes"] / 1e9),
        "exact": level["sum_is_exact"],
    }


def main() -> int:
    program, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    scale = float(sys.argv[4]) if len(sys.argv) > 4 else 1
    over = time.monotonic() + seconds
    good = True

    with (
        tempfile.TemporaryDirectory(prefix="sparseagg_server_load_") as folder,
        open(path, "a", encoding="utf-8") as file,
    ):

        def line(**fields: object) -> None:
            nonlocal good
            good = good and fields.get("exact", False)
            text = json.dumps({"kind": "server", **fields})
            print(text, flush=True)
            file.write(text + "\n")
            file.flush()

        servers = {backend: Server(program, backend, Path(folder), over) for backend in BACKENDS}
        try:
            for backend, server in servers.items():
                if server.address is None:
                    line(backend=backend, error=server.error)
            for (updates, nnz, rows, width), connections in LOADS:
                shape = (updates, max(1, round(nnz * scale)), max(1000, round(rows * scale)), width)
                for backend, server in servers.items():
                    if server.address is None or time.monotonic() > over - 1:
                        continue
                    of = {"entries": shape[0] * shape[1], "rows": shape[2], "width": width}
                    result = load(program, server, shape, connections, over - time.monotonic())
                    if result is not None:
                        line(backend=backend, connections=connections, **of, **result)
        finally:
            for server in servers.values():
                server.stop()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
