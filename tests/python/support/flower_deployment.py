"""Flower's own processes: a SuperLink, with SuperNodes or with a simulation, and `flwr run`."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent


class Deployment:
    """A SuperLink and `nodes` SuperNodes; without any it simulates them. Flower's commands start processes of their own, so
    whole sessions are ended. Apps run in `folder`."""

    def __init__(self, folder: Path, nodes: int = 0):
        self._folder = folder
        self._port = free_port()
        (folder / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n'
            f'[superlink.here]\naddress = "127.0.0.1:{self._port}"\ninsecure = true\n'
        )
        self._environment = {**os.environ, "FLWR_HOME": str(folder), "NO_COLOR": "1"}
        self._environment["PYTHONUNBUFFERED"] = "1"  # who reads a pipe has each line at once
        self._environment["PATH"] = f"{BIN}:{os.environ['PATH']}"
        self._started: list[subprocess.Popen] = []
        kind = () if nodes else ("--simulation",)
        install = "--disable-runtime-dependency-installation"
        self._start("superlink", install, "--port", self._port, *kind)
        for node in range(nodes):
            options = ("--superlink", f"127.0.0.1:{self._port}", "--port", free_port())
            self._start("supernode", *options, "--node-config", f"partition-id={node}")

    def _start(self, what, *options):
        command = [str(BIN / f"flower-{what}"), "--insecure", *map(str, options)]
        with (self._folder / f"{what}{len(self._started)}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
            )
        self._started.append(process)

    @contextlib.contextmanager
    def start_run(self, app, federation="", **config):
        """`flwr run` with its output in a pipe, ended with the block. federation: of a simulation, "num-supernodes=10"."""
        command = [str(BIN / "flwr"), "run", str(app), "here", "--stream"]
        if config:
            command += ["--run-config", " ".join(f"{k}={toml(v)}" for k, v in config.items())]
        if federation:
            command += ["--federation-config", federation]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, env=self._environment, **options) as run:
            try:
                yield run
            finally:
                run.kill()

    def run(self, app, federation="", timeout=200, **config):
        """All of the output of `flwr run`, once it is over."""
        deadline = time.monotonic() + 60
        while True:
            with self.start_run(app, federation, **config) as run:
                output, _ = run.communicate(timeout=timeout)
            # The SuperLink takes a few seconds to serve; there is no command that waits for it.
            if "is unavailable" not in output or time.monotonic() > deadline:
                return output

    def stop(self):
        for process in self._started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def toml(value):
    """A value of a run's configuration, as `flwr` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
