"""The peers of the GPU's benchmark, on the CPU: the job of each case runs and is measured."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

GPU = pathlib.Path(__file__).resolve().parents[3] / "bench" / "gpu"

JOBS = {"torch": "torch_coalesce_on_cpu", "jax": "jax_sum_duplicates_on_cpu"}


@pytest.mark.parametrize("peer", JOBS)
def test_the_job_of_every_case_is_measured(peer: str, tmp_path: pathlib.Path) -> None:
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    steps, output = tmp_path / "steps.txt", tmp_path / "peer.jsonl"
    write = f"grid.write(pathlib.Path({str(steps)!r}), [(c, {JOBS[peer]!r}) for c in grid.smoke()])"
    subprocess.run([sys.executable, "-c", "import grid, pathlib; " + write], cwd=GPU, check=True)
    subprocess.run([sys.executable, GPU / "peers.py", steps, output, "100"], check=True)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    measured = [line for line in lines if line["kind"] == "reduce"]
    assert len(measured) == sum(line["kind"] == "begin" for line in lines) == 3
    assert all(line.get("ms", 0) > 0 for line in measured), lines
