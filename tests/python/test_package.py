"""What pip makes of the folder python/: a wheel for every machine, with every module in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

_DISTRIBUTION = ["setuptools", "wheel"]  # what building without a package index needs


def test_pip_builds_a_pure_wheel_of_every_module(tmp_path):
    for name in _DISTRIBUTION:
        pytest.importorskip(name)
    shutil.copytree(ROOT / "python", tmp_path / "python")
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, tmp_path / "python"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    package = ROOT / "python/sparseagg"
    sources = {
        f"sparseagg/{path.relative_to(package).as_posix()}"
        for path in [*package.rglob("*.py"), package / "py.typed"]
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == sources


def test_both_wheels_say_the_same_of_the_package():
    """pip takes one for the other where only that fits."""
    tomllib = pytest.importorskip("tomllib", reason="Python reads TOML from 3.11 on")
    platform, pure = (
        tomllib.loads((ROOT / path).read_text())["project"]
        for path in ("pyproject.toml", "python/pyproject.toml")
    )
    for name in ("name", "version", "requires-python", "dependencies", "optional-dependencies"):
        assert platform[name] == pure[name]


def test_no_other_package_is_imported_before_it_is_used():
    frameworks = "torch tensorflow tensorflow_federated jax flwr nvflare scipy pandas tqdm".split()
    program = (
        "import sys, numpy, sparseagg, sparseagg.aio, sparseagg.sparsify\n"
        "sparseagg.flatten({'a': numpy.ones(3)}), sparseagg.as_tensor(([1], [1.0], [5]))\n"
        f"print([name for name in {frameworks} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "python")},
        check=True,
    )
    assert done.stdout.strip() == "[]"


EXAMPLES = ROOT / "tests/python/support/typed_examples.py"


def test_what_runs_is_what_a_type_checker_takes(tmp_path):
    pytest.importorskip("mypy", reason="checks types with the package mypy, which is not here")
    options = ["--strict", "--follow-imports=silent", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, EXAMPLES],
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(ROOT / "python")},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_type_checker_takes_runs(server):
    subprocess.run([sys.executable, EXAMPLES, server.target], check=True)


def test_a_program_that_is_type_checked(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\n"
        "from sparseagg import Client, Result, SparseTensor, sparse_weighted_mean\n"
        "def nnz(result: Result) -> dict[str, int]:\n"
        "    return {n: t.nnz for n, t in result.items() if isinstance(t, SparseTensor)}\n"
        "sparse_weighted_mean([np.ones(3)], np.ones(1))\n"
        "print(Client().round('r').result()['emb'].indices.ravel())\n"
        "reveal_type(list(Client().round('r').result().values()))\n"
    )
    options = ["--strict", "--follow-imports=silent", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, program],
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(ROOT / "python")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"list\[.*SparseTensor.*ndarray", done.stdout)


def test_the_package_leaves_the_environment_as_it_is(server):
    """Children of the process inherit it, and other users of gRPC in the process read it."""
    program = (
        "import os; before = dict(os.environ); import sparseagg, sparseagg.aio\n"
        "assert dict(os.environ) == before\n"
        f"with sparseagg.Client({server.target!r}) as client: client.info()\n"
        "assert dict(os.environ) == before"
    )
    # This process may have it from another version of the package.
    mine = {name: text for name, text in os.environ.items() if not name.startswith("GRPC_CLIENT")}
    subprocess.run([sys.executable, "-c", program], env=mine, check=True)
