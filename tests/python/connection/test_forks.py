"""A child that was forked with a client in use has an error at once, and does its parent no harm. Other processes, as a
forked child inherits whatever else the tests left."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys, threading
from sparseagg import Client, SparseAggError, TensorSpec
target, what = sys.argv[1:]
client = Client(target)
round = client.create_round([TensorSpec("n", [10])])
changes = round.watch()
next(changes)
pid = os.fork()
if pid == 0:
    try:
        if what == "inherited":
            client.info()
        elif what == "watch":
            next(changes)
        elif what == "new":
            Client(target).info()
        elif what == "closed":
            client.close()
    except SparseAggError as error:
        print(error.reason, error, flush=True)
    sys.exit(0)
_, status = os.waitpid(pid, 0)
print("child", status, flush=True)
round.seal()
print("parent", round.wait(30).state.value, [info.state.value for info in changes][-1], flush=True)
client.close()
"""


@pytest.mark.parametrize("what", ["inherited", "watch", "new", "closed", "nothing"])
def test_a_forked_child_has_an_error_at_once_and_harms_nobody(server, what):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, server.target, what],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-2:] == ["child 0", "parent PUBLISHED PUBLISHED"]
    if what in ("closed", "nothing"):
        assert lines[:-2] == []
    else:
        assert lines[0].startswith("CLIENT_FORKED "), lines
        assert '"spawn"' in lines[0]
