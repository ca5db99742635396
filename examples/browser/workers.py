"""Python workers beside the tabs: processes that are started, killed at random, and replaced."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from credentials import Credential

_PROGRAM = Path(__file__).resolve().parent / "worker.py"


class Workers:
    """A number of worker processes, until `close`.

    credential: what the server demands of them; None: nothing.
    kill_every: after this number of completed tasks one of them is killed, as a power cut would, and another takes its
        place; None: none is.
    """

    def __init__(
        self,
        number: int,
        kill_every: int | None,
        server: str,
        pool: str,
        texts: Path,
        credential: Credential | None = None,
    ) -> None:
        self._command = [sys.executable, str(_PROGRAM), server, pool, str(texts)]
        self._name = f"{credential.principal}/python" if credential else "python"
        # Arguments are there for everybody on the machine to read; the environment is not.
        self._environment = {
            **os.environ,
            **({"SPARSEAGG_TOKEN": credential.token} if credential else {}),
        }
        self._kill_every = kill_every
        self._processes: list[subprocess.Popen] = []
        self._names = 0
        self._completed = 0
        self.killed = 0
        for _ in range(number):
            self._add()

    def close(self) -> None:
        """Ends all of them."""
        for process in self._processes:
            _kill(process)

    def tasks_completed(self, more: int) -> None:
        """To be called when tabs or Python workers have completed tasks."""
        self._completed += more
        if self._kill_every is None:
            return
        while self._processes and self._completed >= (self.killed + 1) * self._kill_every:
            _kill(self._processes.pop(random.randrange(len(self._processes))))
            self.killed += 1
            self._add()

    def _add(self) -> None:
        self._names += 1
        command = [*self._command, f"{self._name}-{self._names}"]
        self._processes.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, env=self._environment)
        )


def _kill(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
