"""Where the program `sparseagg` is, the server and the command line. The platform wheel brings it along; the pure one does not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import grpc

from sparseagg.errors import SparseAggError

_NAME = "sparseagg"
_VARIABLE = "SPARSEAGG_BINARY"
_PACKAGE = Path(__file__).resolve().parent


def find() -> str:
    """Returns the path of the program: what SPARSEAGG_BINARY says, what came with this package, or the first on PATH.

    Raises SparseAggError (NO_PROGRAM) where there is none.
    """
    named = os.environ.get(_VARIABLE)
    if named:
        if not _is_program(Path(named)):
            raise _no_program(f"{_VARIABLE} names {named}, which is no program that can be run")
        return named
    for path in _beside_the_package():
        if _is_program(path):
            return str(path)
    on_path = shutil.which(_NAME)
    if on_path is None:
        raise _no_program(
            "the program sparseagg is not here: this is the client alone; install the wheel for "
            "Linux (manylinux) or the Debian package, put the program on PATH, or name it in "
            f"{_VARIABLE}"
        )
    return on_path


def _beside_the_package() -> Iterator[Path]:
    """Yields the paths where pip may have put the program of this package's wheel."""
    try:
        distribution = metadata.distribution(_NAME)
    except metadata.PackageNotFoundError:
        return
    # Another installation may come first on sys.path: its program may be of another version.
    if Path(str(distribution.locate_file(_NAME))).resolve() != _PACKAGE:
        return
    for file in distribution.files or ():
        if file.name == _NAME and file.parent.name in ("bin", "Scripts"):
            yield Path(str(file.locate()))
    yield _PACKAGE.parent / "bin" / _NAME  # of `pip install --target`, whose list of files is wrong


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _no_program(message: str) -> SparseAggError:
    return SparseAggError(message, code=grpc.StatusCode.FAILED_PRECONDITION, reason="NO_PROGRAM")
