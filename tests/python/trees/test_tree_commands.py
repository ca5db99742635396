"""The command line and the C++ client with leaves, and with partial aggregates as files."""

from __future__ import annotations

import json
import subprocess

import numpy as np
from conftest import BINARY

TENSOR = "w:f32:1000x1:sparse_dim=2"
MATRIX = "%%MatrixMarket matrix coordinate real general\n1000 1 2\n1 1 1.5\n7 1 2\n"


def run(server, *arguments: str) -> dict:
    """What a command prints."""
    done = subprocess.run(
        [str(BINARY), *arguments, "--json", *(("--server", server.target) if server else ())],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_push_goes_to_the_leaf_and_tree_status_knows_both(own_server, tmp_path):
    disk = ("--store-free-bytes-min", "0", "--data-dir")
    leaves = [own_server(*disk, str(tmp_path / name)) for name in ("one", "two")]
    named = f"one={leaves[0].target},two={leaves[1].target}"
    root = own_server("--leaves", named, *disk, str(tmp_path / "root"))
    run(root, "round", "create", "--id", "r1", "--tensor", TENSOR)
    matrix = tmp_path / "w.mtx"
    matrix.write_text(MATRIX)
    for number in range(8):
        run(root, "push", "r1", f"w={matrix}", "--contributor", f"c{number}")
    counts = [run(leaf, "round", "show", "r1")["contributors"] for leaf in leaves]
    assert sum(counts) == 8 and min(counts) > 0
    run(root, "round", "seal", "r1", "--wait")
    status = run(root, "tree", "status")["leaves"]
    assert [leaf["id"] for leaf in status] == ["one", "two"]
    assert all(leaf["up"] and leaf["rounds"] == 1 for leaf in status)
    assert all(leaf["partial_bytes"] > 0 and leaf["given_up"] == 0 for leaf in status)
    shown = run(root, "round", "show", "r1")
    assert shown["manifest"]["contributors"] == 8
    assert shown["manifest"]["given_up_leaves"] == []


def test_partial_aggregates_travel_as_files(own_server, tmp_path):
    below, above = own_server(), own_server()
    matrix = tmp_path / "w.mtx"
    matrix.write_text(MATRIX)
    run(below, "round", "create", "--id", "r1", "--tensor", TENSOR, "--publish-partial")
    run(above, "round", "create", "--id", "r1", "--tensor", TENSOR)
    for name in ("ann", "bob"):
        run(below, "push", "r1", f"w={matrix}", "--contributor", name)
    run(below, "round", "seal", "r1", "--wait")
    path = str(tmp_path / "r1.partial")
    got = run(below, "partial", "get", "r1", "-o", path)
    head = run(None, "partial", "show", path, "--contributors")
    assert head["digest"] == got["digest"]
    assert head["covered"] == ["ann", "bob"]
    assert head["tensors"][0]["dense_shape"] == [1000, 1]
    receipt = run(above, "partial", "submit", "r1", path, "--node", "below")
    assert receipt["contributor"] == "below"
    assert run(above, "partial", "submit", "r1", path, "--node", "below")["duplicate"]
    run(above, "round", "seal", "r1", "--wait")
    assert run(above, "round", "show", "r1")["manifest"]["contributors"] == 2


def test_a_round_with_owners_is_pulled_from_the_root_and_from_each_owner(make_tree, tmp_path):
    tree = make_tree(2, owners=True)
    rows = 200_000
    created = ("--id", "r1", "--tensor", f"w:f32:{rows}x1:sparse_dim=2", "--owners")
    run(tree.root, "round", "create", *created)
    matrix = tmp_path / "w.mtx"
    matrix.write_text(MATRIX.replace("1000 1 2", f"{rows} 1 2").replace("7 1 2", f"{rows} 1 2"))
    for number in range(4):
        run(tree.root, "push", "r1", f"w={matrix}", "--contributor", f"c{number}")
    run(tree.root, "round", "seal", "r1", "--wait")
    parts = run(tree.root, "round", "show", "r1")["manifest"]["parts"]
    assert [part["owner"] for part in parts] == tree.ids
    assert [part["address"] for part in parts] == [leaf.target for leaf in tree.leaves]
    pulled = []
    for server, name in ((tree.root, "r1"), *zip(tree.leaves, [part["round"] for part in parts])):
        path = tmp_path / f"{len(pulled)}.npz"
        run(server, "pull", name, "-o", str(path))
        with np.load(path) as arrays:
            pulled.append({name: arrays[name] for name in arrays.files})
    whole, *halves = pulled
    for name in ("data", "row", "col"):
        assert [len(half[name]) for half in halves] == [1, 1]
        assert np.array_equal(whole[name], np.concatenate([half[name] for half in halves]))
