"""A server that is killed after one step of its disk: a system call after which a power cut leaves another disk.

strace stops the server after each step. The steps are counted here, since strace counts the calls of each thread, and a store
commits on many. Two threads that make steps at the same moment may be counted as one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest

_CALLS = "pwrite64,writev,fdatasync,fsync,ftruncate,?unlink,unlinkat,?rename,renameat"
_STRACE = ("strace", "-f", "-o", os.devnull)
_STOPPING = (*_STRACE, "-e", f"trace={_CALLS}", "-e", f"inject={_CALLS}:signal=SIGSTOP")
_POLL_SECONDS = 0.001


def skip_without_strace() -> None:
    """Skips the test where strace is not installed or may not trace."""
    try:
        tried = subprocess.run([*_STRACE, "true"], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("steps of disks are NOT tested: there is no strace")
    if tried.returncode != 0:
        pytest.skip(f"steps of disks are NOT tested: {tried.stderr.strip()}")


def _has_made_step(server) -> bool:
    """Whether it has stopped after one."""
    return os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOHANG) is not None


def kill_in_start(server, last: int) -> bool:
    """Starts a server, and kills it after step `last`, or when it serves. Whether the start had so many steps."""
    server.launch(
        (*_STOPPING, "-D")
    )  # -D: the server is the child of this process, and not of strace
    count = 0
    while not server.serves():
        if _has_made_step(server):
            count += 1
            if count == last:
                break
            os.kill(server.pid, signal.SIGCONT)
        assert not server.has_ended_within(_POLL_SECONDS)
    server.kill()
    return count == last


class DiskSteps:
    """While it is entered, the steps of a server are counted; after step `last` it is killed, and starts again without
    strace."""

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
        command = (*_STOPPING, "-p", str(self._server.pid))
        self._strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert "attached" in self._strace.stderr.readline()
        self._counting.start()
        return self

    def __exit__(self, *error) -> None:
        self._is_over.set()
        self._counting.join()
        self._strace.terminate()
        self._strace.communicate()
        os.kill(self._server.pid, signal.SIGCONT)  # it may have made a step since

    def _count(self) -> None:
        while not self._is_over.wait(_POLL_SECONDS):
            if not _has_made_step(self._server):
                continue
            self.count += 1
            if self.has_killed:
                self._server.kill()
                self._server.start()
                return
            os.kill(self._server.pid, signal.SIGCONT)
