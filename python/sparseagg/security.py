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

from sparseagg import _arguments
from sparseagg._net.address import Address, is_local
from sparseagg.errors import CredentialFileError, InvalidArgumentError, SparseAggError

__all__ = ["Tls", "Token", "TokenFile"]

_METADATA_KEY = re.compile("[0-9a-z_.-]+")
_Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Tls:
    """Files in PEM for a connection with TLS. They are read once, when the client is made.

    ca: who signs the server's certificate; None: the authorities that come with gRPC.
    cert, key: certificate and private key of this client, where the server asks for a certificate; both or none.

        Client("agg.example:50061", tls=Tls(ca="ca.pem"), token=TokenFile("token"))

    A client without `tls` takes the files that SPARSEAGG_SERVER_CA, SPARSEAGG_CLIENT_CERT and SPARSEAGG_CLIENT_KEY name.
    Raises InvalidArgumentError for one of cert and key without the other. Making the client raises CredentialFileError for
    a file that cannot be read or is not PEM.
    """

    ca: _Path | None = None
    cert: _Path | None = None
    key: _Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):  # for which gRPC ends the process
            missing = "cert" if self.cert is None else "key"
            raise InvalidArgumentError(
                f"Tls needs cert and key, or none of them; it has no {missing}"
            )

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns these credentials for gRPC, as `Client(credentials=...)` takes it. Reads the files."""
        ca, key, cert = (
            None if path is None else _read_pem(path, label)
            for path, label in (
                (self.ca, "CERTIFICATE"),
                (self.key, "PRIVATE KEY"),
                (self.cert, "CERTIFICATE"),
            )
        )
        return grpc.ssl_channel_credentials(
            root_certificates=ca, private_key=key, certificate_chain=cert
        )


@dataclass(frozen=True)
class TokenFile:
    """A bearer token that is in a file, and may be renewed there: it is read for every call.

    path: of the file; white space around the token is ignored. A client without `token` takes the file that
        SPARSEAGG_TOKEN_FILE names, or the token in SPARSEAGG_TOKEN.

    A call raises CredentialFileError while the file is empty or cannot be read.
    """

    path: _Path

    def __call__(self) -> str:
        token = _read(self.path).decode("ascii", "replace").strip()
        if not token:
            raise CredentialFileError(f"{self.path} has no token")
        return token


# A bearer token, or what gives one: called for every call, from the thread that makes it. The call raises
# CredentialFileError for what it raises.
Token = Union[str, Callable[[], str]]


class Access:
    """What a transport needs to know of the arguments: the channel's credentials, and the metadata of a call.

    tls: the argument; where there is none, what the environment or the address says.
    """

    def __init__(
        self,
        address: Address,
        *,
        tls: Tls | bool | None,
        token: Token | None,
        credentials: grpc.ChannelCredentials | None,
        metadata: Sequence[tuple[str, str]],
    ) -> None:
        if tls is None and credentials is None:
            tls = _tls_from_environment() or address.tls
        if tls and credentials is not None:
            raise InvalidArgumentError("give tls or credentials, not both")
        if not isinstance(tls, (Tls, bool, type(None))):
            raise InvalidArgumentError(f"tls is {tls!r}, not a Tls, True, False or None")
        wants_tls = bool(tls or credentials)
        if address.tls is not None and address.tls != wants_tls:
            raise InvalidArgumentError(
                f"http:// asks {address.target} for no TLS, and the arguments or the environment "
                "ask for it; write https://"
                if wants_tls
                else f"https:// asks {address.target} for TLS, and tls is False; write http://",
                reason="INVALID_TARGET",
            )
        self.tls = tls
        if tls:
            credentials = (Tls() if tls is True else tls).credentials()
        self.credentials = credentials
        self._token = _token_from_environment() if token is None else token
        if isinstance(self._token, str):
            _check_token(self._token)
        self._metadata = tuple(_entry(entry) for entry in _arguments.items("metadata", metadata))
        has_token = self._token is not None or any(
            key == "authorization" for key, _ in self._metadata
        )
        if has_token and credentials is None and not is_local(address):
            raise InvalidArgumentError(
                f"whoever sees the traffic to {address.target} would have the token; use tls"
            )

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the metadata of a call, with the current token."""
        if self._token is None:
            return self._metadata
        token = self._token if isinstance(self._token, str) else _given(self._token)
        _check_token(token)
        return (*self._metadata, ("authorization", f"Bearer {token}"))

    def open_channel(self, api: Any, target: str, options: Sequence[tuple[str, Any]]) -> Any:
        """Returns a channel of `api`, which is grpc or grpc.aio."""
        if self.credentials is None:
            return api.insecure_channel(target, options)
        return api.secure_channel(target, self.credentials, options)


def _given(source: Callable[[], str]) -> str:
    """Returns the token that `source` gives. Raises CredentialFileError where it fails, for whoever waits for errors of this
    package."""
    try:
        return source()
    except SparseAggError:
        raise
    except Exception as failure:
        raise CredentialFileError(f"there is no token: {_arguments.words_of(failure)}") from failure


def _check_token(token: Any) -> None:
    # Said here: gRPC's message would show it. Most often it is a line feed at its end.
    if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
        raise InvalidArgumentError("the token is not a string of printable ASCII characters")
    if not token.strip():
        raise InvalidArgumentError("the token is empty")


def _entry(entry: Any) -> tuple[str, str]:
    """Returns an entry of the metadata as gRPC takes it: what it would refuse with each call."""
    with _arguments.refusing("metadata"):
        key, value = entry
        is_key = isinstance(key, str) and _METADATA_KEY.fullmatch(key)
        is_bytes = isinstance(value, bytes) and str(key).endswith("-bin")
        is_text = isinstance(value, str) and value.isascii() and value.isprintable()
        if not (is_key and (is_bytes or is_text)):
            raise InvalidArgumentError(
                f"{key!r} is no key of [0-9a-z_.-] with a value of printable ASCII characters"
            )
    return key, value


def _read(path: _Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as bad:
        raise CredentialFileError(str(bad)) from bad


def _read_pem(path: _Path, label: str) -> bytes:
    """Reads the file, which has to have a block of `label`: gRPC would say nothing and never connect."""
    content = _read(path)
    if re.search(rb"-----BEGIN [A-Z0-9 ]*" + label.encode() + b"-----", content) is None:
        raise CredentialFileError(f"{path} has no {label} in PEM")
    return content


def _tls_from_environment() -> Tls | None:
    ca, cert, key = (
        os.environ.get(name) or None
        for name in ("SPARSEAGG_SERVER_CA", "SPARSEAGG_CLIENT_CERT", "SPARSEAGG_CLIENT_KEY")
    )
    return Tls(ca, cert, key) if ca or cert or key else None


def _token_from_environment() -> Token | None:
    path = os.environ.get("SPARSEAGG_TOKEN_FILE")
    return TokenFile(path) if path else os.environ.get("SPARSEAGG_TOKEN") or None
