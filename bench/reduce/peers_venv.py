#!/usr/bin/python3
"""Makes the virtual environment of the Python peers: bench/reduce/peers_venv.py FOLDER

What is there already stays. A library that cannot be installed is left out; its rows then say so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

# One by one, so that one that fails takes no other along. PyPI's wheel of torch for Linux does not load without
# NVIDIA's libraries, even where there is no GPU: its dependencies are installed with it, 4 GB.
LIBRARIES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "pandas": "pandas",
    "polars": "polars",
    "tensorflow": "tensorflow-cpu",
    "torch": "torch",
}


def make(folder: Path, log: Path) -> Path:
    """The interpreter that has the libraries."""
    python = folder / "bin" / "python"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as output:

        def run(*command: object) -> bool:
            arguments = [str(word) for word in command]
            return subprocess.run(arguments, stdout=output, stderr=output).returncode == 0

        if not python.exists() and not run(sys.executable, "-m", "venv", folder):
            raise SystemExit(f"peers_venv.py: no virtual environment; the log is {log}")
        for library, package in LIBRARIES.items():
            if run(python, "-c", f"import {library}"):
                continue
            print(f"    installing {package}", flush=True)
            if not run(python, "-m", "pip", "install", "-q", package):
                print(f"    {package} cannot be installed; the log is {log}", flush=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print(make(folder, folder.parent / "venv.log"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
