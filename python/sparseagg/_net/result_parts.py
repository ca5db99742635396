"""Where the rows of a result are that stays at its leaves (docs/trees.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ResultPart:
    """Rows of a result, which a leaf has as the result of a round of its own.

    owner: id of the leaf.
    address: of the leaf.
    round: name of its round there.
    """

    owner: str
    address: str
    round: str


def parts_from_proto(message: Any) -> tuple[ResultPart, ...]:
    """Returns the parts that `sparseagg.v1.Manifest` names."""
    return tuple(ResultPart(p.owner.id, p.owner.address, p.round) for p in message.parts)
