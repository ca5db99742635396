"""Flower's messages without its servers: nodes that are functions of this process."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from sparseagg.flower import SparseUpload

OPTIONS = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    take_identity(monkeypatch.setattr)


def take_identity(set_attribute=setattr):
    """Sets the identity that Flower's processes get from the SuperLink; older versions need none."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    for name in ("task_id", "run_id", "node_id"):
        set_attribute(TaskIdentity, f"_{name}", 1)


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
            reason = f"{type(error)}:<'{error}'>"  # in Flower's words
            reply = Message(Error(code=0, reason=reason), reply_to=arrived)
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
                arrays[name] = Array(np.asarray(array.numpy() + array.numpy().dtype.type(by)))
        content = {
            "arrays": ArrayRecord(arrays),
            "metrics": MetricRecord({"num-examples": examples, **metrics}),
        }
        return Message(RecordDict(content), reply_to=message)

    return train


def arrays_of(**arrays):
    return ArrayRecord({name: Array(np.array(array)) for name, array in arrays.items()})


def trained(strategy, nodes, arrays, rounds=1):
    """The arrays by name after some rounds; empty where there are none."""
    result = strategy.start(nodes, arrays, num_rounds=rounds)
    return {name: array.numpy() for name, array in result.arrays.items()}
