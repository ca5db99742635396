"""Tests the handling of replies: Flower's messages, mods and strategies, with nodes that are functions of this process."""

from __future__ import annotations

import math
import subprocess
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr.app import (  # noqa: E402
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp.exception import InconsistentMessageReplies  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from sparseagg import (  # noqa: E402
    Client,
    InvalidArgumentError,
    InvalidUpdateError,
    NotFoundError,
    RoundState,
)
from sparseagg.flower import SparseFedAvg  # noqa: E402
from support.flower_nodes import (  # noqa: E402, F401
    OPTIONS,
    Nodes,
    adding,
    arrays_of,
    identity,
    trained,
)

pytestmark = pytest.mark.parametrize("direct", [True, False])


def ours(server, direct, **options):
    return SparseFedAvg(target=server.target, direct=direct, **options, **OPTIONS)


def test_a_reply_without_one_of_the_dense_arrays_does_not_count(server, direct):
    initial = arrays_of(a=np.float32([1, 1]), b=np.float32([8]))
    nodes = Nodes(adding(1.0), adding({"a": 3.0, "b": None}), adding(3.0))
    after = trained(ours(server, direct), nodes, initial)
    assert {name: array.tolist() for name, array in after.items()} == {"a": [3, 3], "b": [10]}
    if direct:
        assert nodes.errors == ["the arrays of the reply lack b"]


def test_a_table_that_is_left_out_is_as_it_was(server, direct):
    initial = arrays_of(a=np.float32([1]), table=np.float32([[1], [2]]))
    nodes = Nodes(adding({"table": 2.0}), adding({"table": None}))
    after = trained(ours(server, direct, sparse=["table"]), nodes, initial)
    assert after["table"].tolist() == [[2], [3]]


def test_weights_that_are_all_zero_leave_the_arrays_as_they_are(server, direct, rounds_left):
    initial = arrays_of(a=np.float32([1]), table=np.float32([[1], [2]]))
    nodes = Nodes(adding(1.0, examples=0), adding(2.0, examples=0))
    assert trained(ours(server, direct, sparse=["table"]), nodes, initial) == {}
    assert not nodes.errors
    assert not rounds_left()


def test_a_table_of_whole_numbers_is_averaged_as_by_fedavg(server, direct):
    initial = arrays_of(table=np.array([[1, 2], [3, 4]], np.int64))
    nodes = Nodes(adding(1), adding({"table": np.array([[0, 0], [2, 2]])}))
    after = trained(ours(server, direct, sparse=["table"]), nodes, initial)["table"]
    expected = trained(FedAvg(**OPTIONS), nodes, initial)["table"]
    assert (after.dtype, after.tolist()) == (expected.dtype, expected.tolist())


def test_replies_of_a_wider_type_are_rounded_once_to_the_type_of_the_round(server, direct, caplog):
    third = np.float64(1) / 3

    def train(message):
        arrays = {
            name: Array(array.numpy().astype(np.float64) + np.array([[third]] + [[0]] * 2)[:3, 0:1])
            for name, array in message.content["arrays"].items()
        }
        content = {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    initial = arrays_of(
        table=np.float32([[0], [2], [3]]),
        dense=np.float32([[0], [5], [6]]),
        half=np.float16([[0], [1], [2]]),
    )
    strategy = ours(server, direct, sparse=["table"])
    after = trained(strategy, Nodes(train, train), initial)
    for name, array in initial.items():
        expected = array.numpy().copy()
        expected[0] = third  # rounded once
        assert (after[name].dtype, after[name].tolist()) == (expected.dtype, expected.tolist())
    told = [record.message for record in caplog.records if "are rounded" in record.message]
    assert len(told) == 1
    assert "table, dense, half" in told[0]
    trained(strategy, Nodes(train), initial)
    assert sum("are rounded" in record.message for record in caplog.records) == 1


def test_a_value_beyond_the_type_of_the_round_is_named(server, direct):
    def train(message):
        reply = adding(1.0)(message)
        reply.content["arrays"]["table"] = Array(np.float64([[2], [1e300]]))
        return reply

    nodes = Nodes(train, adding(2.0))
    after = trained(
        ours(server, direct, sparse=["table"]), nodes, arrays_of(table=np.float32([[1], [2]]))
    )
    assert after["table"].tolist() == [[3], [4]]
    if direct:
        assert nodes.errors == [
            'tensor "table": value 1e+300 at [1, 0] is beyond float32, which the round has'
        ]


def test_a_round_in_which_no_reply_counts_fails(server, direct, rounds_left):
    nodes = Nodes(adding({"a": np.nan}), adding({"a": None}))
    first = "node (1: .*NaN|2: .*lack a)"  # the server refuses one and the strategy the other, at the same time
    with pytest.raises(InvalidUpdateError, match=f"none of 2 replies counts; {first}"):
        trained(ours(server, direct), nodes, arrays_of(a=np.float32([1])))
    assert not rounds_left()


def test_a_client_without_the_mod_is_told_of_and_its_bytes_are_counted(server, direct, caplog):
    table = np.zeros((1000, 4), np.float32)
    nodes = Nodes(*[adding({"table": np.float32([[1]] + [[0]] * 999)})] * 2)
    nodes.mod = lambda message, context, call_next: call_next(message, context)
    strategy = ours(server, direct, sparse=["table"])
    strategy.start(nodes, arrays_of(table=table), num_rounds=2)
    for number in (1, 2):
        assert strategy.bytes_received[number] >= 2 * table.nbytes
        assert strategy.bytes_sent[number] >= 2 * table.nbytes
    told = [record.message for record in caplog.records if "lacks the mod" in record.message]
    assert len(told) == 1
    assert "2 replies with whole tables" in told[0]
    assert "mods=[SparseUpload()]" in told[0]


def test_with_the_mod_the_rows_that_changed_are_what_is_counted(server, direct, caplog):
    table = np.zeros((1000, 4), np.float32)
    nodes = Nodes(*[adding({"table": np.float32([[1]] + [[0]] * 999)})] * 2)
    strategy = ours(server, direct, sparse=["table"])
    trained(strategy, nodes, arrays_of(table=table))
    assert 0 < strategy.bytes_received[1] < table.nbytes / 4
    assert strategy.bytes_sent[1] >= 2 * table.nbytes
    assert not [record for record in caplog.records if "lacks the mod" in record.message]


def test_buffers_of_truth_values_and_without_values_do_not_hinder_the_rest(server, direct):
    initial = arrays_of(a=np.float32([1]), empty=np.zeros((0, 3), np.float32), mask=[True, False])
    after = trained(ours(server, direct), Nodes(adding(1), adding({"a": 3})), initial)
    assert after["a"].tolist() == [3]
    assert after["empty"].shape == (0, 3)
    assert after["mask"].tolist() == [1, 0.5]  # averaged in float64, as by FedAvg


def test_rounds_have_a_deadline_after_the_time_that_flower_waits(server, direct):
    policies = []

    def train(message):
        with Client(server.target) as client:
            name = message.content["sparseagg"]["round"]
            policies.append(client.round(name).info().policy.open_for)
        return adding(1.0)(message)

    arrays = arrays_of(a=np.float32([1]))
    ours(server, direct).start(Nodes(train), arrays, num_rounds=1)
    ours(server, direct).start(Nodes(train), arrays, 1, 60)
    ours(server, direct).start(Nodes(train), arrays, num_rounds=1, timeout=None)
    ours(server, direct, round_options={"deadline": 99}).start(Nodes(train), arrays, num_rounds=1)
    assert policies == [3600 + 600, 60 + 600, 24 * 3600, 99]


def test_one_name_is_no_list_of_tables(server, direct):
    with pytest.raises(InvalidArgumentError, match=r'give a list of names: \["emb"\]'):
        ours(server, direct, sparse="emb")


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_the_round_of_a_server_app_that_died_is_erased_at_the_next_start(server, direct):
    program = (
        "import sys, numpy as np\n"
        "from flwr.app import Array, ArrayRecord, ConfigRecord\n"
        "from sparseagg.flower import SparseFedAvg\n"
        "strategy = SparseFedAvg(target=sys.argv[1], min_train_nodes=1, min_available_nodes=1)\n"
        "strategy._construct_messages = lambda *arguments: [type('M', (), {'content': {}})()]\n"
        "class Grid:\n"
        "    def get_node_ids(self): return [1]\n"
        "arrays = ArrayRecord({'a': Array(np.zeros(2))})\n"
        "strategy.configure_train(1, arrays, ConfigRecord(), Grid())\n"
        "print(strategy._round.name, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, server.target]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        name = process.stdout.readline().strip()
        process.kill()
    with Client(server.target) as client:
        assert client.round(name).info().state is RoundState.OPEN
        trained(ours(server, direct), Nodes(adding(1.0)), arrays_of(a=np.float32([1])))
        with pytest.raises(NotFoundError):
            client.round(name).info()


def test_an_error_that_ends_the_training_leaves_no_round_behind(server, direct, rounds_left):
    # What FedAvg itself refuses: nodes that report different metrics.
    nodes = Nodes(adding(1.0, loss=1.0), adding(2.0))
    with pytest.raises(InconsistentMessageReplies):
        trained(ours(server, direct), nodes, arrays_of(a=np.float32([1])))
    assert not rounds_left()

    nodes.pull_messages = lambda ids: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trained(ours(server, direct), nodes, arrays_of(a=np.float32([1])))
    assert not rounds_left()


def test_a_receipt_that_names_no_round_does_not_count(server, direct):
    def train(message):
        reply = adding(5.0)(message)
        del reply.content["arrays"]
        reply.content["sparseagg"] = ConfigRecord({"update-id": "made-up"})
        return reply

    nodes = Nodes(train, adding(2.0))
    nodes.mod = lambda message, context, call_next: call_next(message, context)
    after = trained(ours(server, direct), nodes, arrays_of(a=np.float32([1])))
    assert after["a"].tolist() == [3]


def test_a_durable_round_goes_on_over_a_restart_of_the_server(own_server, tmp_path, direct):
    """The server is killed while a client trains; it comes back while the client is uploading already."""
    durable = own_server("--data-dir", str(tmp_path / "data"))
    restarts = []

    def train(message):
        durable.kill()
        restarts.append(threading.Thread(target=durable.start))
        restarts[-1].start()
        return adding(3.0)(message)

    initial = arrays_of(a=np.float32([1]), table=np.float32([[1], [2]]))
    nodes = Nodes(adding(1.0), train, adding(5.0))
    strategy = ours(durable, direct, sparse=["table"])
    after = trained(strategy, nodes, initial, rounds=2)
    for restart in restarts:
        restart.join()
    assert not nodes.errors
    assert {name: array.tolist() for name, array in after.items()} == {
        "a": [7],
        "table": [[7], [8]],
    }


def test_clients_wait_for_the_server_as_long_as_the_strategy(server, direct):
    waits = []

    def train(message):
        waits.append(message.content["sparseagg"]["timeout"])
        return adding(1.0)(message)

    arrays = arrays_of(a=np.float32([1]))
    trained(ours(server, direct), Nodes(train), arrays)
    trained(ours(server, direct, client_options={"timeout": 600}), Nodes(train), arrays)
    trained(ours(server, direct, client_options={"timeout": None}), Nodes(train), arrays)
    assert waits == [60, 600, math.inf]
