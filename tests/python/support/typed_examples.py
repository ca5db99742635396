"""Calls that run, for a type checker: test_package.py hands this file to mypy and runs it against a server."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from sparseagg import (
    AcquiredTasks,
    Client,
    NewTaskGroup,
    Receipt,
    Result,
    RoundInfo,
    SparseTensor,
    TaskGroup,
    TaskLease,
    TensorSpec,
    Update,
    sparse_sum,
    sparse_weighted_mean,
)
from sparseagg.sparsify import ChangedRows, TopK, top_k

ARRAY: npt.NDArray[np.float32] = np.ones(3, np.float32)
ROWS = SparseTensor([1], np.ones((1, 2), np.float32), np.array([9, 2]))


def specs() -> Iterator[TensorSpec]:
    """A generator of descriptions."""
    yield TensorSpec("0", [3], np.float32, 0)
    yield TensorSpec("emb", (9, 2), "f32")


def updates() -> Iterator[Update]:
    """Yields updates with every kind of number."""
    yield Update([ARRAY], "many-1", weight=np.float32(2))
    yield Update({"0": ARRAY, "emb": ROWS}, "many-2", weight=Fraction(1, 2), update_id="x")


def rounds(target: str) -> None:
    """Uses the types that a Client accepts."""
    with Client(target, timeout=np.float64(30), connections=np.int64(2)) as client:
        round = client.create_round(specs(), goal=np.int64(5), grace=np.float32(60))
        receipt: Receipt = round.submit([ARRAY], contributor="a", weight=np.float32(2))
        round.submit([ARRAY], contributor="b", values={"emb": "bf16"}, timeout=np.float32(30))
        many: list[Receipt] = round.submit_many(updates())
        round.seal()
        info: RoundInfo = round.wait(timeout=np.float64(30))
        result: Result = round.result(tensors=(name for name in ["0", "emb"]))
        rows: SparseTensor = result.sparse("emb")
        table: npt.NDArray[np.float32] = result.dense("emb")
        print(receipt.sequence, len(many), info.contributors, rows.nnz, table.shape)
        print(result["emb"].indices.ravel())  # of a union each would have to be narrowed
        client.reduce(specs(), ({"0": ARRAY, "emb": ROWS} for _ in range(2)), weights=np.ones(2))


def tasks(target: str) -> None:
    """Uses the types of tasks and pipelines."""
    with Client(target) as client:
        round = client.create_round(specs())
        group = NewTaskGroup("typed", round, count=np.int64(1), lease=np.float32(60))
        created: tuple[TaskGroup, ...] = client.tasks.create(group)
        acquired: AcquiredTasks = client.tasks.acquire("typed", ("typed",), timeout=np.float32(30))
        for task in acquired.tasks:
            renewed: list[TaskLease] = [
                one for one in client.tasks.renew([task.lease]) if isinstance(one, TaskLease)
            ]
            receipt = round.submit([ARRAY], contributor=task.contributor)
            print(renewed, client.tasks.complete(task.lease, receipt).state.final)
        print([each.completed for each in client.tasks.watch(created[0])])
        with client.pipeline(
            specs(), pool="typed", goal=np.int64(1), rounds=0, payload=lambda number: b"%d" % number
        ) as pipeline:
            for done in pipeline:
                print(done.number, done.result and done.result.dense("emb"))


def functions(target: str) -> None:
    """Uses the functions that need no Client."""
    rows: SparseTensor = sparse_sum([ROWS, ROWS], target=target)
    triple: SparseTensor = sparse_sum([([1], [1.0], [3])], target=target)
    weights = itertools.repeat(np.float32(1), 2)
    array: npt.NDArray[np.float32] = sparse_sum([ARRAY, ARRAY], weights=weights, target=target)
    table: npt.NDArray[np.float32] = sparse_sum([ROWS], layout="dense", target=target)
    print(rows.nnz, triple.nnz, array.shape, table)
    sparse_weighted_mean([1.0], [np.float32(1)], target=target)


def sparsify() -> None:
    """Uses the functions that need no server."""
    for names in (("w",), {"w"}, (name for name in ["w"])):
        changed: dict[str, SparseTensor] = ChangedRows({"w": ARRAY}, names).since_last({"w": ARRAY})
        print(changed)
    with TopK(np.float32(0.5)).sending([ARRAY]) as update:
        print(update["0"].nnz, top_k(ARRAY, np.int64(1)).nnz)


if __name__ == "__main__":
    rounds(sys.argv[1])
    tasks(sys.argv[1])
    functions(sys.argv[1])
    sparsify()
