"""A server for an example: one that runs already, or one of its own for as long as it is needed."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Server:
    """Where it is; its process, where it is ours."""

    target: str
    pid: int | None = None

    def memory_max(self) -> int:
        """The most bytes that its process has held; 0 where it is not ours."""
        if self.pid is None:
            return 0
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0


@contextmanager
def server_at(target: str | None, *flags: str) -> Iterator[Server]:
    """The server at `target`; None starts one, with these flags of `sparseagg serve`. Raises OSError where there is no
    program to start."""
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
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 30
            while not (port.exists() and port.read_text().strip()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise OSError(f"the server did not start: {Path(folder, 'log').read_text()}")
                time.sleep(0.05)
            yield Server(f"127.0.0.1:{port.read_text().strip()}", process.pid)
        finally:
            process.stdin.close()
            process.wait()
