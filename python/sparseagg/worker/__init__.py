"""Workers: processes that come for tasks, call a function for each, and submit what it returns (docs/tasks.md).

    from sparseagg import worker

    def train(task):
        settings = json.loads(task.payload)
        ...
        return task.update({"emb": (rows, changes, shape)}, weight=examples)

    worker.run(train, ["words"], "host:50061")

or, as a command: `python -m sparseagg.worker MODULE:train --pool words host:50061`.

    _loop      `run`: acquires tasks until it is to end
    _attempt   one attempt at a task: calls the function, submits, completes
    _patience  calls that are made again while there is no server, or no token
    _task      what the function gets
    _leases    the thread that renews the lease while the function runs
    _stop      SIGTERM and SIGINT
    _payload   named arrays and settings as the payload of a task
    __main__   the command

`sparseagg.tff.client_worker` and `sparseagg.flower.client_worker` make such a function of a TFF client computation and of a
Flower ClientApp.
"""

from sparseagg.worker._loop import WorkerReport, run
from sparseagg.worker._payload import Payload, pack, unpack
from sparseagg.worker._stop import WorkerStopped
from sparseagg.worker._task import LeasedTask, TaskCancelledError

__all__ = [
    "LeasedTask",
    "Payload",
    "TaskCancelledError",
    "WorkerReport",
    "WorkerStopped",
    "pack",
    "run",
    "unpack",
]
