"""Federated averaging: SparseFedAvg in the place of FedAvg is the one line that changes."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sparseagg.flower import SparseFedAvg

from clicks import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains, and prints loss and traffic of every round."""
    config = context.run_config
    nodes = int(config["min-nodes"])
    options = {"fraction_evaluate": 0.0, "min_train_nodes": nodes, "min_available_nodes": nodes}
    if config["sparse"]:
        policy = {"goal": int(config["goal"]), "deadline": 600}
        strategy = SparseFedAvg(
            str(config["server"]), sparse=["weights"], round_options=policy, **options
        )
    else:
        strategy = FedAvg(**options)
    arrays = ArrayRecord({name: Array(array) for name, array in task.initial_arrays().items()})
    result = strategy.start(grid, arrays, num_rounds=int(config["rounds"]))
    for number, metrics in result.train_metrics_clientapp.items():
        received = getattr(strategy, "bytes_received", {}).get(number)
        traffic = f"{received} bytes" if received is not None else "all arrays, by Flower"
        if received is not None:
            traffic += f" (the model to the clients: {strategy.bytes_sent[number]})"
        print(f"round {number}: loss {metrics['loss']:.4f}, updates: {traffic}", flush=True)
