"""Client of sparseagg, a server that exactly sums sparse federated-learning updates.

Start with `Client` (rounds) or `sparse_sum` (one call, nothing stored). Modules, in reading order:

    tensors, convert   what a user hands in and gets back; where other packages' types are recognised
    records            what the server tells, as immutable records
    errors             one class for each kind of error
    client, round, result   the API
    _wire, _uploads, _transport, _status_details   bytes, resumable uploads, calls with retries, error details
"""

from sparseagg._transport import RetryPolicy
from sparseagg.client import DEFAULT_TARGET, Client, sparse_sum
from sparseagg.convert import as_tensor
from sparseagg.errors import (
    AlreadyCountedError,
    AlreadyExistsError,
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidUpdateError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
    RoundAbortedError,
    RoundNotOpenError,
    RoundNotPublishedError,
    SparseAggError,
    UnavailableError,
)
from sparseagg.records import Manifest, Receipt, RoundInfo, RoundState, ServerInfo
from sparseagg.result import Result
from sparseagg.round import Round, Update
from sparseagg.tensors import SparseTensor, TensorSpec

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_TARGET",
    "AlreadyCountedError",
    "AlreadyExistsError",
    "Client",
    "DeadlineExceededError",
    "InvalidArgumentError",
    "InvalidUpdateError",
    "Manifest",
    "NotFoundError",
    "OutOfRangeError",
    "Receipt",
    "ResourceExhaustedError",
    "Result",
    "RetryPolicy",
    "Round",
    "RoundAbortedError",
    "RoundInfo",
    "RoundNotOpenError",
    "RoundNotPublishedError",
    "RoundState",
    "ServerInfo",
    "SparseAggError",
    "SparseTensor",
    "TensorSpec",
    "UnavailableError",
    "Update",
    "as_tensor",
    "sparse_sum",
    "__version__",
]
