"""Flower as it is deployed: a SuperLink, SuperNodes and `flwr run` in processes of their own, with examples/flower_app."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time

import numpy as np
import pytest

pytest.importorskip("flwr")
from conftest import ROOT  # noqa: E402
from sparseagg import Client, NotFoundError  # noqa: E402
from support.flower_deployment import Deployment  # noqa: E402

NODES, ROUNDS = 3, 2
APP = ROOT / "examples/flower_app"
CONFIG = {"rounds": ROUNDS, "min-nodes": NODES}
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


def rounds_in(output):
    found = re.findall(r"round (\d+): loss ([\d.]+), updates: (\d*)", output)
    return {int(n): (float(loss), int(b) if b else None) for n, loss, b in found}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    running = Deployment(tmp_path_factory.mktemp("flower"), NODES)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def uninterrupted(deployment, server, tmp_path_factory):
    """The rounds with FedAvg and with SparseFedAvg, and the model that the latter leaves."""
    model = tmp_path_factory.mktemp("model") / "model.npz"
    dense, _ = run(deployment, APP, sparse=False)
    sparse, _ = run(deployment, APP, sparse=True, server=server.target, checkpoint=str(model))
    return dense, sparse, model


def run(deployment, app, **config):
    """{round: (loss, bytes of updates, None where Flower carried them)}, and all of the output."""
    output = deployment.run(app, **CONFIG, **config)
    rounds = rounds_in(output)
    assert len(rounds) == ROUNDS, output
    return rounds, output


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
    config = {**CONFIG, "sparse": True, "server": durable.target, "checkpoint": str(model)}
    with Client(durable.target) as client:
        with deployment.start_run(app, **config) as killed:
            wait_for("[ROUND 2/2]", killed)
            old = round_with_two(client)
            os.kill(int(old.name.split("-")[2]), signal.SIGKILL)
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
            for later in client.round(info.name).watch():
                if later.contributors == 2:
                    return client.round(info.name)
    pytest.fail("no round counts two updates")


def release(gate):
    """Opens the gate for all that wait there, and leaves it open."""
    try:
        waiting = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # nobody: Flower has ended the client of the dead run
        waiting = None
    gate.unlink()
    if waiting is not None:
        os.close(waiting)


def test_rounds_end_without_a_lost_client(deployment, server, tmp_path):
    app = app_with(LOST_CLIENT, tmp_path / "app")
    alone, output = run(deployment, app, sparse=True, server=server.target, goal=2)
    assert output.count("1 of 3 clients did not reply") == ROUNDS
    assert output.count("Received 2 results and 0 failures") == ROUNDS
    assert alone[2][0] < alone[1][0]
