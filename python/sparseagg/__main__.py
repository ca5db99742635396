"""`python -m sparseagg ...` becomes the program `sparseagg ...`: the server and the command line."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from sparseagg import _program
from sparseagg.errors import SparseAggError

_NOT_FOUND = 127  # a shell's exit code for a command that is not there


def main() -> NoReturn:
    """Replaces this process: signals, exit code and standard input are the program's own."""
    try:
        program = _program.find()
    except SparseAggError as error:
        print(f"sparseagg: {error}", file=sys.stderr)
        sys.exit(_NOT_FOUND)
    # Python ignores these, and a program inherits what is ignored.
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execv(program, ["sparseagg", *sys.argv[1:]])


if __name__ == "__main__":
    main()
