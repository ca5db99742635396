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

import numpy as np
import pytest

pytest.importorskip("flwr")
from conftest import ROOT  # noqa: E402
from sparseagg import Client, NotFoundError  # noqa: E402

NODES, ROUNDS = 3, 2
APP = ROOT / "examples/flower_app"
BIN = Path(sys.executable).parent
# A client that never answers: what a phone that is switched off looks like to the strategy.
LOST_CLIENT = """

import threading

app = ClientApp()


@app.train()
def train_or_be_lost(message: Message, context: Context) -> Message:
    if context.node_config["partition-id"] == 2:
        threading.Event().wait()
    return train(message, context)
"""
# A client that trains in the second round of a run when somebody opens the gate, a named pipe.
LATE_CLIENT = """

from pathlib import Path

app = ClientApp()


@app.train()
def train_late(message: Message, context: Context) -> Message:
    gate = Path(GATE)
    second = message.content["config"]["server-round"] == 2
    if context.node_config["partition-id"] == 2 and second and gate.exists():
        gate.read_bytes()
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

    def start_run(self, app, **config):
        """`flwr run` with its output in a pipe."""
        pairs = " ".join(
            f"{name}={value!r}".replace("'", '"').replace("True", "true").replace("False", "false")
            for name, value in {"rounds": ROUNDS, "min-nodes": NODES, **config}.items()
        )
        command = [str(BIN / "flwr"), "run", str(app), "here", "--stream", "--run-config", pairs]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=self._environment
        )

    def run(self, app, **config):
        """{round: (loss, bytes of updates, None where Flower carried them)}, and all of the output."""
        deadline = time.monotonic() + 60
        while True:
            with self.start_run(app, **config) as run:
                output, _ = run.communicate(timeout=200)
            # The SuperLink takes a few seconds to serve; there is no command that waits for it.
            if "is unavailable" not in output or time.monotonic() > deadline:
                break
        rounds = rounds_in(output)
        assert len(rounds) == ROUNDS, output
        return rounds, output

    def stop(self):
        for process in self._started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def rounds_in(output):
    found = re.findall(r"round (\d+): loss ([\d.]+), updates: (\d*)", output)
    return {int(n): (float(loss), int(b) if b else None) for n, loss, b in found}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    running = Deployment(tmp_path_factory.mktemp("flower"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def uninterrupted(deployment, server, tmp_path_factory):
    """The rounds with FedAvg and with SparseFedAvg, and the model that the latter leaves."""
    model = tmp_path_factory.mktemp("model") / "model.npz"
    dense, _ = deployment.run(APP, sparse=False)
    sparse, _ = deployment.run(APP, sparse=True, server=server.target, checkpoint=str(model))
    return dense, sparse, model


def app_with(client, folder):
    shutil.copytree(APP, folder)
    with (folder / "clicks/client_app.py").open("a") as source:
        source.write(client)
    return folder


def test_the_app_trains_as_with_fedavg(uninterrupted):
    dense, sparse, _ = uninterrupted
    assert dense[2][0] < dense[1][0]
    assert {n: loss for n, (loss, _) in sparse.items()} == {
        n: loss for n, (loss, _) in dense.items()
    }
    model_bytes = 4 * 1_000_001
    assert all(0 < received < NODES * model_bytes / 20 for _, received in sparse.values())


def test_a_server_app_that_was_killed_goes_on_with_its_rounds(
    deployment, uninterrupted, own_server, tmp_path
):
    """It dies in its second round, when two of three clients are counted. The next run erases that round and repeats it;
    the third client, which uploads to the old one meanwhile, is refused. The model has each update once."""
    durable = own_server("--data-dir", str(tmp_path / "data"))
    gate, model = tmp_path / "gate", tmp_path / "model.npz"
    os.mkfifo(gate)
    app = app_with(LATE_CLIENT.replace("GATE", repr(str(gate))), tmp_path / "app")
    config = {"sparse": True, "server": durable.target, "checkpoint": str(model)}
    with Client(durable.target) as client:
        with deployment.start_run(app, **config) as killed:
            wait_for("[ROUND 2/2]", killed)
            old = round_with_two(client)
            os.kill(int(old.name.split("-")[2]), signal.SIGKILL)
            killed.kill()
        with deployment.start_run(app, **config) as again:
            before = wait_for("Sampled 3 nodes", again)
            assert "process" in before and "is erased" in before
            with pytest.raises(NotFoundError):
                old.info()
            release(gate)
            output, _ = again.communicate(timeout=200)
        assert [info.name for info in client.rounds()] == []
    assert {n: loss for n, (loss, _) in rounds_in(output).items()} == {2: uninterrupted[1][2][0]}
    with np.load(model) as found, np.load(uninterrupted[2]) as expected:
        for name in expected.files:
            assert found[name].tobytes() == expected[name].tobytes()


def wait_for(text, run):
    """The output up to the line with `text`."""
    lines = []
    for line in run.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    pytest.fail("".join(lines))


def round_with_two(client):
    """The open round, once it counts two updates."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for info in client.rounds():
            for later in client.round(info.name).watch(timeout=60):
                if later.contributors == 2:
                    return client.round(info.name)
    pytest.fail("no round counts two updates")


def release(gate):
    """Opens the gate for whoever waits there, and for good."""
    try:
        waiting = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # nobody: Flower has ended the client of the dead run
        waiting = None
    gate.unlink()
    if waiting is not None:
        os.close(waiting)


def test_rounds_end_without_a_lost_client(deployment, server, tmp_path):
    app = app_with(LOST_CLIENT, tmp_path / "app")
    alone, output = deployment.run(app, sparse=True, server=server.target, goal=2)
    assert output.count("1 of 3 clients did not reply") == ROUNDS
    assert output.count("Received 2 results and 0 failures") == ROUNDS
    assert alone[2][0] < alone[1][0]
