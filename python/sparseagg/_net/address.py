"""The address of a server: what a caller may write, and the gRPC target that it becomes. `client/transport/address.cc` has the same rules
and messages; tests/vectors/addresses.json holds both to them.
"""

from __future__ import annotations

import re
import socket
from typing import NamedTuple, NoReturn

from sparseagg.errors import InvalidArgumentError

DEFAULT_PORT = 50061
_PORT_MAX = 65535
_LENGTH_MAX = 512
_NAME_LENGTH_MAX = 253
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_ZONE = re.compile(r"[A-Za-z0-9._~-]+")
_HERE = "the address of the server"
# Names of loopback in the hosts files of Debian and others. They are no promise, as "localhost" is.
_LOOPBACK_NAMES = ("ip6-localhost", "ip6-loopback")


class Address(NamedTuple):
    """One that can be connected to.

    target: for gRPC, with a port; also how messages name the server.
    tls: what http:// (False) or https:// (True) says; None: nothing.
    hosts: names and IP addresses without brackets; none for a Unix socket.
    is_socket: a Unix socket.
    by_authority: a DNS server of the caller's choice is asked, of which nothing is known here.
    """

    target: str
    tls: bool | None = None
    hosts: tuple[str, ...] = ()
    is_socket: bool = False
    by_authority: bool = False

    def places(self) -> list[tuple[str, int]]:
        """Each host with its port; none for a Unix socket."""
        ports = [int(part.rpartition(":")[2]) for part in self.target.split(",") if self.hosts]
        return list(zip(self.hosts, ports))


def parse(text: str) -> Address:
    """Returns the address that `text` means. InvalidArgumentError (INVALID_TARGET) says what is wrong with it."""
    if not text:
        _refuse(f"{_HERE} is empty; give HOST:PORT")
    if len(text) > _LENGTH_MAX:
        _refuse(f"{_HERE} has more than {_LENGTH_MAX} characters; give HOST:PORT")
    if not all("!" <= character <= "~" for character in text):
        _refuse(f"{_HERE} has a blank, a control character or one beyond ASCII; give HOST:PORT")
    for prefix in ("unix:", "unix-abstract:"):
        if text.startswith(prefix):
            if text in (prefix, f"{prefix}//"):
                _refuse(f'the address "{text}" names no socket; give unix:/PATH')
            return Address(text, is_socket=True)
    if "@" in text:  # what is before it may be a password
        _refuse(f'{_HERE} has a user before "@"; leave it out: a token says who calls')
    for prefix, tls in (("http://", False), ("https://", True)):
        if text.lower().startswith(prefix):
            return _parse_url(text, text[len(prefix) :], tls)
    if text.startswith("dns:"):
        return _parse_dns(text)
    for prefix, family in (("ipv4:", socket.AF_INET), ("ipv6:", socket.AF_INET6)):
        if text.startswith(prefix):
            return _parse_literals(text, prefix, family)
    if "://" in text:
        _refuse(
            f'the address "{text}" begins with an unknown scheme; '
            "give HOST:PORT, http://, https://, dns:/// or unix:"
        )
    host, target = _host_and_port(text, text)
    return Address(target, hosts=(host,))


def is_local(address: Address) -> bool:
    """Returns True for what is on this machine whatever the network looks like: loopback, localhost, Unix sockets."""
    if address.is_socket:
        return True
    return not address.by_authority and all(_is_loopback(host) for host in address.hosts)


def is_direct(address: Address) -> bool:
    """Returns True for what no proxy is asked for: this machine by any of its names and addresses."""
    if is_local(address):
        return True
    return not address.by_authority and all(
        _is_loopback(host) or _is_own_name(host) or _is_own_address(host) for host in address.hosts
    )


def _refuse(message: str) -> NoReturn:
    raise InvalidArgumentError(message, reason="INVALID_TARGET")


def _parse_url(text: str, rest: str, tls: bool) -> Address:
    rest = rest[:-1] if rest.endswith("/") else rest
    if re.search("[/?#]", rest):
        _refuse(f'the address "{text}" goes on after the port; give HOST:PORT alone')
    host, target = _host_and_port(text, rest)
    return Address(target, tls, (host,))


def _parse_dns(text: str) -> Address:
    prefix, authority = "dns:", ""
    if text.startswith("dns://"):
        authority, slash, _ = text[len("dns://") :].partition("/")
        if not slash:
            _refuse(f'the address "{text}" names no host; give HOST:PORT')
        prefix = f"dns://{authority}/"
    host, target = _host_and_port(text, text[len(prefix) :])
    return Address(prefix + target, hosts=(host,), by_authority=bool(authority))


def _parse_literals(text: str, prefix: str, family: socket.AddressFamily) -> Address:
    hosts, targets = zip(*(_host_and_port(text, part) for part in text[len(prefix) :].split(",")))
    for host in hosts:
        if not _is_ip(host.partition("%")[0], family):
            name = "IPv4" if family == socket.AF_INET else "IPv6"
            _refuse(f'the address "{text}" has the host "{host}", which is not an {name} address')
    return Address(prefix + ",".join(targets), hosts=hosts)


def _host_and_port(text: str, part: str) -> tuple[str, str]:
    """Returns the host of `part` without brackets, and HOST:PORT; `text` is the whole address, for messages."""
    if part.startswith("["):
        host, bracket, rest = part[1:].partition("]")
        if not bracket or not _is_ipv6(host) or (rest and not rest.startswith(":")):
            _refuse(f'the address "{text}" is not [IPV6]:PORT')
        return host, f"[{host}]:{_port(text, rest[1:] if rest else str(DEFAULT_PORT))}"
    if part.count(":") > 1:
        if not _is_ipv6(part):
            _refuse(
                f'the address "{text}" has several colons and is no IPv6 address; '
                "give HOST:PORT or [IPV6]:PORT"
            )
        return part, f"[{part}]:{DEFAULT_PORT}"
    host, colon, port = part.partition(":")
    if not host:
        _refuse(f'the address "{text}" names no host; give HOST:PORT')
    _check_host(text, host)
    return host, f"{host}:{_port(text, port if colon else str(DEFAULT_PORT))}"


def _port(text: str, port: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", port) or not 1 <= int(port) <= _PORT_MAX:
        _refuse(
            f'the address "{text}" has the port "{port}", '
            f"which is not a number from 1 to {_PORT_MAX}"
        )
    return int(port)


def _check_host(text: str, host: str) -> None:
    labels = host[:-1].split(".") if host.endswith(".") else host.split(".")
    if len(host) > _NAME_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        _refuse(
            f'the address "{text}" has the host "{host}", which is not a host name: '
            'labels of letters, digits, "-" and "_" with "." between them'
        )
    if labels[-1].isdigit() and not _is_ip(host, socket.AF_INET):
        _refuse(
            f'the address "{text}" has the host "{host}", '
            "which is neither a name nor an IPv4 address of four numbers up to 255"
        )


def _is_ip(host: str, family: socket.AddressFamily) -> bool:
    try:
        socket.inet_pton(family, host)
    except OSError:
        return False
    return True


def _is_ipv6(host: str) -> bool:
    address, percent, zone = host.partition("%")
    return _is_ip(address, socket.AF_INET6) and (not percent or _ZONE.fullmatch(zone) is not None)


def _is_loopback(host: str) -> bool:
    if _is_ip(host, socket.AF_INET):
        number = socket.inet_pton(socket.AF_INET, host)
    elif _is_ip(host, socket.AF_INET6):
        number = socket.inet_pton(socket.AF_INET6, host)
        if number in (b"\0" * 16, b"\0" * 15 + b"\1"):
            return True
        if not number.startswith(b"\0" * 10 + b"\xff\xff"):
            return False
        number = number[12:]  # an IPv4 address as an IPv6 one
    else:
        return host.lower() in ("localhost", "localhost.")
    # A connection to 0.0.0.0 is one to this machine.
    return number[0] == 127 or number == b"\0" * 4


def _is_own_name(host: str) -> bool:
    own = socket.gethostname().lower()
    return host.lower() in (own, own.partition(".")[0], *_LOOPBACK_NAMES)


def _is_own_address(host: str) -> bool:
    """Returns whether the system would send to `host` from that same address. No packet is sent for this."""
    for family in (socket.AF_INET, socket.AF_INET6):
        if not _is_ip(host, family):
            continue
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((host, DEFAULT_PORT))
                own = probe.getsockname()[0]
        except OSError:
            return False
        return socket.inet_pton(family, own) == socket.inet_pton(family, host)
    return False
