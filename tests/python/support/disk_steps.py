"""A server that is killed after one step of its disk: a system call after which a power cut leaves another disk."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest

_CALLS = "pwrite64,writev,fdatasync,fsync,ftruncate,?unlink,unlinkat,?rename,renameat"


class DiskSteps:
    """While it is entered, strace stops a server after each of its steps; after step `last` it is killed, and starts again
    without strace.

    The steps are counted here, since strace counts the calls of each thread, and a store commits on many. Two threads that
    make steps at the same moment may be counted as one.
    """

    def __init__(self, server, last: int) -> None:
        self.count = 0
        self._server = server
        self._last = last
        self._is_over = threading.Event()
        self._counting = threading.Thread(target=self._count)

    @property
    def has_killed(self) -> bool:
        return self.count == self._last

    def __enter__(self) -> DiskSteps:
        what = ("-e", f"trace={_CALLS}", "-e", f"inject={_CALLS}:signal=SIGSTOP")
        command = ["strace", "-f", "-o", os.devnull, *what, "-p", str(self._server.pid)]
        try:
            self._strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        except FileNotFoundError:
            pytest.skip("the steps of a server are NOT tested: there is no strace")
        said = self._strace.stderr.readline().strip()
        if "attached" not in said:
            pytest.skip(f"the steps of a server are NOT tested: {said}")
        self._counting.start()
        return self

    def __exit__(self, *error) -> None:
        self._is_over.set()
        self._counting.join()
        self._strace.terminate()
        self._strace.communicate()
        os.kill(self._server.pid, signal.SIGCONT)  # it may have made a step since

    def _count(self) -> None:
        pid = self._server.pid
        while not self._is_over.wait(0.001):
            if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is None:
                continue
            self.count += 1
            if self.has_killed:
                self._server.kill()
                self._server.start()
                return
            os.kill(pid, signal.SIGCONT)
