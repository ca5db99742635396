"""TensorFlow Federated: operators and factories in its own runtime, and whole rounds on the server."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from support.random_updates import dense_sum, triples

tf = pytest.importorskip("tensorflow")
tff = pytest.importorskip("tensorflow_federated")
from sparseagg import (  # noqa: E402
    Client,
    InvalidArgumentError,
    InvalidUpdateError,
    NotFoundError,
    RoundNotOpenError,
    SparseAggError,
    sparse_mean_of_contributors,
    sparse_sum,
    sparse_weighted_mean,
)
from sparseagg.tff import (  # noqa: E402
    SparseMeanOfContributorsFactory,
    SparseRound,
    SparseSumFactory,
    SparseWeightedMeanFactory,
)

ROWS, WIDTH = 40, 3


def sparse_type(dtype=np.float32, row=(WIDTH,), index=(None,)):
    return OrderedDict(
        indices=tff.types.TensorType(np.int64, index),
        values=tff.types.TensorType(dtype, [None, *row]),
    )


def values_of(updates, flat=True):
    return [
        OrderedDict(indices=i[:, 0].astype(np.int64) if flat else i.astype(np.int64), values=v)
        for i, v, _ in updates
    ]


def dense(result, shape):
    table = np.zeros(shape, result["values"].dtype)
    indices = result["indices"]
    table[tuple(indices.T) if indices.ndim == 2 else indices] = result["values"]
    return table


def aggregate(factory, value_type, values, weights=None):
    value_type = tff.types.to_type(value_type)
    if weights is None:
        process = factory.create(value_type)
        return process.next(process.initialize(), values).result
    process = factory.create(value_type, tff.types.TensorType(np.float32))
    return process.next(process.initialize(), values, weights).result


def test_a_hundred_sparse_values_give_their_dense_sum():
    updates = triples([ROWS, WIDTH], 1)
    result = aggregate(SparseSumFactory(), sparse_type(), values_of(updates))
    exact, bound = dense_sum(updates)
    assert (np.diff(result["indices"]) > 0).all()
    assert (np.abs(dense(result, [ROWS, WIDTH]) - exact) <= bound).all()


def test_a_matrix_with_two_indexed_dimensions():
    updates = triples([30, 20], 2, 20)
    value_type = sparse_type(row=(), index=(None, 2))
    result = aggregate(SparseSumFactory(), value_type, values_of(updates, flat=False))
    exact, bound = dense_sum(updates)
    assert (np.abs(dense(result, [30, 20]) - exact) <= bound).all()


@pytest.mark.parametrize(
    ("factory", "operator"),
    [
        (SparseWeightedMeanFactory(), sparse_weighted_mean),
        (SparseMeanOfContributorsFactory(), sparse_mean_of_contributors),
    ],
)
def test_means_are_those_of_the_server(client, factory, operator):
    updates = triples([ROWS, WIDTH], 1, 20)
    weights = [float(1 + number % 7) for number in range(20)]
    result = aggregate(factory, sparse_type(), values_of(updates), weights)
    expected = operator(updates, weights, client=client)
    assert result["indices"].tolist() == expected.indices[:, 0].tolist()
    assert np.allclose(result["values"], expected.values, rtol=1e-6, atol=1e-7)


def test_whole_numbers_are_summed_exactly_and_have_no_mean():
    value_type = sparse_type(np.int32, row=())
    values = [
        OrderedDict(indices=np.int64([2, 2]), values=np.int32([2**30, 2**30 - 1])),
        OrderedDict(indices=np.int64([1]), values=np.int32([5])),
    ]
    result = aggregate(SparseSumFactory(), value_type, values)
    assert result["values"].tolist() == [5, 2**31 - 1]
    with pytest.raises(TypeError, match="whole numbers"):
        aggregate(SparseWeightedMeanFactory(), value_type, values, [1.0, 1.0])


def test_a_nested_structure_of_sparse_and_dense():
    value_type = OrderedDict(
        tables=OrderedDict(emb=sparse_type()), bias=tff.types.TensorType(np.float32, [2])
    )
    value = OrderedDict(
        tables=OrderedDict(emb=values_of(triples([ROWS, WIDTH], 1, 1))[0]), bias=np.float32([1, 2])
    )
    result = aggregate(SparseWeightedMeanFactory(), value_type, [value, value], [1.0, 3.0])
    assert list(result) == ["tables", "bias"]
    assert result["bias"].tolist() == [1, 2]
    assert len(result["tables"]["emb"]["values"]) == len(set(value["tables"]["emb"]["indices"]))


def test_the_factory_stands_in_for_the_mean_of_federated_averaging():
    """A linear model trained by TFF's own algorithm: with our factory as with its own."""
    spec = OrderedDict(
        x=tf.TensorSpec([None, 2], tf.float32), y=tf.TensorSpec([None, 1], tf.float32)
    )

    def model_fn():
        layer = tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(2,))
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential([layer]), input_spec=spec, loss=tf.keras.losses.MeanSquaredError()
        )

    def data(number):
        x = np.random.default_rng(number).normal(size=(8 + number, 2)).astype(np.float32)
        examples = OrderedDict(x=x, y=x @ np.float32([[1.0], [-2.0]]))
        return tf.data.Dataset.from_tensor_slices(examples).batch(4)

    def train(aggregator):
        process = tff.learning.algorithms.build_weighted_fed_avg(
            model_fn,
            tff.learning.optimizers.build_sgdm(0.1),
            model_aggregator=aggregator,
        )
        state = process.initialize()
        for _ in range(2):
            state = process.next(state, [data(n) for n in range(4)]).state
        return process.get_model_weights(state).trainable

    ours, theirs = train(SparseWeightedMeanFactory()), train(None)
    for one, other in zip(ours, theirs):
        assert np.abs(other).max() > 0.01
        assert np.allclose(one, other, rtol=1e-5, atol=1e-6)


def client_work():
    """Each client adds 1 to the rows of its words, as often as they occur, and 1 to the bias."""
    state_type = tff.types.to_type(
        OrderedDict(
            table=tff.types.TensorType(np.float32, [ROWS, WIDTH]),
            bias=tff.types.TensorType(np.float32, [2]),
        )
    )
    data_type = tff.types.SequenceType(tff.types.TensorType(np.int64, [None]))

    @tff.tensorflow.computation(state_type)
    def prepare(state):
        return state["bias"]

    @tff.tensorflow.computation(prepare.type_signature.result, data_type)
    def work(bias, data):
        words = data.reduce(tf.zeros([0], tf.int64), lambda a, b: tf.concat([a, b], 0))
        rows = tf.ones([tf.size(words), WIDTH])
        update = OrderedDict(emb=OrderedDict(indices=words, values=rows), bias=bias + 1.0)
        return update, tf.cast(tf.size(words), tf.float32)

    @tff.federated_computation(
        tff.types.FederatedType(state_type, tff.SERVER),
        tff.types.FederatedType(data_type, tff.CLIENTS),
    )
    def one_round(state, data):
        context = tff.federated_broadcast(tff.federated_map(prepare, state))
        return tff.federated_map(work, (context, data))

    return one_round


def server_update(state, aggregate):
    table = np.array(state["table"])
    table[aggregate["emb"]["indices"]] += aggregate["emb"]["values"]
    return OrderedDict(table=table, bias=state["bias"] + aggregate["bias"])


def test_whole_rounds_on_the_server(server):
    data = [[np.int64([1, 2]), np.int64([2])], [np.int64([2, 7, 7, 7])]]
    state = OrderedDict(table=np.zeros([ROWS, WIDTH], np.float32), bias=np.zeros(2, np.float32))
    for op, expected in (
        ("weighted_mean", {1: 3 / 7, 2: (3 * 2 + 4) / 7, 7: 4 * 3 / 7}),
        ("mean_of_contributors", {1: 1, 2: (3 * 2 + 4) / 7, 7: 3}),
        ("sum", {1: 3, 2: 10, 7: 12}),
    ):
        rounds = SparseRound(
            client_work(), server_update, {"emb": [ROWS, WIDTH]}, op=op, target=server.target
        )
        after = rounds.next(rounds.next(state, data), data)
        table = np.zeros([ROWS, WIDTH])
        for row, value in expected.items():
            table[row] = 2 * value
        assert np.allclose(after["table"], table, rtol=1e-6)
        # sum: of weights 3 and 4; the second round's updates start from the first one's bias.
        assert np.allclose(after["bias"], 7 + 7 * 8 if op == "sum" else 3)


@pytest.mark.parametrize("op", ["weighted_mean", "mean_of_contributors", "sum"])
def test_a_round_of_clients_that_all_weigh_nothing_has_no_mean(server, rounds_left, op):
    data = [[np.int64([])], [np.int64([])]]
    state = OrderedDict(table=np.ones([ROWS, WIDTH], np.float32), bias=np.ones(2, np.float32))
    rounds = SparseRound(
        client_work(), server_update, {"emb": [ROWS, WIDTH]}, op=op, target=server.target
    )
    if op == "sum":
        assert rounds.next(state, data)["bias"].tolist() == [1, 1]
    else:
        with pytest.raises(InvalidUpdateError, match="weights of 2 updates sum to 0"):
            rounds.next(state, data)
    assert not rounds_left()


@pytest.mark.parametrize(
    ("shapes", "named"), [({}, "none for emb"), ({"emb": [ROWS, WIDTH], "embb": [3]}, '"embb"')]
)
def test_shapes_that_are_missing_or_of_no_tensor_are_named(shapes, named):
    with pytest.raises(InvalidArgumentError, match=named):
        SparseRound(client_work(), server_update, shapes)


def test_rounds_have_a_deadline(client, server):
    for options, seconds in ((None, 24 * 3600), ({"deadline": 60}, 60)):
        rounds = SparseRound(
            client_work(),
            server_update,
            {"emb": [ROWS, WIDTH]},
            target=server.target,
            round_options=options,
        )
        round = client.round(rounds.open())
        assert round.info().policy.open_for == seconds
        round.abort()
        round.delete()


def test_the_parts_of_a_round_run_apart(server):
    def make():
        return SparseRound(
            client_work(), server_update, {"emb": [ROWS, WIDTH]}, op="sum", target=server.target
        )

    state = OrderedDict(table=np.zeros([ROWS, WIDTH], np.float32), bias=np.zeros(2, np.float32))
    coordinator, worker = make(), make()
    name, context = coordinator.open(), coordinator.broadcast(state)
    receipt = worker.run_client(name, context, [np.int64([5, 5])], contributor="phone-1")
    assert receipt.contributor == "phone-1"
    aggregate = coordinator.finish(name)
    assert aggregate["emb"]["indices"].tolist() == [5]
    assert aggregate["emb"]["values"].tolist() == [[4, 4, 4]]


def test_a_round_that_its_goal_ends(server):
    rounds = SparseRound(
        client_work(),
        server_update,
        {"emb": [ROWS, WIDTH]},
        op="sum",
        target=server.target,
        round_options={"goal": 2},
    )
    state = OrderedDict(table=np.zeros([ROWS, WIDTH], np.float32), bias=np.zeros(2, np.float32))
    name, context = rounds.open(), rounds.broadcast(state)
    for contributor in ("a", "b"):
        rounds.run_client(name, context, [np.int64([5])], contributor=contributor)
    with pytest.raises(RoundNotOpenError):
        rounds.run_client(name, context, [np.int64([7])], contributor="late")
    assert rounds.finish(name, seal=False)["emb"]["indices"].tolist() == [5]


def test_tff_and_the_server_agree(client):
    updates = triples([ROWS, WIDTH], 1, 30)
    result = aggregate(SparseSumFactory(), sparse_type(), values_of(updates))
    assert np.allclose(result["values"], sparse_sum(updates, client=client).values, atol=1e-5)


STATE = OrderedDict(table=np.zeros([ROWS, WIDTH], np.float32), bias=np.zeros(2, np.float32))


def sparse_round(target, **options):
    return SparseRound(
        client_work(), server_update, {"emb": [ROWS, WIDTH]}, target=target, **options
    )


def test_no_round_is_left_behind(server, rounds_left):
    rounds = sparse_round(server.target)
    rounds.next(STATE, [[np.int64([1])]])
    assert not rounds_left()
    with pytest.raises(Exception):  # noqa: B017 - TFF's own: the data are no words
        rounds.next(STATE, [[np.int64([1])], "no data"])
    assert not rounds_left()
    with pytest.raises(SparseAggError, match="1 of at least 2"):
        sparse_round(server.target, round_options={"min_contributors": 2}).next(
            STATE, [[np.int64([1])]]
        )
    assert not rounds_left()


def test_a_finished_round_is_deleted_unless_its_updates_are_to_be_kept(own_server, tmp_path):
    server = own_server("--data-dir", str(tmp_path / "data"))
    for options in ({}, {"keep_updates": True}):
        rounds = sparse_round(server.target, round_options=options)
        name = rounds.open()
        rounds.run_client(name, rounds.broadcast(STATE), [np.int64([1])], contributor="a")
        assert rounds.finish(name)["emb"]["indices"].tolist() == [1]
        with Client(server.target) as client:
            if options:
                client.round(name).verify()
                assert rounds.finish(name)["emb"]["indices"].tolist() == [1]
            else:
                with pytest.raises(NotFoundError):
                    client.round(name).info()
