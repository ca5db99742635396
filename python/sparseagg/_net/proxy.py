"""The HTTP proxy that gRPC goes through to a server, by the rules of its core: the environment, or a channel's options."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import grpc

from sparseagg._net.address import Address, is_direct

# The variables that name a proxy, and those that name hosts without one: the first that is set counts.
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
# Older ones compare texts as they stand.
_IS_NEW = tuple(int(part) for part in grpc.__version__.split(".")[:2]) >= (1, 55)


def proxy_of(address: Address, options: Mapping[str, Any]) -> str:
    """Returns HOST:PORT of the proxy between here and `address`; empty where there is none. `options` are the
    channel's."""
    # gRPC sends several addresses at once nowhere else.
    if (
        is_direct(address)
        or len(address.hosts) != 1
        or not options.get("grpc.enable_http_proxy", 1)
    ):
        return ""
    proxy = str(options.get("grpc.http_proxy") or _first_of(_PROXIES))
    # gRPC ignores others.
    if not proxy.startswith("http://") or _is_excepted(address.hosts[0], _first_of(_EXCEPTIONS)):
        return ""
    # The text before "@" may be a password.
    return urlsplit(proxy).netloc.rpartition("@")[2]


def _first_of(names: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in names if name in os.environ), "")


def _is_excepted(host: str, exceptions: str) -> bool:
    """By the end of the name, or as an address of a network."""
    entries = exceptions.split(",")
    if _IS_NEW:
        entries = [entry.strip() for entry in entries]
    return any(
        host.lower().endswith(entry.lower()) or (_IS_NEW and _is_in(host, entry))
        for entry in entries
        if entry
    )


def _is_in(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False  # a name
