"""The examples that train sparse and dense: both reach the same loss, and sparse sends less; sparse data: what the page shows.
Small runs on real data."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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


PAGE = (ROOT / "docs/sparse_data.md").read_text()
_LICENCES = "2743ffb578f5"


def test_the_first_lines_of_the_page_on_sparse_data_print_what_it_says(monkeypatch, server):
    block = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL).group(1)
    expected = re.findall(r"^print\(.*\) +# ([\d. ]+)", block, re.MULTILINE)
    assert len(expected) == 3
    finished = subprocess.run(
        [sys.executable, "-c", block],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "SPARSEAGG_SERVER": server.target},
        timeout=60,
    )
    assert finished.stdout.splitlines() == [line.strip() for line in expected], finished.stderr


@pytest.mark.parametrize("package", ["numpy", "scipy"])
def test_sparse_data_prints_what_the_page_shows(server, tmp_path, package):
    pytest.importorskip(package)
    folder = Path("/usr/share/common-licenses")
    names = ("Apache-2.0", "Artistic", "GFDL-1.3", "GPL-3", "MPL-2.0")
    if not all((folder / name).exists() for name in names):
        pytest.skip("needs the licences of Debian or Ubuntu")
    text = b"".join((folder / name).read_bytes() for name in names)
    if not hashlib.sha256(text).hexdigest().startswith(_LICENCES):
        pytest.skip("the licences are not those of Debian 12")
    out = tmp_path / "numbers.json"
    finished = subprocess.run(
        [
            sys.executable,
            str(EXAMPLES / f"sparse_data/with_{package}.py"),
            *("--server", server.target, "--out", str(out)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    *statistics, _ = finished.stdout.splitlines()
    assert "\n".join(statistics) in PAGE
    numbers = json.loads(out.read_text())
    assert numbers["loss"] == pytest.approx(0.9316, abs=1e-4)


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
