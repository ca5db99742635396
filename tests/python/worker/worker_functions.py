"""Functions of workers: also in processes of their own, as `python -m sparseagg.worker worker_functions:NAME`."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np

ROWS = 10


def entry_of(task):
    """One entry: 1 in the row of the task's number."""
    number = int(task.name.rpartition("/")[2])
    return {"t": ([number % ROWS], np.float32([1]), [ROWS])}


def train(task):
    """Takes as many seconds as the payload says."""
    threading.Event().wait(float(task.payload))
    return entry_of(task)


def wait_for_ever(task):
    """Says so, and waits until a signal comes."""
    print("has", task.name, flush=True)
    threading.Event().wait()


def clean_up(task):
    """As a library does that knows KeyboardInterrupt."""
    try:
        wait_for_ever(task)
    finally:
        print("cleans up", flush=True)


def stopped_beside_a_wait(task):
    """SIGTERM comes to another thread, as the system may choose: it does not interrupt the wait of this one."""
    beside = threading.Thread(
        target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    )
    threading.Timer(0.2, beside.start).start()
    clean_up(task)


def finish(task):
    """Says so, and returns its update although it is to stop."""
    try:
        wait_for_ever(task)
    except KeyboardInterrupt:
        return entry_of(task)


def die(task):
    os.kill(os.getpid(), signal.SIGKILL)


def die_after_the_receipt(task):
    task.round.submit(entry_of(task), contributor=task.contributor, update_id=task.update_id)
    die(task)


def fail(task):
    raise LookupError("no such user")
