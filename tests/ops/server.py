"""A real server for the tests of this folder: the program, on free ports, in a folder of its own."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def free_port() -> int:
    """A port that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Starts at once; `target` is for clients, `admin` the address of the admin port."""

    def __init__(self, binary: str, *flags: str, target: str = "127.0.0.1:0") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sparseagg_ops_"))
        self.log = self.folder / "log"
        self._command = [binary, "serve", f"--data-dir={self.folder / 'data'}", *flags]
        self.target, self.admin = target, "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Starts it again after `kill`, on the same ports and data."""
        ports = {name: self.folder / name for name in ["port", "admin_port"]}
        for file in ports.values():
            file.unlink(missing_ok=True)
        command = [
            *self._command,
            f"--listen={self.target}",
            f"--port-file={ports['port']}",
            f"--admin-listen={self.admin.removeprefix('http://').rstrip('/')}",
            f"--admin-port-file={ports['admin_port']}",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not ports["port"].exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not start:\n{self.log.read_text()}")
            time.sleep(0.01)
        self.target = f"127.0.0.1:{int(ports['port'].read_text())}"
        self.admin = f"http://127.0.0.1:{int(ports['admin_port'].read_text())}/"

    def restart(self) -> int:
        """Stops it in good order and starts it again on the same ports and data; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.start()
        return code

    def stop(self) -> int:
        """Asks it to stop; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)
        return code

    def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()
