"""What a pipeline prepares, for the blocking and the asyncio client: rounds by number, each with a group of tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, SupportsFloat, SupportsIndex

from sparseagg import _arguments
from sparseagg._abandoned import DEADLINE_SECONDS, round_id_of_this_process
from sparseagg.errors import (
    InvalidArgumentError,
    NotFoundError,
    RoundAbortedError,
    RoundNotPublishedError,
)
from sparseagg.result import layout_number
from sparseagg.tasks.records import Task, TaskGroup
from sparseagg.tasks.requests import NewTaskGroup
from sparseagg.tensors import TensorSpec

# Part of the names of rounds of a pipeline without a name; a later pipeline erases those of processes that are gone.
ADAPTER = "pipeline"
# Errors of one round, after which a pipeline can go on with the next.
OF_THE_ROUND = (RoundAbortedError, RoundNotPublishedError, NotFoundError)
# Between two looks at a round whose tasks are waited for.
LOOK_SECONDS = 30.0
_LOG = logging.getLogger("sparseagg")
_NUMBER_MAX = 2**63 - 1
_PREPARED_MAX = 100  # groups of one call


@dataclass
class PreparedRound:
    """A round whose result is still to come. group: the name of its tasks; None before they are created."""

    number: int
    round: Any
    group: str | None = None


@dataclass
class PipelinePlan:
    """The arguments of `Client.pipeline`, checked, and what follows from them for each round."""

    tensors: Iterable[TensorSpec]
    pool: str
    goal: SupportsIndex
    rounds: SupportsIndex | None
    prepared: SupportsIndex
    payload: Any
    percent_of_goal: SupportsIndex
    name: str | None
    start: SupportsIndex
    layout: str
    return_exceptions: bool
    keep_rounds: bool
    durability: str | None
    min_contributors: SupportsIndex
    deadline: SupportsFloat | timedelta | datetime | None
    grace: SupportsFloat | timedelta | None
    keep_updates: bool
    required_capabilities: Sequence[str]
    lease: SupportsFloat | timedelta | None
    attempts_max: SupportsIndex | None

    def __post_init__(self) -> None:
        self.tensors = tuple(_arguments.items("tensors", self.tensors))
        self.goal = _arguments.whole("goal", self.goal, 1, _NUMBER_MAX)
        self.prepared = _arguments.whole("prepared", self.prepared, 1, _PREPARED_MAX)
        self.first = _arguments.whole("start", self.start, 1, _NUMBER_MAX)
        if self.name is not None:
            _arguments.text("name", self.name)
        self.end = _NUMBER_MAX
        if self.rounds is not None:
            self.end = _arguments.whole("rounds", self.rounds, 0, _NUMBER_MAX - 1) + 1
        if self.name is None and self.first != 1:
            raise InvalidArgumentError("start is for a pipeline with a name, which is taken up")
        if not callable(self.payload):
            self.as_bytes(self.payload)
        layout_number(self.layout)  # refuses another one before any round is open
        if self.deadline is None:
            self.deadline = DEADLINE_SECONDS

    def check_open(self, is_open: bool) -> None:
        """Raises where a pipeline is used outside of its `with` block, after which nobody would end its rounds."""
        if not is_open:
            raise InvalidArgumentError("iterate over a pipeline inside of its `with` block")

    @staticmethod
    def as_bytes(payload: Any) -> bytes:
        """Returns a payload, which has to be bytes."""
        if not isinstance(payload, (bytes, bytearray, memoryview)):
            raise InvalidArgumentError(f"payload is a {type(payload).__name__}, not bytes")
        return bytes(payload)

    def log_left(self, prepared: Iterable[PreparedRound]) -> None:
        """Tells the log which rounds are left on a server that cannot be reached."""
        names = ", ".join(one.round.name for one in prepared)
        _LOG.warning("left until their deadline, as the server cannot be reached: %s", names)

    def numbers(self, first: int, outstanding: int) -> range:
        """Returns the numbers of the rounds to be prepared now, from `first` on, beside the `outstanding` ones."""
        return range(first, min(first + int(self.prepared) - outstanding, self.end))

    def round_arguments(self, number: int) -> dict[str, Any]:
        """Returns those of `Client.create_round`. With a name they are the same for each owner, so that the round is found
        again."""
        own_id = self._id(number)
        return {
            "tensors": self.tensors,
            "round_id": own_id or round_id_of_this_process(ADAPTER),
            "request_id": own_id,
            "durability": self.durability,
            "goal": self.goal,
            "min_contributors": self.min_contributors,
            "deadline": self.deadline,
            "grace": self.grace,
            "keep_updates": self.keep_updates,
        }

    def new_group(self, prepared: PreparedRound, payload: bytes) -> NewTaskGroup:
        """Returns the tasks of a round."""
        return NewTaskGroup(
            round=prepared.round.name,
            payload=payload,
            group_id=self._id(prepared.number),
            pool=self.pool,
            percent_of_goal=self.percent_of_goal,
            required_capabilities=self.required_capabilities,
            lease=self.lease,
            attempts_max=self.attempts_max,
        )

    def round_before_start(self) -> str | None:
        """Returns the name of the round whose result an earlier owner had taken and may not have deleted; None: there is none."""
        return None if self.first == 1 or self.keep_rounds else self._id(self.first - 1)

    def not_enough(
        self, prepared: PreparedRound, group: TaskGroup | None, failed: Task | None
    ) -> RoundAbortedError:
        """Returns the error of a round whose tasks have ended without enough updates; `failed`: one of its failed tasks."""
        message = f"{prepared.round.name} is aborted: it needs {self.min_contributors} updates"
        if group is not None:
            message += (
                f", and {group.completed} of the {group.tasks} tasks of {group.name} are completed, "
                f"{group.failed} failed, {group.cancelled} cancelled"
            )
        if failed is not None:
            message += f"; {failed.name}: {failed.last_failure or failed.end_reason}"
        return RoundAbortedError(message, reason="INSUFFICIENT_CONTRIBUTORS")

    def _id(self, number: int) -> str | None:
        return None if self.name is None else f"{self.name}-{number}"
