"""A leaf of sparseagg.ray on a node that is lost. Alone in its file: it starts a cluster, which Ray does not do beside another."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("ray")
from conftest import BINARY  # noqa: E402
from support import batch  # noqa: E402


def test_a_leaf_whose_node_is_lost_goes_on_elsewhere_and_the_root_finds_it(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "SPARSEAGG_BINARY", str(BINARY))
    code, output = batch.run(batch.SUPPORT / "ray_moves_leaf.py", tmp_path / "data")
    assert code == 0, output[-3000:]
    assert "MOVED AND COUNTED" in output
