"""What a user of the sources types: the five lines of docs/python.md, and the stubs of docs/api.md, as they stand there.
tests/wheel has the lines of README.md, which need the wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time

import pytest
from conftest import BINARY, ROOT

SECONDS_MAX = 60


def first_steps():
    """The shell block that starts a server and installs the package."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
    (block,) = (text for text in blocks if "pip install ./python" in text)
    return block.splitlines()


def has_index(folder):
    """Whether pip finds a package that everybody has; where it does, one that is not found is a fault of ours."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    return subprocess.run([*download, "setuptools"], capture_output=True).returncode == 0


def test_five_lines_lead_from_pip_install_to_an_aggregate_within_a_minute(tmp_path):
    (tmp_path / "build/dev/bin").mkdir(parents=True)
    (tmp_path / "build/dev/bin/sparseagg").symlink_to(BINARY)
    shutil.copytree(ROOT / "python", tmp_path / "python")
    # As they stand there, but for the addresses: the usual ones may be taken.
    socket = f"unix:{tmp_path}/socket"
    environment = {
        **os.environ,
        "SPARSEAGG_LISTEN": socket,
        "SPARSEAGG_ADMIN_LISTEN": "none",
        "SPARSEAGG_SERVER": socket,
    }
    begin = time.monotonic()
    done = subprocess.run(
        ["bash", "-e", "-c", "trap 'kill $(jobs -p)' EXIT\n" + "\n".join(first_steps())],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    seconds = time.monotonic() - begin
    if "No matching distribution found" in done.stderr and not has_index(tmp_path):
        pytest.skip("pip reaches no package index here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[1. 0. 0. 0. 0. 2. 0. 0. 0. 1.]"
    # On a machine that others keep busy it takes as much longer.
    share = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    print(f"the five lines took {seconds:.1f} s; {share:.1f} processes for each core")
    assert seconds < SECONDS_MAX * share


def test_stubs_from_protoc_lead_to_an_aggregate_without_the_package(server, tmp_path):
    if shutil.which("protoc") is None or shutil.which("grpc_python_plugin") is None:
        pytest.skip("protobuf-compiler and protobuf-compiler-grpc are not here")
    page = (ROOT / "docs/api.md").read_text()
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (printed,) = re.findall(r"prints `(.*?)`", page)
    (tmp_path / "proto").symlink_to(ROOT / "proto")
    subprocess.run(["bash", "-e", "-c", commands], cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:50061", server.target)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "stubs"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == printed, done.stderr
