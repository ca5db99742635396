"""Tokens of one training: a server that gets this file refuses everybody else."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Credential:
    """A bearer token, and whom the server takes its bearer for. repr() does not show the token."""

    principal: str
    roles: Sequence[str]
    token: str

    def __repr__(self) -> str:
        return f"Credential({self.principal!r}, {self.roles!r})"


@dataclass(frozen=True)
class Credentials:
    """One for the owner, and one each that all tabs and all Python workers share."""

    owner: Credential
    tabs: Credential
    python: Credential

    @classmethod
    def new(cls) -> Credentials:
        """Makes new tokens."""

        def credential(principal: str, *roles: str) -> Credential:
            return Credential(principal, roles, secrets.token_urlsafe(32))

        return cls(
            credential("owner", "owner"),
            credential("tabs", "worker", "reader"),
            credential("python", "worker", "reader"),
        )

    def write(self, path: Path) -> None:
        """Writes the file for `sparseagg serve --credentials`, which has no token but its SHA-256."""
        rows = [
            {
                "token_sha256": hashlib.sha256(one.token.encode()).hexdigest(),
                "tenant": "words",
                "principal": one.principal,
                "roles": list(one.roles),
            }
            for one in (self.owner, self.tabs, self.python)
        ]
        path.write_text(json.dumps({"credentials": rows}, indent=1))
