"""Rendezvous hashing: who belongs to which leaf of a tree of servers (docs/trees.md). base/rendezvous.h is the same."""

from __future__ import annotations

from collections.abc import Sequence

_MASK = (1 << 64) - 1
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def weight(round_name: str, contributor: str, leaf: str) -> int:
    """Returns the weight of a leaf for a contributor of a round, 64 bits."""
    value = _FNV_OFFSET
    for byte in b"\0".join(text.encode() for text in (round_name, contributor, leaf)):
        value = (value ^ byte) * _FNV_PRIME & _MASK
    value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ (value >> 33)


def choose_leaf(round_name: str, contributor: str, leaves: Sequence[str]) -> int:
    """Returns the position of the leaf with the highest weight; of equal weights, the one with the least id."""
    return min(
        range(len(leaves)), key=lambda i: (-weight(round_name, contributor, leaves[i]), leaves[i])
    )
