"""Every operator and value type in trees of 1, 2, 3 and 8 leaves, on the CPU or on emulated GPUs, whose result is at the root
or at owners: the bytes, counts and digests of one server on the CPU."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from conftest import BINARY, Server
from sparseagg import Client, SparseTensor, TensorSpec, Update
from sparseagg.tensors import VALUE_DTYPES
from support.trees import RETRY, SEEDS, bits

NUMBERS_OF_LEAVES = (1, 2, 3, 8)
EMULATED = BINARY.with_name("sparseagg_emulated")
GPUS = (1, 2, 3, 4) if SEEDS > 1 else (3,)  # emulated ones, of each leaf
OPS = ("sum", "weighted_mean", "mean_of_contributors", "count", "min", "max")
INTEGERS = ("i32", "i64", "u32", "u64")
# Shape and sparse_dim. Owners divide rows by 65,536.
LAYOUTS = (([60, 3], 1), ([10, 8], 2), ([7, 5], 0), ([600_000, 3], 1), ([1000, 300], 2))
# Exponents of two between which values spread: so far that f64 sums of them are rounded.
SPREAD = {"f16": (-12, 10), "bf16": (-60, 60), "f32": (-60, 60), "f64": (-30, 30)}


def specs(choose: random.Random) -> list[TensorSpec]:
    made = []
    for value_type, op in itertools.product(VALUE_DTYPES, OPS):
        shape, sparse_dim = choose.choice(LAYOUTS)
        overflows = ["checked"]
        if value_type in INTEGERS and "mean" not in op:
            overflows.append("modular")
        for overflow in overflows:
            name = f"{op}.{value_type}.{overflow}"
            made.append(TensorSpec(name, shape, value_type, sparse_dim, op, overflow))
    return made


def values(spec: TensorSpec, shape: tuple, generator: np.random.Generator) -> np.ndarray:
    """Of sums that wrap where they may, and otherwise fit."""
    dtype = VALUE_DTYPES[spec.value_type]
    if spec.value_type in INTEGERS:
        if spec.integer_overflow == "modular":
            return np.frombuffer(
                generator.bytes(int(np.prod(shape)) * dtype.itemsize), dtype
            ).reshape(shape)
        return generator.integers(0 if spec.value_type[0] == "u" else -999, 999, shape).astype(
            dtype
        )
    low, high = SPREAD[spec.value_type]
    numbers = generator.standard_normal(shape) * np.exp2(generator.integers(low, high, shape))
    if spec.value_type == "bf16":
        return (numbers.astype("<f4").view("<u4") >> 16).astype("<u2")
    return numbers.astype(dtype)


def tensor(spec: TensorSpec, generator: np.random.Generator):
    shape = tuple(spec.dense_shape)
    if spec.sparse_dim == 0:
        return values(spec, shape, generator)
    count = int(generator.integers(0, 40))
    indices = np.stack([generator.integers(0, d, count) for d in shape[: spec.sparse_dim]], axis=1)
    found = values(spec, (count, *spec.row_shape), generator)
    return SparseTensor(indices, found, shape, spec.value_type)


def updates(tensors: list[TensorSpec], seed: int) -> list[Update]:
    """Of contributors whose names, and so whose leaves, are random. One in five leaves a tensor out."""
    generator = np.random.default_rng(seed)
    made = []
    for number in range(int(generator.integers(12, 24))):
        sent = {s.name: tensor(s, generator) for s in tensors if generator.integers(5) > 0}
        name = f"c{generator.integers(2**60)}"
        made.append(Update(sent, name, float(generator.integers(0, 6)), f"u{number}"))
    return made


def on(gpus: int) -> dict:
    """How to start a server with so many emulated GPUs, which makes a batch for them of every update."""
    if gpus == 0:
        return {}
    if not EMULATED.exists():
        pytest.skip(f"trees on GPUs are NOT tested: there is no {EMULATED} (SPARSEAGG_CUDA=OFF?)")
    settings = (f"SPARSEAGG_EMULATED_DEVICES={gpus}", "SPARSEAGG_EMULATED_BATCH_BYTES=1")
    return {"prefix": ("env", *settings), "program": EMULATED}


@pytest.fixture(scope="module")
def pool(request, tmp_path_factory):
    """(a client of one server, clients of roots with 1, 2, 3 and 8 leaves, by number, a client of the first leaf): the roots
    share their leaves. Its parameter is the number of emulated GPUs of each leaf; with 0, leaves are on the CPU."""
    folder = tmp_path_factory.mktemp("pool")
    gpus = request.param
    servers = []

    def start(name: str, *flags: str, **options) -> Server:
        data = ("--data-dir", str(folder / name), "--store-free-bytes-min", "0")
        servers.append(Server(folder, *data, *flags, **options))
        servers[-1].start()
        return servers[-1]

    backend = ("--backend", "cuda", "--devices", "all") if gpus else ()
    names = [f"leaf{number}" for number in range(max(NUMBERS_OF_LEAVES))]
    leaves = [start(name, *backend, **on(gpus)).target for name in names]
    for leaf in servers:  # their addresses are known now
        leaf.kill()
        leaf.add_flags("--peers", ",".join(leaves))
        leaf.start()
    roots = {n: start(f"root{n}", "--leaves", ",".join(leaves[:n])) for n in NUMBERS_OF_LEAVES}
    clients = {n: Client(root.target, retry=RETRY) for n, root in roots.items()}
    one = Client(start("one", "--backend", "cpu").target, retry=RETRY)
    leaf = Client(leaves[0], retry=RETRY)
    yield one, clients, leaf
    for client in (one, leaf, *clients.values()):
        client.close()
    for server in servers:
        server.kill()


def result_of(client: Client, tensors: list, sent: list, name: str, durability: str, **options):
    round = client.create_round(tensors, name, durability=durability, **options)
    round.submit_many(sent)
    round.seal()
    result = round.result(timeout=60)
    round.delete()
    return result


def sum_depends_on_order(sent: list, spec: TensorSpec) -> bool:
    """Whether adding one update after the other, in f64, gives other bits backwards."""
    totals = []
    for order in (sent, sent[::-1]):
        total = np.zeros(spec.dense_shape)
        for update in order:
            part = update.tensors.get(spec.name)
            if isinstance(part, np.ndarray):
                total += update.weight * part
            elif part is not None:
                np.add.at(
                    total,
                    tuple(part.indices.reshape(-1, spec.sparse_dim).T),
                    update.weight * part.values,
                )
        totals.append(total.tobytes())
    return totals[0] != totals[1]


@pytest.mark.parametrize("pool", [0], indirect=True)
def test_every_operator_and_type_is_in_the_matrix(pool):
    info = pool[0].info()
    assert set(info.operators) == set(OPS)
    assert set(info.value_types) == set(VALUE_DTYPES)


def test_the_sums_of_most_rounds_depend_on_order():
    """Otherwise a server that adds in the order of arrival would pass. In some rounds too few updates share a row."""
    depending = 0
    for seed in range(20):
        tensors = specs(random.Random(seed))
        sent = updates(tensors, seed)
        sums = [s for s in tensors if s.op == "sum" and s.value_type in ("f32", "f64")]
        depending += any(sum_depends_on_order(sent, spec) for spec in sums)
    assert depending >= 15


def has_the_bytes_of_one_server(pool, seed: int, owners: bool) -> None:
    one, roots, _ = pool
    choose = random.Random(seed)
    tensors = specs(choose)
    sent = updates(tensors, seed)
    durability = choose.choice(("memory", "durable"))
    print(f"seed {seed}: {len(tensors)} tensors, {len(sent)} contributors, {durability}")
    kind = "owners" if owners else "root"
    expected = bits(result_of(one, tensors, sent, f"one{seed}{kind}", durability), tensors)
    assert len(expected) == len(tensors) + 3
    for leaves, root in roots.items():
        choose.shuffle(sent)
        name = f"of{leaves}x{seed}{kind}"
        found = result_of(root, tensors, sent, name, durability, owners=owners)
        assert bits(found, tensors) == expected, f"{leaves} leaves"
        assert found.manifest.given_up_leaves == ()
        assert len(found.manifest.parts) == (leaves if owners else 0)


@pytest.mark.parametrize("pool", [0], indirect=True)
@pytest.mark.parametrize("owners", [False, True], ids=["root", "owners"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_cut_has_the_bytes_of_one_server(pool, seed, owners):
    has_the_bytes_of_one_server(pool, seed, owners)


@pytest.mark.parametrize("pool", GPUS, indirect=True)
@pytest.mark.parametrize("owners", [False, True], ids=["root", "owners"])
@pytest.mark.parametrize("seed", range(max(1, SEEDS // 10)))
def test_any_cut_over_leaves_with_gpus_has_the_bytes_of_one_server(pool, seed, owners):
    has_the_bytes_of_one_server(pool, seed, owners)


@pytest.mark.parametrize("pool, gpus", [(number, number) for number in GPUS], indirect=["pool"])
def test_a_leaf_reduces_on_all_its_gpus(pool, gpus):
    _, roots, leaf = pool
    round = roots[1].create_round([TensorSpec("t", [1000])], "gpus")
    for number in range(24):
        change = SparseTensor(np.arange(500), np.full(500, 0.1, np.float32), [1000])
        round.submit({"t": change}, contributor=f"c{number}")
    round.seal()
    round.wait(timeout=60)
    (status,) = leaf.round(round.name).info().tensor_status
    assert status.backend == "cuda"
    assert gpus == 1 or status.plan_reason.endswith(f"; on {gpus} devices")
