"""A Flower ClientApp as a worker: it comes for its work to the sparseagg server, without a SuperLink."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.client import NumPyClient  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from sparseagg import InvalidArgumentError, NewTaskGroup, worker  # noqa: E402
from sparseagg.flower import (  # noqa: E402
    ClientApp as SparseClientApp,
)
from sparseagg.flower import (  # noqa: E402
    apply_result,
    client_worker,
    specs_of_arrays,
    train_payload,
)

CLIENTS, ROWS, WIDTH = 4, 200, 3


def initial_arrays():
    """A table, a dense layer, and a counter, as in a state dict."""
    generator = np.random.default_rng(7)
    return ArrayRecord(
        {
            "emb": Array(generator.normal(size=(ROWS, WIDTH)).astype(np.float32)),
            "bias": Array(np.zeros(WIDTH, np.float32)),
            "batches": Array(np.array(3)),
        }
    )


def rows_of(partition):
    return np.random.default_rng(partition).choice(ROWS, 5, replace=False)


def changed(arrays, partition, rate):
    """Arrays after training on a partition: five rows of the table, and all else."""
    table = arrays["emb"].copy()
    table[rows_of(partition)] += np.float32(rate * (1 + partition))
    return {
        "emb": table,
        "bias": arrays["bias"] + np.float32(partition),
        "batches": arrays["batches"] + partition,
    }


def training_app(app_type=ClientApp):
    app = app_type()

    @app.train()
    def train(message, context):
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        rate = message.content["config"]["rate"]
        partition = context.node_config["partition-id"]
        assert context.run_config["batch-size"] == 8
        after = changed(arrays, partition, rate)
        content = {
            "arrays": ArrayRecord({name: Array(np.asarray(a)) for name, a in after.items()}),
            "metrics": MetricRecord({"num-examples": 10 + partition, "loss": 0.5}),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


class Trainer(NumPyClient):
    def __init__(self, partition):
        self._partition = partition

    def fit(self, parameters, config):
        after = changed(
            dict(zip(["emb", "bias", "batches"], parameters)), self._partition, config["rate"]
        )
        return list(after.values()), 10 + self._partition, {}


def options():
    return {
        "node_config": lambda task: {"partition-id": int(task.contributor)},
        "run_config": {"batch-size": 8},
    }


def train_with(client, server, function, arrays, **group):
    """The arrays after one round of CLIENTS tasks, and the report of the worker that has done them."""
    round = client.create_round(specs_of_arrays(arrays, sparse=["emb"]), goal=CLIENTS)
    names = [str(partition) for partition in range(CLIENTS)]
    pool = round.name.replace("rounds/", "p-")
    client.tasks.create(NewTaskGroup(pool, round, contributors=names, **group))
    report = worker.run(function, pool, server.target, idle_timeout=0)
    return apply_result(round.result(), arrays), report


def mean(arrays, rate):
    """What FedAvg makes of the clients' arrays, in float64."""
    before = {name: array.numpy() for name, array in arrays.items()}
    weights = [10 + partition for partition in range(CLIENTS)]
    after = [changed(before, partition, rate) for partition in range(CLIENTS)]
    return {
        name: sum(w * np.float64(a[name]) for w, a in zip(weights, after)) / sum(weights)
        for name in before
    }


@pytest.mark.parametrize(
    "app",
    [
        training_app(),
        training_app(SparseClientApp),
        SparseClientApp(lambda context: Trainer(context.node_config["partition-id"]).to_client()),
    ],
    ids=["flower", "sparseagg", "numpy-client"],
)
def test_a_client_app_does_tasks(client, server, app):
    arrays = initial_arrays()
    payload = train_payload(arrays, {"rate": 0.25})
    function = client_worker(app, **options())
    trained, report = train_with(client, server, function, arrays, payload=payload)
    assert (report.completed, report.failed) == (CLIENTS, 0)
    for name, expected in mean(arrays, 0.25).items():
        np.testing.assert_allclose(trained[name].numpy(), expected, rtol=1e-6, atol=1e-6)
    untouched = sorted(set(range(ROWS)) - {int(r) for p in range(CLIENTS) for r in rows_of(p)})
    before = arrays["emb"].numpy()
    assert (trained["emb"].numpy()[untouched] == before[untouched]).all()


def test_a_model_that_is_not_in_the_payload(client, server):
    """It is the result of a round of its own, whose name is in the payload."""
    arrays = initial_arrays()
    numbers = {name: array.numpy() for name, array in arrays.items() if name != "batches"}
    model = client.create_round(
        specs_of_arrays(ArrayRecord({n: Array(a) for n, a in numbers.items()}))
    )
    model.submit(numbers, contributor="owner")
    model.seal()

    def arrays_of(task):
        name = worker.unpack(task.payload).settings["config"]["model"]
        found = task.client.round(name).result("dense")
        return {**found, "batches": np.array(3)}

    payload = train_payload(None, {"rate": 0.5, "model": model.name})
    assert len(payload) < 1000
    function = client_worker(training_app(), arrays=arrays_of, **options())
    trained, report = train_with(client, server, function, arrays, payload=payload)
    assert report.completed == CLIENTS
    for name, expected in mean(arrays, 0.5).items():
        np.testing.assert_allclose(trained[name].numpy(), expected, rtol=1e-6, atol=1e-6)


def test_what_an_app_raises_fails_the_attempt(client, server):
    app = ClientApp()

    @app.train()
    def train(message, context):
        raise RuntimeError(f"no data of {context.node_config['partition-id']}")

    arrays = initial_arrays()
    round = client.create_round(specs_of_arrays(arrays, ["emb"]))
    group = NewTaskGroup(
        "p-app-raises", round, contributors=["3"], attempts_max=1, payload=train_payload(arrays)
    )
    client.tasks.create(group)
    report = worker.run(client_worker(app, **options()), "p-app-raises", server.target, tasks_max=1)
    assert report.failed == 1
    (task,) = client.tasks.list(pool="p-app-raises")
    assert "no data of 3" in task.last_failure


def test_a_table_that_is_not_there_is_named():
    with pytest.raises(InvalidArgumentError, match="embb"):
        specs_of_arrays(initial_arrays(), ["embb"])
