#!/usr/bin/env python3
"""Sparse examples in TensorFlow Federated, whose types have no sparse tensors: a client computation takes their components."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import federation
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import texts
from local_server import Server
from sparseagg.sparse_data import FeatureStatistics, statistics_specs
from sparseagg.tff import (
    SparseRound,
    components,
    feature_statistics,
    local_features,
    sparse_tensor,
    sparse_tensor_type,
)

EXAMPLES = sparse_tensor_type(np.float32)
STATE = OrderedDict(
    weights=tff.types.TensorType(np.float32, federation.SHAPE),
    bias=tff.types.TensorType(np.float32, [federation.CLASSES]),
)
DATA = OrderedDict(examples=EXAMPLES, labels=tff.types.TensorType(np.int64, [None]))


def examples_of(one: texts.Contributor) -> OrderedDict[str, Any]:
    """[paragraphs, FEATURES]"""
    return components((one.indices, one.values, one.dense_shape))


def client_work(state_type: Any, data_type: Any, work: Any) -> Any:
    """The federated computation of a round up to the clients' results."""
    types = tff.types.to_type(state_type), tff.types.to_type(data_type)
    of_client = tff.tensorflow.computation(work, *types)

    @tff.federated_computation(
        tff.types.FederatedType(types[0], tff.SERVER),
        tff.types.FederatedType(types[1], tff.CLIENTS),
    )
    def one_round(state: Any, data: Any) -> Any:
        return tff.federated_map(of_client, (tff.federated_broadcast(state), data))

    return one_round


def statistics_of(_state: Any, data: Any) -> Any:
    """<update, weight>"""
    return feature_statistics(sparse_tensor(data)), 1.0


def gradients(state: Any, data: Any) -> Any:
    """<update, weight>: of the logistic loss, rows for the words of this client only."""
    features, examples = local_features(sparse_tensor(data["examples"]))
    rows, bias = tf.gather(state["weights"], features), state["bias"]
    with tf.GradientTape() as tape:
        tape.watch((rows, bias))
        scores = tf.sparse.sparse_dense_matmul(examples, rows) + bias
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(data["labels"], scores)
        loss = tf.reduce_mean(losses)
    of_rows, of_bias = tape.gradient(loss, (rows, bias))
    update = OrderedDict(weights=OrderedDict(indices=features, values=of_rows), bias=of_bias)
    return update, tf.cast(tf.size(data["labels"]), tf.float32)


def statistics(server: Server, contributors: Sequence[texts.Contributor]) -> FeatureStatistics:
    """One round with several operators."""
    specs = statistics_specs(texts.FEATURES)
    round = SparseRound(
        client_work(np.int32, EXAMPLES, statistics_of),
        lambda _, result: FeatureStatistics.of(result),
        {spec.name: spec.dense_shape for spec in specs if spec.sparse_dim},
        op={spec.name: spec.op for spec in specs},
        target=server.target,
    )
    return round.next(0, [examples_of(one) for one in contributors])


def train(
    server: Server, contributors: Sequence[texts.Contributor], model: federation.Model, rounds: int
) -> None:
    """SGD on the rows that were sent."""

    def server_update(state: Any, mean: Any) -> Any:
        model.step(mean["weights"]["indices"], mean["weights"]["values"], mean["bias"])
        return state

    data = [OrderedDict(examples=examples_of(one), labels=one.labels) for one in contributors]
    work = client_work(STATE, DATA, gradients)
    round = SparseRound(work, server_update, {"weights": federation.SHAPE}, target=server.target)
    for _ in range(rounds):
        round.next(OrderedDict(weights=model.weights, bias=model.bias), data)


if __name__ == "__main__":
    federation.main(__doc__, statistics, train)
