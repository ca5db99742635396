"""Python workers beside the tabs: processes that are started, killed at random, and replaced."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

_PROGRAM = Path(__file__).resolve().parent / "worker.py"


class Workers:
    """A number of worker processes, until `close`. One of them is killed every `kill_every` seconds (None: none), as a
    power cut would, and another takes its place.
    """

    def __init__(
        self, number: int, kill_every: float | None, server: str, pool: str, shares: Path
    ) -> None:
        self._command = [sys.executable, str(_PROGRAM), server, pool, str(shares)]
        self._processes: list[subprocess.Popen] = []
        self._names = 0
        self.killed = 0
        self._closing = threading.Event()
        for _ in range(number):
            self._add()
        self._killer = threading.Thread(target=self._kill, args=(kill_every,), daemon=True)
        if kill_every is not None and number > 0:
            self._killer.start()

    def close(self) -> None:
        """Ends all of them."""
        self._closing.set()
        if self._killer.is_alive():
            self._killer.join()
        for process in self._processes:
            process.kill()
            process.wait()

    def _add(self) -> None:
        self._names += 1
        self._processes.append(subprocess.Popen([*self._command, f"python-{self._names}"]))

    def _kill(self, every: float) -> None:
        while not self._closing.wait(every):
            victim = self._processes.pop(random.randrange(len(self._processes)))
            victim.kill()
            victim.wait()
            self.killed += 1
            self._add()
