"""Sparse examples of torch, TensorFlow, JAX and TFF: features, statistics, and the programs of examples/sparse_data, which
end with the same result."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY, ROOT
from sparseagg import InvalidArgumentError, InvalidUpdateError, SparseTensor, reduce
from sparseagg.sparse_data import (
    FeatureStatistics,
    feature_statistics,
    local_features,
    statistics_specs,
)

FEATURES = 40
SHAPE = [6, FEATURES]
NAMES = ("document_frequency", "contributors", "total", "minimum", "maximum")


def random_examples(seed, dtype=np.float32, entries=30):
    """Entries in any order, some of equal indices."""
    random = np.random.default_rng(seed)
    indices = np.stack([random.integers(0, n, entries) for n in SHAPE], axis=1)
    return SparseTensor(indices, random.integers(-9, 9, entries).astype(dtype), SHAPE)


def same_statistics(update, examples):
    """update: of a framework's examples. examples: as a SparseTensor."""
    expected = feature_statistics(examples)
    assert np.asarray(update["examples"]).tolist() == [SHAPE[0]]
    for name in NAMES:
        found = update[name]
        values = np.asarray(found["values"] if isinstance(found, dict) else found.values)
        indices = np.asarray(found["indices"] if isinstance(found, dict) else found.indices)
        assert indices.reshape(-1).tolist() == expected[name].indices[:, 0].tolist()
        assert values.tolist() == expected[name].values.tolist()
        assert values.dtype == expected[name].values.dtype


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_examples_of_torch(layout):
    torch = pytest.importorskip("torch")
    examples = random_examples(1)
    given = torch.sparse_coo_tensor(
        torch.from_numpy(examples.indices.T.copy()), torch.from_numpy(examples.values), SHAPE
    )
    if layout != "sparse_coo":
        given = given.coalesce().to_sparse(layout=getattr(torch, layout))
    features, local = local_features(given)
    assert local.layout == getattr(torch, layout)
    assert np.array_equal(local.to_dense().numpy(), examples.to_dense()[:, features])
    same_statistics(feature_statistics(given), examples)


def test_examples_of_tensorflow():
    tf = pytest.importorskip("tensorflow")
    examples = random_examples(1)
    given = tf.SparseTensor(examples.indices, examples.values, SHAPE)
    features, local = local_features(given)
    assert np.array_equal(tf.sparse.to_dense(local).numpy(), examples.to_dense()[:, features])
    same_statistics(feature_statistics(given), examples)


@pytest.mark.parametrize("kind", ["BCOO", "BCSR"])
def test_examples_of_jax(kind):
    pytest.importorskip("jax")
    from jax.experimental import sparse

    examples = random_examples(1)
    given = sparse.BCOO.fromdense(examples.to_dense())
    if kind == "BCSR":
        given = sparse.BCSR.from_bcoo(given)
    features, local = local_features(given)
    assert type(local).__name__ == kind
    assert np.array_equal(np.asarray(local.todense()), examples.to_dense()[:, features])


@pytest.fixture(scope="module")
def tff():
    pytest.importorskip("tensorflow_federated")
    import sparseagg.tff

    return sparseagg.tff


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_statistics_inside_a_computation_are_the_same(tff, dtype):
    from tensorflow_federated import tensorflow

    @tensorflow.computation(tff.sparse_tensor_type(dtype))
    def work(examples):
        return tff.feature_statistics(tff.sparse_tensor(examples))

    for entries in (30, 0):
        examples = random_examples(1, dtype, entries)
        same_statistics(work(tff.components(examples)), examples)


def test_local_features_inside_a_computation_are_the_same(tff):
    from tensorflow_federated import tensorflow

    @tensorflow.computation(tff.sparse_tensor_type(np.float32))
    def work(examples):
        features, local = tff.local_features(tff.sparse_tensor(examples))
        return features, tff.components(local)

    for entries in (30, 0):
        examples = random_examples(1, entries=entries)
        features, local = work(tff.components(examples))
        of_numpy, expected = local_features(examples)
        assert features.tolist() == of_numpy.tolist()
        assert local["dense_shape"].tolist() == list(expected.dense_shape)
        found = SparseTensor(*local.values())
        assert np.array_equal(found.to_dense(), expected.to_dense())


def test_a_data_set_of_sparse_batches(tff):
    import tensorflow_federated
    from tensorflow_federated import tensorflow, types

    examples = local_features(random_examples(1))[1]

    @tensorflow.computation(types.SequenceType(tff.sparse_tensor_type(np.float32)))
    def work(batches):
        first = (np.int64(0), np.float32(0))
        return batches.reduce(
            first, lambda sums, batch: (sums[0] + 1, sums[1] + batch["values"][0])
        )

    @tensorflow_federated.federated_computation(
        types.FederatedType(work.type_signature.parameter, tensorflow_federated.CLIENTS)
    )
    def everywhere(data):
        return tensorflow_federated.federated_sum(tensorflow_federated.federated_map(work, data))

    backwards = SparseTensor(examples.indices[::-1], examples.values[::-1], examples.dense_shape)
    batches = tff.sparse_batches(backwards, 4)
    rows = examples.indices[:, 0]
    first_of_each = [examples.values[rows >= at][0] for at in (0, 4)]
    number, total = everywhere([batches, [tff.components(examples)]])
    assert number == 3
    assert total == sum(first_of_each) + examples.values[0]


def test_what_is_not_indexed_everywhere_has_no_components(tff):
    with pytest.raises(InvalidUpdateError, match=r"\[2, 3\] that is not indexed"):
        tff.components(([1], np.ones((1, 3), np.float32), [2, 3]))
    with pytest.raises(InvalidUpdateError, match="not indexed"):
        tff.components(np.ones(3))
    with pytest.raises(InvalidUpdateError, match="convert them to f32"):
        tff.components(SparseTensor([1], np.uint16([0x3F80]), [3], "bf16"))


def statistics_round(tff, target, **changes):
    """A round of statistics in TFF."""
    from tensorflow_federated import (
        CLIENTS,
        SERVER,
        federated_broadcast,
        federated_computation,
        federated_map,
        tensorflow,
        types,
    )

    examples_type = tff.sparse_tensor_type(np.float32)

    @tensorflow.computation(np.int32, examples_type)
    def work(_state, examples):
        return tff.feature_statistics(tff.sparse_tensor(examples)), 1.0

    @federated_computation(
        types.FederatedType(np.int32, SERVER), types.FederatedType(examples_type, CLIENTS)
    )
    def one_round(state, data):
        return federated_map(work, (federated_broadcast(state), data))

    specs = statistics_specs(FEATURES)
    ops = {spec.name: spec.op for spec in specs}
    return tff.SparseRound(
        one_round,
        lambda _, result: FeatureStatistics.of(result),
        {spec.name: spec.dense_shape for spec in specs if spec.sparse_dim},
        op={**ops, **changes},
        target=target,
    )


def test_a_round_with_an_operator_for_each_tensor(tff, server, client):
    contributors = [random_examples(seed) for seed in range(3)]
    rounds = statistics_round(tff, server.target)
    found = rounds.next(0, [tff.components(one) for one in contributors])
    updates = [feature_statistics(one) for one in contributors]
    expected = FeatureStatistics.of(client.reduce(statistics_specs(FEATURES), updates))
    for name in ("features", *NAMES):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    assert found.examples == 18


def test_statistics_in_the_runtime_of_tff(tff):
    import tensorflow_federated
    from tensorflow_federated import (
        CLIENTS,
        federated_computation,
        federated_map,
        tensorflow,
        types,
    )

    @tensorflow.computation(tff.sparse_tensor_type(np.float32))
    def work(examples):
        return tff.feature_statistics(tff.sparse_tensor(examples))

    operators = {"minimum": tff.sparse_min, "maximum": tff.sparse_max}

    @federated_computation(types.FederatedType(work.type_signature.parameter, CLIENTS))
    def everywhere(data):
        update = federated_map(work, data)
        found = OrderedDict(
            (name, operators.get(name, tff.sparse_sum)(update[name]))
            for name in ("examples", *NAMES)
        )
        return tensorflow_federated.federated_zip(found)

    contributors = [random_examples(seed) for seed in range(3)]
    found = FeatureStatistics.of(everywhere([tff.components(one) for one in contributors]))
    updates = [feature_statistics(one) for one in contributors]
    expected = FeatureStatistics.of(reduce(statistics_specs(FEATURES), updates))
    for name in ("examples", "features", *NAMES):
        assert np.array_equal(getattr(found, name), getattr(expected, name))


def test_extremes_of_dense_tensors_in_the_runtime_of_tff(tff):
    from tensorflow_federated import CLIENTS, federated_computation, types

    for dtype in (np.float32, np.int32):
        value_type = types.FederatedType(types.TensorType(dtype, [3]), CLIENTS)
        values = [np.array(one, dtype) for one in ([1, -5, 7], [2, -6, -7])]
        smallest = federated_computation(tff.sparse_min, value_type)
        largest = federated_computation(tff.sparse_max, value_type)
        assert smallest(values).tolist() == [1, -6, -7]
        assert largest(values).tolist() == [2, -5, 7]


def test_operators_by_name_are_those_of_all_tensors(tff, server):
    with pytest.raises(InvalidArgumentError, match='"totall"'):
        statistics_round(tff, server.target, totall="sum")
    one_round = statistics_round(tff, server.target)
    with pytest.raises(InvalidArgumentError, match="op has none for document_frequency"):
        tff.SparseRound(one_round._form, None, one_round._shapes, op=OrderedDict(examples="sum"))


def test_the_programs_end_with_the_same_result(server, tmp_path):
    if not Path("/usr/share/common-licenses/GPL-3").exists():
        pytest.skip("needs the licences of Debian")
    programs = {"with_scipy": "scipy", "with_torch": "torch", "with_tff": "tensorflow_federated"}
    here = [program for program, module in programs.items() if importlib.util.find_spec(module)]
    here.insert(0, "with_numpy")
    if len(here) < 2:
        pytest.skip("needs scipy, torch or TFF")
    numbers = []
    for program in here:
        out, log = tmp_path / f"{program}.json", tmp_path / f"{program}.txt"
        path = str(ROOT / f"examples/sparse_data/{program}.py")
        command = [sys.executable, path, "--rounds", "3", "--out", str(out)]
        command += ["--server", server.target]
        # Not a pipe: processes that TFF leaves behind would keep it open.
        with log.open("wb") as text:
            done = subprocess.run(
                command, stdout=text, stderr=text, stdin=subprocess.DEVNULL, timeout=300,
                env={**os.environ, "SPARSEAGG_BINARY": str(BINARY)},
            )  # fmt: skip
        assert done.returncode == 0, log.read_text()[-3000:]
        numbers.append(json.loads(out.read_text()))
    for other in numbers[1:]:
        assert other["statistics"] == numbers[0]["statistics"]
        assert other["loss"] == pytest.approx(numbers[0]["loss"], rel=1e-5)
        assert other["right"] == numbers[0]["right"]
