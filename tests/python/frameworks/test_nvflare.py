"""NVFlare's simulator with our aggregator against its own FedAvg: the same clients, the same numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

pytest.importorskip("nvflare")
import psutil  # noqa: E402
from nvflare.apis.dxo import DataKind, MetaKey  # noqa: E402
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType  # noqa: E402
from nvflare.app_common.aggregators.weighted_aggregation_helper import (  # noqa: E402
    WeightedAggregationHelper,
)
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe  # noqa: E402
from nvflare.recipe.sim_env import SimEnv  # noqa: E402
from sparseagg import (  # noqa: E402
    Client,
    DeadlineExceededError,
    InvalidUpdateError,
    RoundNotOpenError,
    SparseAggError,
    SparseTensor,
)
from sparseagg.nvflare import SparseAggregator  # noqa: E402

CLIENTS, ROUNDS, SHAPE = 4, 2, (500, 8)
SIMULATION_SECONDS_MAX = 120


def initial_table():
    return np.random.default_rng(7).normal(size=SHAPE).astype(np.float32)


def execute(folder, kind, target):
    """ROUNDS rounds of NVFlare's simulator; an aggregator for a server at `target`, or NVFlare's own."""
    recipe = NumpyFedAvgRecipe(
        name="job",
        model=initial_table(),
        min_clients=CLIENTS,
        num_rounds=ROUNDS,
        train_script=str(Path(__file__).with_name("nvflare_client.py")),
        train_args=kind,
        aggregator=SparseAggregator(target) if target else None,
        aggregator_data_kind=DataKind.WEIGHTS if kind == "full" else DataKind.WEIGHT_DIFF,
    )
    recipe.execute(SimEnv(num_clients=CLIENTS, workspace_root=str(folder)))


def simulate(folder, kind, target):
    """The global table at the end.

    The simulator gives each client a port that was free a moment ago; where another process takes it first, that client
    never starts, and NVFlare waits for it without end. Such a run is made again.
    """
    for attempt in range(3):
        workspace = folder / str(attempt)
        process = get_context("spawn").Process(target=execute, args=(workspace, kind, target))
        process.start()
        process.join(SIMULATION_SECONDS_MAX)
        if process.is_alive():
            # Its processes have sessions of their own.
            for started in psutil.Process(process.pid).children(recursive=True):
                started.kill()
            process.kill()
            process.join()
            continue
        (saved,) = workspace.rglob("server.npy")
        return np.load(saved)
    pytest.fail("NVFlare's simulator did not end")


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """Returns the result of NVFlare's own aggregation."""
    return simulate(tmp_path_factory.mktemp("stock"), "full", None)


@pytest.mark.parametrize("kind", ["full", "diff", "sparse"])
def test_the_table_is_that_of_nvflare(server, stock, tmp_path, kind):
    table = simulate(tmp_path, kind, server.target)
    assert not np.array_equal(stock, initial_table())
    assert table.dtype == stock.dtype
    assert np.allclose(table, stock, rtol=1e-6, atol=1e-6)


def model(contributor, params, steps, **options):
    """A result as the controller hands it over."""
    meta = {"client_name": contributor, MetaKey.NUM_STEPS_CURRENT_ROUND: steps}
    options.setdefault("params_type", ParamsType.DIFF)
    return FLModel(params=params, meta=meta, current_round=3, **options)


def test_sparse_dense_and_counted_params_in_one_model(server):
    with Client(server.target) as client:
        before = {info.name for info in client.rounds()}
    aggregator = SparseAggregator(server.target, op="mean_of_contributors")
    sparse = {"indices": np.array([1]), "values": np.float32([[4, 8]]), "dense_shape": [3, 2]}
    dense = {"w": np.float32([[2.0]]), "n": np.array(3)}
    aggregator.reset_stats()
    aggregator.accept_model(model("a", {"emb": sparse, **dense}, 1, metrics={"loss": 1.0}))
    untouched = {
        "indices": np.zeros(0, np.int64),
        "values": np.zeros((0, 2), np.float32),
        "dense_shape": [3, 2],
    }
    other = {"emb": untouched, "w": np.float32([[6.0]]), "n": np.array(7)}
    aggregator.accept_model(model("b", other, 3, metrics={"loss": 2.0}))
    with Client(server.target) as client:  # counted as they arrived
        counts = {info.name: info.contributors for info in client.rounds()}
    assert [count for name, count in counts.items() if name not in before] == [2]
    result = aggregator.aggregate_model()
    assert result.params_type == ParamsType.DIFF
    assert result.current_round == 3
    assert result.params["emb"].tolist() == [[0, 0], [4, 8], [0, 0]]
    assert result.params["w"].tolist() == [[5]]
    assert (result.params["n"].shape, float(result.params["n"])) == ((), 6)
    assert result.metrics == {"loss": 1.75}


def test_a_dense_param_is_averaged_over_those_that_have_it_as_by_nvflare(server):
    params = {
        "a": {"w": np.float32([2]), "head": np.float32([8])},
        "b": {"w": np.float32([4])},
        "c": {"w": np.float32([6]), "head": np.float32([2])},
    }
    aggregator, theirs = SparseAggregator(server.target), WeightedAggregationHelper()
    for steps, (contributor, given) in zip((1, 4, 3), params.items()):
        full = model(contributor, given, steps, params_type=ParamsType.FULL)
        aggregator.accept_model(full)
        theirs.add(given, steps, contributor, 3)
    ours = aggregator.aggregate_model().params
    assert {name: array.tolist() for name, array in ours.items()} == {
        name: array.tolist() for name, array in theirs.get_result().items()
    }
    assert (ours["w"].tolist(), ours["head"].tolist()) == ([4.5], [3.5])


def test_results_without_a_name_are_counted_each(server):
    aggregator = SparseAggregator(server.target)
    for value in (1, 3, 8):  # of which each may have the memory of the one before
        params = {"w": np.float32([value])}
        aggregator.accept_model(FLModel(params=params, params_type=ParamsType.DIFF))
    assert aggregator.aggregate_model().params["w"].tolist() == [4]


@pytest.mark.parametrize("kind", [int, float, np.int64, np.float32, np.array, str])
def test_steps_and_metrics_of_every_kind_of_number_count(server, kind):
    aggregator = SparseAggregator(server.target)
    aggregator.reset_stats()
    aggregator.accept_model(model("a", {"w": np.float32([1])}, kind(1), metrics={"loss": kind(1)}))
    aggregator.accept_model(model("b", {"w": np.float32([5])}, kind(3), metrics={"loss": kind(3)}))
    result = aggregator.aggregate_model()
    assert result.params["w"].tolist() == [4]
    assert result.metrics == {"loss": 2.5}


def test_rounds_have_a_deadline_and_buffers_without_values_stay(server, rounds_left):
    params = {"w": np.float32([1]), "empty": np.zeros((0, 2)), "mask": np.array([True, False])}
    for options, seconds in ((None, 24 * 3600), ({"deadline": 60}, 60)):
        aggregator = SparseAggregator(server.target, round_options=options)
        aggregator.accept_model(model("a", params, 1))
        with Client(server.target) as client:
            assert client.round(rounds_left().pop()).info().policy.open_for == seconds
        result = aggregator.aggregate_model().params
        assert (result["w"].tolist(), result["mask"].tolist()) == ([1], [1, 0])
        assert result["empty"].shape == (0, 2)


def test_a_result_after_the_goal_is_refused_and_too_few_give_nothing(server):
    aggregator = SparseAggregator(server.target, round_options={"goal": 2})
    for contributor, value in (("a", 1.0), ("b", 3.0)):
        aggregator.accept_model(model(contributor, {"w": np.float32([value])}, 1))
    with pytest.raises(RoundNotOpenError):
        aggregator.accept_model(model("late", {"w": np.float32([8.0])}, 1, metrics={"loss": 1.0}))
    assert aggregator.aggregate_model().params["w"].tolist() == [2]

    aggregator = SparseAggregator(server.target, round_options={"min_contributors": 2})
    aggregator.accept_model(model("a", {"w": np.float32([1.0])}, 1))
    with pytest.raises(SparseAggError, match="1 of at least 2 contributors"):
        aggregator.aggregate_model()


def test_results_that_are_all_refused_give_no_aggregate(server, rounds_left):
    aggregator = SparseAggregator(server.target)
    bad = {"w": np.float32([1, np.nan])}
    with pytest.raises(InvalidUpdateError, match="NaN"):
        aggregator.accept_model(model("a", bad, 1, params_type=ParamsType.FULL))
    with pytest.raises(InvalidUpdateError, match="no result"):  # and no model of zeros
        aggregator.aggregate_model()
    assert not rounds_left()


def test_a_refused_result_decides_nothing_about_the_round(server, rounds_left):
    aggregator = SparseAggregator(server.target)
    bad = {"other": np.float64([np.nan])}
    with pytest.raises(InvalidUpdateError, match="NaN"):
        aggregator.accept_model(model("a", bad, 1, params_type=ParamsType.FULL))
    assert not rounds_left()
    good = {"w": np.float32([1, 2])}
    aggregator.accept_model(model("b", good, 1))
    aggregator.accept_model(model("a", good, 1))  # on its second attempt
    result = aggregator.aggregate_model()
    assert result.params_type == ParamsType.DIFF
    assert {name: array.tolist() for name, array in result.params.items()} == {"w": [1, 2]}
    assert result.params["w"].dtype == np.float32
    assert not rounds_left()


def test_results_beside_one_that_is_refused_are_accepted(server):
    bad, good = {"other": np.float32([np.nan])}, {"w": np.float32([1, 2])}
    aggregator = SparseAggregator(server.target)
    for _ in range(20):
        aggregator.reset_stats()
        together = Barrier(4)

        def accept(contributor, params, together=together):
            together.wait()
            aggregator.accept_model(model(contributor, params, 1))

        with ThreadPoolExecutor(4) as pool:
            accepted = [pool.submit(accept, name, good) for name in "ab"]
            # The last thread at the barrier continues first.
            refused = [pool.submit(accept, name, bad) for name in "cd"]
        assert [type(future.exception()) for future in refused] == [InvalidUpdateError] * 2
        assert [future.exception() for future in accepted] == [None] * 2
        assert aggregator.aggregate_model().params["w"].tolist() == [1, 2]


def test_a_new_round_starts_empty_and_sparse_values_must_be_changes(server):
    aggregator = SparseAggregator(server.target)
    aggregator.accept_model(model("a", {"w": np.ones(2)}, 1))
    aggregator.reset_stats()
    with pytest.raises(InvalidUpdateError, match="no result"):
        aggregator.aggregate_model()
    sparse = {"indices": np.array([1]), "values": np.float32([4]), "dense_shape": [3]}
    with pytest.raises(InvalidUpdateError, match="DIFF"):
        aggregator.accept_model(model("a", {"e": sparse}, 1, params_type=ParamsType.FULL))


def test_no_round_is_left_behind(server, rounds_left):
    aggregator = SparseAggregator(server.target)
    aggregator.accept_model(model("a", {"w": np.ones(2)}, 1))
    assert len(rounds_left()) == 1
    aggregator.aggregate_model()
    assert not rounds_left()

    aggregator.accept_model(model("a", {"w": np.ones(2)}, 1))
    aggregator.reset_stats()  # gives an open round up
    assert not rounds_left()

    aggregator = SparseAggregator(server.target, round_options={"goal": 1})
    aggregator.accept_model(model("a", {"w": np.ones(2)}, 1))
    with Client(server.target) as client:
        client.round(rounds_left().pop()).wait(30)
    aggregator.reset_stats()  # gives a published round up
    assert not rounds_left()

    for options in ({}, {"deadline": 0.05}):  # too few when it is asked, and when time was over
        few = SparseAggregator(server.target, round_options={"min_contributors": 2, **options})
        few.accept_model(model("a", {"w": np.ones(2)}, 1))
        if options:
            with Client(server.target) as client, pytest.raises(SparseAggError, match="1 of at"):
                client.round(rounds_left().pop()).wait(30)
        with pytest.raises(SparseAggError):
            few.aggregate_model()
        assert not rounds_left()


def test_a_round_outlasts_a_server_that_cannot_be_reached(own_server):
    server = own_server()
    aggregator = SparseAggregator(server.target, client_options={"timeout": 0.5})
    for contributor, value in (("a", 1.0), ("b", 3.0)):
        aggregator.accept_model(model(contributor, {"w": np.float32([value])}, 1))
    server.pause()
    with pytest.raises(DeadlineExceededError):
        aggregator.aggregate_model()
    server.resume()
    assert aggregator.aggregate_model().params["w"].tolist() == [2]


def test_torch_params_come_back_as_they_were(server):
    torch = pytest.importorskip("torch")
    rows = {
        "indices": torch.tensor([1]),
        "values": torch.tensor([[4.0, 8.0]], dtype=torch.bfloat16),
        "dense_shape": torch.tensor([3, 2]),
    }
    params = {
        "bf16": torch.tensor([1.5, 2.0], dtype=torch.bfloat16),
        "f16": torch.tensor([[1.0], [2.0]], dtype=torch.float16),
        "f32": torch.tensor([1.0]),
        "scalar": torch.tensor(2.5),
        "counted": torch.tensor(3),
        "rows": rows,
        "coo": torch.sparse_coo_tensor([[1]], torch.tensor([2.0]), (3,)).to(torch.bfloat16),
    }
    aggregator = SparseAggregator(server.target)
    aggregator.accept_model(model("a", params, 1))
    aggregator.accept_model(model("b", params, 1))
    result = aggregator.aggregate_model().params
    assert {name: (str(tensor.dtype), tuple(tensor.shape)) for name, tensor in result.items()} == {
        "bf16": ("torch.bfloat16", (2,)),
        "f16": ("torch.float16", (2, 1)),
        "f32": ("torch.float32", (1,)),
        "scalar": ("torch.float32", ()),
        "counted": ("torch.float64", ()),
        "rows": ("torch.bfloat16", (3, 2)),
        "coo": ("torch.bfloat16", (3,)),
    }
    assert all(isinstance(tensor, torch.Tensor) for tensor in result.values())
    assert result["bf16"].tolist() == [1.5, 2.0]
    assert result["rows"].tolist() == [[0, 0], [4, 8], [0, 0]]
    assert result["coo"].tolist() == [0, 2, 0]
    assert (float(result["scalar"]), float(result["counted"])) == (2.5, 3)


def test_bfloat16_of_ml_dtypes_comes_back_as_it_was(server):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    rows = {"indices": np.array([1]), "values": np.ones((1, 2), bfloat16), "dense_shape": [3, 2]}
    aggregator = SparseAggregator(server.target)
    aggregator.accept_model(model("a", {"w": np.array([1.5, 2.0], bfloat16), "rows": rows}, 1))
    result = aggregator.aggregate_model().params
    assert (result["w"].dtype, result["rows"].dtype) == (bfloat16, bfloat16)
    assert result["w"].astype(np.float32).tolist() == [1.5, 2]
    assert result["rows"].astype(np.float32).tolist() == [[0, 0], [1, 1], [0, 0]]


def test_bfloat16_bits_of_a_later_client_are_taken(server):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    rows = {"indices": np.array([1]), "values": np.ones((1, 2), bfloat16), "dense_shape": [3, 2]}
    bits = SparseTensor([1], np.full((1, 2), 0x4040, np.uint16), [3, 2], "bf16").to_dict()  # 3
    aggregator = SparseAggregator(server.target)
    aggregator.accept_model(model("a", {"rows": rows}, 1))
    aggregator.accept_model(model("b", {"rows": bits}, 1))
    assert aggregator.aggregate_model().params["rows"].astype(np.float32)[1].tolist() == [2, 2]
