"""Flower's quickstart, changed as docs/flower.md says and in nothing else, gives FedAvg's parameters."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")
from conftest import ROOT  # noqa: E402
from support.flower_deployment import Deployment  # noqa: E402
from support.flower_quickstart import change, changes_of, download, render  # noqa: E402

NODES = 2  # as many as FedAvg waits for
# The app adds random numbers, which must be the same in both runs. That is not of the page.
NOISE = "    # Simulate local training (here we just add random noise to model parameters)"
SEED = '    np.random.seed([context.node_config["partition-id"], msg.content["config"]["server-round"]])'


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    found = download(tmp_path_factory.mktemp("wheel"))
    if found is None:
        pytest.skip("pip cannot download the package flwr 1.23.0, which has the quickstart")
    return found


@pytest.fixture(scope="module")
def changes():
    return changes_of((ROOT / "docs/flower.md").read_text())


def test_the_page_changes_an_import_in_each_file(changes):
    assert [file for file, _, _ in changes] == ["server_app.py", "client_app.py"]
    for _, before, after in changes:
        assert before.startswith("from flwr.")
        assert after.startswith("from sparseagg.flower import ")


@pytest.mark.parametrize("framework", ["numpy", "pytorch", "sklearn", "tensorflow", "huggingface"])
def test_the_change_fits_the_quickstarts_of_flower(wheel, changes, framework, tmp_path):
    app = render(wheel, framework, tmp_path / "app")
    change(app, changes)
    for file in app.glob("quickstart/*.py"):
        compile(file.read_text(), file, "exec")


def test_the_changed_quickstart_has_the_parameters_of_fedavg(
    wheel, changes, server, tmp_path, monkeypatch
):
    monkeypatch.setenv("SPARSEAGG_SERVER", server.target)
    app = render(wheel, "numpy", tmp_path / "app")
    change(app, [("client_app.py", NOISE, SEED)])
    models = []
    flower = Deployment(tmp_path, NODES)
    try:
        for each in ([], changes):  # each has three rounds of training and evaluation
            change(app, each)
            output = flower.run(app, timeout=400)
            model = tmp_path / "final_model.npz"
            assert model.exists(), output
            assert output.count(f"Received {NODES} results and 0 failures") == 6, output
            with np.load(model) as file:
                models.append([file[name] for name in file.files])
            model.unlink()
    finally:
        flower.stop()
    assert f"The mean of {NODES} updates" in output
    for found, expected in zip(models[1], models[0]):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert np.allclose(found, expected, rtol=1e-15)
    assert models[0][0] > 1
