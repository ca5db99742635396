"""Tasks: work that an owner leaves for workers that come for it (docs/tasks.md).

records    what the server tells about tasks, and what it is told
requests   the requests of the task service
client     `Client.tasks`: the calls of owners and workers
pipeline_plan, pipeline   `Client.pipeline`: rounds prepared ahead, with their tasks

The same for asyncio is in sparseagg.aio.
"""

from sparseagg.tasks.client import Tasks
from sparseagg.tasks.pipeline import Pipeline
from sparseagg.tasks.pipeline_plan import PipelineRound
from sparseagg.tasks.records import (
    AcquiredTasks,
    NewTaskGroup,
    Task,
    TaskGroup,
    TaskLease,
    TaskState,
)

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
