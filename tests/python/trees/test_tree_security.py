"""Trees whose servers have certificates: https:// in the address of the root is for its leaves, too."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sparseagg import Client, SparseTensor, TensorSpec, Tls
from support.certificates import issue, make_authority

CONTRIBUTORS = [f"c{number}" for number in range(6)]
SUBMIT = """
import asyncio, sys
import numpy as np
from sparseagg import Client, RetryPolicy, SparseTensor, aio

kind, target, *contributors = sys.argv[1:]
update = {"w": SparseTensor([6], np.float32([[2]]), [1000, 1])}
once = RetryPolicy(attempts=1)

async def submit():
    async with aio.Client(target, retry=once) as client:
        for contributor in contributors:
            await client.round("r1").submit(update, contributor=contributor)

if kind == "aio":
    asyncio.run(submit())
else:
    with Client(target, retry=once) as client:
        for contributor in contributors:
            client.round("r1").submit(update, contributor=contributor)
"""


@pytest.fixture
def secured(own_server, tmp_path):
    """A root and two leaves that speak TLS only."""
    make_authority(tmp_path)
    issue(tmp_path, "server", "DNS:localhost,IP:127.0.0.1")
    tls = (
        "--tls-cert", str(tmp_path / "server.pem"), "--tls-key", str(tmp_path / "server.key"),
        "--store-free-bytes-min", "0", "--data-dir",
    )  # fmt: skip
    leaves = [own_server(*tls, str(tmp_path / name)) for name in ("one", "two")]
    root = own_server(
        *tls, str(tmp_path / "root"), "--leaves", f"one={leaves[0].target},two={leaves[1].target}",
        "--leaves-authority", str(tmp_path / "ca.pem"),
    )  # fmt: skip
    return root, leaves


@pytest.mark.parametrize("kind", ["threads", "aio"])
def test_https_alone_is_passed_on_to_the_leaves(secured, tmp_path, kind):
    root, leaves = secured
    with Client(root.target, tls=Tls(tmp_path / "ca.pem")) as client:
        client.create_round([TensorSpec("w", [1000, 1])], "r1")
    target = f"https://{root.target}"
    command = [sys.executable, "-c", SUBMIT, kind, target, *CONTRIBUTORS]
    # The authorities that gRPC trusts where no file is named.
    trusting = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(tmp_path / "ca.pem")}
    done = subprocess.run(command, env=trusting, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    counts = []
    for leaf in leaves:
        with Client(leaf.target, tls=Tls(tmp_path / "ca.pem")) as client:
            counts.append(client.round("r1").info().contributors)
    assert sum(counts) == len(CONTRIBUTORS) and min(counts) > 0


def test_owners_call_each_other_with_a_token_and_an_authority(own_server, tmp_path):
    """The leaves ask who calls, the root and their peers, too."""
    make_authority(tmp_path)
    issue(tmp_path, "server", "DNS:localhost,IP:127.0.0.1")
    row = {
        "token_sha256": hashlib.sha256(b"owner-token").hexdigest(),
        "tenant": "default",
        "principal": "owner",
        "roles": ["owner"],
    }
    (tmp_path / "credentials").write_text(json.dumps({"credentials": [row]}))
    (tmp_path / "token").write_text("owner-token\n")
    flags = (
        "--tls-cert", str(tmp_path / "server.pem"), "--tls-key", str(tmp_path / "server.key"),
        "--credentials", str(tmp_path / "credentials"), "--store-free-bytes-min", "0",
        "--leaves-token-file", str(tmp_path / "token"),
        "--leaves-authority", str(tmp_path / "ca.pem"), "--data-dir",
    )  # fmt: skip
    leaves = [own_server(*flags, str(tmp_path / name)) for name in ("one", "two")]
    addresses = f"one={leaves[0].target},two={leaves[1].target}"
    for leaf in leaves:
        leaf.kill()
        leaf.add_flags("--peers", addresses)
        leaf.start()
    root = own_server(*flags, str(tmp_path / "root"), "--leaves", addresses)
    spec = TensorSpec("w", [200_000, 1])
    with Client(root.target, tls=Tls(tmp_path / "ca.pem"), token="owner-token") as client:
        round = client.create_round([spec], "r1", owners=True)
        for number, contributor in enumerate(CONTRIBUTORS):
            change = SparseTensor([30_000 * number], np.float32([[2]]), spec.dense_shape)
            round.submit({"w": change}, contributor=contributor)
        round.seal()
        result = round.result(timeout=60)
        assert [part.owner for part in result.manifest.parts] == ["one", "two"]
        parts = [part.result()["w"].indices[:, 0].tolist() for part in round.parts()]
    assert parts[0] + parts[1] == [30_000 * number for number in range(len(CONTRIBUTORS))]
    assert all(parts)
