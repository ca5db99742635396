"""TLS, tokens and client certificates end to end: the real program, certificates made with openssl."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import time

import numpy as np
import pytest
from conftest import BINARY
from sparseagg import (
    Client,
    DeadlineExceededError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    RetryPolicy,
    SparseTensor,
    TensorSpec,
    Tls,
    TokenFile,
    UnauthenticatedError,
    UnavailableError,
    aio,
)
from support.certificates import issue, make_authority

SPECS = [TensorSpec("t", [10])]
UPDATE = {"t": SparseTensor([3], np.float32([2]), [10])}
ROWS = [
    ("owner-token", "acme", "fl-server", "owner"),
    ("phone-token", "acme", "phone-1", "contributor"),
    ("other-token", "umbrella", "server", "owner"),
]


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """A folder with an authority, a server's and a client's certificate."""
    folder = tmp_path_factory.mktemp("pki")
    make_authority(folder)
    issue(folder, "server", "DNS:localhost,IP:127.0.0.1")
    issue(folder, "phone-7", "URI:spiffe://acme/phones/phone-7")
    return folder


def write_credentials(path, rows=ROWS):
    """A credentials file, put in place at once."""
    credentials = [
        {
            "token_sha256": hashlib.sha256(token.encode()).hexdigest(),
            "tenant": tenant,
            "principal": principal,
            "roles": [role],
        }
        for token, tenant, principal, role in rows
    ]
    credentials.append(
        {
            "certificate": "uri:spiffe://acme/phones/*",
            "tenant": "acme",
            "principal": "*",
            "roles": ["contributor"],
        }
    )
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"credentials": credentials}))
    new.rename(path)


@pytest.fixture
def secured(own_server, pki, tmp_path):
    """A server that asks who calls, over TLS."""
    write_credentials(tmp_path / "credentials")
    return own_server(
        "--tls-cert", str(pki / "server.pem"), "--tls-key", str(pki / "server.key"),
        "--tls-client-ca", str(pki / "ca.pem"), "--tls-client-cert-required=false",
        "--credentials", str(tmp_path / "credentials"),
    )  # fmt: skip


@pytest.fixture
def connect(secured, pki):
    """A client of that server with a token, a file of one, or a callable."""

    def make(token=None, **more):
        return Client(secured.target, tls=Tls(pki / "ca.pem"), token=token, **more)

    return make


def test_a_round_is_its_tenants(connect):
    with connect("owner-token") as owner, connect("phone-token") as phone:
        round = owner.create_round(SPECS, "step-1")
        phone.round("step-1").submit(UPDATE, contributor="phone-1")
        with pytest.raises(PermissionDeniedError) as refused:
            phone.round("step-1").submit(UPDATE, contributor="phone-2")
        assert refused.value.reason == "CONTRIBUTOR_NOT_YOURS"
        with pytest.raises(PermissionDeniedError) as refused:
            phone.round("step-1").seal()
        assert refused.value.reason == "ROLE_MISSING"
        with connect("other-token") as other:
            with pytest.raises(NotFoundError):
                other.round("step-1").info()
            assert list(other.rounds()) == []
        round.seal()
        assert round.result()["t"].values.tolist() == [2]


def test_who_may_not_read_results_is_told_so_and_does_not_wait(connect, secured, pki):
    with connect("owner-token") as owner, connect("phone-token") as phone:
        round = owner.create_round(SPECS, "unread")
        with pytest.raises(PermissionDeniedError, match="GetAggregate needs the role"):
            phone.round("unread").result(timeout=60)

        async def read():
            tls = Tls(pki / "ca.pem")
            async with aio.Client(secured.target, tls=tls, token="phone-token") as client:
                await client.round("unread").result(timeout=60)

        with pytest.raises(PermissionDeniedError, match="GetAggregate needs the role"):
            asyncio.run(read())
        with pytest.raises(DeadlineExceededError, match="someone has to seal it"):
            round.result(timeout=0)


def test_who_is_not_known_is_told_so_at_once(connect, secured, pki):
    for token, reason in ((None, "CREDENTIALS_MISSING"), ("nonsense", "TOKEN_INVALID")):
        with connect(token, retry=RetryPolicy(attempts=5, initial_delay=60)) as client:
            with pytest.raises(UnauthenticatedError) as refused:
                client.info()
            assert refused.value.reason == reason
    plain = Client(secured.target, retry=RetryPolicy(attempts=1))
    with plain, pytest.raises(UnavailableError):
        plain.info()
    tls = Tls(pki / "ca.pem", pki / "phone-7.pem", pki / "phone-7.key")
    phone = Client(secured.target, tls=tls)
    with phone, pytest.raises(PermissionDeniedError, match="phone-7"):
        phone.create_round(SPECS)


async def _info(target, tls, token):
    async with aio.Client(target, tls=tls, token=token) as client:
        return await client.info()


def test_tokens_are_renewed_while_client_and_server_run(connect, secured, pki, tmp_path):
    file = tmp_path / "token"
    file.write_text("owner-token\n")
    with connect(TokenFile(file)) as client:
        client.info()
        write_credentials(tmp_path / "credentials", [("next", "acme", "server", "owner")])
        file.write_text("next\n")
        # The server looks at its file every second.
        deadline = time.monotonic() + 30
        while True:
            try:
                client.info()
                break
            except UnauthenticatedError:
                assert time.monotonic() < deadline
    asyncio.run(_info(secured.target, Tls(pki / "ca.pem"), lambda: "next"))


def test_a_token_does_not_travel_in_the_clear_to_other_machines():
    for target in ("agg.example:50061", "127.agg.example:50061", "localhost.agg.example:50061"):
        with pytest.raises(ValueError, match="use tls"):
            Client(target, token="secret")
        with pytest.raises(ValueError, match="use tls"):
            Client(target, metadata=[("authorization", "Bearer secret")])
        Client(target, metadata=[("x-route", "blue")]).close()
    for target in ("127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/run/sparseagg.sock"):
        Client(target, token="secret").close()


def test_the_environment_names_credentials(secured, pki, monkeypatch):
    monkeypatch.setenv("SPARSEAGG_SERVER_CA", str(pki / "ca.pem"))
    monkeypatch.setenv("SPARSEAGG_TOKEN", "owner-token")
    with Client(secured.target) as client:
        client.info()


def test_the_command_line_takes_them_too(secured, pki, tmp_path):
    def run(*arguments, **variables):
        return subprocess.run(
            [str(BINARY), *arguments, "--server", secured.target],
            env={**os.environ, **variables}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    ca = ("--tls-ca", str(pki / "ca.pem"))
    (tmp_path / "file").write_text("owner-token")
    assert run("info", *ca, SPARSEAGG_TOKEN="owner-token").returncode == 0
    assert run("info", *ca, "--token-file", str(tmp_path / "file")).returncode == 0
    refused = run("info", *ca, SPARSEAGG_TOKEN="x")
    assert refused.returncode == 1
    assert "token" in refused.stderr
    created = run("round", "create", "--tensor", "t:f32:10", *ca, SPARSEAGG_TOKEN="phone-token")
    assert created.returncode == 1
    assert "owner" in created.stderr


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--listen", "0.0.0.0:0"], "PLAINTEXT_REFUSED"),
        (["--tls-cert", "/no/file", "--tls-key", "/no/file"], "TLS_FILES_INVALID"),
        (["--credentials", "/no/file"], "CREDENTIALS_UNREADABLE"),
        (["--jwt-keys", "/no/file"], "INVALID_CONFIG"),
    ],
)
def test_a_server_does_not_start_unprotected_by_mistake(flags, reason):
    served = subprocess.run(
        [str(BINARY), "serve", "--admin-listen=none", *(flags if "--listen" in flags else ("--listen", "127.0.0.1:0", *flags))],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert served.returncode == 1
    assert reason in served.stderr


def audit_lines(path):
    """The lines of an audit log, once `sparseagg audit verify` has nothing against it."""
    verified = subprocess.run(
        [str(BINARY), "audit", "verify", str(path)], capture_output=True, text=True, timeout=60
    )
    assert verified.returncode == 0, verified.stderr
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_change_of_a_round_is_one_line_of_the_audit_log(own_server, tmp_path):
    write_credentials(tmp_path / "credentials")
    log = tmp_path / "audit"
    flags = ("--credentials", str(tmp_path / "credentials"), "--audit-log", str(log),
             "--data-dir", str(tmp_path / "data"))  # fmt: skip
    server = own_server(*flags)
    with Client(server.target, token="owner-token") as owner:
        published = owner.create_round(SPECS, "done", request_id="same")
        owner.create_round(SPECS, "done", request_id="same")
        published.submit(UPDATE, contributor="phone-1")
        published.seal()
        published.result()
        published.seal()
        published.delete()
        given_up = owner.create_round(SPECS, "given-up")
        given_up.abort()
        given_up.abort()
        owner.create_round(SPECS, "open")
    with Client(server.target, token="nonsense") as stranger, pytest.raises(UnauthenticatedError):
        stranger.info()
    assert server.stop() == 0
    changes = [
        (line["event"], line["round"], line["tenant"], line["by"])
        for line in audit_lines(log)
        if line["event"].startswith("round_")
    ]
    assert changes == [
        ("round_created", "rounds/done", "acme", "fl-server"),
        ("round_sealed", "rounds/done", "acme", "fl-server"),
        ("round_published", "rounds/done", "acme", "server"),
        ("round_deleted", "rounds/done", "acme", "fl-server"),
        ("round_created", "rounds/given-up", "acme", "fl-server"),
        ("round_aborted", "rounds/given-up", "acme", "fl-server"),
        ("round_created", "rounds/open", "acme", "fl-server"),
    ]
    text = log.read_text()
    assert "TOKEN_INVALID" in text
    assert not any(token in text for token in ("owner-token", "nonsense"))

    server = own_server(*flags)
    deadline = time.monotonic() + 60
    while "round_recovered" not in log.read_text() and time.monotonic() < deadline:
        pass  # the server waits for nobody's disk before it serves
    server.kill()
    events = [line["event"] for line in audit_lines(log)]
    assert events.count("server_started") >= 1
    assert events.count("server_stopped") == 1
    assert "round_recovered" in events
    with log.open("a") as file:
        file.write('{"n": 1, "torn')
    server = own_server(*flags)
    assert server.stop() == 0
    events = [line["event"] for line in audit_lines(log)]
    assert "torn_line_removed" in events

    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:3] + lines[4:]))
    verified = subprocess.run(
        [str(BINARY), "audit", "verify", str(log)], capture_output=True, text=True
    )
    assert verified.returncode == 1
    assert "line 4" in verified.stderr


def test_strangers_hide_no_refusal_in_the_audit_log(own_server, tmp_path):
    write_credentials(tmp_path / "credentials")
    log = tmp_path / "audit"
    server = own_server("--credentials", str(tmp_path / "credentials"), "--audit-log", str(log))
    with Client(server.target, token="nonsense") as stranger:
        for _ in range(60):
            with pytest.raises(UnauthenticatedError):
                stranger.info()
    with Client(server.target, token="phone-token") as phone, pytest.raises(PermissionDeniedError):
        phone.create_round(SPECS)
    assert server.stop() == 0
    lines = audit_lines(log)
    refused = [line for line in lines if line["event"] == "call_refused"]
    assert [line["rpc"] for line in refused].count("CreateRound") == 1
    strangers = [line for line in refused if line["reason"] == "TOKEN_INVALID"]
    rest = [int(line["calls"]) for line in lines if line["event"] == "more_calls_refused"]
    assert len(strangers) < 60
    assert len(strangers) + sum(rest) == 60


def test_tokens_are_made_by_one_command(own_server, tmp_path):
    file = tmp_path / "credentials"

    def new(*arguments):
        return subprocess.run(
            [str(BINARY), "token", "new", str(file), *arguments], capture_output=True, text=True
        )

    owner = new("--principal", "fl-server", "--role", "owner").stdout.strip()
    reader = new("--principal", "r", "--role", "reader", "--tenant", "acme").stdout.strip()
    assert new("--principal", "r", "--role", "root").returncode == 1
    assert owner not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    server = own_server("--credentials", str(file))
    with Client(server.target, token=owner) as client:
        client.create_round(SPECS)
    with Client(server.target, token=reader) as client, pytest.raises(PermissionDeniedError):
        client.create_round(SPECS)


def new_token(file, principal="p"):
    """A running `sparseagg token new`."""
    return subprocess.Popen(
        [str(BINARY), "token", "new", str(file), "--principal", principal, "--role", "owner"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def principals(file):
    return sorted(row["principal"] for row in json.loads(file.read_text())["credentials"])


def test_a_new_token_changes_nothing_else_of_its_file(tmp_path):
    file = tmp_path / "credentials"
    link = tmp_path / "folder" / "link"
    link.parent.mkdir()
    link.symlink_to("../credentials")
    assert new_token(link, "a").wait() == 0
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 10001, 10001)
    owner = (file.stat().st_uid, file.stat().st_gid)
    assert new_token(link, "b").wait() == 0
    assert link.is_symlink()
    assert principals(file) == ["a", "b"]
    assert file.stat().st_mode & 0o777 == 0o640
    assert (file.stat().st_uid, file.stat().st_gid) == owner


def test_tokens_made_at_once_are_all_there(tmp_path):
    file = tmp_path / "credentials"
    names = [f"p{i}" for i in range(8)]
    commands = [new_token(file, name) for name in names]
    assert [command.wait() for command in commands] == [0] * len(names)
    assert principals(file) == names
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_kept_as_it_is_gets_no_token(tmp_path):
    commented = tmp_path / "commented"
    commented.write_text('{"credentials": [ // nobody yet\n]}\n')
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    for file, why in ((commented, "has comments"), (circle, "cannot read")):
        command = new_token(file)
        out, err = command.communicate()
        assert (command.returncode, out) == (1, "")
        assert why in err
    assert "// nobody yet" in commented.read_text()
    assert circle.is_symlink()


def test_a_tenant_has_limits_that_others_do_not_feel(own_server, tmp_path):
    file = tmp_path / "credentials"
    write_credentials(file)
    credentials = json.loads(file.read_text())
    credentials["tenants"] = {"umbrella": {"tenant-rounds-max": 3}}
    file.write_text(json.dumps(credentials))
    server = own_server("--credentials", str(file), "--tenant-rounds-max", "2",
                        "--tenant-bytes-max", "4MiB")  # fmt: skip
    with (
        Client(server.target, token="owner-token", retry=RetryPolicy(attempts=1)) as acme,
        Client(server.target, token="other-token") as umbrella,
    ):
        assert acme.info().limits["tenant-rounds-max"] == 2
        rounds = [acme.create_round(SPECS) for _ in range(2)]
        with pytest.raises(ResourceExhaustedError, match="tenant-rounds-max = 2") as refused:
            acme.create_round(SPECS)
        assert refused.value.reason == "TENANT_ROUNDS_FULL"
        for _ in range(3):
            umbrella.create_round(SPECS)
        rounds[0].abort()
        rounds[0].delete()
        large = acme.create_round([TensorSpec("t", [10_000_000])])
        rows = np.arange(900_000)
        update = {"t": SparseTensor(rows, np.ones(len(rows), np.float32), [10_000_000])}
        with pytest.raises(ResourceExhaustedError, match="tenant-bytes-max") as refused:
            large.submit(update, contributor="phone-1")
        assert refused.value.reason == "TENANT_BYTES_FULL"
        large.submit({"t": SparseTensor([3], np.float32([2]), [10_000_000])}, contributor="phone-2")
