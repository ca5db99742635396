"""A Flower ClientApp as the function of a worker, and the payload of its tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Union

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    Metadata,
    RecordDict,
)

from sparseagg._requests import Update
from sparseagg.errors import SparseAggError
from sparseagg.flower._records import only_key, update_of, weight_in
from sparseagg.worker._payload import pack, unpack
from sparseagg.worker._task import LeasedTask

_TTL_SECONDS = 30 * 86400.0  # Flower's messages have one; a task has its lease
_RUN = 1
_CONFIG = "config"  # the setting of a payload, and the record of a message

Config = Union[Mapping[str, Any], Callable[[LeasedTask], Mapping[str, Any]]]


def train_payload(arrays: ArrayRecord | None, config: Mapping[str, Any] | None = None) -> bytes:
    """Returns the payload of tasks that a worker with `client_worker` does: what Flower's message to a client has.

    arrays: the model; None where workers get it from somewhere else (`arrays` of `client_worker`). The server limits a
        payload to 1 MiB.
    config: what the ClientApp finds in the message's ConfigRecord: learning rate, round number. Everything but bytes.
    """
    tensors = {name: array.numpy() for name, array in (arrays or {}).items()}
    return pack(tensors, {_CONFIG: dict(config or {})})


def client_worker(
    app: Any,
    *,
    node_config: Config | None = None,
    run_config: Mapping[str, Any] | None = None,
    arrays: Callable[[LeasedTask], Mapping[str, Any]] | None = None,
    weight_key: str = "num-examples",
    message_type: str = MessageType.TRAIN,
) -> Callable[[LeasedTask], Update]:
    """Returns the function for `sparseagg.worker.run` that lets a ClientApp train: an update for each task.

    The app gets the message and the context that Flower would give it, and its reply becomes an update: of the tables of the
    round (its tensors with sparse_dim 1) the rows that changed, of the others all values. The owner makes the round with
    `specs_of_arrays`, its tasks with `train_payload`, and the next model with `apply_result`. Metrics of the reply other than
    the weight stay here; so does what the app writes into `context.state`, which is empty for each task.

    app: the ClientApp, Flower's or this package's, with its mods.
    node_config: the context's, or a function that gives it for a task:
        `lambda task: {"partition-id": int(task.contributor), "num-partitions": 10}`.
    run_config: the context's.
    arrays: gives the model of a task where it is not in the payload: numpy arrays by name.
    weight_key: the metric of the reply that is the weight.
    message_type: "train", or "train.ACTION" for `@app.train("ACTION")`.

        worker.run(client_worker(app, node_config={"partition-id": 3}), ["train"], "host:50061")
    """

    def function(task: LeasedTask) -> Update:
        payload = unpack(task.payload)
        model = payload.arrays if arrays is None else arrays(task)
        before = {name: Array(array) for name, array in model.items()}
        config = payload.settings.get(_CONFIG, {})
        content = {"arrays": ArrayRecord(dict(before)), _CONFIG: ConfigRecord(config)}
        number = int(task.name.rpartition("/")[2])
        message = Message(RecordDict(content), metadata=_metadata(task, number, message_type))
        node = node_config(task) if callable(node_config) else node_config
        context = Context(_RUN, number, dict(node or {}), RecordDict(), dict(run_config or {}))
        reply = app(message, context)
        if reply.has_error():
            raise SparseAggError(f"the ClientApp replies an error: {reply.error.reason}")
        key = only_key(reply.content.array_records, "ArrayRecord")
        sparse = [name for name, spec in task.round.specs.items() if spec.sparse_dim]
        tensors, _ = update_of(reply.content[key], before, sparse)
        return task.update(tensors, weight=weight_in(reply.content, weight_key))

    return function


def _metadata(task: LeasedTask, number: int, message_type: str) -> Any:
    """Returns what Flower's SuperLink says of a message."""
    return Metadata(
        run_id=_RUN,
        message_id=task.update_id,
        src_node_id=0,
        dst_node_id=number,
        reply_to_message_id="",
        group_id=task.info.round,
        created_at=time.time(),
        ttl=_TTL_SECONDS,
        message_type=message_type,
    )
