"""examples/first_steps.ipynb runs, and what is stored in it is what a run prints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import BINARY

pytest.importorskip("nbclient", reason="runs a notebook with the packages nbclient and ipykernel")
pytest.importorskip("ipykernel", reason="runs a notebook with the packages nbclient and ipykernel")
pytest.importorskip("matplotlib", reason="the notebook plots with the package matplotlib")

import run_notebook  # noqa: E402

BYTES_MAX = 400_000


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook after a run that starts a server of its own."""
    ran = run_notebook.read()
    folder = tmp_path_factory.mktemp("notebook")
    run_notebook.execute(ran, SPARSEAGG_BINARY=str(BINARY), SPARSEAGG_TARGET="", TMPDIR=str(folder))
    ran.folder = folder
    return ran


def test_a_run_prints_what_is_stored(executed):
    assert run_notebook.texts(executed) == run_notebook.texts(run_notebook.read())


def test_every_section_has_its_picture(executed):
    pictures = [
        cell for cell, lines in run_notebook.texts(executed).items() if "a picture" in lines
    ]
    assert pictures == ["order-exact", "bytes", "density", "training"]


def test_what_the_notebook_shows_holds(executed):
    """The text says it; these numbers are where it can be seen."""
    printed = run_notebook.texts(executed)
    assert "stdout:   sparseagg:      0" in printed["order"]
    assert "stdout: sparseagg is the exact sum, rounded once: True" in printed["order-exact"]
    assert "stdout: sparse and dense give the same bits: True" in printed["bytes"]
    assert not [line for lines in printed.values() for line in lines if line.startswith("stderr")]


def command_lines():
    """Of all processes; one that ends meanwhile has none."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:
            pass


def test_the_server_of_the_notebook_ends_with_it(executed):
    assert not [line for line in command_lines() if os.fsencode(executed.folder) in line]
    assert os.listdir(executed.folder) == []


def test_the_notebook_is_small_and_its_links_lead_somewhere():
    assert run_notebook.NOTEBOOK.stat().st_size < BYTES_MAX
    for link in run_notebook.links():
        assert (run_notebook.NOTEBOOK.parent / link).exists(), link
