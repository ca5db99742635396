"""Clients of Flower's former interface: unchanged but for the import of ClientApp, with both strategies of today."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr import clientapp  # noqa: E402
from flwr.client import NumPyClient  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from sparseagg import InvalidUpdateError  # noqa: E402
from sparseagg.flower import ClientApp, SparseFedAvg, SparseUpload, numpy_client_mod  # noqa: E402
from support.flower_nodes import Nodes, arrays_of, identity  # noqa: E402, F401

OPTIONS = {"min_train_nodes": 1, "min_available_nodes": 1, "min_evaluate_nodes": 1}


class Adds(NumPyClient):
    """Adds 2 to the first row of the first array, 1 to the second array; sees what it is sent."""

    configs: list = []  # noqa: RUF012  # of all clients of a test

    def fit(self, parameters, config):
        self.configs.append(config)
        table, bias = (array.copy() for array in parameters)
        table[0] += 2
        return [table, bias + np.float32(1)], 4, {"loss": 0.5, "device": "phone", "lost": True}

    def evaluate(self, parameters, config):
        return float(parameters[0].sum()), 8, {"accuracy": 0.75}


class LosesAnArray(Adds):
    def fit(self, parameters, config):
        return parameters[:1], 4, {}


def nodes_of(app, count=2):
    nodes = Nodes(*[None] * count)
    nodes.mod = lambda message, context, _: app(message, context)
    return nodes


def app_of(kind, client):
    def client_fn(context):
        return client().to_client()

    return kind(client_fn)


@pytest.fixture
def initial():
    Adds.configs.clear()
    return arrays_of(table=np.float32([[1, 1], [2, 2]]), bias=np.float32([3]))


@pytest.mark.parametrize("direct", [True, False, None])  # None: Flower's own FedAvg
def test_a_numpy_client_trains_and_evaluates_as_it_is(server, initial, direct):
    if direct is None:
        strategy = FedAvg(**OPTIONS)
    else:
        strategy = SparseFedAvg(sparse=["table"], target=server.target, direct=direct, **OPTIONS)
    nodes = nodes_of(app_of(ClientApp, Adds))
    result = strategy.start(nodes, initial, num_rounds=2)
    assert not nodes.errors
    arrays = {name: array.numpy().tolist() for name, array in result.arrays.items()}
    assert arrays == {"table": [[5, 5], [2, 2]], "bias": [5]}
    assert {n: dict(m) for n, m in result.train_metrics_clientapp.items()} == {
        1: {"loss": 0.5},
        2: {"loss": 0.5},
    }
    assert {n: dict(m) for n, m in result.evaluate_metrics_clientapp.items()} == {
        1: {"loss": 10.0, "accuracy": 0.75},
        2: {"loss": 14.0, "accuracy": 0.75},
    }
    assert [config["server-round"] for config in Adds.configs] == [1, 1, 2, 2]


def test_only_the_rows_that_changed_are_sent(server):
    table = np.zeros((1000, 4), np.float32)
    strategy = SparseFedAvg(sparse=["table"], target=server.target, **OPTIONS)
    strategy.start(
        nodes_of(app_of(ClientApp, Adds)), arrays_of(table=table, b=np.float32([0])), num_rounds=1
    )
    assert 0 < strategy.bytes_received[1] < table.nbytes / 4


def test_the_mods_by_hand_do_the_same_and_another_weight_is_known(server, initial):
    app = clientapp.ClientApp(
        lambda context: Adds().to_client(), mods=[SparseUpload(), numpy_client_mod]
    )
    strategy = SparseFedAvg(
        sparse=["table"], target=server.target, weighted_by_key="weight", **OPTIONS
    )
    result = strategy.start(nodes_of(app), initial, num_rounds=1)
    assert result.arrays["table"].numpy().tolist() == [[3, 3], [2, 2]]
    assert dict(result.evaluate_metrics_clientapp[1]) == {"loss": 10.0, "accuracy": 0.75}


@pytest.mark.parametrize("mods", [[], [SparseUpload()]])
def test_flower_s_client_app_is_told_what_to_write(server, initial, mods):
    app = clientapp.ClientApp(lambda context: Adds().to_client(), mods=mods)
    strategy = SparseFedAvg(sparse=["table"], target=server.target, **OPTIONS)
    with pytest.raises(InvalidUpdateError, match="write `from sparseagg.flower import ClientApp`"):
        strategy.start(nodes_of(app), initial, num_rounds=1)


def test_a_client_that_loses_an_array_is_refused_by_the_names(server, initial):
    strategy = SparseFedAvg(sparse=["table"], target=server.target, **OPTIONS)
    nodes = nodes_of(app_of(ClientApp, LosesAnArray))
    with pytest.raises(InvalidUpdateError, match="returns 1 arrays, and was sent 2: table, bias"):
        strategy.start(nodes, initial, num_rounds=1)
