"""Runs a server for this process alone: the program `sparseagg` as a child, on a Unix socket, for `Client.local`.

The child reads from a pipe that only this process can write to, and drains and stops when the pipe is closed
(`sparseagg serve --stop-at-eof`). The system closes the pipe when this process ends, in whatever way. A signal at the
parent's death (PR_SET_PDEATHSIG) would be wrong: it comes when the thread ends that started the child. A fork copies
the pipe, so forked children of this process close their copy.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, SupportsFloat

import grpc

from sparseagg import _arguments, _program
from sparseagg._net import forks as _forks
from sparseagg.errors import InvalidArgumentError, SparseAggError, UnavailableError

_POLL_SECONDS = 0.005
# More than the time that the child takes to stop, which is bounded by its drain timeout.
_STOP_SECONDS = 10.0
_SETTINGS = {
    "admin-listen": "none",
    "log-level": "warning",
    "drain-delay-ms": 0,  # no load balancer has to notice the stop
    "drain-timeout-ms": 5000,
    "self-probe-interval-ms": 0,  # no supervisor would start the server again
}
_OWN_SETTINGS = ("listen", "stop-at-eof", "data-dir", "config")
_SOCKET_PATH_BYTES_MAX = 107  # of sockaddr_un, with a zero behind it
_LOG_BYTES_SHOWN = 2000
_LOG_LINES_SHOWN = 3

# The pipe ends that are open in this process. The lock is held during a fork, so that a child knows all of them. It is
# reentrant, because the garbage collector can stop a server at any time.
_pipes: set[int] = set()
_pipes_lock = threading.RLock()


def _after_in_child() -> None:
    for pipe in _pipes:
        os.close(pipe)
    _pipes.clear()
    _pipes_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_pipes_lock.acquire,
        after_in_parent=_pipes_lock.release,
        after_in_child=_after_in_child,
    )


class LocalServer:
    """The child process. Thread-safe. In a forked child of this process it does nothing.

    target: the server's address, for a client.
    """

    def __init__(
        self, data_dir: str | os.PathLike[str] | None, settings: Mapping[str, object] | None
    ) -> None:
        """Starts the server, which does not serve yet. The parameters are those of `Client.local`."""
        _forks.check_new()
        program = _program.find()
        options = _options(data_dir, settings)
        self._made_in = _forks.generation()
        self._stopping = threading.RLock()
        self._socket = _new_socket_path()
        self.target = f"unix:{self._socket}"
        # The file has no name, so nothing of it is left behind.
        self._log = tempfile.TemporaryFile(prefix="sparseagg-")
        with _pipes_lock:
            its_end, self._pipe = os.pipe()
            _pipes.add(self._pipe)
        try:
            self._process = subprocess.Popen(
                [program, "serve", f"--listen={self.target}", "--stop-at-eof", *options],
                stdin=its_end,
                stdout=self._log,
                stderr=self._log,
                # The environment's settings may be meant for another server.
                env={k: v for k, v in os.environ.items() if not k.startswith("SPARSEAGG_")},
                start_new_session=True,  # Ctrl-C interrupts this process only
            )
        except OSError as bad:
            _close(self._pipe)
            raise _failed(f"cannot start {program}: {bad.strerror or bad}") from bad
        finally:
            os.close(its_end)

    def wait_until_it_serves(self, timeout: SupportsFloat) -> None:
        """Raises SparseAggError (LOCAL_SERVER_FAILED), with the end of the log, if the server ends or does not serve
        within `timeout` seconds."""
        limit = _arguments.finite(_arguments.seconds("start_timeout", timeout))
        deadline = None if limit is None else time.monotonic() + limit
        while not self._accepts():
            code = self._ended_within(_POLL_SECONDS)
            if code is not None:
                raise _failed(
                    f"the local server ended before it served ({_ending(code)}){self._last_words()}"
                )
            if deadline is not None and time.monotonic() > deadline:
                raise _failed(
                    f"the local server does not serve after {limit:g} s; give more by start_timeout"
                    + self._last_words()
                )

    def explain(self, error: SparseAggError) -> SparseAggError:
        """Returns the `error` of a call, or another one that says that the server has ended, if that is the cause."""
        if not isinstance(error, UnavailableError):
            return error
        code = self._process.poll()
        if code is None:
            return error
        return UnavailableError(
            f"the local server has ended ({_ending(code)}){self._last_words()}",
            reason="LOCAL_SERVER_ENDED",
        )

    def stop(self) -> None:
        """Stops the server, and returns when it has ended, after at most 10 s. Does nothing the second time."""
        if self._made_in != _forks.generation():
            return  # the server belongs to the parent
        with self._stopping:
            _close(self._pipe)
            if self._ended_within(_STOP_SECONDS) is None:
                self._process.kill()
                self._process.wait()
            # The server has removed the socket itself unless it was killed.
            Path(self._socket).unlink(missing_ok=True)

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self._socket)
            except OSError:
                return False
        return True

    def _ended_within(self, seconds: float) -> int | None:
        """Returns the exit code, or None if the server still runs."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _last_words(self) -> str:
        """Returns the end of the server's log on one line, for a message."""
        size = os.fstat(self._log.fileno()).st_size
        begin = max(0, size - _LOG_BYTES_SHOWN)
        text = os.pread(self._log.fileno(), _LOG_BYTES_SHOWN, begin).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return ": " + "; ".join(lines[-_LOG_LINES_SHOWN:]) if lines else ""


def _options(
    data_dir: str | os.PathLike[str] | None, settings: Mapping[str, object] | None
) -> list[str]:
    """Returns the flags of `sparseagg serve`."""
    flags = flags_of(settings or {}, _SETTINGS, _OWN_SETTINGS, "Client.local")
    if data_dir is not None:
        with _arguments.refusing("data_dir"):
            flags.append(f"--data-dir={os.path.abspath(os.fspath(data_dir))}")
    return flags


def flags_of(
    settings: Mapping[str, object],
    defaults: Mapping[str, object],
    own: Container[str],
    owner: str,
) -> list[str]:
    """Returns settings by name, in place of the defaults, as flags of `sparseagg serve`.

    own: names that are refused because `owner` decides them.
    """
    by_name: dict[str, object] = dict(defaults)
    for name, value in _arguments.mapping("settings", settings).items():
        name = _arguments.text("a name of settings", name).replace("_", "-")
        if name in own:
            raise InvalidArgumentError(f"settings: {name} is decided by {owner} itself")
        by_name[name] = value
    return [f"--{name}={_text_of(value)}" for name, value in by_name.items()]


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _new_socket_path() -> str:
    """Returns a path for a socket in a folder of this user alone, because a caller that can connect may do everything."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    bases = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]
    problems = []
    for base in filter(None, bases):
        folder = Path(base) / f"sparseagg-{os.getuid()}"
        path = str(folder / name)
        problem = _why_not_private(folder)
        if not problem and len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
            problem = f"{folder} is too long a name for a socket"
        if not problem:
            return path
        problems.append(problem)
    raise _failed(f"no folder for its socket: {'; '.join(problems)}; set TMPDIR to another one")


def _why_not_private(folder: Path) -> str:
    """Makes the folder if it does not exist. Returns why the folder is not private, or ""."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as bad:
        return f"{folder}: {bad.strerror or bad}"
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        return f"{folder} is not a folder of this user alone"
    return ""


def _close(pipe: int) -> None:
    """Closes the pipe, once."""
    with _pipes_lock:
        if pipe in _pipes:
            _pipes.remove(pipe)
            os.close(pipe)


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _failed(message: str) -> SparseAggError:
    return SparseAggError(
        message, code=grpc.StatusCode.FAILED_PRECONDITION, reason="LOCAL_SERVER_FAILED"
    )
