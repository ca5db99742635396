"""What a call means that failed between client and server: who answered, and what to do.

gRPC tells it in a text for people, which differs between its versions. tests/vectors/transport_errors.json holds this module
and the C++ client to the same reasons and messages; what to write is the language's own, and follows the message here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import grpc

from sparseagg.errors import DeadlineExceededError, SparseAggError, UnavailableError

# Another attempt gives the same answer.
LASTING = frozenset(
    {
        "INTERMEDIARY_REFUSED",
        "LOCAL_SERVER_ENDED",
        "NOT_GRPC",
        "PROXY_REFUSED",
        "SERVER_HAS_OTHER_NAME",
        "SERVER_NOT_TRUSTED",
        "SERVER_WITHOUT_TLS",
        "SERVER_WITH_TLS",
    }
)
# Nobody is there: for a client that was never connected, more likely a wrong address than a server that restarts.
NOBODY_THERE = frozenset({"CANNOT_CONNECT", "CONNECTION_CLOSED", "PROXY_UNAVAILABLE"})

_CONNECTING = ("failed to connect", "DNS resolution failed", "errors resolving")
_STATUS = re.compile(r"Received http2 header with status: (\d+)")
_PROXY_STATUS = re.compile(r"HTTP proxy returned response code (\d+)")
_HTTP1 = re.compile(r"http1\.x server|got frame type 80\b|last error: OK$")
_NO_HTTP2 = re.compile("(?i)alert.no.application.protocol|missing selected ALPN")
_NOT_HTTP2 = "Failed parsing HTTP/2"
_UNTRUSTED = re.compile("(?i)certificate.verify.failed(?:: ([^:]+): OK)?")
_OTHER_NAME = re.compile("is not in peer certificate|Hostname Verification Check failed")
_NO_TLS = re.compile("(?i)wrong.version.number")
_CLOSED = re.compile("Socket closed|Connection reset by peer")
_SILENT = re.compile(r"(?i)timed out|timeout|FD Shutdown|Endpoint closing|Handshake read failed$")
_UNKNOWN_NAME = re.compile("(?i)domain name|name or service")
_BROKEN = re.compile("Stream removed|Received RST_STREAM")
_OF_INTERMEDIARY = {
    401: "it asks for credentials of its own; let it pass calls on without them",
    403: "it does not let this caller through; let it allow that",
    404: "it does not know these calls; let it forward gRPC to the server",
    407: "it asks for credentials of its own; let it pass calls on without them",
    413: "the message is too large for it; raise its limit (client_max_body_size of nginx)",
    429: "it takes no more calls at the moment; raise its limit",
    500: "it fails; see its log",
}
for _status in (502, 503, 504):
    _OF_INTERMEDIARY[_status] = (
        "it does not reach the server; start the server, or correct where it forwards to"
    )
_OF_OTHERS = "no sparseagg server sends that; let it forward gRPC to the server"


@dataclass(frozen=True)
class Peer:
    """Whom a channel calls: the target, its host, the HTTP proxy in between ("" for none), and whether by TLS."""

    target: str
    host: str = ""
    proxy: str = ""
    tls: bool = False

    def explain(self, code: grpc.StatusCode, message: str) -> SparseAggError | None:
        """Returns the error for gRPC's own code and message; None for what is not of the connection."""
        if status := _STATUS.search(message):
            return self._intermediary(int(status[1]))
        is_broken = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        if is_broken and any(words in message for words in _CONNECTING):
            return self._cannot_connect(message)
        if is_broken or _BROKEN.match(message):
            # gRPC 1.54 to 1.60 say no more of a page of a reverse proxy.
            perhaps = (
                "; perhaps a reverse proxy answers there" if message.startswith("Stream") else ""
            )
            return self.connection_lost(_last_clause(message) + perhaps)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceededError(
                f"no answer from {self._place()} in time{self._detour()}",
                reason="NO_ANSWER_IN_TIME",
            )
        return None

    def connection_lost(self, why: str) -> UnavailableError:
        """The connection broke during a call."""
        return _unavailable("CONNECTION_LOST", f"the connection to {self._place()} broke: {why}")

    def with_tls(self) -> UnavailableError:
        """The server has TLS, and was called without."""
        return self._unreachable(
            "SERVER_WITH_TLS",
            "it speaks TLS; write https://, or name the file of its authority by tls=Tls(ca=FILE) or SPARSEAGG_SERVER_CA",
        )

    def _place(self) -> str:
        return self.target + (f" by the HTTP proxy {self.proxy}" if self.proxy else "")

    def _no_proxy(self) -> str:
        return f"or put {self.host} into no_proxy to go without it"

    def _detour(self) -> str:
        return f"; {self._no_proxy()[3:]}" if self.proxy else ""

    def _unreachable(self, reason: str, words: str) -> UnavailableError:
        return _unavailable(reason, f"cannot reach {self._place()}: {words}")

    def _not_grpc(self, words: str) -> UnavailableError:
        return _unavailable("NOT_GRPC", f"what answers at {self._place()} {words}")

    def _cannot_connect(self, message: str) -> UnavailableError:
        if status := _PROXY_STATUS.search(message):
            return self._refused_by_proxy(int(status[1]))
        return self._another_protocol(message) or self._tls_error(message) or self._no_peer(message)

    def _another_protocol(self, message: str) -> UnavailableError | None:
        if _HTTP1.search(message):
            return self._not_grpc(
                "speaks HTTP/1 and not gRPC; give the port of the server, not of its admin page, "
                "write https:// where it has TLS, or turn HTTP/2 on in a reverse proxy before it"
            )
        if _NO_HTTP2.search(message):
            return self._not_grpc(
                "speaks TLS without HTTP/2, which gRPC needs; give the port of the server, "
                "or turn HTTP/2 on in a reverse proxy before it"
            )
        if _NOT_HTTP2 in message:
            return self._not_grpc("does not speak gRPC; give the port of the server")
        return None

    def _tls_error(self, message: str) -> UnavailableError | None:
        if untrusted := _UNTRUSTED.search(message):
            cause = f" ({untrusted[1]})" if untrusted[1] else ""
            return self._unreachable(
                "SERVER_NOT_TRUSTED",
                "no authority that is trusted here has signed its certificate, or that is over"
                f"{cause}; tls=Tls(ca=FILE) or SPARSEAGG_SERVER_CA names the file of its authority",
            )
        if _OTHER_NAME.search(message):
            return self._unreachable(
                "SERVER_HAS_OTHER_NAME",
                "its certificate is for another name; call it by a name that its certificate has",
            )
        if _NO_TLS.search(message):
            return self._unreachable(
                "SERVER_WITHOUT_TLS",
                "it does not speak TLS; leave out tls and SPARSEAGG_SERVER_CA, or write http://",
            )
        return None

    def _no_peer(self, message: str) -> UnavailableError:
        if _SILENT.search(message):
            return _unavailable(
                "NO_ANSWER_IN_TIME", f"no answer from {self._place()} in time{self._detour()}"
            )
        if _CLOSED.search(message):
            # With TLS it is most often a server that asks for a certificate.
            hint = (
                "if it asks for certificates, give tls=Tls(cert=FILE, key=FILE)"
                if self.tls
                else "if it has TLS, write https:// or tls=Tls(ca=FILE)"
            )
            return self._unreachable(
                "CONNECTION_CLOSED", f"it closes the connection{self._detour()}; {hint}"
            )
        why = _last_clause(message)
        if self.proxy:
            return _unavailable(
                "PROXY_UNAVAILABLE",
                f"cannot reach the HTTP proxy {self.proxy} between here and {self.target}: {why}; "
                f"start it, {self._no_proxy()}",
            )
        question = (
            "is its name right" if _UNKNOWN_NAME.search(why) else "is the server running there"
        )
        return self._unreachable("CANNOT_CONNECT", f"{why}; {question}?")

    def _refused_by_proxy(self, status: int) -> UnavailableError:
        name = f"the HTTP proxy {self.proxy}" if self.proxy else "an HTTP proxy"
        if status == 407:
            does = "asks for a user before it connects"
            remedy = "write http://USER:PASSWORD@HOST:PORT into the variable that names it"
        elif _passes(status):
            does, remedy = "cannot connect", "start the server there"
        else:
            does, remedy = "refuses to connect", "let it allow that"
        when = " at the moment" if _passes(status) else ""
        return _unavailable(
            "PROXY_UNAVAILABLE" if _passes(status) else "PROXY_REFUSED",
            f"{name} {does} to {self.target}{when} (status {status}); {remedy}, {self._no_proxy()}",
        )

    def _intermediary(self, status: int) -> UnavailableError:
        return _unavailable(
            "INTERMEDIARY_UNAVAILABLE" if _passes(status) else "INTERMEDIARY_REFUSED",
            f"something in between (a reverse proxy?) answers at {self._place()} in place of the "
            f"server, with status {status}: {_OF_INTERMEDIARY.get(status, _OF_OTHERS)}, "
            "or give the server's own address",
        )


def _passes(status: int) -> bool:
    """Returns True for the HTTP status of a state that may end by itself."""
    return status == 429 or status >= 500


def _unavailable(reason: str, message: str) -> UnavailableError:
    return UnavailableError(message, reason=reason)


def _last_clause(message: str) -> str:
    """What the system said, at the end of gRPC's message: "...: Connection refused" -> "connection refused"."""
    clause = message.rpartition(": ")[2]
    clause = re.sub(r" \(.*\)$|\]$", "", clause).rpartition("recvmsg:")[2]
    return clause.lower() if clause.isupper() else clause[:1].lower() + clause[1:]
