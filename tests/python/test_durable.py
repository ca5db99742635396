"""Durable rounds from Python: a server that is killed and comes back owes nothing."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from sparseagg import Client, InvalidArgumentError, RetryPolicy, SparseTensor, TensorSpec

SPEC = [TensorSpec("emb", [1000, 4], "f32", sparse_dim=1)]
RETRY = RetryPolicy(attempts=1000, initial_delay=0.01, max_delay=0.05)


def update(row: int) -> dict:
    """One row of ones."""
    return {"emb": SparseTensor([row], np.ones((1, 4), np.float32), [1000, 4])}


def test_a_round_goes_on_over_a_killed_server(own_server, tmp_path):
    server = own_server("--data-dir", str(tmp_path / "data"), "--store-free-bytes-min", "0")
    with Client(server.target, retry=RETRY, timeout=30) as client:
        assert client.info().default_durability == "durable"
        round = client.create_round(SPEC)
        first = round.submit(update(3), contributor="a", update_id="u")
        assert first.durability == "durable"
        server.kill()
        server.start()
        again = round.submit(update(3), contributor="a", update_id="u")
        assert (again.sequence, again.duplicate) == (first.sequence, True)
        assert round.submit(update(5), contributor="b").sequence == 2
        round.seal()
        assert round.result()["emb"].indices.ravel().tolist() == [3, 5]
        server.kill()
        server.start()
        np.testing.assert_array_equal(round.result()["emb"].values, np.ones((2, 4), np.float32))


def test_an_outage_of_half_a_second_is_bridged_by_the_usual_retries(own_server, tmp_path):
    server = own_server("--data-dir", str(tmp_path / "data"), "--store-free-bytes-min", "0")
    with Client(server.target) as client:
        round = client.create_round(SPEC)
        server.kill()
        back = threading.Timer(0.5, server.start)
        back.start()
        try:
            assert round.info().contributors == 0
        finally:
            back.join()


def test_a_server_without_a_directory_keeps_nothing(own_server):
    server = own_server()
    with Client(server.target, retry=RETRY, timeout=30) as client:
        assert client.info().durabilities == ("memory",)
        with pytest.raises(InvalidArgumentError, match="durable"):
            client.create_round(SPEC, durability="durable")
