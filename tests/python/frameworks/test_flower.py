"""Flower's own simulation with our strategy against FedAvg: 50 clients, the same seeds."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
pytest.importorskip("flwr")
import ray  # noqa: E402
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402
from sparseagg import Client, SparseTensor, as_tensor  # noqa: E402
from sparseagg.flower import SparseFedAvg, SparseUpload, sparse_record, tensors_of  # noqa: E402

CLIENTS, ROUNDS, ROWS, WIDTH = 50, 2, 5000, 16
ROWS_TOUCHED = ROWS // 100


def initial_arrays():
    """A table, a dense layer, a scalar that counts, as in a state dict."""
    generator = np.random.default_rng(7)
    return ArrayRecord(
        {
            "emb.weight": Array(generator.normal(size=(ROWS, WIDTH)).astype(np.float32)),
            "dense.weight": Array(generator.normal(size=(4, WIDTH)).astype(np.float32)),
            "norm.num_batches_tracked": Array(np.array(3)),
        }
    )


def train(message, context):
    """A client that changes 1 % of the rows and all other arrays, in the same way for every strategy."""
    partition = int(context.node_config["partition-id"])
    server_round = int(message.content["config"]["server-round"])
    generator = np.random.default_rng([partition, server_round])
    arrays = {name: array.numpy().copy() for name, array in message.content["arrays"].items()}
    rows = generator.choice(ROWS, ROWS_TOUCHED, replace=False)
    arrays["emb.weight"][rows] += generator.normal(size=(ROWS_TOUCHED, WIDTH)).astype(np.float32)
    arrays["dense.weight"] += generator.normal(size=(4, WIDTH)).astype(np.float32)
    arrays["norm.num_batches_tracked"] += partition
    metrics = {"num-examples": 10 + partition, "loss": float(partition)}
    return Message(
        RecordDict(
            {
                "arrays": ArrayRecord({name: Array(a) for name, a in arrays.items()}),
                "metrics": MetricRecord(metrics),
            }
        ),
        reply_to=message,
    )


class Seen:
    """Counts the bytes of arrays in the replies that a strategy gets."""

    def __init__(self, strategy):
        self.bytes = 0
        self._aggregate = strategy.aggregate_train
        strategy.aggregate_train = self

    def __call__(self, server_round, replies):
        replies = list(replies)
        for reply in replies:
            assert not reply.has_error(), reply.error.reason
            self.bytes += sum(r.count_bytes() for r in reply.content.array_records.values())
        return self._aggregate(server_round, replies)


def start_ray(cpus=2):
    """Starts Ray as Flower would. Its processes have half a minute to start; a busy machine may need several tries."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    for attempts_left in (2, 1, 0):
        try:
            ray.init(num_cpus=cpus, include_dashboard=False, runtime_env={"env_vars": environment})
            return
        except Exception:  # a plain one, where a process is late
            ray.shutdown()
            if not attempts_left:
                raise


def simulate(strategy, mods, train=train, start=start_ray):
    """The result of the strategy after ROUNDS rounds with CLIENTS clients, and the bytes of arrays in replies."""
    client_app = ClientApp(mods=mods)
    client_app.train()(train)
    server_app = ServerApp()
    seen = Seen(strategy)
    found = []

    @server_app.main()
    def main(grid, context):
        found.append(strategy.start(grid, initial_arrays(), num_rounds=ROUNDS))

    start()
    run_simulation(
        server_app,
        client_app,
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1}},
    )
    return found[0], seen.bytes


OPTIONS = {"fraction_evaluate": 0.0, "min_available_nodes": CLIENTS, "min_train_nodes": CLIENTS}


@pytest.fixture(scope="module")
def stock():
    """FedAvg as it is."""
    return simulate(FedAvg(**OPTIONS), [])


@pytest.mark.parametrize(
    ("sparse", "direct"), [((), True), (("emb.weight",), True), (("emb.weight",), False)]
)
def test_the_parameters_are_those_of_fedavg(server, stock, sparse, direct):
    strategy = SparseFedAvg(target=server.target, sparse=sparse, direct=direct, **OPTIONS)
    result, reply_bytes = simulate(strategy, [SparseUpload()])
    expected, dense_bytes = stock
    assert list(result.arrays) == list(expected.arrays)
    for name, array in expected.arrays.items():
        ours, theirs = result.arrays[name].numpy(), array.numpy()
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        # FedAvg rounds at each of 50 additions, we round once (twice in a table).
        assert np.allclose(ours, theirs, rtol=CLIENTS * 2.0**-24, atol=CLIENTS * 2.0**-24 * 4)
    for server_round in range(1, ROUNDS + 1):
        ours = result.train_metrics_clientapp[server_round]
        assert dict(ours) == pytest.approx(dict(expected.train_metrics_clientapp[server_round]))
    sent = sum(strategy.bytes_received.values())
    assert dense_bytes > CLIENTS * ROUNDS * ROWS * WIDTH * 4
    if direct:
        assert reply_bytes == 0
    if sparse:
        print(f"bytes: FedAvg {dense_bytes}, replies {reply_bytes}, to the server {sent}")
        assert max(sent, reply_bytes) <= dense_bytes / 20


def test_a_round_ends_at_its_goal(server):
    strategy = SparseFedAvg(
        target=server.target,
        sparse=["emb.weight"],
        direct=False,
        round_options={"goal": 30},
        **OPTIONS,
    )
    average, counted = strategy.train_metrics_aggr_fn, []
    strategy.train_metrics_aggr_fn = lambda replies, key: (
        counted.append(len(replies)) or average(replies, key)
    )
    with Client(server.target) as client:
        before = [info.name for info in client.rounds()]
        result, _ = simulate(strategy, [SparseUpload()])
        assert [info.name for info in client.rounds()] == before  # the new ones are deleted
    assert counted == [30] * ROUNDS
    assert list(result.train_metrics_clientapp) == list(range(1, ROUNDS + 1))


def test_too_few_contributors_leave_the_arrays_as_they_are(server):
    strategy = SparseFedAvg(
        target=server.target, round_options={"min_contributors": CLIENTS + 1}, **OPTIONS
    )
    result, _ = simulate(strategy, [SparseUpload()])
    assert result.train_metrics_clientapp == {}
    assert len(result.arrays) == 0


def test_records_carry_sparse_tensors():
    tensors = {"a": ([3, 1], np.float32([[1, 2], [3, 4]]), [2**40, 2]), "b": np.float64([1, 2])}
    restored = tensors_of(sparse_record(tensors))
    assert isinstance(restored["a"], SparseTensor)
    assert restored["a"].dense_shape == (2**40, 2)
    assert restored["a"].values.tolist() == as_tensor(tensors["a"]).values.tolist()
    assert restored["b"].tolist() == [1, 2]


def test_a_name_that_no_array_has_is_refused(server):
    strategy = SparseFedAvg(target=server.target, sparse=["embb.weight"], **OPTIONS)
    with pytest.raises(ValueError, match=r"embb\.weight"):
        strategy._specs(initial_arrays())


def train_carelessly(message, context):
    """As `train`, but four clients reply what cannot be counted."""
    reply = train(message, context)
    partition = int(context.node_config["partition-id"])
    if partition == 0:
        del reply.content["metrics"]["num-examples"]
    elif partition == 1:
        del reply.content["arrays"]
    elif partition == 2:
        reply.content["metrics"]["num-examples"] = [1, 2]
    elif partition == 3:
        reply.content["arrays"]["dense.weight"] = Array(
            "float32", (4, WIDTH), "numpy.ndarray", b"junk"
        )
    return reply


def test_a_malformed_reply_is_the_failure_of_its_client_only(server):
    strategy = SparseFedAvg(target=server.target, sparse=["emb.weight"], direct=False, **OPTIONS)
    average, counted = strategy.train_metrics_aggr_fn, []
    strategy.train_metrics_aggr_fn = lambda replies, key: (
        counted.append(len(replies)) or average(replies, key)
    )
    result, _ = simulate(strategy, [], train_carelessly)
    assert counted == [CLIENTS - 4] * ROUNDS
    # `train` adds the number of the client, which weighs 10 more than that, to the counter.
    counts = range(4, CLIENTS)
    added = sum((10 + n) * n for n in counts) / sum(10 + n for n in counts)
    counter = result.arrays["norm.num_batches_tracked"].numpy()
    assert counter == pytest.approx(3 + ROUNDS * added, abs=1)  # a client gets it as it is


def test_records_carry_bfloat16_bits():
    tensor = SparseTensor([1], np.full((1, 2), 0x3F80, np.uint16), [4, 2], "bf16")
    restored = tensors_of(sparse_record({"emb": tensor}))["emb"]
    assert (restored.value_type, restored.values.tolist()) == ("bf16", [[0x3F80, 0x3F80]])
