"""Calls that fail between client and server: the error says who answered and what to write, and another attempt is made only
where it can help. tests/vectors has gRPC's words of several versions; here are also those of the one that is installed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import sparseagg.aio
from conftest import ROOT
from sparseagg import Client, RetryPolicy, Tls, UnavailableError
from sparseagg._net import address as _address
from sparseagg._net.proxy import proxy_of
from sparseagg._net.retry import Backoff, is_retryable
from sparseagg._net.transport_errors import Peer
from support.certificates import issue, make_authority
from support.intermediaries import ConnectProxy, Listener, http1, http2

VECTORS = json.loads((ROOT / "tests/vectors/transport_errors.json").read_text())
ONCE = RetryPolicy(attempts=1)
_OF_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["message"][-40:])
def test_vectors_mean_the_same_as_in_cpp(vector):
    peer = Peer("agg.example:50061", "agg.example", vector.get("proxy", ""))
    error = peer.explain(grpc.StatusCode[vector["code"]], vector["message"])
    if not vector["reason"]:  # it is the server's, and stays as it is
        assert error is None
        return
    assert (error.reason, error.code.name) == (vector["reason"], vector["status"])
    assert error.message.split(vector["error"])[0] == ""  # what to write in Python comes behind it
    assert is_retryable(error) == vector["retried"]


@pytest.fixture
def no_second_attempt(monkeypatch):
    """Fails the test where a call is about to be made again."""
    pause = Backoff.pause

    def checked(self, error):
        pause(self, error)
        pytest.fail(f"to be tried again: {error}")

    monkeypatch.setattr(Backoff, "pause", checked)


@pytest.fixture(autouse=True)
def no_proxy_of_the_machine(monkeypatch):
    for name in _OF_PROXIES:
        monkeypatch.delenv(name, raising=False)


def for_threads(target, **options):
    with Client(target, **options) as client:
        client.info()


def for_asyncio(target, **options):
    async def call():
        async with sparseagg.aio.Client(target, **options) as client:
            await client.info()

    asyncio.run(call())


both = pytest.mark.parametrize("call", [for_threads, for_asyncio])


def error_of(call, target, **options):
    """Returns the error that the call raises."""
    with pytest.raises(UnavailableError) as caught:
        call(target, **options)
    assert "\n" not in caught.value.message
    return caught.value


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    make_authority(folder)
    make_authority(folder, "stranger")
    issue(folder, "server", "DNS:localhost,IP:127.0.0.1")
    issue(folder, "elsewhere", "DNS:agg.example")
    issue(folder, "over", "DNS:localhost,IP:127.0.0.1", days=-1)
    return folder


@pytest.fixture
def serve(pki):
    """A function that starts a server of gRPC with the certificate of a name; a sparseagg server takes none that is over."""
    servers = []

    def start(name):
        pair = (pki / f"{name}.key").read_bytes(), (pki / f"{name}.pem").read_bytes()
        server = grpc.server(ThreadPoolExecutor(1))
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(0)


@both
@pytest.mark.parametrize(
    ("certificate", "authority", "reason", "words"),
    [
        ("server", "stranger", "SERVER_NOT_TRUSTED", r"tls=Tls\(ca=FILE\) .* its authority"),
        ("server", None, "SERVER_NOT_TRUSTED", r"tls=Tls\(ca=FILE\) .* its authority"),
        ("over", "ca", "SERVER_NOT_TRUSTED", "or that is over"),
        ("elsewhere", "ca", "SERVER_HAS_OTHER_NAME", "a name that its certificate has"),
    ],
)
def test_a_certificate_that_is_not_good_is_refused_at_once(
    serve, pki, no_second_attempt, call, certificate, authority, reason, words
):
    target = serve(certificate)
    tls = Tls(ca=pki / f"{authority}.pem") if authority else True
    error = error_of(call, target, tls=tls)
    assert error.reason == reason
    assert error.message.startswith(f"cannot reach {target}: ")
    assert re.search(words, error.message)


@both
def test_a_server_with_tls_that_is_called_without(serve, no_second_attempt, call):
    error = error_of(call, serve("server"))
    assert error.reason == "SERVER_WITH_TLS"
    assert "write https://" in error.message


@both
def test_a_server_without_tls_that_is_called_with(server, no_second_attempt, call):
    error = error_of(call, server.target, tls=True)
    assert error.reason == "SERVER_WITHOUT_TLS"
    assert "write http://" in error.message


def test_what_only_closes_connections_is_not_taken_for_tls(no_second_attempt):
    with Listener(lambda connection: connection.close()) as listener:
        error = error_of(for_threads, listener.target, retry=ONCE)
    assert error.reason == "CONNECTION_CLOSED"


@both
@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 407, 413])
def test_a_reverse_proxy_that_refuses_is_told_from_the_server(no_second_attempt, call, status):
    with Listener(http2(status)) as proxy:
        error = error_of(call, proxy.target)
    assert error.reason == "INTERMEDIARY_REFUSED"
    assert f"answers at {proxy.target} in place of the server, with status {status}: " in str(error)


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_reverse_proxy_without_its_server_is_asked_again(status):
    calls = []
    with Listener(http2(status, calls)) as proxy:
        retry = RetryPolicy(attempts=3, initial_delay=0.001)
        error = error_of(for_threads, proxy.target, retry=retry)
    assert len(calls) == 3
    assert error.reason == "INTERMEDIARY_UNAVAILABLE"
    assert f"{proxy.target} in place of the server, with status {status}: " in str(error)


@both
@pytest.mark.parametrize("status", [200, 400, 404])
def test_a_server_of_http_1(no_second_attempt, call, status):
    with Listener(http1(status)) as web:
        error = error_of(call, web.target)
    assert error.reason == "NOT_GRPC"
    assert f"at {web.target} speaks HTTP/1 and not gRPC; give the port" in str(error)


def test_a_server_of_http_1_with_tls(pki, no_second_attempt):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "server.pem", pki / "server.key")
    with Listener(http1(200), context) as web:
        error = error_of(for_threads, web.target, tls=Tls(ca=pki / "ca.pem"))
    assert error.reason == "NOT_GRPC"


def use_proxy(monkeypatch, place):
    """Lets gRPC go through a proxy, which wants a password."""
    monkeypatch.setenv("http_proxy", f"http://user:secret@{place}")


@both
@pytest.mark.parametrize("status", [400, 403, 404, 407])
def test_an_http_proxy_that_refuses(monkeypatch, no_second_attempt, call, status):
    with ConnectProxy(status) as proxy:
        use_proxy(monkeypatch, proxy.target)
        error = error_of(call, "agg.example:7")
    assert proxy.asked == ["agg.example:7"]
    assert error.reason == "PROXY_REFUSED"
    assert f"the HTTP proxy {proxy.target} " in str(error) and f"(status {status})" in str(error)
    assert "put agg.example into no_proxy" in str(error) and "secret" not in str(error)


def test_an_http_proxy_that_does_not_reach_the_server_is_asked_again(monkeypatch):
    with ConnectProxy(503) as proxy:
        use_proxy(monkeypatch, proxy.target)
        error = error_of(
            for_threads, "agg.example:7", retry=RetryPolicy(attempts=3, initial_delay=0.001)
        )
    assert error.reason == "PROXY_UNAVAILABLE"
    assert f"the HTTP proxy {proxy.target} cannot connect to agg.example:7" in str(error)


def test_an_http_proxy_that_is_not_there(monkeypatch):
    use_proxy(monkeypatch, "127.0.0.1:1")
    error = error_of(for_threads, "agg.example:7", retry=ONCE)
    assert error.reason == "PROXY_UNAVAILABLE"
    assert "cannot reach the HTTP proxy 127.0.0.1:1 between here and agg.example:7" in str(error)
    assert "put agg.example into no_proxy" in str(error)


def test_a_server_behind_an_http_proxy_is_reached(server, monkeypatch):
    """The proxy is asked for this machine only because the test says so."""
    with ConnectProxy() as proxy:
        monkeypatch.setattr("sparseagg._net.transport.is_direct", lambda address: False)
        use_proxy(monkeypatch, proxy.target)
        for_threads(server.target)
    assert proxy.asked == [server.target]


@pytest.mark.parametrize(
    ("proxies", "target"),
    [
        ({"http_proxy": "{}"}, "agg.invalid"),
        ({"https_proxy": "{}"}, "agg.invalid"),
        ({"grpc_proxy": "{}", "https_proxy": "http://127.0.0.1:1"}, "agg.invalid"),
        ({"grpc_proxy": "", "http_proxy": "{}"}, "agg.invalid"),
        ({"HTTP_PROXY": "{}"}, "agg.invalid"),
        ({"http_proxy": "{}", "no_proxy": "x, INVALID"}, "agg.invalid"),
        ({"http_proxy": "{}", "no_proxy": "agg"}, "agg.invalid"),
        ({"http_proxy": "{}", "no_grpc_proxy": "x", "no_proxy": "invalid"}, "agg.invalid"),
        ({"http_proxy": "{}"}, "dns:///agg.invalid:9"),
        ({"http_proxy": "{}"}, "127.0.0.1:1"),
        ({"http_proxy": "{}"}, "ipv4:127.0.0.1:1,127.0.0.2:1"),
        ({"http_proxy": "{}"}, "unix:/nowhere/socket"),
    ],
)
def test_grpc_uses_the_proxy_that_messages_name(monkeypatch, proxies, target):
    with ConnectProxy(403) as proxy:
        for name, value in proxies.items():
            monkeypatch.setenv(name, value.format(f"http://{proxy.target}"))
        named = proxy_of(_address.parse(target), {})
        error_of(for_threads, target, retry=ONCE)
    assert named == (proxy.target if proxy.asked else "")


def own_forms():
    """This machine's names and addresses."""
    name = os.uname().nodename
    yield from ("LOCALHOST", "LocalHost.", "localhost", "127.0.0.1", "127.0.0.2", "0.0.0.0")
    yield from ("[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]")
    yield from ("ip6-localhost", "ip6-loopback", name, name.upper(), name.partition(".")[0])


@pytest.mark.parametrize("form", dict.fromkeys(own_forms()))
def test_no_form_of_this_machine_goes_to_the_proxy(server, monkeypatch, form):
    """Some of these names are unknown on some machines, and the server listens at 127.0.0.1 alone."""
    with ConnectProxy(403) as proxy:
        use_proxy(monkeypatch, proxy.target)
        try:
            for_threads(f"{form}:{server.port}", retry=ONCE, timeout=10)
        except UnavailableError as error:
            assert "proxy" not in str(error)
            assert form not in ("LOCALHOST", "127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]")
    assert proxy.connections == 0
