"""Uploads that run at the same time have connections of their own, up to a number."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sparseagg import Client, TensorSpec


def uploads(client: Client) -> list[int]:
    """How many each connection has."""
    return [c.uploads for c in client._transport._connections._all]


def open_stream(client: Client):
    """A stream that sends nothing yet."""
    return client._transport.stream("StreamUpdates", idle_timeout=10)


def test_streams_share_connections_only_when_all_are_in_use(server):
    with Client(server.target, connections=2) as client:
        client.info()
        assert uploads(client) == [0]
        streams = [open_stream(client)]
        assert uploads(client) == [1]
        streams.append(open_stream(client))
        assert uploads(client) == [1, 1]
        streams.append(open_stream(client))
        assert sorted(uploads(client)) == [1, 2]
        for stream in streams:
            stream.cancel()
        for thread in threading.enumerate():
            if thread.name == "sparseagg-stream":
                thread.join(10)
        assert uploads(client) == [0, 0]
        with open_stream(client):
            assert uploads(client) == [1, 0]


def test_one_connection_is_enough_where_one_is_asked_for(server):
    with Client(server.target, connections=1) as client, open_stream(client), open_stream(client):
        assert uploads(client) == [2]


def test_large_updates_side_by_side_are_all_counted(server):
    values = np.arange(6_000_000, dtype=np.float32)  # 24 MB: in chunks
    with Client(server.target) as client:
        round = client.create_round([TensorSpec("w", [6_000_000], sparse_dim=0)])
        with ThreadPoolExecutor(6) as pool:
            receipts = list(
                pool.map(lambda k: round.submit({"w": values}, contributor=f"c{k}"), range(6))
            )
        assert sorted(receipt.sequence for receipt in receipts) == [1, 2, 3, 4, 5, 6]
        assert 2 <= len(uploads(client)) <= 4
        round.seal()
        assert np.array_equal(round.result()["w"], 6 * values)
        round.delete()
