"""The demo, on a little generated text: it runs through the real server, and its check passes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import BINARY, ROOT
from support.texts import write_texts

DEMO = ROOT / "examples/word_embeddings"


def run_demo(server, data, out, *options):
    """Runs train.py, with servers of its own if `server` is None; the finished process."""
    command = [
        sys.executable,
        str(DEMO / "train.py"),
        *(() if server is None else ("--server", server.target)),
        "--data",
        str(data),
        "--out",
        str(out),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "SPARSEAGG_BINARY": str(BINARY),
    }
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, env=environment, timeout=300
    )


@pytest.fixture
def text_folder(tmp_path):
    """Thirty documents of two topics, each of 400 words."""
    return write_texts(tmp_path / "text")


def test_the_demo_learns_and_passes_its_check(server, text_folder, tmp_path):
    out = tmp_path / "out"
    finished = run_demo(
        server,
        text_folder,
        out,
        "--rounds",
        "3",
        "--contributors",
        "8",
        "--dimensions",
        "8",
        "--dense-twin",
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "VERDICT: PASSED" in finished.stdout
    numbers = json.loads((out / "word_embeddings.json").read_text())
    assert len(numbers["rounds"]) == 3
    assert numbers["rounds"][-1]["held_out_loss"] < numbers["initial_loss"]
    assert numbers["verdict"]["exact_differences"] == 0
    losses = [row["held_out_loss"] for row in numbers["rounds"]]
    twin = [row["held_out_loss"] for row in numbers["dense_twin"]["rounds"]]
    assert twin == pytest.approx(losses, rel=1e-3)
    if importlib.util.find_spec("matplotlib"):
        assert (out / "word_embeddings.png").read_bytes().startswith(b"\x89PNG")


def test_through_a_tree_it_learns_the_same_bits_and_draws_the_same_picture(
    server, text_folder, tmp_path
):
    options = ("--rounds", "2", "--contributors", "8", "--dimensions", "8", "--processes", "1")
    one, tree = tmp_path / "one", tmp_path / "tree"
    finished = run_demo(server, text_folder, one, *options)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    finished = run_demo(None, text_folder, tree, *options, "--nodes", "2")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "with leaves: 2" in finished.stdout
    assert finished.stdout.count("VERDICT: PASSED") == 3
    alone, numbers = (json.loads((out / "word_embeddings.json").read_text()) for out in (one, tree))
    assert numbers["parameters_sha256"] == alone["parameters_sha256"]
    assert numbers["one_server"]["parameters_sha256"] == alone["parameters_sha256"]
    assert [row["contributors"] for row in numbers["rounds"]] == [8, 8]
    drawn = importlib.util.find_spec("matplotlib") is not None
    bits = "bits of the parameters: same, of the pictures: " + ("same" if drawn else "-")
    assert bits in finished.stdout
    if drawn:
        paths = (
            one / "word_embeddings.png",
            tree / "word_embeddings.png",
            tree / "word_embeddings_one_server.png",
        )
        assert len({path.read_bytes() for path in paths}) == 1


def test_another_bit_in_a_parameter_or_in_a_picture_fails(demo_modules, capsys):
    import report

    row = report.RoundReport(1, 8, 100, 800, 8000, 0.5, 0.01, 8.5)
    tree, other = (report.Run([row], 9.0, 0, digest) for digest in ("ab", "ac"))
    same, different = {"a": b"1", "b": b"1"}, {"a": b"1", "b": b"2"}
    for one_server, pictures, verdict in (
        (tree, same, "parameters: same, of the pictures: same\n  VERDICT: PASSED"),
        (tree, {}, "parameters: same, of the pictures: -\n  VERDICT: PASSED"),
        (tree, different, "parameters: same, of the pictures: DIFFERENT\n  VERDICT: FAILED"),
        (other, same, "parameters: DIFFERENT, of the pictures: same\n  VERDICT: FAILED"),
    ):
        report.print_tree(tree, one_server, 2, pictures)
        assert verdict in capsys.readouterr().out
        assert report.same_outcome(tree, one_server, pictures) == verdict.endswith("PASSED")


def test_a_tree_and_a_running_server_exclude_each_other(server, text_folder, tmp_path):
    finished = run_demo(server, text_folder, tmp_path / "out", "--nodes", "2")
    assert finished.returncode == 2
    assert "--nodes: not allowed with argument --server" in finished.stderr


def test_too_little_text_is_an_error_that_says_what_to_do(server, tmp_path):
    (tmp_path / "one.txt").write_text("word " * 500)
    finished = run_demo(server, tmp_path, tmp_path / "out")
    assert finished.returncode == 1
    assert "--data DIR" in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


@pytest.fixture
def demo_modules(monkeypatch):
    """The demo's folder on the module path."""
    monkeypatch.syspath_prepend(str(DEMO))


def test_gradients_are_those_of_the_loss(demo_modules):
    import model

    generator = np.random.default_rng(1)
    shapes = model.initial_parameters(20, 4, 0)
    parameters = {name: generator.normal(size=table.shape) for name, table in shapes.items()}
    examples = model.Examples(
        generator.integers(0, 20, 6), generator.integers(0, 20, (6, 2 * model.WINDOW))
    )
    negatives = generator.integers(0, 20, 7)
    found = model.gradients(parameters, examples, negatives)
    output_ids = np.concatenate([examples.targets, negatives])
    full = {name: np.zeros_like(table) for name, table in parameters.items()}
    np.add.at(full["input"], examples.contexts.ravel(), found.input)
    np.add.at(full["output"], output_ids, found.output)
    np.add.at(full["bias"], output_ids, found.bias)
    full["position"] += found.position
    for name, table in parameters.items():
        flat = table.reshape(-1)
        for place in generator.integers(0, flat.size, 10):
            slope = _slope(lambda: model.loss_of(parameters, examples, negatives), flat, place)
            assert slope == pytest.approx(full[name].reshape(-1)[place], rel=1e-4, abs=1e-6)


def _slope(loss, flat, place, step=1e-5):
    """Central difference."""
    start = flat[place]
    flat[place] = start + step
    above = loss()
    flat[place] = start - step
    below = loss()
    flat[place] = start
    return (above - below) / (2 * step)


def test_the_check_finds_a_single_wrong_bit(demo_modules):
    import check
    from model import LocalUpdate

    shapes = {"input": (4, 2), "position": (2,)}
    updates = [
        LocalUpdate(
            {"input": np.array([1, 3])},
            {"input": np.float32([[1, 2], [3, 4]]), "position": np.float32([1, 2])},
            3,
        ),
        LocalUpdate(
            {"input": np.array([3])},
            {"input": np.float32([[5, 6]]), "position": np.float32([3, 5])},
            1,
        ),
    ]
    served = {
        "input": np.float32([[0, 0], [1, 2], [0, 0], [3.5, 4.5]]),
        "position": np.float32([1.5, 2.75]),
    }
    assert check.check(updates, shapes, served).passed
    served["input"][3, 0] = np.nextafter(np.float32(3.5), np.float32(4))
    wrong = check.check(updates, shapes, served)
    assert not wrong.passed
    assert (wrong.exact_differences, wrong.dense_violations) == (1, 1)
