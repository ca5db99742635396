"""Trees whose servers have certificates: https:// in the address of the root is for its leaves, too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from sparseagg import Client, TensorSpec, Tls
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
