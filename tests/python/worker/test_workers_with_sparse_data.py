"""Workers whose examples are sparse: statistics and gradients as tasks, on a real server."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from sparseagg import NewTaskGroup, SparseTensor, TensorSpec, worker
from sparseagg.sparse_data import (
    FeatureStatistics,
    feature_statistics,
    local_features,
    statistics_specs,
)

EXAMPLES, FEATURES, WIDTH = 12, 5000, 3
CONTRIBUTORS = ("phone-1", "phone-2", "phone-3")
SPEC = TensorSpec("weights", [FEATURES, WIDTH], "f32", sparse_dim=1, op="weighted_mean")


def examples_of(contributor):
    """Entries in any order, some of equal indices; each contributor has an example more than the one before."""
    number = CONTRIBUTORS.index(contributor)
    random = np.random.default_rng(number)
    shape = [EXAMPLES + number, FEATURES]
    indices = np.stack([random.integers(0, n, 80) for n in shape], axis=1)
    return SparseTensor(indices, random.integers(1, 9, 80).astype(np.float32), shape)


def as_triple(examples):
    return examples.indices, examples.values, examples.dense_shape


def as_csr(examples):
    sparse = pytest.importorskip("scipy.sparse")
    entries = (examples.values, tuple(examples.indices.T))
    return sparse.csr_matrix(entries, shape=examples.dense_shape)


@pytest.fixture
def work(client, server):
    """Has a task of each contributor done by a worker, and returns the result of the round."""

    def of_all(specs, function, payload=b""):
        pool = f"pool-{uuid.uuid4().hex}"
        round = client.create_round(specs)
        group = NewTaskGroup(pool, round, contributors=list(CONTRIBUTORS), payload=payload)
        client.tasks.create(group)
        report = worker.run(function, pool, server.target, idle_timeout=0, tasks_max=3)
        assert (report.completed, report.failed) == (len(CONTRIBUTORS), 0)
        round.seal()
        result = round.result()
        assert result.manifest.contributors == len(CONTRIBUTORS)
        return result

    return of_all


@pytest.mark.parametrize("kind", [as_triple, as_csr])
def test_statistics_are_those_of_all_examples(client, work, kind):
    specs = statistics_specs(FEATURES)
    result = work(specs, lambda task: feature_statistics(kind(examples_of(task.contributor))))
    found = FeatureStatistics.of(result)
    updates = [feature_statistics(examples_of(one)) for one in CONTRIBUTORS]
    expected = FeatureStatistics.of(client.reduce(specs, updates))
    assert found.examples == expected.examples == 3 * EXAMPLES + 3
    for name in ("features", "document_frequency", "contributors", "total", "minimum", "maximum"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    dense = np.concatenate([examples_of(one).to_dense() for one in CONTRIBUTORS])
    assert found.features.tolist() == np.flatnonzero(dense.any(axis=0)).tolist()
    assert found.total.tolist() == dense.sum(axis=0)[found.features].tolist()


@pytest.mark.parametrize("kind", [as_triple, as_csr])
def test_a_gradient_has_rows_for_the_features_of_the_examples(client, work, kind):
    table = np.random.default_rng(9).normal(size=(FEATURES, WIDTH)).astype(np.float32)
    model = client.create_round([SPEC])
    rows = SparseTensor(np.arange(FEATURES), table, table.shape)
    model.submit({"weights": rows}, contributor="owner")
    model.seal()
    sent = {}

    def train(task):
        """The gradient of half the squared scores, from the rows of its own features."""
        examples = kind(examples_of(task.contributor))
        features, local = local_features(examples)
        model = task.client.round(task.payload.decode())
        rows = model.result("dense", indices={"weights": features})["weights"]
        matrix = local.to_dense() if isinstance(local, SparseTensor) else local
        gradient = matrix.T @ (matrix @ rows)
        sent[task.contributor] = gradient.shape
        update = {"weights": SparseTensor(features, gradient, [FEATURES, WIDTH])}
        return task.update(update, weight=examples_of(task.contributor).dense_shape[0])

    mean = work([SPEC], train, model.name.encode())["weights"]
    total, weight = np.zeros((FEATURES, WIDTH)), 0
    for one in CONTRIBUTORS:
        dense = examples_of(one).to_dense().astype(np.float64)
        assert sent[one] == (np.count_nonzero(dense.any(axis=0)), WIDTH)
        total += len(dense) * (dense.T @ (dense @ table))
        weight += len(dense)
    features = np.flatnonzero(total.any(axis=1))
    assert mean.indices[:, 0].tolist() == features.tolist()
    assert len(features) < FEATURES / 10
    assert mean.values == pytest.approx(total[features] / weight, rel=1e-4, abs=1e-3)
