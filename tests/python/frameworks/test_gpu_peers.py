"""The peers of the GPU's benchmark, on the CPU: each job of each case runs and is measured."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

GPU = pathlib.Path(__file__).resolve().parents[3] / "bench" / "gpu"

JOBS = {"torch": 3, "jax": 1}  # for each case


@pytest.mark.parametrize("peer", JOBS)
def test_every_job_of_every_case_is_measured(peer: str, tmp_path: pathlib.Path) -> None:
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    cases, output = tmp_path / "cases.txt", tmp_path / "peer.jsonl"
    write = f"import grid, pathlib; grid.write(pathlib.Path({str(cases)!r}), grid.tiny())"
    subprocess.run([sys.executable, "-c", write], cwd=GPU, check=True)
    command = [sys.executable, GPU / "peers.py", cases, output, "100", peer + "-cpu"]
    subprocess.run(command, check=True)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    measured = [line for line in lines if line["kind"] == "reduce"]
    assert len(measured) == JOBS[peer] * sum(line["kind"] == "begin" for line in lines) > 0
    assert all(line["ms"] > 0 and line["plan"].endswith("on the CPU") for line in measured), lines
