"""Why a round that was there is not found: the server's life explains it."""

from __future__ import annotations

from dataclasses import dataclass

from sparseagg.errors import NotFoundError, RoundLostError
from sparseagg.records import StoreEpoch


@dataclass(frozen=True)
class Birth:
    """The durability of a handle's round, and the store's epoch at its creation."""

    durability: str
    epoch: StoreEpoch


def why_not_found(error: NotFoundError, birth: Birth, now: StoreEpoch) -> NotFoundError:
    """Returns the error for a round that was there in `birth.epoch`: a better one, where the server's life explains
    it."""
    then = birth.epoch
    if now == then or not now.epoch or not then.epoch:
        return error
    if now.store_id != then.store_id and birth.durability == "memory":
        why = "was kept in memory only, and the server that had it is another process now"
    elif now.store_id != then.store_id:
        why = f"was in store {then.store_id}; the server's data directory is {now.store_id} now"
    elif now.epoch < then.epoch:
        why = f"is gone: the server's data was set back, from epoch {then.epoch} to {now.epoch}"
    elif birth.durability == "memory":
        why = "was kept in memory only, and the server was started again since"
    else:
        return error
    hint = "; create it again" + (
        ', with durability "durable" to keep it' if birth.durability == "memory" else ""
    )
    return RoundLostError(f"{error.message}: it {why}{hint}", code=error.code, reason="ROUND_LOST")
