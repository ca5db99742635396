"""How the adapters leave a round behind: erased, whatever its state."""

from __future__ import annotations

import logging

from sparseagg.errors import NotFoundError, SparseAggError
from sparseagg.round import Round

_LOG = logging.getLogger("sparseagg")


def erase(round: Round) -> None:
    """Deletes `round`; aborts it first where it is not over.

    Raises nothing: what the caller has, a result or a better error, must not get lost over a round
    that nobody needs any more. Where the server cannot be reached, that is logged, and the round
    stays until its policy or the server's retention ends it.
    """
    try:
        try:
            round.delete()
        except SparseAggError as refusal:
            if refusal.reason != "ROUND_NOT_FINAL":
                raise
            _abort(round)
            round.delete()
    except NotFoundError:
        pass  # somebody else has done it
    except SparseAggError as failure:
        _LOG.warning("%s could not be deleted: %s", round.name, failure)


def _abort(round: Round) -> None:
    try:
        round.abort()
    except SparseAggError as refusal:
        if refusal.reason != "ROUND_NOT_ABORTABLE":  # published in the meantime
            raise
