"""Calls that come while a server stops are made again: what gRPC cancels for it is not the caller's to see."""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import sparseagg
import sparseagg.aio
from sparseagg import RetryPolicy, RoundState, TensorSpec, UnavailableError, Update, sparse_sum
from sparseagg._net.transport import METHODS, SERVICE
from sparseagg._proto import aggregation_pb2, types_pb2

ANSWERS = {
    "GetServerInfo": [aggregation_pb2.ServerInfo(version="7")],
    "WatchRound": [types_pb2.Round(name="rounds/r", state=types_pb2.ROUND_STATE_PUBLISHED)],
}


class Cancelling(grpc.GenericRpcHandler):
    """Ends the first calls with CANCELLED and no reason, as gRPC does while a server stops."""

    def __init__(self, calls: int) -> None:
        self._left = calls

    def service(self, handler_call_details):
        """Returns the handler of one call."""
        method = handler_call_details.method[len(SERVICE) :]
        self._left -= 1
        is_refused = self._left >= 0

        def answers(_, context):
            if is_refused:
                context.abort(grpc.StatusCode.CANCELLED, "CANCELLED")
            yield from ANSWERS[method]

        kind = METHODS[method][0]
        handler = getattr(grpc, f"{kind}_rpc_method_handler")
        return handler(
            (lambda *call: next(answers(*call))) if kind == "unary_unary" else answers,
            response_serializer=lambda message: message.SerializeToString(),
        )


@pytest.fixture
def cancelling():
    """A function that starts a server of a number of cancelled calls, and gives its address."""
    servers = []

    def start(calls):
        server = grpc.server(ThreadPoolExecutor(2), [Cancelling(calls)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(0)


async def info_for_asyncio(target, retry):
    async with sparseagg.aio.Client(target, retry=retry) as client:
        return (await client.info()).version


async def watch_for_asyncio(target, retry):
    async with sparseagg.aio.Client(target, retry=retry) as client:
        return [info.state async for info in client.round("r").watch()]


def info(target, retry):
    with sparseagg.Client(target, retry=retry) as client:
        return client.info().version


def watch(target, retry):
    with sparseagg.Client(target, retry=retry) as client:
        return [info.state for info in client.round("r").watch()]


CALLS = [
    (info, "7"),
    (watch, [RoundState.PUBLISHED]),
    (lambda *options: asyncio.run(info_for_asyncio(*options)), "7"),
    (lambda *options: asyncio.run(watch_for_asyncio(*options)), [RoundState.PUBLISHED]),
]


@pytest.mark.parametrize(("call", "answer"), CALLS)
def test_a_call_that_is_cancelled_without_a_reason_is_made_again(cancelling, call, answer):
    assert call(cancelling(2), RetryPolicy(attempts=3, initial_delay=0.01)) == answer


@pytest.mark.parametrize("call", [call for call, _ in CALLS])
def test_where_no_attempt_is_left_the_server_is_unavailable(cancelling, call):
    with pytest.raises(UnavailableError):
        call(cancelling(3), RetryPolicy(attempts=3, initial_delay=0.01))


SPECS = [TensorSpec("w", [50_000], sparse_dim=0)]
LARGE = {"w": np.random.default_rng(1).random(50_000, np.float32)}  # 200 KB: in chunks, below
RESTARTS = 4
PATIENT = RetryPolicy(attempts=1000, initial_delay=0.01, max_delay=0.1)


@pytest.fixture
def restarting(own_server, tmp_path):
    """A server that keeps its rounds, and takes small messages only."""
    return own_server(
        f"--data-dir={tmp_path / 'data'}", "--drain-delay-ms=0", "--message-bytes-max=65536"
    )


def small(contributor):
    """Touches nothing of the tensor."""
    return Update({}, contributor)


def test_restarts_in_quick_succession_fail_no_call(restarting):
    with sparseagg.Client(restarting.target, retry=PATIENT) as client:
        open_round = client.create_round(SPECS)
        published = client.create_round(SPECS)
        published.submit(LARGE, contributor="c")
        published.seal()
        published.wait(30)
        jobs = {
            "small": lambda n: open_round.submit({}, contributor=f"small-{n}"),
            "large": lambda n: open_round.submit(LARGE, contributor=f"large-{n}"),
            "many": lambda n: open_round.submit_many([small(f"many-{n}-{k}") for k in range(20)]),
            "result": lambda n: published.result(timeout=30),
            "sum": lambda n: sparse_sum([np.ones(3)], client=client),
        }
        done = threading.Event()

        def repeat(job):
            for number in itertools.count():
                job(number)
                if done.is_set():
                    return

        with ThreadPoolExecutor(len(jobs) + 2) as threads:
            running = [threads.submit(repeat, job) for job in jobs.values()]
            waiting = threads.submit(open_round.wait)
            watching = threads.submit(lambda: [info.state for info in open_round.watch()][-1])
            try:
                for _ in range(RESTARTS):
                    restarting.stop()
                    restarting.start()
            finally:
                done.set()
            for job in running:
                job.result(60)
            open_round.seal()
            assert waiting.result(60).state is RoundState.PUBLISHED
            assert watching.result(60) is RoundState.PUBLISHED


def test_restarts_in_quick_succession_fail_no_call_for_asyncio(restarting):
    async def scenario():
        async with sparseagg.aio.Client(restarting.target, retry=PATIENT) as client:
            open_round = await client.create_round(SPECS)
            published = await client.create_round(SPECS)
            await published.submit(LARGE, contributor="c")
            await published.seal()
            await published.wait(30)
            jobs = {
                "small": lambda n: open_round.submit({}, contributor=f"small-{n}"),
                "large": lambda n: open_round.submit(LARGE, contributor=f"large-{n}"),
                "many": lambda n: open_round.submit_many(
                    [small(f"many-{n}-{k}") for k in range(20)]
                ),
                "result": lambda n: published.result(timeout=30),
            }
            done = False

            async def repeat(job):
                for number in itertools.count():
                    await job(number)
                    if done:
                        return

            async def watch():
                return [info.state async for info in open_round.watch()][-1]

            running = [asyncio.ensure_future(repeat(job)) for job in jobs.values()]
            ends = [asyncio.ensure_future(open_round.wait()), asyncio.ensure_future(watch())]
            for _ in range(RESTARTS):
                await asyncio.to_thread(restarting.stop)
                await asyncio.to_thread(restarting.start)
            done = True
            await asyncio.gather(*running)
            await open_round.seal()
            waited, watched = await asyncio.gather(*ends)
            return waited.state, watched

    assert asyncio.run(asyncio.wait_for(scenario(), 120)) == (RoundState.PUBLISHED,) * 2
