"""The command line and the C++ client with leaves, and with partial aggregates as files."""

from __future__ import annotations

import json
import subprocess
import urllib.request

import numpy as np
from conftest import BINARY
from support.trees import until

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


def test_a_root_without_rounds_shows_which_leaves_answer(own_server, tmp_path):
    leaves = [own_server() for _ in range(2)]
    named = f"one={leaves[0].target},two={leaves[1].target}"
    disk = ("--store-free-bytes-min", "0", "--data-dir", str(tmp_path / "root"))
    root = own_server("--leaves", named, *disk)

    def up() -> list[bool]:
        return [leaf["up"] for leaf in run(root, "tree", "status")["leaves"]]

    until(lambda: up() == [True, True], "the root has asked its leaves")
    leaves[1].kill()
    until(lambda: up() == [True, False], "the root knows that a leaf has ended")


def leaf_metrics(text: str) -> dict:
    """The values of the metrics of leaves, by metric and leaf."""
    lines = [line for line in text.splitlines() if line.startswith("sparseagg_leaf_")]
    pairs = [line.removeprefix("sparseagg_leaf_").rsplit(" ", 1) for line in lines]
    return {name: float(value) for name, value in pairs}


def test_metrics_and_status_show_the_leaves(own_server, tmp_path):
    disk = ("--store-free-bytes-min", "0", "--data-dir")
    leaves = [own_server(*disk, str(tmp_path / name)) for name in ("one", "two")]
    named = f"one={leaves[0].target},two={leaves[1].target}"
    port = tmp_path / "admin"
    admin = ("--admin-listen", "127.0.0.1:0", "--admin-port-file", str(port))
    root = own_server("--leaves", named, *admin, *disk, str(tmp_path / "root"))

    def asked(path: str) -> str:
        address = f"http://127.0.0.1:{int(port.read_text())}{path}"
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read().decode()

    def shown() -> list:
        return json.loads(asked("/api/status"))["engine"]["leaves"]

    matrix = tmp_path / "w.mtx"
    matrix.write_text(MATRIX)
    for name, wait in (("r1", ()), ("r2", ("--leaf-wait", "1s"))):
        run(root, "round", "create", "--id", name, "--tensor", TENSOR, *wait)
        for number in range(8):
            run(root, "push", name, f"w={matrix}", "--contributor", f"c{number}")
    run(root, "round", "seal", "r1", "--wait")
    leaves[1].kill()
    run(root, "round", "seal", "r2", "--wait")
    until(lambda: not shown()[1]["up"], "the root misses the leaf")
    one, two = shown()
    assert (one["id"], one["address"], one["up"]) == ("one", leaves[0].target, True)
    assert (two["id"], two["address"]) == ("two", leaves[1].target)
    assert (one["rounds"], one["given_up"], two["given_up"]) == (2, 0, 1)
    assert two["error"] and two["silent_ms"] >= 1000
    metrics = leaf_metrics(asked("/metrics"))
    for leaf, up in ((one, 1), (two, 0)):
        label = f'{{leaf="{leaf["id"]}"}}'
        assert metrics[f"up{label}"] == up
        assert metrics[f"partial_bytes_total{label}"] == leaf["partial_bytes"] > 0
        assert metrics[f"given_up_total{label}"] == leaf["given_up"]
        assert metrics[f"silent_seconds{label}"] >= (0 if up else 1)
    assert len(metrics) == 8


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
