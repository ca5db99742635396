"""Tasks of the rounds of a tree, with credentials: they are created at the leaves, which count their updates."""

from __future__ import annotations

import asyncio
import hashlib
import json

import numpy as np
import pytest
from sparseagg import (
    Client,
    NewTaskGroup,
    PermissionDeniedError,
    SparseAggError,
    TensorSpec,
    aio,
    worker,
)

SPECS = [TensorSpec("t", [10])]
CONTRIBUTORS = [f"phone-{number}" for number in range(8)]
ROLES = {"root": "owner", "worker-1": "worker"}


@pytest.fixture
def servers(own_server, tmp_path):
    """A root and its leaves, which ask who calls. The token of a principal is its name and "-token"."""
    rows = [
        {
            "token_sha256": hashlib.sha256(f"{principal}-token".encode()).hexdigest(),
            "tenant": "default",
            "principal": principal,
            "roles": [role],
        }
        for principal, role in ROLES.items()
    ]
    credentials = tmp_path / "credentials"
    credentials.write_text(json.dumps({"credentials": rows}))
    token = tmp_path / "root.token"
    token.write_text("root-token\n")
    flags = ("--credentials", str(credentials), "--store-free-bytes-min", "0", "--data-dir")
    leaves = [own_server(*flags, str(tmp_path / name)) for name in ("one", "two")]
    root = own_server(
        *flags, str(tmp_path / "root"), "--leaves-token-file", str(token),
        "--leaves", f"one={leaves[0].target},two={leaves[1].target}",
    )  # fmt: skip
    return root, leaves


def owner_of(address: str) -> Client:
    return Client(address, token="root-token")


def update_of(contributor: str) -> dict:
    return {"t": ([int(contributor.rpartition("-")[2])], np.float32([1]), [10])}


def train(task: worker.LeasedTask) -> dict:
    return update_of(task.contributor)


def test_the_root_refuses_tasks_that_it_could_not_complete(servers):
    root, _ = servers
    with owner_of(root.target) as client:
        made = client.create_round(SPECS, "r1")
        with pytest.raises(SparseAggError) as refused:
            client.tasks.create(NewTaskGroup("words", made, contributors=CONTRIBUTORS))
        assert refused.value.reason == "TREE_TASKS"
        assert "at the leaves" in refused.value.message


def test_workers_complete_tasks_at_the_leaves(servers):
    root, leaves = servers
    with owner_of(root.target) as client:
        made = client.create_round(SPECS, "r1")
        by_leaf: dict = {}
        for contributor in CONTRIBUTORS:
            by_leaf.setdefault(made.leaf_of(contributor), []).append(contributor)
        assert sorted(by_leaf) == sorted(leaf.target for leaf in leaves)
        for address, contributors in by_leaf.items():
            with owner_of(address) as leaf:
                assert leaf.round("r1").leaf_of(contributors[0]) is None
                group = NewTaskGroup("words", "r1", contributors=contributors)
                (group,) = leaf.tasks.create(group)
                report = worker.run(
                    train, "words", address,
                    name="worker-1/a", idle_timeout=0, client_options={"token": "worker-1-token"},
                )  # fmt: skip
                assert (report.completed, report.failed) == (len(contributors), 0)
                assert leaf.tasks.wait(group, timeout=60).completed == len(contributors)
                with Client(address, token="worker-1-token") as other:
                    with pytest.raises(PermissionDeniedError) as refused:
                        other.round("r1").submit(update_of("phone-0"), contributor="phone-0")
                    assert refused.value.reason == "CONTRIBUTOR_NOT_YOURS"
        made.seal()
        result = made.result(timeout=60)
        assert result.manifest.contributors == len(CONTRIBUTORS)
        assert result["t"].to_dense().tolist() == [1.0] * 8 + [0.0] * 2


def test_both_clients_name_the_leaf_of_a_contributor(servers):
    root, _ = servers

    async def ask() -> list:
        async with aio.Client(root.target, token="root-token") as client:
            return [await client.round("r1").leaf_of(contributor) for contributor in CONTRIBUTORS]

    with owner_of(root.target) as client:
        client.create_round(SPECS, "r1")
        named = [client.round("r1").leaf_of(contributor) for contributor in CONTRIBUTORS]
    assert asyncio.run(ask()) == named
