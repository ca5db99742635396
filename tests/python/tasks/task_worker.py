"""A worker without state, for test_task_store: acquires tasks, sends the update of each, completes it. Any call is
repeated while there is no server. It ends when it is killed.

Usage: task_worker.py ADDRESS NAME
"""

from __future__ import annotations

import random
import struct
import sys
import threading
import uuid

import grpc
from sparseagg._proto import aggregation_pb2, tasks_pb2, types_pb2

ROWS = 10
NO_SERVER = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


class Server:
    """The calls of a worker."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(
            address,
            (("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)),
        )

    def call(self, method: str, request, answer):
        """The answer, or the error that is not for lack of a server."""
        unary = self._channel.unary_unary(
            f"/sparseagg.v1.{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        while True:
            try:
                return unary(request, timeout=10, wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() not in NO_SERVER:
                    return error


def update_of(task: tasks_pb2.Task) -> aggregation_pb2.SubmitUpdateRequest:
    """One entry: 1 in the row of the task's number."""
    number = int(task.name.rpartition("/")[2])
    tensor = types_pb2.Tensor(
        header=types_pb2.TensorHeader(
            name="t", value_type=types_pb2.VALUE_TYPE_F32, dense_shape=[ROWS], sparse_dim=1, nnz=1
        ),
        indices=struct.pack("<q", number % ROWS),
        values=struct.pack("<f", 1.0),
    )
    header = types_pb2.UpdateHeader(
        round=task.round, contributor=task.contributor, update_id=f"of-{task.lease.token}"
    )
    return aggregation_pb2.SubmitUpdateRequest(header=header, tensors=[tensor])


def work(address: str, name: str) -> None:
    """For ever."""
    server = Server(address)
    never = threading.Event()
    while True:
        acquired = server.call(
            "TaskService/AcquireTasks",
            tasks_pb2.AcquireTasksRequest(worker=name, pools=["pool"], request_id=uuid.uuid4().hex),
            tasks_pb2.AcquireTasksResponse,
        )
        for task in acquired.tasks:
            receipt = server.call(
                "AggregationService/SubmitUpdate", update_of(task), types_pb2.Receipt
            )
            if isinstance(receipt, grpc.RpcError):
                continue  # an earlier lease has sent it
            server.call(
                "TaskService/CompleteTask",
                tasks_pb2.CompleteTaskRequest(lease=task.lease, receipt=receipt),
                tasks_pb2.Task,
            )
        if not acquired.tasks:
            window = acquired.retry
            never.wait(
                random.uniform(window.min.ToTimedelta().total_seconds(),
                               window.max.ToTimedelta().total_seconds())
            )  # fmt: skip


if __name__ == "__main__":
    work(*sys.argv[1:])
