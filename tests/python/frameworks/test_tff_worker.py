"""The work of a TFF client as a worker, which comes for it to the sparseagg server."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
tff = pytest.importorskip("tensorflow_federated")
from sparseagg import (  # noqa: E402
    InvalidArgumentError,
    NewTaskGroup,
    SparseTensor,
    sparse_data,
    worker,
)
from sparseagg.tff import (  # noqa: E402
    SparseRound,
    client_worker,
    components,
    feature_statistics,
    sparse_tensor,
    sparse_tensor_type,
)

ROWS, WIDTH = 40, 3
STATE_TYPE = tff.types.to_type(
    OrderedDict(
        table=tff.types.TensorType(np.float32, [ROWS, WIDTH]),
        bias=tff.types.TensorType(np.float32, [2]),
        steps=tff.types.TensorType(np.int32),
    )
)
DATA_TYPE = tff.types.SequenceType(tff.types.TensorType(np.int64, [None]))
DATA = {"phone-1": [np.int64([1, 2]), np.int64([2])], "phone-2": [np.int64([2, 7, 7, 7])]}


@tff.tensorflow.computation(STATE_TYPE)
def prepare(state):
    return OrderedDict(bias=state["bias"], first=state["table"][:4], more=(state["steps"],))


@tff.tensorflow.computation(prepare.type_signature.result, DATA_TYPE)
def work(broadcast, data):
    """A client adds to the rows of its words, and to the bias that was broadcast."""
    words = data.reduce(tf.zeros([0], tf.int64), lambda a, b: tf.concat([a, b], 0))
    steps = tf.cast(broadcast["more"][0], tf.float32)
    rows = tf.ones([tf.size(words), WIDTH]) * steps + broadcast["first"][0]
    update = OrderedDict(emb=OrderedDict(indices=words, values=rows), bias=broadcast["bias"] + 1.0)
    return update, tf.cast(tf.size(words), tf.float32)


@tff.federated_computation(
    tff.types.FederatedType(STATE_TYPE, tff.SERVER), tff.types.FederatedType(DATA_TYPE, tff.CLIENTS)
)
def one_round(state, data):
    return tff.federated_map(
        work, (tff.federated_broadcast(tff.federated_map(prepare, state)), data)
    )


def server_update(state, aggregate):
    table = np.array(state["table"])
    table[aggregate["emb"]["indices"]] += aggregate["emb"]["values"]
    return OrderedDict(
        table=table, bias=state["bias"] + aggregate["bias"], steps=state["steps"] + np.int32(1)
    )


def initial_state():
    generator = np.random.default_rng(5)
    return OrderedDict(
        table=generator.normal(size=(ROWS, WIDTH)).astype(np.float32),
        bias=np.zeros(2, np.float32),
        steps=np.int32(2),
    )


def rounds_of(server, **options):
    shapes = {"emb": [ROWS, WIDTH]}
    return SparseRound(one_round, server_update, shapes, target=server.target, **options)


def train_by_tasks(client, server, rounds, function, state, payload):
    """The state after one round whose clients are tasks."""
    name = rounds.open()
    pool = name.replace("rounds/", "p-")
    client.tasks.create(NewTaskGroup(pool, name, contributors=list(DATA), payload=payload))
    report = worker.run(function, pool, server.target, idle_timeout=0)
    assert (report.completed, report.failed) == (len(DATA), 0)
    return server_update(state, rounds.finish(name, seal=False))


@pytest.mark.parametrize("computation", [work, one_round], ids=["tensorflow", "federated"])
def test_a_client_computation_does_tasks(client, server, computation):
    data = list(DATA.values())
    rounds = rounds_of(server, round_options={"goal": len(DATA)})
    expected = after = initial_state()
    function = client_worker(computation, lambda task: DATA[task.contributor])
    for _ in range(2):
        expected = rounds_of(server).next(expected, data)
        payload = rounds.payload(after)
        after = train_by_tasks(client, server, rounds, function, after, payload)
    for name in ("table", "bias", "steps"):
        assert np.asarray(after[name]).tobytes() == np.asarray(expected[name]).tobytes()


def test_a_broadcast_that_is_one_tensor(client, server):
    @tff.tensorflow.computation(tff.types.TensorType(np.float32, [2]), DATA_TYPE)
    def scaled(bias, data):
        return OrderedDict(bias=bias * 2.0), 1.0

    rounds = rounds_of(server)
    name = rounds.open()
    payload = worker.pack(np.float32([3, 4]))
    client.tasks.create(NewTaskGroup("p-one-tensor", name, contributors=["a"], payload=payload))
    function = client_worker(scaled, lambda task: DATA["phone-1"])
    assert worker.run(function, "p-one-tensor", server.target, idle_timeout=0).completed == 1
    assert rounds.finish(name)["bias"].tolist() == [6, 8]


def test_a_broadcast_from_somewhere_else(client, server):
    rounds = rounds_of(server, round_options={"goal": len(DATA)})
    state = initial_state()
    broadcast = rounds.broadcast(state)
    function = client_worker(one_round, lambda task: DATA[task.contributor], lambda task: broadcast)
    after = train_by_tasks(client, server, rounds, function, state, b"")
    expected = rounds_of(server).next(state, list(DATA.values()))
    assert np.asarray(after["table"]).tobytes() == np.asarray(expected["table"]).tobytes()


def test_a_client_whose_examples_are_sparse(client, server):
    """Their components are its data; the statistics are those that numpy makes of all examples."""
    specs = sparse_data.statistics_specs(ROWS)
    random = np.random.default_rng(3)
    examples = {
        name: SparseTensor(
            np.stack([random.integers(0, n, 30) for n in (6, ROWS)], axis=1),
            random.integers(1, 9, 30).astype(np.float32),
            [6, ROWS],
        )
        for name in DATA
    }

    @tff.tensorflow.computation(np.int32, sparse_tensor_type(np.float32))
    def count(_broadcast, data):
        return feature_statistics(sparse_tensor(data)), 1.0

    round = client.create_round(specs)
    payload = worker.pack(np.int32(0))
    group = NewTaskGroup("p-sparse", round, contributors=list(examples), payload=payload)
    client.tasks.create(group)
    function = client_worker(count, lambda task: components(examples[task.contributor]))
    report = worker.run(function, "p-sparse", server.target, idle_timeout=0, tasks_max=2)
    assert (report.completed, report.failed) == (len(examples), 0)
    round.seal()
    found = sparse_data.FeatureStatistics.of(round.result())
    updates = [sparse_data.feature_statistics(one) for one in examples.values()]
    expected = sparse_data.FeatureStatistics.of(client.reduce(specs, updates))
    assert found.examples == expected.examples == 12
    for name in ("features", "document_frequency", "contributors", "total", "minimum", "maximum"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def test_what_the_broadcast_lacks_is_named(client, server):
    rounds = rounds_of(server)
    payload = worker.pack({"first": np.zeros((4, WIDTH), np.float32)})
    group = NewTaskGroup("p-lacks", rounds.open(), count=1, payload=payload, attempts_max=1)
    client.tasks.create(group)
    function = client_worker(work, lambda task: DATA["phone-1"])
    assert worker.run(function, "p-lacks", server.target, tasks_max=1).failed == 1
    (task,) = client.tasks.list(pool="p-lacks")
    assert "the broadcast lacks bias, more/0; there are first" in task.last_failure


def test_a_computation_without_a_weight_is_refused():
    @tff.tensorflow.computation(tff.types.TensorType(np.float32, [2]), DATA_TYPE)
    def alone(bias, data):
        return bias

    with pytest.raises(InvalidArgumentError, match="not <update, weight>"):
        client_worker(alone, lambda task: [])
