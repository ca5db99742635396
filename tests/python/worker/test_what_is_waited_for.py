"""What a worker waits for instead of giving up: a token, memory of the server, a round that may open again."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from sparseagg import (
    Client,
    CredentialFileError,
    ResourceExhaustedError,
    Round,
    RoundNotOpenError,
    TokenFile,
    aio,
    worker,
)
from sparseagg.tasks import Tasks
from worker_functions import entry_of
from worker_tasks import Work

LEASE_SECONDS = 1.5


@pytest.fixture
def run(server):
    """`worker.run` on the shared server; without a task left it ends at once."""

    def run_here(function, there, **client_options):
        return worker.run(
            function, there.pool, server.target, idle_timeout=0, client_options=client_options
        )

    return run_here


def until_renewed(task, observer):
    """Returns what the function returns, after a renewal of the lease."""
    left = task.lease.time_left
    while not task.cancelled:
        now = observer.tasks.get(task.name).lease
        if now is None or now.time_left > left:
            break
        left = now.time_left
        threading.Event().wait(0.02)
    return entry_of(task)


def fails_once_where_leases_are_renewed(action, error):
    """Returns `action`, which raises `error` the first time that the thread of leases calls it."""
    errors = [error]

    def call(*arguments, **options):
        if errors and threading.current_thread().name == "sparseagg-leases":
            raise errors.pop()
        return action(*arguments, **options)

    return call


def test_a_token_service_that_fails_once_does_not_end_the_renewals(client, run, caplog):
    there = Work(client, lease=LEASE_SECONDS)
    away = ConnectionError("the token service does not answer")
    token = fails_once_where_leases_are_renewed(lambda: "token", away)
    report = run(lambda task: until_renewed(task, client), there, token=token)
    assert report.completed == 1
    assert there.task().leases == 1
    assert "the lease is not renewed: there is no token: ConnectionError: the token" in caplog.text


def test_no_exception_ends_the_renewals(client, run, caplog, monkeypatch):
    there = Work(client, lease=LEASE_SECONDS)
    renew = fails_once_where_leases_are_renewed(Tasks.renew, RuntimeError("of a library"))
    monkeypatch.setattr(Tasks, "renew", renew)
    report = run(lambda task: until_renewed(task, client), there)
    assert report.completed == 1
    assert there.task().leases == 1
    assert "the lease is not renewed: of a library" in caplog.text and "Traceback" in caplog.text


class Writer(logging.Handler):
    """Writes a token into the file as soon as the worker warns that there is none."""

    def __init__(self, file):
        super().__init__()
        self._file = file

    def emit(self, record):
        if "until the token is there" in record.getMessage():
            self._file.write_text("second")


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("first")
    writer = Writer(file)
    log = logging.getLogger("sparseagg.worker")
    log.addHandler(writer)
    yield file
    log.removeHandler(writer)


@pytest.mark.parametrize("fails", [False, True])
def test_a_token_file_that_is_empty_for_a_moment_is_waited_for(client, run, token_file, fails):
    there = Work(client)

    def function(task):
        if task.info.attempts > 1:
            return entry_of(task)
        token_file.write_text("")
        if fails:
            raise ValueError("no data")
        return entry_of(task)

    report = run(function, there, token=TokenFile(token_file))
    assert (report.completed, report.failed) == (1, int(fails))
    assert token_file.read_text() == "second"
    assert there.task().state == "COMPLETED"


def test_a_token_file_that_is_not_there_at_the_start_is_an_error(client, run, tmp_path):
    with pytest.raises(CredentialFileError, match="missing"):
        run(entry_of, Work(client), token=TokenFile(tmp_path / "missing"))


def test_what_a_token_function_raises_is_an_error_of_the_package(server):
    away = ConnectionError("away\nfor long")

    def token():
        raise away

    async def of_asyncio():
        async with aio.Client(server.target, token=token) as client:
            await client.info()

    with (
        Client(server.target, token=token) as client,
        pytest.raises(CredentialFileError) as caught,
    ):
        client.info()
    assert str(caught.value) == "there is no token: ConnectionError: away ..."
    assert caught.value.__cause__ is away
    with pytest.raises(CredentialFileError) as caught:
        asyncio.run(of_asyncio())
    assert caught.value.__cause__ is away


@pytest.mark.parametrize(
    "error",
    [
        ResourceExhaustedError("rounds hold all of it", reason="AGGREGATION_FULL"),
        RoundNotOpenError("no memory", reason="ROUND_NOT_OPEN", metadata={"state": "ABORTED"}),
    ],
)
def test_a_server_without_memory_costs_no_attempt(client, run, monkeypatch, error):
    there = Work(client, attempts_max=1)
    submit, errors = Round.submit, [error]

    def without_memory(*arguments, **options):
        if errors:
            raise errors.pop()
        return submit(*arguments, **options)

    monkeypatch.setattr(Round, "submit", without_memory)
    report = run(entry_of, there)
    assert (report.completed, report.failed, report.handed_back) == (1, 0, 1)
    assert (there.task().state, there.task().attempts) == ("COMPLETED", 1)


def test_an_update_that_is_too_large_fails_its_task(client, run, monkeypatch):
    there = Work(client, attempts_max=1)

    def refused(*_arguments, **_options):
        raise ResourceExhaustedError("beyond all of staging", reason="UPDATE_TOO_LARGE")

    monkeypatch.setattr(Round, "submit", refused)
    assert run(entry_of, there).failed == 1
    assert there.task().end_reason == "ATTEMPTS_EXHAUSTED"
