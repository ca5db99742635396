"""A client as Flower has it: it gets all arrays and returns all arrays. The ClientApp of sparseagg sends what changed."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from sparseagg.flower import ClientApp

from clicks import task

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One pass over this node's data."""
    arrays = {name: array.numpy().copy() for name, array in message.content["arrays"].items()}
    loss = task.train(arrays, int(context.node_config["partition-id"]))
    metrics = MetricRecord({"num-examples": task.EXAMPLES, "loss": loss})
    record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)
