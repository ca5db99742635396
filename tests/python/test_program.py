"""`python -m sparseagg`: the program itself, found where it is, and what is said where it is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from conftest import BINARY
from sparseagg import SparseAggError, _program

MODULE = [sys.executable, "-m", "sparseagg"]


def run(*arguments, program=BINARY, **options):
    environment = {**os.environ, "SPARSEAGG_BINARY": str(program)}
    return subprocess.run(
        [*MODULE, *arguments], env=environment, capture_output=True, text=True, **options
    )


def test_it_is_the_program():
    of_program = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True)
    of_module = run("serve", "--help")
    assert (of_module.returncode, of_module.stdout) == (0, of_program.stdout)


def test_exit_codes_are_those_of_the_program():
    assert run("no-such-command").returncode == 2
    assert run("info", "--server", "unix:/nowhere", "--attempts=1").returncode == 3


def test_standard_input_and_signals_are_those_of_the_program():
    command = [*MODULE, "serve", "--listen=127.0.0.1:0", "--admin-listen=none", "--stop-at-eof"]
    environment = {**os.environ, "SPARSEAGG_BINARY": str(BINARY)}
    for end in (lambda server: server.stdin.close(), lambda server: server.terminate()):
        server = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in server.stderr:
            if "event=serving" in line:
                break
        end(server)
        assert "event=stopped" in server.stderr.read()
        assert server.wait() == 0
        server.stdin.close()


def test_a_signal_that_python_ignores_ends_the_program():
    done = run("-c", "kill -PIPE $$; echo alive", program="/bin/sh")
    assert (done.returncode, done.stdout) == (-signal.SIGPIPE, "")


def test_where_it_is_not_a_message_says_what_to_install(tmp_path):
    done = run("--version", program=tmp_path / "nothing")
    assert done.returncode == 127
    assert done.stderr.startswith("sparseagg: SPARSEAGG_BINARY names ")
    assert len(done.stderr.splitlines()) == 1


def test_the_first_on_path_is_taken_where_none_came_with_the_package(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARSEAGG_BINARY", raising=False)
    monkeypatch.setattr(_program, "_beside_the_package", lambda: iter(()))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparseAggError, match="this is the client alone; install") as caught:
        _program.find()
    assert caught.value.reason == "NO_PROGRAM"
    (tmp_path / "sparseagg").symlink_to(BINARY)
    assert _program.find() == str(tmp_path / "sparseagg")
