"""Whether a server that closes each connection without a word expects TLS: gRPC cannot tell, a handshake can."""

from __future__ import annotations

import socket
import ssl

from sparseagg._net.address import Address
from sparseagg._net.transport_errors import Peer

_SECONDS = 2.0


class TlsProbe:
    """Of one address. It asks once; what a client learns later, it learns from calls."""

    def __init__(self, address: Address, peer: Peer) -> None:
        # Not through a proxy, nor where a DNS server of the caller's choice is asked.
        self._may_ask = not (peer.tls or peer.proxy or address.is_socket or address.by_authority)
        self._address = address
        self._speaks_tls: bool | None = None

    def speaks_tls(self) -> bool:
        """Returns whether a TLS handshake succeeds. Takes seconds at most; nothing is sent but the handshake."""
        if self._speaks_tls is None:
            self._speaks_tls = self._may_ask and any(
                _shakes_hands(host, port) for host, port in self._address.places()
            )
        return self._speaks_tls


def _shakes_hands(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the question is whether there is one
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection((host, port), _SECONDS) as connection:
            context.wrap_socket(connection, server_hostname=host.partition("%")[0]).close()
            return True
    except (OSError, ValueError):
        return False
