"""Rounds of adapters whose process died: the next one erases them, and no other; a deadline closes them where there is none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from sparseagg import NotFoundError, RoundState, TensorSpec
from sparseagg._abandoned import (
    DEADLINE_SECONDS,
    erase_abandoned,
    round_id_of_this_process,
    with_deadline,
)

SPECS = [TensorSpec("t", [9])]
OPENS_A_ROUND = """
import sys
from sparseagg import Client, TensorSpec
from sparseagg._abandoned import round_id_of_this_process
client = Client(sys.argv[1])
print(client.create_round([TensorSpec("t", [9])], round_id_of_this_process("test")).name, flush=True)
sys.stdin.read()
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


@pytest.fixture
def holder(server):
    """A process that holds a round of the adapter "test", and the round's name."""
    command = [sys.executable, "-c", OPENS_A_ROUND, server.target]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def test_the_round_of_a_process_that_died_is_erased_by_the_next_one(client, holder):
    process, name = holder
    mine = client.create_round(SPECS, round_id_of_this_process("test"))
    other = client.create_round(SPECS, round_id_of_this_process("other"))
    erase_abandoned(client, "test")
    assert client.round(name).info().state is RoundState.OPEN, "its process lives"
    process.kill()
    process.wait()
    erase_abandoned(client, "other")
    assert client.round(name).info().state is RoundState.OPEN, "it is of another adapter"
    erase_abandoned(client, "test")
    with pytest.raises(NotFoundError):
        client.round(name).info()
    for round in (mine, other):
        assert round.info().state is RoundState.OPEN
        round.abort()
        round.delete()


def test_a_process_that_nobody_has_waited_for_is_dead(client, holder):
    process, name = holder
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie from now on
    erase_abandoned(client, "test")
    with pytest.raises(NotFoundError):
        client.round(name).info()


def test_a_server_that_cannot_be_reached_is_no_error_here(own_server):
    from sparseagg import Client, RetryPolicy

    server = own_server()
    with Client(server.target, retry=RetryPolicy(attempts=1)) as client:
        server.kill()
        erase_abandoned(client, "test")


def test_a_deadline_is_there_unless_the_caller_says_otherwise(client):
    round = client.create_round(SPECS, **with_deadline(None))
    assert round.info().policy.open_for == DEADLINE_SECONDS
    round.abort()
    round.delete()
    assert with_deadline({"goal": 3, "deadline": 5}) == {"goal": 3, "deadline": 5}
    assert with_deadline({"deadline": None}, 7) == {"deadline": None}
