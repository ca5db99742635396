"""What becomes of replies: Flower's messages, mods and strategies, with nodes that are functions of this process."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr.app import (  # noqa: E402
    Array,
    ArrayRecord,
    ConfigRecord,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp.exception import InconsistentMessageReplies  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from sparseagg.flower import SparseFedAvg, SparseUpload  # noqa: E402

OPTIONS = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}
pytestmark = pytest.mark.parametrize("direct", [True, False])


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """What Flower's processes get from the SuperLink; older versions need nothing."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


class Nodes:
    """A grid: the function in place n trains on node n + 1. errors: what nodes replied instead of arrays."""

    pull_interval = 0.01

    def __init__(self, *trainings):
        self._trainings = dict(enumerate(trainings, 1))
        self._replies = {}
        self.mod = SparseUpload()
        self.errors = []

    def get_node_ids(self):
        return list(self._trainings)

    def push_messages(self, messages):
        return [self._push(message) for message in messages]

    def _push(self, message):
        node = message.metadata.dst_node_id
        arrived = copy.deepcopy(message)
        arrived.metadata.__dict__["_message_id"] = f"message-{len(self._replies)}"
        try:
            reply = self.mod(arrived, None, lambda m, _: self._trainings[node](m))
        except Exception as error:
            self.errors.append(str(error))
            reply = Message(Error(code=0, reason=str(error)), reply_to=arrived)
        self._replies[arrived.metadata.message_id] = reply
        return arrived.metadata.message_id

    def pull_messages(self, ids):
        return [self._replies[message] for message in ids]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))


def adding(change, examples=1, **metrics):
    """A training that adds `change` to every array: a number, or by name; None leaves the array out."""

    def train(message):
        arrays = {}
        for name, array in message.content["arrays"].items():
            by = change.get(name, 0) if isinstance(change, dict) else change
            if by is not None:
                arrays[name] = Array(array.numpy() + array.numpy().dtype.type(by))
        content = {
            "arrays": ArrayRecord(arrays),
            "metrics": MetricRecord({"num-examples": examples, **metrics}),
        }
        return Message(RecordDict(content), reply_to=message)

    return train


def arrays_of(**arrays):
    return ArrayRecord({name: Array(np.array(array)) for name, array in arrays.items()})


def trained(strategy, nodes, arrays):
    """The arrays by name after one round; empty where there are none."""
    result = strategy.start(nodes, arrays, num_rounds=1)
    return {name: array.numpy() for name, array in result.arrays.items()}


def ours(server, direct, **options):
    return SparseFedAvg(server.target, direct=direct, **options, **OPTIONS)


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


def test_a_table_of_another_type_is_named(server, direct):
    def train(message):
        reply = adding(1.0)(message)
        reply.content["arrays"]["table"] = Array(np.float64([[2], [3]]))
        return reply

    nodes = Nodes(train, adding(2.0))
    after = trained(
        ours(server, direct, sparse=["table"]), nodes, arrays_of(table=np.float32([[1], [2]]))
    )
    assert after["table"].tolist() == [[3], [4]]
    if direct:
        assert nodes.errors == ['tensor "table": types float64 and float32 differ']


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
