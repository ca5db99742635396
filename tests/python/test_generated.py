"""The committed generated code is what python/generate makes of proto/."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from conftest import ROOT


def test_generated_code_is_up_to_date(tmp_path):
    protoc = shutil.which("protoc")
    version = (
        subprocess.run([protoc, "--version"], capture_output=True, text=True).stdout
        if protoc
        else "no protoc"
    )
    if not version.startswith("libprotoc 3.21."):
        pytest.skip(f"needs protoc 3.21, there is {version.strip()}")
    subprocess.run([ROOT / "python/generate", "--to", tmp_path], check=True)
    for made in sorted(tmp_path.iterdir()):
        committed = ROOT / "python/sparseagg/_proto" / made.name
        assert made.read_text() == committed.read_text(), f"{committed} is old: run python/generate"
    assert len(list(tmp_path.iterdir())) == 3
