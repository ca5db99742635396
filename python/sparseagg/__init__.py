"""Exact sums of sparse federated-learning updates, in this process or on a sparseagg server.

Start with `sparse_sum` (one call, nothing stored) or `Client` (rounds). Modules, in reading order:

    tensors, convert   what a user hands in and gets back; models as nested mappings
    kinds/             tensors of scipy, torch, TensorFlow, JAX
    records            what the server tells, as immutable records
    errors             one class for each kind of error
    security           TLS and tokens
    client, round, result, functions, reduction   the API
    _local, _native    reductions in this process
    _local_server, _program   a server as a child; where the program is, which `python -m sparseagg` becomes
    sparsify, sparse_data   sparse updates from dense ones; sparse examples; both imported on their own
    tasks/             tasks that workers come for; rounds prepared ahead
    worker/            processes that come for tasks; imported on its own
    ray/               a tree of servers on Ray; imported on its own
    aio                the same for asyncio; imported on its own
    _handles           what both clients share
    _arguments         checks of what a caller says
    _requests, _uploads   requests, resumable uploads
    _net/              addresses, connections, calls with retries, streams, who answered
    _encode/           what tensors travel as (docs/wire_format.md), and which encoding to take
"""

from sparseagg._handles import DEFAULT_TARGET
from sparseagg._local import IN_PROCESS
from sparseagg._net.result_parts import ResultPart
from sparseagg._net.retry import RetryPolicy
from sparseagg._requests import Update
from sparseagg.client import Client
from sparseagg.convert import as_tensor, flatten, specs_of, unflatten
from sparseagg.errors import (
    AlreadyCountedError,
    AlreadyExistsError,
    CredentialFileError,
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidUpdateError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    RoundAbortedError,
    RoundExpiredError,
    RoundLostError,
    RoundNotOpenError,
    RoundNotPublishedError,
    SparseAggError,
    TaskFencedError,
    UnauthenticatedError,
    UnavailableError,
    UnknownTensorError,
)
from sparseagg.functions import (
    reduce,
    sparse_count,
    sparse_max,
    sparse_mean_of_contributors,
    sparse_min,
    sparse_sum,
    sparse_weighted_mean,
)
from sparseagg.records import (
    Manifest,
    Receipt,
    RoundInfo,
    RoundPolicy,
    RoundState,
    ServerInfo,
    StoreEpoch,
    Verification,
)
from sparseagg.reduction import Partial, Reduction, merge_partials
from sparseagg.result import Result
from sparseagg.round import Round
from sparseagg.security import Tls, TokenFile
from sparseagg.tasks import (
    AcquiredTasks,
    NewTaskGroup,
    Pipeline,
    PipelineRound,
    Task,
    TaskGroup,
    TaskLease,
    Tasks,
    TaskState,
)
from sparseagg.tensors import SparseTensor, TensorSpec

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_TARGET",
    "IN_PROCESS",
    "AcquiredTasks",
    "AlreadyCountedError",
    "AlreadyExistsError",
    "Client",
    "CredentialFileError",
    "DeadlineExceededError",
    "InvalidArgumentError",
    "InvalidUpdateError",
    "Manifest",
    "NewTaskGroup",
    "NotFoundError",
    "OutOfRangeError",
    "Partial",
    "PermissionDeniedError",
    "Pipeline",
    "PipelineRound",
    "Receipt",
    "Reduction",
    "ResourceExhaustedError",
    "Result",
    "ResultPart",
    "RetryPolicy",
    "Round",
    "RoundAbortedError",
    "RoundExpiredError",
    "RoundInfo",
    "RoundLostError",
    "RoundNotOpenError",
    "RoundNotPublishedError",
    "RoundPolicy",
    "RoundState",
    "ServerInfo",
    "SparseAggError",
    "SparseTensor",
    "StoreEpoch",
    "Task",
    "TaskFencedError",
    "TaskGroup",
    "TaskLease",
    "TaskState",
    "Tasks",
    "TensorSpec",
    "Tls",
    "TokenFile",
    "UnauthenticatedError",
    "UnavailableError",
    "UnknownTensorError",
    "Update",
    "Verification",
    "__version__",
    "as_tensor",
    "flatten",
    "merge_partials",
    "reduce",
    "sparse_count",
    "sparse_max",
    "sparse_mean_of_contributors",
    "sparse_min",
    "sparse_sum",
    "sparse_weighted_mean",
    "specs_of",
    "unflatten",
]
