"""Calls over HTTP: protocols, errors, browsers, TLS, credentials, and an upload over a connection that breaks."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import ssl
import struct
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from sparseagg._proto import aggregation_pb2 as api
from sparseagg._proto import types_pb2 as types
from support.certificates import issue, make_authority
from support.flaky_proxy import FlakyProxy
from support.http_edge import (
    JSON,
    SERVICE,
    Edge,
    HttpError,
    base64_of,
    frame,
    frames,
    spec,
    start,
    tensor,
)
from support.trees import until

ORIGIN = "https://app.example.org"
MIB = 1 << 20


@pytest.fixture
def edge(own_server, tmp_path):
    """Calls to a server in memory that pages of ORIGIN may use."""
    server, port = start(own_server, tmp_path, f"--http-origins=http://localhost:8000,{ORIGIN}")
    calls = Edge(port)
    calls.grpc = server.target
    yield calls
    calls.close()


def test_every_protocol_has_the_same_message(edge):
    name = edge.call("CreateRound", {"spec": spec(10)})["name"]
    request = api.GetRoundRequest(name=name).SerializeToString()
    status, headers, body = edge.request("GetRound", request, {"Content-Type": "application/proto"})
    assert (status, headers["Content-Type"]) == (200, "application/proto")
    plain = types.Round.FromString(body)
    assert plain.name == name

    kind = {"Content-Type": "application/grpc-web+proto", "X-Request-Id": "mine"}
    status, headers, body = edge.request("GetRound", frame(request), kind)
    (flags, message), (last_flags, trailers) = frames(body)
    assert (status, flags, last_flags) == (200, 0, 0x80)
    assert types.Round.FromString(message) == plain
    assert trailers == b"grpc-status: 0\r\n" and headers["X-Request-Id"] == "mine"

    kind = {"Content-Type": "application/grpc-web-text; charset=utf-8"}
    half = len(frame(request)) // 2  # two texts, each with its padding
    text = base64.b64encode(frame(request)[:half]) + base64.b64encode(frame(request)[half:])
    _, headers, body = edge.request("GetRound", text, kind)
    assert headers["Content-Type"] == "application/grpc-web-text+proto"
    assert frames(base64.b64decode(body))[0][1] == message


def test_an_error_has_code_reason_and_metadata_in_each_protocol(edge):
    with pytest.raises(HttpError, match="nowhere") as error:
        edge.call("GetRound", {"name": "rounds/nowhere"})
    assert (error.value.status, error.value.code) == (404, "not_found")
    assert error.value.reason == "ROUND_NOT_FOUND"

    request = frame(api.GetRoundRequest(name="rounds/nowhere").SerializeToString())
    _, _, body = edge.request("GetRound", request, {"Content-Type": "application/grpc-web"})
    ((flags, trailers),) = frames(body)
    fields = dict(line.split(": ", 1) for line in trailers.decode().splitlines())
    assert (flags, fields["grpc-status"]) == (0x80, "5")
    assert (
        "%22rounds/nowhere%22" in fields["grpc-message"]
        or "rounds/nowhere" in fields["grpc-message"]
    )
    details = base64.b64decode(fields["grpc-status-details-bin"] + "==")
    assert b"ROUND_NOT_FOUND" in details


@pytest.mark.parametrize(
    ("method", "body", "headers", "verb", "status", "reason"),
    [
        ("Nothing", b"{}", JSON, "POST", 404, "UNKNOWN_METHOD"),
        ("GetAggregate", b"{}", JSON, "POST", 501, "METHOD_STREAMS"),
        ("GetRound", None, JSON, "GET", 405, "METHOD_NOT_ALLOWED"),
        ("GetRound", b"{}", {"Content-Type": "text/plain"}, "POST", 415, "CONTENT_TYPE_UNKNOWN"),
        ("GetRound", b"{}", {}, "POST", 415, "CONTENT_TYPE_UNKNOWN"),
        ("GetRound", b"", JSON, "POST", 400, "MALFORMED_JSON"),
        ("GetRound", b"{", JSON, "POST", 400, "MALFORMED_JSON"),
        ("GetRound", b'{"name": 7, "x": []}', JSON, "POST", 400, "MALFORMED_JSON"),
        ("GetRound", b'{"name": "\xff"}', JSON, "POST", 400, "MALFORMED_JSON"),
        ("GetRound", b"\x07", {"Content-Type": "application/proto"}, "POST", 400, "MALFORMED_MESSAGE"),
        ("GetRound", b"{}", JSON | {"Content-Encoding": "gzip"}, "POST", 501, "COMPRESSION_NOT_SUPPORTED"),
        ("GetRound", b"{}", JSON | {"Connect-Timeout-Ms": "soon"}, "POST", 400, "INVALID_TIMEOUT"),
        ("GetRound", b"{}", JSON | {"Grpc-Timeout": "1X"}, "POST", 400, "INVALID_TIMEOUT"),
        ("GetRound", b"{}", JSON | {"Authorization": "Bearer \xe9"}, "POST", 400, "INVALID_HEADER"),
        ("GetRound", b"{}", JSON | {"Origin": "https://evil.example"}, "POST", 403, "ORIGIN_NOT_ALLOWED"),
        ("GetRound", b"{}", JSON | {"Origin": "null"}, "POST", 403, "ORIGIN_NOT_ALLOWED"),
        ("CreateRound", b"{}", JSON, "POST", 400, "INVALID_SPEC"),
    ],
)  # fmt: skip
def test_a_wrong_request_gets_an_error_that_says_why(
    edge, method, body, headers, verb, status, reason
):
    got, head, answer = edge.request(method, body, headers, verb)
    error = HttpError(got, head, answer)
    assert (error.status, error.reason) == (status, reason), error
    assert "Access-Control-Allow-Origin" not in head
    assert edge.call("ListRounds") == {}, "the connection is of use for the next call"


def test_a_frame_of_grpc_web_is_checked(edge):
    for body, reason in [
        (b"\0\0", b"MALFORMED_BODY"),
        (frame(b"abc")[:-1], b"MALFORMED_BODY"),
        (frame(b"", 1), b"COMPRESSION_NOT_SUPPORTED"),
    ]:
        _, _, answer = edge.request("GetRound", body, {"Content-Type": "application/grpc-web"})
        trailers = dict(line.split(": ", 1) for line in frames(answer)[0][1].decode().splitlines())
        assert reason in base64.b64decode(trailers["grpc-status-details-bin"] + "==")


def test_a_time_limit_ends_a_call(edge):
    name = edge.call("CreateRound", {"spec": spec(10)})["name"]
    with pytest.raises(HttpError) as error:
        edge.call("WaitRound", {"name": name}, Connect_Timeout_Ms="50")
    assert (error.value.status, error.value.code) == (504, "deadline_exceeded")


def test_a_stop_answers_a_wait_and_ends_in_good_order(own_server, tmp_path):
    server, port = start(own_server, tmp_path)
    waiting = Edge(port)
    name = waiting.call("CreateRound", {"spec": spec(10)})["name"]
    with ThreadPoolExecutor() as pool:
        wait = pool.submit(waiting.call, "WaitRound", {"name": name, "timeout": "300s"})
        looking = Edge(port)
        while int(looking.call("GetServerInfo")["load"]["calls"]) < 2:
            pass  # the wait has not arrived yet
        stop = pool.submit(server.stop)
        with pytest.raises(HttpError) as error:
            wait.result()
        assert (error.value.status, error.value.reason) == (503, "SERVER_DRAINING")
        assert error.value.headers["Retry-After"] == "1"
        assert stop.result() == 0
    with pytest.raises(OSError):
        Edge(port).call("ListRounds")


def test_pages_of_an_allowed_origin_may_call_and_read(edge):
    ask = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
        "Access-Control-Request-Private-Network": "true",
    }
    status, headers, body = edge.request("GetRound", b"", ask, "OPTIONS")
    assert (status, body, headers["Access-Control-Allow-Origin"]) == (204, b"", ORIGIN)
    assert "POST" in headers["Access-Control-Allow-Methods"]
    allowed = headers["Access-Control-Allow-Headers"].lower()
    assert "authorization" in allowed and "content-type" in allowed
    assert headers["Access-Control-Allow-Private-Network"] == "true"
    assert headers["Vary"] == "Origin"
    _, headers, _ = edge.request("ListRounds", b"{}", JSON | {"Origin": ORIGIN})
    assert headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "X-Request-Id" in headers["Access-Control-Expose-Headers"]
    # An error is readable, too.
    status, headers, _ = edge.request("GetRound", b"{", JSON | {"Origin": ORIGIN})
    assert (status, headers["Access-Control-Allow-Origin"]) == (400, ORIGIN)
    status, headers, _ = edge.request("GetRound", b"", ask | {"Origin": "http://other"}, "OPTIONS")
    assert status == 403 and "Access-Control-Allow-Origin" not in headers


def write_credentials(path, rows):
    """A credentials file of (token or certificate, principal, role)."""
    table = [
        {
            **({"certificate": who} if ":" in who else {"token_sha256": hashlib.sha256(who.encode()).hexdigest()}),
            "tenant": "acme", "principal": principal, "roles": [role],
        }
        for who, principal, role in rows
    ]  # fmt: skip
    path.write_text(json.dumps({"credentials": table}))
    return path


def test_tls_credentials_and_roles_are_those_of_grpc(own_server, tmp_path):
    make_authority(tmp_path)
    issue(tmp_path, "server", "DNS:localhost,IP:127.0.0.1")
    issue(tmp_path, "phone-7", "URI:spiffe://acme/phones/phone-7")
    rows = [("owner-token", "fl-server", "owner"), ("phone-token", "phone-1", "contributor"),
            ("uri:spiffe://acme/phones/*", "*", "contributor")]  # fmt: skip
    audit = tmp_path / "audit.log"
    server, port = start(
        own_server, tmp_path, f"--tls-cert={tmp_path}/server.pem", f"--tls-key={tmp_path}/server.key",
        f"--tls-client-ca={tmp_path}/ca.pem", "--tls-client-cert-required=false", f"--audit-log={audit}",
        f"--credentials={write_credentials(tmp_path / 'credentials.json', rows)}",
    )  # fmt: skip
    trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    edge = Edge(port, trust)
    name = edge.call("CreateRound", {"spec": spec(10)}, Authorization="Bearer owner-token")["name"]
    for headers, status, reason in [
        ({}, 401, "CREDENTIALS_MISSING"),
        ({"Authorization": "Bearer wrong"}, 401, "TOKEN_INVALID"),
        ({"Authorization": "Bearer phone-token"}, 403, "ROLE_MISSING"),
    ]:
        with pytest.raises(HttpError) as error:
            edge.call("SealRound", {"name": name}, **headers)
        assert (error.value.status, error.value.reason) == (status, reason)
    update = {
        "header": {"round": name, "contributor": "phone-7", "updateId": "1"},
        "tensors": [{"header": tensor("t", 10, 1), "indices": base64_of(bytes(8)), "values": base64_of(bytes(4))}],
    }  # fmt: skip
    with pytest.raises(HttpError) as error:
        edge.call("SubmitUpdate", update, Authorization="Bearer phone-token")
    assert error.value.reason == "CONTRIBUTOR_NOT_YOURS"
    # The certificate of phone-7 is as good as a token; what a client sends in its place is not.
    trust.load_cert_chain(tmp_path / "phone-7.pem", tmp_path / "phone-7.key")
    phone = Edge(port, trust)
    assert phone.call("SubmitUpdate", update)["contributor"] == "phone-7"
    forged = {
        "x-sparseagg-forwarded-secret-bin": "AAAA",
        "x-sparseagg-forwarded-peer-bin": "ipv4:192.0.2.7:1",
        "x-sparseagg-forwarded-name-bin": "uri:spiffe://acme/phones/phone-7",
    }
    with pytest.raises(HttpError) as error:
        edge.call("GetRound", {"name": name}, **forged)
    assert error.value.reason == "CREDENTIALS_MISSING"
    credentials = grpc.ssl_channel_credentials((tmp_path / "ca.pem").read_bytes())
    metadata = [(key, value.encode()) for key, value in forged.items()]
    with (
        grpc.secure_channel(server.target, credentials) as channel,
        pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"),
    ):
        channel.unary_unary(SERVICE + "GetRound")(b"", metadata=metadata)
    # Replaced certificates are used for new connections, without a restart.
    issue(tmp_path, "next", "DNS:localhost")
    (tmp_path / "next.key").rename(tmp_path / "server.key")
    (tmp_path / "next.pem").rename(tmp_path / "server.pem")
    later = Edge(port, trust)
    later.call("GetServerInfo")
    assert ("commonName", "next") in later.connection.sock.getpeercert()["subject"][0]
    refused = [line for line in audit.read_text().splitlines() if "TOKEN_INVALID" in line]
    assert (
        len(refused) == 1
        and "ipv4:127.0.0.1:" in refused[0]
        and "192.0.2.7" not in audit.read_text()
    )


def test_a_client_that_leaves_over_tls_ends_its_call(own_server, tmp_path):
    make_authority(tmp_path)
    issue(tmp_path, "server", "DNS:localhost")
    files = (f"--tls-cert={tmp_path}/server.pem", f"--tls-key={tmp_path}/server.key")
    _, port = start(own_server, tmp_path, *files)
    trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    edge = Edge(port, trust)
    name = edge.call("CreateRound", {"spec": spec(10)})["name"]

    def calls():
        return int(edge.call("GetServerInfo")["load"]["calls"])

    def says_goodbye_and_closes(connection):
        connection.setblocking(False)
        with pytest.raises(ssl.SSLWantReadError):  # the server's goodbye is not waited for
            connection.unwrap()
        connection.close()

    def resets(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def sends_another_request_and_closes(connection):
        connection.sendall(b"POST / HTTP/1.1\r\n\r\n")
        connection.close()

    for leave in (
        says_goodbye_and_closes,
        resets,
        sends_another_request_and_closes,
        ssl.SSLSocket.close,
    ):
        waiting = http.client.HTTPSConnection("localhost", port, timeout=60, context=trust)
        body = json.dumps({"name": name, "timeout": "300s"})
        waiting.request("POST", SERVICE + "WaitRound", body, JSON)
        until(lambda: calls() == 2, "the wait to arrive")
        leave(waiting.sock)
        until(lambda: calls() == 1, f"the end of the wait after: {leave.__name__}")


def test_a_large_body_without_a_credential_is_not_read(own_server, tmp_path):
    credentials = write_credentials(tmp_path / "credentials.json", [("good", "fl-server", "owner")])
    _, port = start(own_server, tmp_path, f"--credentials={credentials}")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("POST", SERVICE + "SubmitUpdate")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(10 * MIB))
    connection.putheader("Authorization", "Bearer bad")
    connection.endheaders()  # and nothing of the body
    answer = connection.getresponse()
    error = HttpError(answer.status, answer.headers, answer.read())
    assert (error.status, error.reason) == (401, "TOKEN_INVALID")
    # With Expect, a client with a good one is asked for it.
    body = b'{"header": {}, "tensors": []}' + b" " * (100 << 10)
    edge = Edge(port)
    status, head, text = edge.request(
        "SubmitUpdate", body, JSON | {"Authorization": "Bearer good", "Expect": "100-continue"}
    )
    assert HttpError(status, head, text).status == 400


def upload_over_grpc(target, begin, data):
    """The receipt of an update in chunks over StreamUpdates."""
    messages = [api.StreamUpdatesRequest(begin=begin)]
    for at in range(0, len(data), MIB):
        chunk = api.UpdateChunk(
            update_id=begin.header.update_id, offset=at, data=data[at : at + MIB]
        )
        messages.append(api.StreamUpdatesRequest(chunk=chunk))
    with grpc.insecure_channel(target) as channel:
        answers = channel.stream_stream(
            SERVICE + "StreamUpdates",
            request_serializer=api.StreamUpdatesRequest.SerializeToString,
            response_deserializer=api.StreamUpdatesResponse.FromString,
        )(iter(messages))
        return next(answer.receipt for answer in answers if answer.HasField("receipt"))


def upload_over_http(edge, begin, data):
    """The same over UploadChunk in JSON; goes on after a lost connection from where the server is."""
    at = 0
    while True:
        chunk = {"offset": at, "data": base64_of(data[at : at + MIB])} if at is not None else None
        try:
            answer = edge.call(
                "UploadChunk", {"begin": begin} | ({"chunk": chunk} if chunk else {})
            )
        except (OSError, http.client.HTTPException):
            edge.close()
            at = None  # unknown: ask
            continue
        if "receipt" in answer:
            return answer["receipt"]
        at = int(answer["progress"].get("committedOffset", 0))


def result_over_grpc(target, name):
    """The answer of GetAggregate: its header, and its byte string."""
    with grpc.insecure_channel(target) as channel:
        header, *chunks = channel.unary_stream(
            SERVICE + "GetAggregate",
            request_serializer=api.GetAggregateRequest.SerializeToString,
            response_deserializer=api.GetAggregateResponse.FromString,
        )(api.GetAggregateRequest(name=name))
        return header.header, b"".join(part.chunk.data for part in chunks)


def result_over_http(edge, name):
    """The same of ReadResult."""
    data = b""
    total = None
    while total is None or len(data) < total:
        request = {"result": {"name": name}, "offset": len(data), "bytes": 4 * MIB}
        answer = edge.call("ReadResult", request)
        total = int(answer.get("totalBytes", 0))
        data += base64.b64decode(answer["chunk"].get("data", ""))
    return data


def test_an_upload_over_a_connection_that_breaks_gives_the_receipt_and_the_bits_of_grpc(
    own_server, tmp_path
):
    server, port = start(own_server, tmp_path, f"--data-dir={tmp_path / 'data'}")
    rows, nnz = 10_000_000, 50 * MIB // 12
    random = np.random.default_rng(1)
    indices = np.sort(random.choice(rows, nnz, replace=False)).astype("<i8")
    data = indices.tobytes() + random.standard_normal(nnz).astype("<f4").tobytes()
    whole = Edge(port)
    receipts = {}
    for way in ("grpc", "http"):
        name = whole.call("CreateRound", {"roundId": way, "spec": spec(rows)})["name"]
        header = {"round": name, "contributor": "phone-1", "updateId": "1", "weight": 2}
        begin = {"header": header, "tensors": [tensor("t", rows, nnz)]}
        if way == "grpc":
            message = api.BeginUpdate(
                header=types.UpdateHeader(
                    round=name, contributor="phone-1", update_id="1", weight=2
                ),
                tensors=[
                    types.TensorHeader(
                        name="t", value_type=types.VALUE_TYPE_F32, dense_shape=[rows], sparse_dim=1,
                        nnz=nnz, indices_bytes=8 * nnz, values_bytes=4 * nnz,
                    )
                ],
            )  # fmt: skip
            receipt = upload_over_grpc(server.target, message, data)
            receipts[way] = (base64_of(receipt.digest), receipt.sequence)
        else:
            proxy = FlakyProxy(port, cut_after_bytes=9 * MIB, cuts=6)
            receipt = upload_over_http(Edge(int(proxy.target.split(":")[1])), begin, data)
            proxy.close()
            assert proxy.connections > 6
            receipts[way] = (receipt["digest"], int(receipt["sequence"]))
        whole.call("SealRound", {"name": name})
        whole.call("WaitRound", {"name": name})
    assert receipts["grpc"] == receipts["http"]
    header, bits = result_over_grpc(server.target, "rounds/grpc")
    assert result_over_http(whole, "rounds/http") == bits
    first = whole.call("ReadResult", {"result": {"name": "rounds/http"}, "bytes": 1})["header"]
    assert first["manifest"]["resultDigest"] == base64_of(header.manifest.result_digest)


def test_steps_of_an_upload_can_be_repeated(edge):
    name = edge.call("CreateRound", {"spec": spec(10)})["name"]
    data = np.array([3], "<i8").tobytes() + np.array([5], "<f4").tobytes()
    header = {"round": name, "contributor": "a", "updateId": "1"}
    begin = {"header": header, "tensors": [tensor("t", 10, 1)]}

    def send(offset=None, part=b"", **more):
        chunk = (
            {} if offset is None else {"chunk": {"offset": offset, "data": base64_of(part), **more}}
        )
        return edge.call("UploadChunk", {"begin": begin} | chunk)

    assert send() == {"progress": {}}
    assert send(0, data[:5])["progress"]["committedOffset"] == "5"
    assert send(0, data[:5])["progress"]["committedOffset"] == "5", "its answer may have been lost"
    for offset, part, more, reason in [
        (4, data[4:6], {}, "OFFSET_MISMATCH"),
        (6, data[6:], {}, "OFFSET_MISMATCH"),
        (5, data[5:] + b"x", {}, "UPLOAD_TOO_LONG"),
        (5, data[5:], {"crc32c": 1}, "CHECKSUM_MISMATCH"),
        (5, data[5:], {"updateId": "2"}, "UPDATE_ID_MISMATCH"),
    ]:
        with pytest.raises(HttpError) as error:
            send(offset, part, **more)
        assert error.value.reason == reason
    assert "duplicate" not in send(5, data[5:])["receipt"]
    assert send(5, data[5:])["receipt"][
        "duplicate"
    ], "the answer with the receipt may have been lost"
    edge.call("SealRound", {"name": name})
    edge.call("WaitRound", {"name": name})
    request = {"result": {"name": name}, "offset": 12}
    assert edge.call("ReadResult", request) == {
        "totalBytes": "12",
        "chunk": {"offset": "12", "data": ""},
    }
    assert result_over_http(edge, name) == data
    with pytest.raises(HttpError) as error:
        edge.call("ReadResult", request | {"offset": 13})
    assert error.value.reason == "OFFSET_OUT_OF_RANGE"
