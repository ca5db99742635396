"""Federated averaging: SparseFedAvg in the place of FedAvg, and the model in a file after each round."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sparseagg.flower import SparseFedAvg

from clicks import checkpoint, task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains, and prints loss and traffic of every round."""
    config = context.run_config
    nodes = int(config["min-nodes"])
    options = {"fraction_evaluate": 0.0, "min_train_nodes": nodes, "min_available_nodes": nodes}
    if config["sparse"]:
        strategy = SparseFedAvg(
            sparse=["weights"],
            target=str(config["server"]),
            client_options={"timeout": 600},  # how long the server may be down
            round_options={"goal": int(config["goal"]), "deadline": 600},
            **options,
        )
    else:
        strategy = FedAvg(**options)
    arrays = ArrayRecord({name: Array(array) for name, array in task.initial_arrays().items()})
    path = Path(str(config["checkpoint"])) if config["checkpoint"] else None
    done, arrays = checkpoint.load(path, arrays) if path else (0, arrays)

    def save(number: int, arrays: ArrayRecord) -> None:
        if path and number:
            checkpoint.save(path, done + number, arrays)

    rounds = int(config["rounds"]) - done
    result = strategy.start(grid, arrays, num_rounds=rounds, evaluate_fn=save)
    for number, metrics in result.train_metrics_clientapp.items():
        received = getattr(strategy, "bytes_received", {}).get(number)
        traffic = f"{received} bytes" if received is not None else "all arrays, by Flower"
        if received is not None:
            traffic += f" (the model to the clients: {strategy.bytes_sent[number]})"
        loss = metrics["loss"]
        print(f"round {done + number}: loss {loss:.4f}, updates: {traffic}", flush=True)
