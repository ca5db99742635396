"""What a fork leaves of a client: nothing that works. The threads of gRPC stay with the parent, their locks do not.

A forked child has an error at once for its parent's clients, and for clients of its own, since a gRPC that was in use before
the fork waits in the child for threads that are not there. GRPC_ENABLE_FORK_SUPPORT is no way out: with calls under way in
other threads children hung with it, of gRPC 1.51 and 1.85.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

import grpc

from sparseagg.errors import SparseAggError

_generation = 0  # of this process: how often it was forked since the package came
_in_use = False  # gRPC has had a channel of this package
_inherited = False  # it had one in the parent
_channels: weakref.WeakSet[Any] = weakref.WeakSet()


def generation() -> int:
    """Returns a number that is another one in a forked child."""
    return _generation


def keep(channel: Any) -> None:
    """Notes a channel of gRPC, which a forked child must not end: its sockets are the parent's, too."""
    global _in_use
    _in_use = True
    _channels.add(channel)


def check_process(made_in: int) -> None:
    """Raises where what was made in generation `made_in` is used in a forked child."""
    if made_in != _generation:
        raise _was_forked("this client was made before the process was forked")


def check_new() -> None:
    """Raises where no client can be made: gRPC was in use when this process was forked."""
    if _inherited:
        raise _was_forked("this process was forked from one with a client")


def _was_forked(what: str) -> SparseAggError:
    return SparseAggError(
        f"{what}, and gRPC does not work in forked children; start processes with "
        'multiprocessing\'s "spawn" or "forkserver", or fork before the first client is made',
        code=grpc.StatusCode.FAILED_PRECONDITION,
        reason="CLIENT_FORKED",
    )


def _after_in_child() -> None:
    global _generation, _inherited, _channels
    _generation += 1
    _inherited = _inherited or _in_use
    # What ends in the child would wait for threads that are not there, and shut the parent's connections down.
    for channel in list(_channels):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(channel))
    _channels = weakref.WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
