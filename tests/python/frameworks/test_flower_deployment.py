"""Flower as it is deployed: a SuperLink, SuperNodes and `flwr run` in processes of their own, with examples/flower_app."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")
from conftest import ROOT  # noqa: E402

NODES, ROUNDS = 3, 2
BIN = Path(sys.executable).parent
# A client that never answers: what a phone that is switched off looks like to the strategy.
LOST_CLIENT = """

import threading

app = ClientApp(mods=[SparseUpload()])


@app.train()
def train_or_be_lost(message: Message, context: Context) -> Message:
    if context.node_config["partition-id"] == 2:
        threading.Event().wait()
    return train(message, context)
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Deployment:
    """A SuperLink and three SuperNodes. Flower's commands start processes of their own, so whole sessions are ended."""

    def __init__(self, folder):
        self._folder = folder
        self._port = free_port()
        (folder / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n'
            f'[superlink.here]\naddress = "127.0.0.1:{self._port}"\ninsecure = true\n'
        )
        self._environment = {**os.environ, "FLWR_HOME": str(folder), "NO_COLOR": "1"}
        self._environment["PATH"] = f"{BIN}:{os.environ['PATH']}"
        self._started = []
        self._start("superlink", "--disable-runtime-dependency-installation", "--port", self._port)
        for node in range(NODES):
            options = ("--superlink", f"127.0.0.1:{self._port}", "--port", free_port())
            self._start("supernode", *options, "--node-config", f"partition-id={node}")

    def _start(self, what, *options):
        command = [str(BIN / f"flower-{what}"), "--insecure", *map(str, options)]
        with (self._folder / f"{what}{len(self._started)}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )
        self._started.append(process)

    def run(self, app, **config):
        """{round: (loss, bytes of updates, None where Flower carried them)}, and all of the output."""
        pairs = " ".join(
            f"{name}={value!r}".replace("'", '"').replace("True", "true").replace("False", "false")
            for name, value in {"rounds": ROUNDS, "min-nodes": NODES, **config}.items()
        )
        command = [str(BIN / "flwr"), "run", str(app), "here", "--stream", "--run-config", pairs]
        deadline = time.monotonic() + 60
        while True:
            done = subprocess.run(
                command, capture_output=True, text=True, env=self._environment, timeout=200
            )
            output = done.stdout + done.stderr
            # The SuperLink takes a few seconds to serve; there is no command that waits for it.
            if "is unavailable" not in output or time.monotonic() > deadline:
                break
        rounds = re.findall(r"round (\d+): loss ([\d.]+), updates: (\d*)", output)
        assert len(rounds) == ROUNDS, output
        return {int(n): (float(loss), int(b) if b else None) for n, loss, b in rounds}, output

    def stop(self):
        for process in self._started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    running = Deployment(tmp_path_factory.mktemp("flower"))
    yield running
    running.stop()


def test_the_app_trains_as_with_fedavg_and_ends_its_rounds_without_a_lost_client(
    deployment, server, tmp_path
):
    app = ROOT / "examples/flower_app"
    dense, _ = deployment.run(app, sparse=False)
    sparse, _ = deployment.run(app, sparse=True, server=server.target)
    assert dense[2][0] < dense[1][0]
    assert {n: loss for n, (loss, _) in sparse.items()} == {
        n: loss for n, (loss, _) in dense.items()
    }
    model_bytes = 4 * 1_000_001
    assert all(0 < received < NODES * model_bytes / 20 for _, received in sparse.values())

    with_a_lost_one = tmp_path / "app"
    shutil.copytree(app, with_a_lost_one)
    with (with_a_lost_one / "clicks/client_app.py").open("a") as source:
        source.write(LOST_CLIENT)
    alone, output = deployment.run(with_a_lost_one, sparse=True, server=server.target, goal=2)
    assert output.count("1 of 3 clients did not reply") == ROUNDS
    assert output.count("Received 2 results and 0 failures") == ROUNDS
    assert alone[2][0] < alone[1][0]
