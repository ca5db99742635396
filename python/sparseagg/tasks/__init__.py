"""Tasks: work that an owner leaves for workers that come for it (docs/tasks.md).

records    what the server tells about tasks
requests   what it is told
client     `Client.tasks`: the calls of owners and workers
pipeline   `Client.pipeline`: rounds prepared ahead, with their tasks

The same for asyncio is in sparseagg.aio.
"""

from sparseagg.tasks.client import Tasks
from sparseagg.tasks.pipeline import Pipeline
from sparseagg.tasks.records import (
    AcquiredTasks,
    PipelineRound,
    Task,
    TaskGroup,
    TaskLease,
    TaskState,
)
from sparseagg.tasks.requests import NewTaskGroup

__all__ = [
    "AcquiredTasks",
    "NewTaskGroup",
    "Pipeline",
    "PipelineRound",
    "Task",
    "TaskGroup",
    "TaskLease",
    "TaskState",
    "Tasks",
]
