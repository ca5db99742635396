"""The examples that train sparse and dense: both reach the same loss, and sparse sends less. Small runs on real data."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import BINARY, ROOT

EXAMPLES = ROOT / "examples"
_PACKAGES_MIN = (
    10_000  # a machine with lists knows several times as many, one without those that are installed
)


def packages_known():
    """The packages that apt knows by name."""
    if shutil.which("apt-cache") is None:
        return 0
    names = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, check=True).stdout
    return names.count(b"\n")


needs_apt = pytest.mark.skipif(
    packages_known() < _PACKAGES_MIN, reason="needs apt's package lists (apt-get update)"
)


def run(example, out, *options):
    """The finished process and its numbers."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "SPARSEAGG_BINARY": str(BINARY),
    }
    command = [sys.executable, str(EXAMPLES / example / "train.py"), "--out", str(out), *options]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished, json.loads((out / "numbers.json").read_text())


def check(numbers, ratio):
    sparse, dense = numbers["ways"]
    assert sparse["losses"] == pytest.approx(dense["losses"], rel=1e-3)
    assert sparse["losses"][-1] < numbers["initial_loss"]
    assert sparse["bytes_up"] < dense["bytes_up"] / ratio
    assert sparse["memory_bytes"] > 0


def ratings_file(path, users=60, items=400):
    """Ratings of a low rank, as MovieLens writes them."""
    random = np.random.default_rng(1)
    tastes, traits = random.normal(size=(users, 2)), random.normal(size=(items, 2))
    lines = ["userId,movieId,rating,timestamp"]
    for user in range(users):
        for item in random.choice(items, 20, replace=False):
            rating = np.clip(3 + tastes[user] @ traits[item], 0.5, 5)
            lines.append(f"{user},{item},{rating:.1f},0")
    path.write_text("\n".join(lines))


def test_the_recommender_on_a_file_of_ratings(tmp_path):
    ratings_file(tmp_path / "ratings.csv")
    options = ("--ratings", str(tmp_path / "ratings.csv"), "--rounds", "4", "--contributors", "15")
    finished, numbers = run("recommender", tmp_path / "out", *options, "--dimensions", "4")
    check(numbers, 5)
    assert "VERDICT: PASSED" in finished.stdout
    if importlib.util.find_spec("matplotlib"):
        picture = (tmp_path / "out/comparison.png").read_bytes()
        assert picture.startswith(b"\x89PNG")


@needs_apt
def test_tag_prediction_on_the_packages_of_this_machine(tmp_path):
    options = ("--rounds", "3", "--contributors", "6", "--packages", "2000", "--tags", "20")
    _, numbers = run("tag_prediction", tmp_path / "out", *options)
    check(numbers, 2)


@needs_apt
def test_the_parameter_server_for_torch(tmp_path):
    pytest.importorskip("torch")
    options = ("--rounds", "3", "--contributors", "6", "--packages", "2000", "--tags", "20")
    for optimizer in ("sgd", "adagrad", "fedadam"):
        rate = ("--optimizer", optimizer, "--learning-rate", "0.01")
        _, numbers = run("torch_parameter_server", tmp_path / optimizer, *options, *rate)
        sparse, dense = numbers["ways"]
        assert sparse["bytes_up"] < dense["bytes_up"] / 2
        assert sparse["losses"][-1] < numbers["initial_loss"]
        if optimizer != "fedadam":
            assert sparse["losses"] == pytest.approx(dense["losses"], rel=1e-3)


def test_ratings_that_cannot_be_read_are_an_error_of_one_line(tmp_path):
    (tmp_path / "bad.csv").write_text("1,2,3\nnonsense\n")
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / "recommender/train.py"), "--ratings", tmp_path / "bad.csv"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        timeout=60,
    )
    assert finished.returncode == 1
    assert '"nonsense" is not "user,item,rating"' in finished.stdout
    assert "Traceback" not in finished.stderr
