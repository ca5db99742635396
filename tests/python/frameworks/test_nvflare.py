"""NVFlare's simulator with our aggregator against its own FedAvg: the same clients, the same numbers."""

from __future__ import annotations

import os
import signal
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare")
from nvflare.apis.dxo import DataKind, MetaKey  # noqa: E402
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType  # noqa: E402
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe  # noqa: E402
from nvflare.recipe.sim_env import SimEnv  # noqa: E402
from sparseagg import Client, InvalidUpdateError, RoundNotOpenError, SparseAggError  # noqa: E402
from sparseagg.nvflare import SparseAggregator  # noqa: E402

CLIENTS, ROUNDS, SHAPE = 4, 2, (500, 8)
SIMULATION_SECONDS_MAX = 120


def initial_table():
    return np.random.default_rng(7).normal(size=SHAPE).astype(np.float32)


def execute(folder, kind, target):
    """ROUNDS rounds of NVFlare's simulator; an aggregator for a server at `target`, or NVFlare's own."""
    os.setsid()
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
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            continue
        (saved,) = workspace.rglob("server.npy")
        return np.load(saved)
    pytest.fail("NVFlare's simulator did not end")


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """What NVFlare's own aggregation gives."""
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


def test_a_new_round_starts_empty_and_sparse_values_must_be_changes(server):
    aggregator = SparseAggregator(server.target)
    aggregator.accept_model(model("a", {"w": np.ones(2)}, 1))
    aggregator.reset_stats()
    with pytest.raises(InvalidUpdateError, match="no result"):
        aggregator.aggregate_model()
    sparse = {"indices": np.array([1]), "values": np.float32([4]), "dense_shape": [3]}
    with pytest.raises(InvalidUpdateError, match="DIFF"):
        aggregator.accept_model(model("a", {"e": sparse}, 1, params_type=ParamsType.FULL))
