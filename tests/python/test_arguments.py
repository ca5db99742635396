"""Whatever is wrong with what a caller hands in, the error is one of the package and says which argument it is about."""

from __future__ import annotations

import asyncio
import copy
import itertools
import pickle

import numpy as np
import pytest
from sparseagg import (
    Client,
    CredentialFileError,
    InvalidArgumentError,
    InvalidUpdateError,
    RetryPolicy,
    SparseAggError,
    SparseTensor,
    TensorSpec,
    Tls,
    TokenFile,
    Update,
    _requests,
    aio,
    as_tensor,
    sparse_sum,
    specs_of,
    unflatten,
)
from sparseagg._encode.encodings import EncodeOptions
from sparseagg._encode.wire import EncodedUpdate
from sparseagg.sparsify import ChangedRows, TopK, above, top_k

SPECS = [TensorSpec("emb", [800, 2]), TensorSpec("bias", [3], sparse_dim=0)]
ROW = np.float32([[1, 2]])
EMB = ([1], ROW, [800, 2])
BIAS = np.float32([1, 2, 3])
UNDECODABLE = "\ud800"


def tensors(value) -> dict:
    """An update whose "emb" is `value`."""
    return {"emb": value}


# What is wrong -> (tensors of an update, other arguments of `submit`, words of the message).
UPDATES = {
    "no tensor": (tensors(None), {}, 'tensor "emb": None is no tensor'),
    "a string": (tensors("x"), {}, 'tensor "emb".*<U1'),
    "objects": (tensors(np.array([None])), {}, 'tensor "emb".*object'),
    "ragged lists": ({"bias": [[1.0, 2.0], [3.0]]}, {}, 'tensor "bias": values'),
    "ragged indices": (tensors(([[1], [2, 3]], ROW, [800, 2])), {}, 'tensor "emb": indices'),
    "no parts": (tensors((None, None, None)), {}, 'tensor "emb": dense_shape'),
    "two parts": (tensors(([1], ROW)), {}, 'tensor "emb"'),
    "a shape of nothing": (tensors(([1], ROW, None)), {}, 'tensor "emb": dense_shape'),
    "a shape of letters": (tensors(([1], ROW, "ab")), {}, 'tensor "emb": dense_shape'),
    "half a row": (tensors(([1], ROW, [800.5, 2])), {}, 'tensor "emb": dense_shape.*float'),
    "too many rows": (tensors(([1], ROW, [2**70, 2])), {}, 'tensor "emb": dense_shape'),
    "complex values": (tensors(([1], ROW + 1j, [800, 2])), {}, 'tensor "emb".*complex64'),
    "truth values": ({"bias": BIAS > 1}, {}, 'tensor "bias".*bool'),
    "no update": (None, {}, "None is no tensor"),
    "a contributor that is a number": (tensors(EMB), {"contributor": 3}, "contributor is 3"),
    "no contributor": (tensors(EMB), {"contributor": None}, "contributor is None"),
    "no text": (tensors(EMB), {"contributor": UNDECODABLE}, "contributor"),
    "an id that is a number": (tensors(EMB), {"update_id": 7}, "update_id is 7"),
    "a weight in letters": (tensors(EMB), {"weight": "3"}, "the weight is '3'"),
    "a complex weight": (tensors(EMB), {"weight": 1j}, "the weight"),
    "many weights": (tensors(EMB), {"weight": np.ones(2)}, "the weight"),
    "a weight of 401 digits": (tensors(EMB), {"weight": 10**400}, "the weight"),
    "a weight above f32": (tensors(EMB), {"weight": 1e300}, "1e[+]300.*infinite as f32"),
    "a weight below f32": (tensors(EMB), {"weight": 1e-60}, "1e-60.*0 as f32"),
    "a negative weight": (tensors(EMB), {"weight": -1}, "-1"),
    "a weight of NaN": (tensors(EMB), {"weight": np.float32("nan")}, "nan"),
}


@pytest.mark.parametrize("wrong", UPDATES)
@pytest.mark.parametrize("way", ["submit", "submit_many", "asyncio"])
def test_a_bad_update_is_refused_by_name(client, wrong, way):
    update, options, words = UPDATES[wrong]
    options = {"contributor": "c", **options}
    round = client.create_round(SPECS)
    with pytest.raises(InvalidUpdateError, match=words):
        if way == "submit":
            round.submit(update, **options)
        elif way == "submit_many":
            round.submit_many([Update(update, **options)])
        else:
            asyncio.run(submit_for_asyncio(client.target, round.name, update, options))
    assert round.info().contributors == 0
    round.abort()
    round.delete()


async def submit_for_asyncio(target, name, update, options):
    """The same by the client for asyncio."""
    async with aio.Client(target) as client:
        await client.round(name).submit(update, **options)


# What is wrong -> (what is done with a client and a published round of SPECS, words of the message).
CALLS = {
    "a specification of nothing": (lambda c, r: c.create_round(None), "tensors"),
    "one specification": (lambda c, r: c.create_round(SPECS[0]), "tensors"),
    "a name": (lambda c, r: c.create_round(["emb"]), "'emb' is no TensorSpec"),
    "a type that is none": (lambda c, r: TensorSpec("t", [3], "f33"), 'tensor "t".*f33'),
    "no type": (lambda c, r: TensorSpec("t", [3], None), 'tensor "t".*None'),
    "no shape": (lambda c, r: TensorSpec("t", None), 'tensor "t": dense_shape'),
    "half a dimension": (lambda c, r: TensorSpec("t", [3.5]), 'tensor "t": dense_shape'),
    "2^65 rows": (lambda c, r: TensorSpec("t", [2**65]), 'tensor "t": dense_shape'),
    "sparse_dim -1": (lambda c, r: spec(c, sparse_dim=-1), 'tensor "t": sparse_dim is -1'),
    "sparse_dim 1.5": (lambda c, r: spec(c, sparse_dim=1.5), 'tensor "t": sparse_dim'),
    "sparse_dim 2^40": (lambda c, r: spec(c, sparse_dim=2**40), 'tensor "t": sparse_dim'),
    "no operator": (lambda c, r: spec(c, op=None), 'tensor "t": op is None'),
    "a plan that is a number": (lambda c, r: spec(c, plan=3), 'tensor "t": plan is 3'),
    "an overflow that is none": (lambda c, r: spec(c, integer_overflow=[]), 'tensor "t"'),
    "a name that is a number": (lambda c, r: c.create_round([TensorSpec(3, [3])]), "name is 3"),
    "a round_id": (lambda c, r: c.create_round(SPECS, 3), "round_id is 3"),
    "a request_id": (lambda c, r: c.create_round(SPECS, request_id=3), "request_id is 3"),
    "a durability": (lambda c, r: c.create_round(SPECS, durability=[]), "durability"),
    "half a goal": (lambda c, r: c.create_round(SPECS, goal=2.5), "goal"),
    "a goal in letters": (lambda c, r: c.create_round(SPECS, goal="x"), "goal"),
    "a deadline of NaN": (lambda c, r: c.create_round(SPECS, deadline=np.nan), "deadline"),
    "a grace in letters": (lambda c, r: c.create_round(SPECS, goal=1, grace="x"), "grace"),
    "keep_updates": (lambda c, r: c.create_round(SPECS, keep_updates="no"), "keep_updates"),
    "no round": (lambda c, r: c.round(None), "the round's name is None"),
    "a round that is no text": (lambda c, r: c.round(UNDECODABLE), "the round's name"),
    "a page in letters": (lambda c, r: list(c.rounds("x")), "page_size"),
    "a page of 2^40": (lambda c, r: list(c.rounds(2**40)), "page_size"),
    "a layout": (lambda c, r: r.result(["dense"]), "layout"),
    "a name for a list of names": (lambda c, r: r.result(tensors="emb"), 'tensors is "emb"'),
    "numbers for names": (lambda c, r: r.result(tensors=[3]), "3, not a string"),
    "a selection of nothing": (lambda c, r: r.result(indices={"emb": None}), 'tensor "emb"'),
    "a ragged selection": (lambda c, r: r.result(indices={"emb": [[1], [2, 3]]}), '"emb"'),
    "a selection without a name": (lambda c, r: r.result(indices=[1]), "indices is a list"),
    "a selection's typo": (lambda c, r: r.result(indices={"typo": [1]}), 'typo".*emb, bias'),
    "an encoding": (lambda c, r: r.result(encoding=None), "encoding is None"),
    "a time in letters": (lambda c, r: r.wait("3"), "timeout is '3'"),
    "a time of NaN": (lambda c, r: r.result(timeout=float("nan")), "timeout is nan"),
    "an interval in letters": (lambda c, r: list(r.watch("x")), "min_interval"),
    "an endless interval": (lambda c, r: list(r.watch(np.inf)), "min_interval"),
    "a submission's time": (lambda c, r: r.submit({}, contributor="c", timeout="3"), "timeout"),
    "no updates": (lambda c, r: r.submit_many(None), "updates"),
    "an update that is none": (lambda c, r: r.submit_many([{"emb": EMB}]), "a dict is no Update"),
    "a sum of nothing": (lambda c, r: sparse_sum(None, client=c), "tensors"),
    "no operator for a sum": (lambda c, r: sparse_sum([EMB], None, client=c), "op"),
    "weights in letters": (lambda c, r: sparse_sum([EMB], weights=["x"], client=c), "update 0"),
    "weights by name": (
        lambda c, r: sparse_sum([EMB], weights={2: 3}, client=c),
        "weights is a dict",
    ),
    "weights in a string": (
        lambda c, r: sparse_sum([EMB], weights="3", client=c),
        "weights is a str",
    ),
    "too many weights": (
        lambda c, r: sparse_sum([EMB], weights=[1, 2], client=c),
        "than the 1 upd",
    ),
    "too few weights": (lambda c, r: sparse_sum([EMB] * 2, weights=[1], client=c), "1 weights for"),
    "endless weights": (
        lambda c, r: sparse_sum([EMB], weights=itertools.repeat(1), client=c),
        "1 up",
    ),
    "a weight for weights": (lambda c, r: sparse_sum([EMB], weights=3, client=c), "weights"),
    "nothing in a sum": (lambda c, r: sparse_sum([EMB, None], client=c), "update 1"),
    "nothing in Reduce": (lambda c, r: c.reduce(SPECS, [tensors(None)]), 'update 0: tensor "emb"'),
    "a type of values": (lambda c, r: as_tensor(BIAS, []), "value type"),
    "a name that is not in a result": (lambda c, r: r.result()["typo"], 'typo".*emb, bias'),
    "a model's name": (lambda c, r: unflatten({"a": BIAS}, {"b": BIAS}), '"a", only b'),
    "rows beyond a shape": (lambda c, r: SparseTensor([7], BIAS[:1], [3]).to_dense(), "entry 0"),
    "rows before a shape": (lambda c, r: SparseTensor([-1], BIAS[:1], [3]).to_dense(), "entry 0"),
    "an array of 2^64 bytes": (
        lambda c, r: SparseTensor([], BIAS[:0], [2**62]).to_dense(),
        "dense_shape",
    ),
    "k in letters": (lambda c, r: top_k(BIAS, "x"), "k"),
    "a threshold of NaN": (lambda c, r: above(BIAS, np.nan), "threshold is nan"),
    "a fraction in letters": (lambda c, r: TopK("x"), "fraction is 'x'"),
    "another shape than before": (lambda c, r: compress_two_shapes(), r'"w".*\[1, 3\].*\[3\]'),
    "a table's typo": (lambda c, r: ChangedRows({"w": BIAS}, ["typo"]), 'typo", only w'),
    "no connections": (lambda c, r: Client(c.target, connections="x"), "connections"),
    "a policy": (lambda c, r: Client(c.target, retry=3), "retry is 3"),
    "a target": (lambda c, r: Client(3), "target is 3"),
    "a client's time": (lambda c, r: Client(c.target, timeout="3"), "timeout is '3'"),
    "tls that is a file": (lambda c, r: Client(c.target, tls="ca.pem"), "tls is 'ca.pem'"),
    "a key of metadata": (lambda c, r: Client(c.target, metadata=[("X", "y")]), "metadata: 'X'"),
    "a certificate alone": (lambda c, r: Tls(cert="cert.pem"), "has no key"),
    "a key alone": (lambda c, r: Tls(key="key.pem"), "has no cert"),
    "an empty token": (lambda c, r: Client(c.target, token=""), "token is empty"),
    "no token from a callable": (lambda c, r: info(c.target, token=str), "token is empty"),
    "attempts in letters": (lambda c, r: RetryPolicy(attempts="3"), "attempts"),
    "no attempts": (lambda c, r: RetryPolicy(attempts=0), "attempts is 0"),
    "a negative delay": (lambda c, r: RetryPolicy(initial_delay=-1), "initial_delay is -1"),
    "an endless delay": (lambda c, r: RetryPolicy(max_delay=np.inf), "max_delay is inf"),
    "no option": (lambda c, r: Client(c.target, channel_options=[("x", None)]), "options: 'x'"),
    "half an option": (lambda c, r: Client(c.target, channel_options={"x": 0.5}), "options: 'x'"),
    "a copy of a client": (lambda c, r: copy.deepcopy(c), "Client cannot be copied or pickled"),
    "a pickled round": (lambda c, r: pickle.dumps(r), "Round cannot be copied or pickled"),
    "options": (lambda c, r: Client(c.target, channel_options=[3]), "channel_options"),
}


def spec(client, **options):
    """A round of one tensor."""
    return client.create_round([TensorSpec("t", [3], **options)])


def info(target, **options):
    """Returns the server's info, as a client with these options reads it."""
    with Client(target, **options) as client:
        return client.info()


def compress_two_shapes():
    """[3] and [1, 3] have as many values, and numpy would add them."""
    compressor = TopK(0.5)
    compressor.compress({"w": BIAS})
    compressor.compress({"w": BIAS.reshape(1, 3)})


@pytest.fixture(scope="module")
def published(server):
    """A client, and a published round."""
    with Client(server.target) as client:
        round = client.create_round(SPECS)
        round.submit({"emb": EMB, "bias": BIAS}, contributor="c")
        round.seal()
        round.wait()
        yield client, round
        round.delete()


def test_names_of_every_language_are_in_messages_as_they_are(client):
    name = "Wörter/日本"
    specs = [TensorSpec(name, [9])]
    round = client.create_round(specs)
    update = {name: ([9], np.float32([1]), [9])}
    calls = [
        lambda: round.submit(update, contributor="c"),
        lambda: round.submit_many([Update(update, "c")]),
        lambda: client.reduce(specs, [update]),
        lambda: round.submit({"Straße " + name: ([1], np.float32([1]), [9])}, contributor="c"),
        lambda: client.create_round(specs * 2),
        lambda: client.create_round([TensorSpec(name, [9], op="Summe")]),
        lambda: specs_of({name: BIAS > 1}),
        lambda: round.submit(update, contributor=name),
        lambda: client.round(name).info(),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match=name):
            call()
    round.abort()
    round.delete()


@pytest.mark.parametrize("wrong", CALLS)
def test_a_bad_argument_is_refused_by_name(published, wrong):
    call, words = CALLS[wrong]
    with pytest.raises(SparseAggError, match=words) as caught:
        call(*published)
    # What Python itself raises, so that code that expects it goes on working.
    assert isinstance(caught.value, InvalidArgumentError)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)


def test_a_name_that_is_not_in_a_result_is_a_missing_key(published):
    result = published[1].result()
    assert "typo" not in result
    assert result.get("typo") is None
    with pytest.raises(KeyError):
        result["typo"]


@pytest.mark.parametrize("way", ["submit", "submit_many", "asyncio", "reduce"])
def test_values_of_a_tensor_that_is_not_there_are_refused(client, way):
    round = client.create_round(SPECS)
    values = {"emb": "bf16", "bais": "int8"}
    with pytest.raises(InvalidArgumentError, match='values: no tensor "bais", only emb, bias'):
        if way == "submit":
            round.submit({"emb": EMB}, contributor="c", values=values)
        elif way == "submit_many":
            round.submit_many([], return_exceptions=True, values=values)
        elif way == "asyncio":
            options = {"contributor": "c", "values": values}
            asyncio.run(submit_for_asyncio(client.target, round.name, {"emb": EMB}, options))
        else:
            client.reduce(SPECS, [{"emb": EMB, "bias": BIAS}], values=values)
    assert round.info().contributors == 0
    round.abort()
    round.delete()


def test_operators_by_name_are_those_of_the_tensors():
    model = {"emb": BIAS, "bias": BIAS}
    with pytest.raises(InvalidArgumentError, match='op: no tensor "bais", only emb, bias'):
        specs_of(model, {"emb": "sum", "bias": "sum", "bais": "sum"})
    with pytest.raises(InvalidArgumentError, match='none for the tensor "bias"'):
        specs_of(model, {"emb": "sum"})


def test_a_message_lists_no_thousand_names():
    model = {f"layer{n}": BIAS for n in range(1000)}
    with pytest.raises(InvalidArgumentError, match=r"layer19, \.\.\. \(1000 in all\)$"):
        specs_of(model, sparse_dim={"typo": 1})


def test_files_that_are_not_there(server, tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(CredentialFileError, match="missing"):
        Client(server.target, tls=Tls(ca=missing))
    with Client(server.target, token=TokenFile(missing)) as client, pytest.raises(OSError):
        client.info()


def test_files_that_are_no_pem(server, tmp_path):
    file = tmp_path / "file"
    file.write_text("-----BEGIN CERTIFICATE-----")
    with pytest.raises(CredentialFileError, match="file has no PRIVATE KEY in PEM"):
        Client(server.target, tls=Tls(cert=file, key=file))
    file.write_text("no PEM")
    with pytest.raises(CredentialFileError, match="file has no CERTIFICATE in PEM"):
        Client(server.target, tls=Tls(ca=file))


def test_a_file_without_a_token(server, tmp_path):
    file = tmp_path / "token"
    file.write_text("\n")
    with pytest.raises(CredentialFileError, match="token has no token"):
        info(server.target, token=TokenFile(file))


@pytest.mark.parametrize("given", [str, lambda token: lambda: token])
def test_a_token_that_cannot_be_sent_is_not_shown(server, given):
    with pytest.raises(InvalidArgumentError) as caught:
        info(server.target, token=given("secret\n"))
    assert "secret" not in str(caught.value)


def test_a_closed_client_says_so(server):
    client = Client(server.target)
    client.close()
    client.close()
    for call in (client.info, lambda: client.reduce(SPECS, [])):
        with pytest.raises(SparseAggError) as caught:
            call()
        assert caught.value.reason == "CLIENT_CLOSED"

    async def scenario():
        async with aio.Client(server.target) as closed:
            pass
        await closed.info()

    with pytest.raises(SparseAggError) as caught:
        asyncio.run(scenario())
    assert caught.value.reason == "CLIENT_CLOSED"


def test_a_call_that_closing_ends_says_so(server):
    client = Client(server.target)
    states = client.create_round(SPECS).watch()
    next(states)  # under way from here on
    client.close()
    with pytest.raises(SparseAggError) as caught:
        next(states)
    assert caught.value.reason == "CLIENT_CLOSED"


@pytest.mark.parametrize("endless", [float("inf"), 1e20, None])
def test_no_limit_of_time_is_no_limit(server, endless):
    with Client(server.target, timeout=endless) as client:
        round = client.create_round(SPECS)
        round.submit({"emb": EMB}, contributor="a", timeout=endless)
        round.submit_many([Update({"emb": EMB}, "b")], timeout=endless)
        round.seal()
        assert round.wait(endless).contributors == 2
        assert round.result(timeout=endless)["emb"].values.tolist() == [[2, 4]]
        round.delete()


@pytest.mark.parametrize(
    ("weight", "is_taken"),
    [
        (2.0**-150, False),
        (np.nextafter(2.0**-150, 1), True),
        (np.nextafter(2.0**128 - 2.0**103, 0), True),
        (2.0**128 - 2.0**103, False),
    ],
)
def test_weights_end_where_f32_does(weight, is_taken):
    with np.errstate(over="ignore", under="ignore"):
        assert (0 < np.float32(weight) < np.inf) == is_taken
    if is_taken:
        assert EncodedUpdate({}, weight=weight).header.weight == np.float32(weight)
    else:
        with pytest.raises(InvalidUpdateError, match="as f32"):
            EncodedUpdate({}, weight=weight)


def test_weights_of_integers_are_not_rounded():
    floats = TensorSpec("w", [3], sparse_dim=0)
    integers = TensorSpec("n", [3], "i64", sparse_dim=0)
    update = Update({"w": np.ones(3, np.float32)}, "a", 2**24 + 1)

    def encode(*specs):
        named = {spec.name: spec for spec in specs}
        return _requests.encode_update("rounds/r", named, update, EncodeOptions())

    assert encode(floats).header.weight == 2**24
    with pytest.raises(InvalidUpdateError, match="not a number of f32"):
        encode(floats, integers)


class OnlyFloat:
    """A number as of another package, of which Python can make a float, and nothing else."""

    def __init__(self, number):
        self._number = number

    def __float__(self):
        return self._number


@pytest.mark.parametrize("value_type", ["f32", "i64"])
def test_a_weight_may_have_float_alone(where, client, value_type):
    values = np.ones(1, {"f32": np.float32, "i64": np.int64}[value_type])
    round = client.create_round([TensorSpec("n", [1], value_type, sparse_dim=0)])
    round.submit({"n": values}, contributor="a", weight=OnlyFloat(3.0))
    round.seal()
    assert round.result()["n"].tolist() == [3]
    round.delete()
    total = sparse_sum([values, values], weights=[OnlyFloat(2.0), OnlyFloat(3.0)], **where)
    assert total.tolist() == [5]


def test_a_weight_with_float_alone_is_checked_as_others_are(client):
    round = client.create_round([TensorSpec("n", [1], "i64", sparse_dim=0)])
    for number in (float(2**24 + 1), 1e-60, 1e60):
        with pytest.raises(InvalidUpdateError, match="weight") as refusal:
            round.submit({"n": np.ones(1, np.int64)}, contributor="a", weight=OnlyFloat(number))
        assert refusal.value.reason == "INVALID_WEIGHT"
    assert round.info().contributors == 0
    round.abort()
    round.delete()


def test_weights_of_every_kind_of_number(client):
    round = client.create_round([TensorSpec("n", [1], "f32", sparse_dim=0)])
    weights = [2, 2.0, np.float32(2), np.float64(2), np.int8(2), np.uint64(2), np.array(2.0)]
    for number, weight in enumerate([*weights, True, np.bool_(True)]):
        round.submit({"n": np.float32([1])}, contributor=f"c{number}", weight=weight)
    round.seal()
    assert round.result()["n"].tolist() == [2 * len(weights) + 2]
    round.delete()
