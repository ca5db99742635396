"""Flower's simulation and a tree of servers in one Ray: the arrays have the bits that one server gives."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr")
pytest.importorskip("ray")
import sparseagg.ray  # noqa: E402
from conftest import BINARY  # noqa: E402
from sparseagg.flower import SparseFedAvg, SparseUpload  # noqa: E402
from test_flower import OPTIONS, simulate, start_ray  # noqa: E402


def train_through(target, **options):
    """The arrays after the training."""
    strategy = SparseFedAvg(target=target, sparse=["emb.weight"], **OPTIONS)
    result, reply_bytes = simulate(strategy, [SparseUpload()], **options)
    assert reply_bytes == 0  # clients have sent to the servers themselves
    return {name: array.numpy().tobytes() for name, array in result.arrays.items()}


def test_a_simulation_through_leaves_has_the_bits_of_one_server(server, monkeypatch):
    expected = train_through(server.target)
    monkeypatch.setenv("SPARSEAGG_BINARY", str(BINARY))
    start_ray(cpus=5)  # a root, two leaves, and two clients at a time
    tree = sparseagg.ray.start(2)
    with tree.client() as client:
        assert client.info().version
    # A root takes no update itself: what is counted was sent to the leaves.
    assert train_through(tree.target, start=lambda: None) == expected
    tree.stop()  # Flower has shut down Ray, and the servers with it
