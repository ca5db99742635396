"""Addresses of a server, as the C++ client reads them."""

from __future__ import annotations

import json
import socket

import pytest
import sparseagg.aio
from conftest import ROOT
from sparseagg import Client, InvalidArgumentError, RetryPolicy, UnavailableError
from sparseagg._net import address as _address

VECTORS = json.loads((ROOT / "tests/vectors/addresses.json").read_text())
ONCE = RetryPolicy(attempts=1)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["address"][:40] or "empty")
def test_vectors_mean_the_same_as_in_cpp(vector):
    if "error" in vector:
        with pytest.raises(InvalidArgumentError) as caught:
            Client(vector["address"])
        assert str(caught.value) == vector["error"]
        assert caught.value.reason == "INVALID_TARGET"
        return
    address = _address.parse(vector["address"])
    assert (address.target, address.tls) == (vector["target"], vector.get("tls"))
    assert _address.is_local(address) == vector.get("local", False)
    if vector.get("local") or "direct" in vector:
        assert _address.is_direct(address)
    assert _address.parse(address.target).target == address.target


def test_this_machine_is_direct_by_its_name_and_addresses():
    for own in (socket.gethostname().upper(), "ip6-localhost", "127.66.77.88", "::1"):
        assert _address.is_direct(_address.parse(own)), own
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.77", 9))
        except OSError:
            pass  # a machine without a network
        else:
            own = probe.getsockname()[0]
            assert _address.is_direct(_address.parse(own)), own
    for other in ("192.0.2.77", "198.51.100.7:9", "[2001:db8::7]:9", "agg.example"):
        assert not _address.is_direct(_address.parse(other)), other


@pytest.mark.parametrize("kind", [sparseagg.Client, sparseagg.aio.Client])
def test_a_client_names_its_server_with_the_port(kind):
    assert kind("agg.example").target == "agg.example:50061"
    assert kind("http://agg.example").target == "agg.example:50061"


def test_the_default_port_is_that_of_the_server():
    # No other server of this machine listens at this address of loopback.
    with (
        Client("127.66.77.88", retry=ONCE) as client,
        pytest.raises(UnavailableError, match=r"127\.66\.77\.88:50061"),
    ):
        client.info()


def test_a_url_without_tls_reaches_the_server(server):
    with Client(f"http://{server.target}/") as client:
        assert client.info().version


def test_a_url_with_tls_asks_for_it(server):
    with Client(f"https://{server.target}", retry=ONCE) as client, pytest.raises(UnavailableError):
        client.info()


def test_a_url_that_contradicts_the_arguments(monkeypatch):
    with pytest.raises(InvalidArgumentError, match="write https://"):
        Client("http://agg.example", tls=True)
    with pytest.raises(InvalidArgumentError, match="write http://"):
        Client("https://agg.example", tls=False)
    monkeypatch.setenv("SPARSEAGG_SERVER_CA", "ca.pem")
    with pytest.raises(InvalidArgumentError, match="write https://"):
        Client("http://agg.example")
