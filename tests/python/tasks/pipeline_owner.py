"""An owner with a pipeline, in a process that is killed. Prints a line for each result.

Usage: pipeline_owner.py ADDRESS NAME ("" for a pipeline without one)
"""

from __future__ import annotations

import sys
import threading

from sparseagg import Client
from workers import SPECS


def own(address: str, name: str) -> None:
    """Yields results until the third, which it takes for ever to look at."""
    with (
        Client(address) as client,
        client.pipeline(
            SPECS,
            pool="pool",
            goal=2,
            rounds=5,
            payload=lambda number: b"%d" % number,
            name=name or None,
        ) as pipeline,
    ):
        for done in pipeline:
            print(done.number, done.round.name, done.result["t"].values.sum(), flush=True)
            if done.number == 2:
                threading.Event().wait()


if __name__ == "__main__":
    own(*sys.argv[1:])
