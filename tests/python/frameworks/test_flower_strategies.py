"""Each strategy is Flower's own with one argument more: the same arguments, the same steps, on the exact mean."""

from __future__ import annotations

import gc
import inspect

import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr.app import Message, RecordDict  # noqa: E402
from flwr.serverapp import strategy as flower  # noqa: E402
from sparseagg import Client, InvalidArgumentError  # noqa: E402
from sparseagg import flower as ours  # noqa: E402
from support.flower_nodes import (  # noqa: E402, F401
    OPTIONS,
    Nodes,
    adding,
    arrays_of,
    identity,
    trained,
)

NAMES = ["FedAvg", "FedAvgM", "FedProx", "FedAdagrad", "FedAdam", "FedYogi"]
OF_ITS_OWN = {
    "FedAvgM": {"server_learning_rate": 0.5, "server_momentum": 0.5},
    "FedProx": {"proximal_mu": 0.25},
    "FedAdam": {"eta": 0.25, "beta_1": 0.5},
    "FedYogi": {"eta": 0.25, "beta_1": 0.5},
}


@pytest.fixture(params=NAMES)
def pair(request):
    """Flower's strategy, ours, and options that are not FedAvg's."""
    name = request.param
    theirs, sparse = getattr(flower, name), getattr(ours, f"Sparse{name}")
    return theirs, sparse, {**OPTIONS, **OF_ITS_OWN.get(name, {})}


def test_the_arguments_are_those_of_flower_and_then_ours_by_name(pair):
    theirs, sparse, _ = pair
    expected = list(inspect.signature(theirs).parameters.values())
    found = list(inspect.signature(sparse).parameters.values())
    assert found[: len(expected)] == expected
    more = found[len(expected) :]
    assert [p.name for p in more][:2] == ["sparse", "target"]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in more)


def test_arguments_by_place_mean_what_they_mean_to_fedavg():
    by_place = (0.5, 0.25, 3, 4, 5, "weight", "a", "c")
    theirs, sparse = flower.FedAvg(*by_place), ours.SparseFedAvg(*by_place, sparse=["emb"])
    for name, value in vars(theirs).items():
        assert getattr(sparse, name) == value
    assert sparse.weighted_by_key == "weight"


def test_a_class_of_the_user_has_its_own_arguments():
    class Mine(ours.SparseFedAvg):
        def __init__(self, fraction):
            super().__init__(fraction)

    assert list(inspect.signature(Mine).parameters) == ["fraction"]
    assert Mine(0.5).fraction_train == 0.5


def test_one_round_has_the_bits_of_flower(server, pair):
    """Of numbers whose mean is exact in f32, so that only the mean itself could make a difference."""
    theirs, sparse, options = pair
    initial = arrays_of(
        table=np.float32([[1, 2], [3, 4], [5, 6]]), dense=np.float32([0.5, -8]), count=np.int64([4])
    )
    by = np.float32([[0, 0], [0.5, -2], [0, 0]])
    nodes = [adding({"table": by, "dense": 1}), adding({"table": 3 * by, "count": 2})]
    expected = trained(theirs(**options), Nodes(*nodes), initial)
    found = trained(
        sparse(sparse=["table"], target=server.target, **options), Nodes(*nodes), initial
    )
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].tolist()) == (array.dtype, array.tolist())
    assert found["table"][1].tolist() != [3, 4]


def test_later_rounds_go_on_as_with_flower_and_rows_that_nobody_touched_stay(server, pair):
    """The mean that Flower computes of equal numbers is not always that number; adaptive steps enlarge the difference."""
    theirs, sparse, options = pair
    random = np.random.default_rng(5)
    initial = arrays_of(
        table=random.normal(size=(40, 3)).astype("f"), dense=random.normal(size=7).astype("f")
    )
    rows = [random.normal(size=(40, 3)) * (random.random((40, 1)) < 0.2) for _ in range(3)]
    nodes = [adding({"table": row, "dense": n}, examples=n) for n, row in enumerate(rows, 1)]
    expected = trained(theirs(**options), Nodes(*nodes), initial, rounds=4)
    strategy = sparse(sparse=["table"], target=server.target, **options)
    found = trained(strategy, Nodes(*nodes), initial, rounds=4)
    for name, array in expected.items():
        assert np.allclose(found[name], array, rtol=1e-4, atol=1e-4)
    assert {n: a.dtype for n, a in found.items()} == {n: a.dtype for n, a in expected.items()}
    untouched = ~np.any(rows, axis=(0, 2))
    assert 10 < untouched.sum() < 30
    before = initial["table"].numpy()[untouched]
    assert (found["table"][untouched] == before).all()
    print(
        "rows that nobody touched, moved by Flower:",
        np.abs(expected["table"][untouched] - before).max(),
    )
    assert list(strategy.bytes_received) == list(strategy.bytes_sent) == [1, 2, 3, 4]


def test_the_proximal_term_reaches_the_clients(server):
    seen = []

    def train(message):
        seen.append(message.content["config"]["proximal-mu"])
        return adding(1.0)(message)

    strategy = ours.SparseFedProx(proximal_mu=0.25, target=server.target, **OPTIONS)
    assert trained(strategy, Nodes(train), arrays_of(a=np.float32([1])))["a"].tolist() == [2]
    assert seen == [0.25]


def test_a_client_can_take_the_place_of_an_address(server):
    with Client(server.target) as client:
        strategy = ours.SparseFedAvg(client=client, **OPTIONS)
        arrays = arrays_of(a=np.float32([1]))
        assert trained(strategy, Nodes(adding(1.0)), arrays)["a"].tolist() == [2]
        with pytest.raises(InvalidArgumentError, match="leave out target and client_options"):
            ours.SparseFedAvg(client=client, target=server.target)


def test_an_address_in_the_first_place_is_told_where_it_belongs():
    with pytest.raises(InvalidArgumentError, match="write target='host:50061'"):
        ours.SparseFedAvg("host:50061")


def test_the_environment_names_the_server(server, monkeypatch):
    monkeypatch.setenv("SPARSEAGG_SERVER", server.target)
    strategy = ours.SparseFedAvg(sparse=["table"], **OPTIONS)
    after = trained(strategy, Nodes(adding(1.0)), arrays_of(table=np.float32([[1], [2]])))
    assert after["table"].tolist() == [[2], [3]]


@pytest.mark.parametrize("direct", [True, False])
def test_each_round_logs_its_bytes_in_both_directions(server, caplog, direct):
    table = np.zeros((1000, 4), np.float32)
    nodes = Nodes(*[adding({"table": np.float32([[1]] + [[0]] * 999)})] * 2)
    strategy = ours.SparseFedAvg(sparse=["table"], target=server.target, direct=direct, **OPTIONS)
    with caplog.at_level("INFO", "flwr"):
        trained(strategy, nodes, arrays_of(table=table))
    (line,) = (r.message for r in caplog.records if "The mean of 2 updates" in r.message)
    assert f"{strategy.bytes_received[1] / 1e6:.3f} MB of them from the clients" in line
    assert f"{strategy.bytes_sent[1] / 1e6:.3f} MB of arrays to these" in line


def test_the_client_app_has_the_mod_before_those_of_the_user(server):
    order = []

    def mod(message, context, call_next):
        reply = call_next(message, context)
        order.append(list(reply.content["arrays"]))  # still whole
        return reply

    app = ours.ClientApp(mods=[mod])

    @app.train()
    def train(message, context):
        return adding(1.0)(message)

    nodes = Nodes(None, None)
    nodes.mod = lambda message, context, _: app(message, context)
    strategy = ours.SparseFedAvg(sparse=["table"], target=server.target, **OPTIONS)
    after = trained(strategy, nodes, arrays_of(table=np.float32([[1], [2]])))
    assert after["table"].tolist() == [[2], [3]]
    assert order == [["table"]] * 2
    assert not nodes.errors


def test_the_client_app_works_with_strategies_of_flower():
    app = ours.ClientApp()

    @app.train()
    def train(message, context):
        return Message(RecordDict(adding(1.0)(message).content), reply_to=message)

    nodes = Nodes(None)
    nodes.mod = lambda message, context, _: app(message, context)
    after = trained(flower.FedAvg(**OPTIONS), nodes, arrays_of(a=np.float32([1])))
    assert after["a"].tolist() == [2]


@pytest.mark.parametrize("direct", [True, False])
def test_a_server_of_its_own_needs_no_address(direct):
    """`Client.local`: the strategy starts the server, simulated clients upload to it, and it ends with the strategy."""
    initial = arrays_of(table=np.float32([[1, 2], [3, 4]]), dense=np.float32([5]))
    nodes = [adding({"table": np.float32([[0, 0], [1, 2]]), "dense": 2}), adding({"dense": 4})]
    strategy = ours.SparseFedAvg(sparse=["table"], client=Client.local(), direct=direct, **OPTIONS)
    assert strategy._client.target.startswith("unix:")
    server = strategy._client._transport.local_server._process
    found = trained(strategy, Nodes(*nodes), initial, rounds=2)
    assert found["table"].tolist() == [[1, 2], [4, 6]]
    assert found["dense"].tolist() == [11]
    assert list(strategy._client.rounds()) == []
    del strategy
    gc.collect()
    assert server.wait(30) == 0
