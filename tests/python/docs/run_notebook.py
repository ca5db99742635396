"""Runs examples/first_steps.ipynb in a fresh kernel of this Python.

    run_notebook.py --store     writes the outputs of the run into the notebook

SPARSEAGG_BINARY is the server that the notebook starts; default: build/dev/bin/sparseagg.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # noqa: F401  # makes its cache here: in the notebook that would print a warning
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOK = ROOT / "examples/first_steps.ipynb"
_SECONDS_MAX = 300  # of a cell, on a machine that others keep busy
_TIMING = "timing:"  # begins a line that is another one in every run


def read() -> Any:
    """The notebook as it is stored."""
    return nbformat.read(NOTEBOOK, as_version=4)


def execute(notebook: Any, **variables: str) -> None:
    """Runs all cells and puts their outputs into `notebook`; raises CellExecutionError where one fails.

    variables: of the environment. The kernel is of this Python, and writes nothing below the home directory.
    """
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder, "kernels/this")
        kernel.mkdir(parents=True)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": command, "display_name": "this Python", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec))
        own = {
            "JUPYTER_PATH": folder,
            "JUPYTER_RUNTIME_DIR": folder,
            "IPYTHONDIR": folder,
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # ipykernel loads a debugger, which would print a warning
        }
        before = dict(os.environ)
        os.environ.update({**own, **variables})
        try:
            NotebookClient(
                notebook,
                timeout=_SECONDS_MAX,
                kernel_name="this",
                record_timing=False,
                resources={"metadata": {"path": str(NOTEBOOK.parent)}},
            ).execute()
        finally:
            os.environ.clear()
            os.environ.update(before)


def texts(notebook: Any) -> dict[str, list[str]]:
    """The lines that each code cell has printed, without timings; of pictures only how many there are."""
    lines: dict[str, list[str]] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found = lines.setdefault(cell.id, [])
            for output in cell.outputs:
                if output.output_type == "stream":
                    found += [f"{output.name}: {line}" for line in output.text.splitlines()]
                elif "image/png" in output.data:
                    found.append("a picture")
                else:
                    found += output.data["text/plain"].splitlines()
    return {
        cell: [line for line in found if not line.startswith(f"stdout: {_TIMING}")]
        for cell, found in lines.items()
    }


def store(notebook: Any) -> None:
    """Writes the notebook, without what tells only of the machine."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                output.data = {"image/png": output.data["image/png"].strip()}
                output.metadata = {}
    nbformat.write(notebook, NOTEBOOK)


def links() -> list[str]:
    """Returns the targets of the links in the notebook's text."""
    text = "\n".join(cell.source for cell in read().cells if cell.cell_type == "markdown")
    return re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", action="store_true", help="write the outputs into the notebook")
    arguments = parser.parse_args()
    notebook = read()
    stored = texts(notebook)
    execute(
        notebook,
        SPARSEAGG_BINARY=os.environ.get("SPARSEAGG_BINARY", str(ROOT / "build/dev/bin/sparseagg")),
    )
    for cell, lines in texts(notebook).items():
        if lines != stored[cell]:
            print(f"{cell}: was {stored[cell]}, is {lines}")
    if arguments.store:
        store(notebook)


if __name__ == "__main__":
    main()
