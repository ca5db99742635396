"""Rounds that nobody needs any more: `sparseagg._erase` and `sparseagg._abandoned`, for asyncio."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sparseagg._abandoned import is_abandoned, log_not_looked_for
from sparseagg.aio.round import Round
from sparseagg.errors import NotFoundError, SparseAggError

if TYPE_CHECKING:
    from sparseagg.aio.client import Client

_LOG = logging.getLogger("sparseagg")


async def erase(round: Round) -> None:
    """Deletes `round`; aborts it first where it is not over. Raises nothing; see `sparseagg._erase`."""
    try:
        try:
            await round.delete()
        except SparseAggError as refusal:
            if refusal.reason != "ROUND_NOT_FINAL":
                raise
            await _abort(round)
            await round.delete()
    except NotFoundError:
        pass  # somebody else has done it
    except SparseAggError as failure:
        _LOG.warning("%s could not be deleted: %s", round.name, failure)


async def _abort(round: Round) -> None:
    try:
        await round.abort()
    except SparseAggError as refusal:
        if refusal.reason != "ROUND_NOT_ABORTABLE":  # published in the meantime
            raise


async def erase_abandoned(client: Client, adapter: str) -> None:
    """Erases the rounds of processes that are gone. Raises nothing; see `sparseagg._abandoned.erase_abandoned`."""
    try:
        async for info in client.rounds(page_size=1000):
            if is_abandoned(info, adapter):
                await erase(client.round(info.name))
    except SparseAggError as failure:
        log_not_looked_for(failure)
