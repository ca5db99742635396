"""How a client proves who it is, and checks whom it talks to: TLS and bearer tokens.

    Client("agg.example:50061", tls=Tls(ca="ca.pem"), token=TokenFile("token"))

Without these arguments the environment is asked: SPARSEAGG_SERVER_CA, SPARSEAGG_CLIENT_CERT and SPARSEAGG_CLIENT_KEY
name files for TLS, SPARSEAGG_TOKEN_FILE one with the token, SPARSEAGG_TOKEN is one; as for the command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Union

import grpc

__all__ = ["Tls", "Token", "TokenFile"]

# Addresses, not names that begin like one.
_LOCAL = re.compile(
    r"unix(-abstract)?:.+|(ipv4:|dns:(///)?)?127\.[0-9.]+(:\d+)?|(dns:(///)?)?localhost(:\d+)?"
    r"|(ipv6:|dns:(///)?)?\[::1\](:\d+)?"
)
_Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Tls:
    """Files in PEM. They are read once, when the client is made.

    ca: who signs the server's certificate; None: the authorities that come with gRPC.
    cert, key: of this client, where the server asks for a certificate.
    """

    ca: _Path | None = None
    cert: _Path | None = None
    key: _Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """What gRPC wants."""
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca),
            private_key=_read(self.key),
            certificate_chain=_read(self.cert),
        )


@dataclass(frozen=True)
class TokenFile:
    """A token that is in a file, and may be renewed there: it is read for every call."""

    path: _Path

    def __call__(self) -> str:
        return Path(self.path).read_text(encoding="ascii").strip()


# A bearer token, or what gives one: called for every call, from the thread that makes it.
Token = Union[str, Callable[[], str]]


class Access:
    """What a transport needs to know of the arguments: the channel's credentials, and the metadata of a call."""

    def __init__(
        self,
        target: str,
        *,
        tls: Tls | bool | None,
        token: Token | None,
        credentials: grpc.ChannelCredentials | None,
        metadata: Sequence[tuple[str, str]],
    ) -> None:
        tls = _tls_from_environment() if tls is None and credentials is None else tls
        if tls and credentials is not None:
            raise ValueError("give tls or credentials, not both")
        if tls:
            credentials = (Tls() if tls is True else tls).credentials()
        self.credentials = credentials
        self._token = _token_from_environment() if token is None else token
        self._metadata = tuple(metadata)
        if self._token is not None and credentials is None and not is_local(target):
            raise ValueError(f"whoever sees the traffic to {target} would have the token; use tls")

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What is sent with a call; with the token of this moment."""
        if self._token is None:
            return self._metadata
        token = self._token if isinstance(self._token, str) else self._token()
        return (*self._metadata, ("authorization", f"Bearer {token}"))

    def open_channel(self, api: Any, target: str, options: Sequence[tuple[str, Any]]) -> Any:
        """A channel of `api`, which is grpc or grpc.aio."""
        if self.credentials is None:
            return api.insecure_channel(target, options)
        return api.secure_channel(target, self.credentials, options)


def is_local(target: str) -> bool:
    """True for a gRPC target on this machine: loopback addresses, localhost, unix sockets."""
    return _LOCAL.fullmatch(target) is not None


def _read(path: _Path | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _tls_from_environment() -> Tls | None:
    ca, cert, key = (
        os.environ.get(name) or None
        for name in ("SPARSEAGG_SERVER_CA", "SPARSEAGG_CLIENT_CERT", "SPARSEAGG_CLIENT_KEY")
    )
    return Tls(ca, cert, key) if ca or cert or key else None


def _token_from_environment() -> Token | None:
    path = os.environ.get("SPARSEAGG_TOKEN_FILE")
    return TokenFile(path) if path else os.environ.get("SPARSEAGG_TOKEN") or None
