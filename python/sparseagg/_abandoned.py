"""How no round of an adapter stays open for ever: it has a deadline, and its name says which process holds it.

A process that dies leaves its round behind. The next one on the same machine finds it by its name and erases it; where there
is no next one, the deadline closes it. Rounds whose names are handed on to other processes have the deadline alone.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseagg._erase import erase
from sparseagg.errors import SparseAggError
from sparseagg.records import RoundInfo

if TYPE_CHECKING:
    from sparseagg.client import Client

_LOG = logging.getLogger("sparseagg")
# Longer than any round takes that somebody still waits for.
DEADLINE_SECONDS = 24 * 3600.0


def with_deadline(
    options: Mapping[str, Any] | None, seconds: float = DEADLINE_SECONDS
) -> dict[str, Any]:
    """Options of `Client.create_round`; those of the caller go before the deadline of `seconds`."""
    return {"deadline": seconds, **(options or {})}


def round_id_of_this_process(adapter: str) -> str | None:
    """Returns a new name that says who holds the round; None where the system does not tell when a process was
    started."""
    place, start = _place(), _start_of(os.getpid())
    if place is None or start is None:
        return None
    return f"{adapter}-{place}-{os.getpid()}-{start}-{uuid.uuid4().hex[:12]}"


def erase_abandoned(client: Client, adapter: str) -> None:
    """Erases the rounds of processes of this adapter, of the same user on this machine, that are gone.

    Raises nothing: the next caller that opens a round gets the same error if it concerns that caller.
    """
    try:
        for info in client.rounds(page_size=1000):
            if is_abandoned(info, adapter):
                erase(client.round(info.name))
    except SparseAggError as failure:
        log_not_looked_for(failure)


def is_abandoned(info: RoundInfo, adapter: str) -> bool:
    """Returns whether the round may be erased, because the process that opened it is gone; tells the log."""
    place = _place()
    holder = re.fullmatch(rf"rounds/{adapter}-{place}-(\d+)-(\d+)-[0-9a-f]+", info.name)
    if place is None or holder is None or str(_start_of(int(holder[1]))) == holder[2]:
        return False
    if info.state.final and info.keep_updates:
        return False  # kept for who verifies it
    _LOG.warning("%s is erased: process %s, which opened it, is gone", info.name, holder[1])
    return True


def log_not_looked_for(failure: SparseAggError) -> None:
    """Tells the log that the server did not list its rounds."""
    _LOG.warning("rounds that earlier runs may have left were not looked for: %s", failure)


@functools.lru_cache(maxsize=1)
def _place() -> str | None:
    """Of all processes that see each other by their ids: one start of the machine, one container, one user. None where there
    is no Linux."""
    try:
        parts = (
            Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            os.readlink("/proc/self/ns/pid"),
            socket.gethostname(),
            str(os.getuid()),
        )
    except (OSError, AttributeError):
        return None
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def _start_of(process: int) -> int | None:
    """When a process was started, in the kernel's ticks, which tells it from a later one of the same id; None where it is
    gone, or where there is no Linux."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None
