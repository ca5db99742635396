"""`python -m sparseagg.worker MODULE:FUNCTION --pool POOL [ADDRESS]`: `run` as a command."""

from __future__ import annotations

import argparse
import builtins
import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Any

from sparseagg.errors import SparseAggError
from sparseagg.worker._loop import run

_FAILED, _USAGE = 1, 2  # exit codes


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0 where the worker was asked to end, or had nothing left to do."""
    parser = _parser()
    # What stands between the options belongs together, too.
    given = parser.parse_intermixed_args(arguments)
    logging.basicConfig(
        level=given.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        function = _named(given.function)
        not_retryable = [_named(name) for name in given.not_retryable]
    except (ImportError, AttributeError, ValueError) as error:
        print(f"sparseagg.worker: {error}", file=sys.stderr)
        return _USAGE
    try:
        run(
            function,
            given.pool,
            given.address,
            name=given.name,
            capabilities=given.capability,
            not_retryable=not_retryable,
            tasks_max=given.tasks_max,
            idle_timeout=given.idle_timeout,
        )
    except SparseAggError as error:
        print(f"sparseagg.worker: {error}", file=sys.stderr)
        return _FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sparseagg.worker",
        description="Does tasks of a sparseagg server: calls a function for each and submits what it returns.",
        epilog="SIGTERM and SIGINT hand the task at hand back. TLS and tokens are taken from the environment, as by "
        "sparseagg.Client.",
    )
    parser.add_argument(
        "function",
        metavar="MODULE:FUNCTION",
        help="what is called with each task, as of sparseagg.worker.run",
    )
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        nargs="?",
        help="of the server (default: SPARSEAGG_SERVER, or 127.0.0.1:50061)",
    )
    parser.add_argument(
        "--pool",
        action="append",
        required=True,
        help="where to get tasks; several in the order of preference",
    )
    parser.add_argument(
        "--capability", action="append", default=[], help="what this worker can do; several"
    )
    parser.add_argument(
        "--name", help="of this worker; with credentials the principal, or below it"
    )
    parser.add_argument(
        "--not-retryable",
        action="append",
        default=[],
        metavar="EXCEPTION",
        help="after which a task fails for good: ValueError, or MODULE:CLASS; several",
    )
    parser.add_argument("--tasks-max", type=int, help="ends after this number of tasks")
    parser.add_argument(
        "--idle-timeout", type=float, metavar="SECONDS", help="ends after this time without a task"
    )
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"]
    )
    return parser


def _named(text: str) -> Any:
    """Returns what MODULE:NAME names; without a module, what Python itself has."""
    module, colon, name = text.rpartition(":")
    if not colon:
        if not hasattr(builtins, name):
            raise ValueError(f"{text} is not MODULE:NAME")
        return getattr(builtins, name)
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


if __name__ == "__main__":
    sys.exit(main())
