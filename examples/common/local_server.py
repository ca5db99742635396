"""A server for an example: one that runs already, or one of its own for as long as it is needed; a tree of servers."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Server:
    """Where it is; its processes, where they are ours; its leaves, where it is the root of a tree."""

    target: str
    pids: tuple[int, ...] = ()
    leaves: tuple[Server, ...] = ()

    def memory_max(self) -> int:
        """The most bytes that its processes have held, added; 0 where they are not ours."""
        return sum(map(_memory_max, self.pids))


def _memory_max(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def server_at(target: str | None, *flags: str, durable: bool = False) -> Iterator[Server]:
    """The server at `target`; None starts one, with these flags of `sparseagg serve` and, if `durable`, with a data
    directory for as long as it runs. Raises OSError where there is no program to start."""
    if target:
        yield Server(target)
        return
    binary = os.environ.get("SPARSEAGG_BINARY") or _ROOT / "build/dev/bin/sparseagg"
    if not Path(binary).exists():
        raise OSError(f"{binary} does not exist: build it with ./dev build, or give --server")
    with tempfile.TemporaryDirectory() as folder:
        port = Path(folder, "port")
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--port-file", port]
        # It ends with this process, however that ends.
        command.extend(["--admin-listen=none", "--stop-at-eof", *flags])
        if durable:
            command.append(f"--data-dir={folder}/data")
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 30
            while not (port.exists() and port.read_text().strip()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise OSError(f"the server did not start: {Path(folder, 'log').read_text()}")
                time.sleep(0.05)
            yield Server(f"127.0.0.1:{port.read_text().strip()}", (process.pid,))
        finally:
            process.stdin.close()
            process.wait()


@contextmanager
def tree_of(nodes: int) -> Iterator[Server]:
    """The root of a tree with `nodes` leaves (docs/trees.md), all on this machine. Raises as server_at."""
    with ExitStack() as stack:
        leaves = tuple(stack.enter_context(server_at(None, durable=True)) for _ in range(nodes))
        names = ",".join(f"leaf-{number}={leaf.target}" for number, leaf in enumerate(leaves))
        root = stack.enter_context(server_at(None, "--leaves", names, durable=True))
        pids = (*root.pids, *(pid for leaf in leaves for pid in leaf.pids))
        yield Server(root.target, pids, leaves)
