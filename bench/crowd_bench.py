#!/usr/bin/env python3
"""What many contributors cost a server who each submit and then wait, and what an erasure beside them costs them.

    PYTHONPATH=python python3 bench/crowd_bench.py SERVER --json FILE [--quick] [--erase-gib N]

`waiting`: N contributors submit an update of one row to a round in memory, 64 at a time over four connections, and each then
waits for the result, 200 on a connection. `cpu_us` is the server's processor time of a contributor until the last has submitted,
`end_cpu_us` that from the seal until all have their answer. Both stay the same for any N where a submission costs the same however
many wait. `last_tenth` is the processor time of the last tenth of the submissions over that of the first.

`erasing`: a client submits small updates to a durable round, alone and while the payloads of another round are erased, in turns.
`p50_ms` and `p99_ms` are times until the receipt. Needs python3-grpcio, python3-numpy and python3-protobuf.
"""

import argparse
import asyncio
import json
import os
import pathlib
import subprocess
import tempfile
import time

import grpc.aio
import numpy as np
from sparseagg import Client, TensorSpec
from sparseagg._proto import aggregation_pb2, types_pb2

SERVICE = "/sparseagg.v1.AggregationService"
ROWS = 1 << 20
CONNECTIONS = 4
AT_A_TIME = 16  # on each connection
WAITS_MAX = 200  # on a connection: a server lets it have 256 calls at a time
SPEC = TensorSpec("t", [ROWS], "f32", sparse_dim=1)
PAYLOAD_BYTES = 32 << 20
ALONE_SECONDS = 5.0


class Server:
    """A process of its own, with its data directory."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path, *flags: str) -> None:
        port_file = folder / "port"
        self.data = folder / "data"
        command = [binary, "serve", "--listen=127.0.0.1:0", f"--port-file={port_file}"]
        command += ["--admin-listen=none", f"--data-dir={self.data}", *flags]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=None)
        while not port_file.is_file() or not port_file.read_text().strip():
            if self._process.poll() is not None:
                raise SystemExit(f"{binary} ended with {self._process.returncode}")
            time.sleep(0.01)
        self.address = f"127.0.0.1:{port_file.read_text().strip()}"

    @property
    def process_id(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        fields = pathlib.Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def update_of(contributor: int) -> dict:
    return {"t": (np.array([contributor % ROWS]), np.ones(1, np.float32), [ROWS])}


def submission_of(round_name: str, contributor: int) -> bytes:
    request = aggregation_pb2.SubmitUpdateRequest()
    request.header.round, request.header.contributor = round_name, f"c{contributor}"
    request.header.update_id, request.header.weight = f"u{contributor}", 1.0
    tensor = request.tensors.add()
    tensor.header.name, tensor.header.encoding = "t", "coo.raw"
    tensor.header.value_type, tensor.header.index_type = (
        types_pb2.VALUE_TYPE_F32,
        types_pb2.INDEX_TYPE_I64,
    )
    tensor.header.dense_shape.append(ROWS)
    tensor.header.sparse_dim, tensor.header.nnz = 1, 1
    tensor.indices = np.array([contributor % ROWS]).tobytes()
    tensor.values = np.ones(1, np.float32).tobytes()
    return request.SerializeToString()


async def wait_for_end(wait, name: str) -> int:
    """The number of contributors of the published round."""
    request = aggregation_pb2.WaitRoundRequest(name=name)
    request.timeout.seconds = 300  # the most that a call may wait
    while True:
        answer = types_pb2.Round.FromString(await wait(request.SerializeToString()))
        if answer.state == types_pb2.ROUND_STATE_PUBLISHED:
            return answer.contributors


class Crowd:
    """Contributors of one round: connections for submissions, and more for those who wait."""

    def __init__(self, address: str, contributors: int) -> None:
        def channel() -> grpc.aio.Channel:
            return grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])

        self._submitting = [channel() for _ in range(CONNECTIONS)]
        self._waiting = [channel() for _ in range(contributors // WAITS_MAX + 1)]
        self.waits: list[asyncio.Task[int]] = []

    async def _submit(self, channel: grpc.aio.Channel, name: str, numbers: range) -> None:
        submit = channel.unary_unary(f"{SERVICE}/SubmitUpdate")
        for number in numbers:
            await submit(submission_of(name, number))
            channel_to_wait = self._waiting[len(self.waits) // WAITS_MAX]
            wait = channel_to_wait.unary_unary(f"{SERVICE}/WaitRound")
            self.waits.append(asyncio.create_task(wait_for_end(wait, name)))

    async def submit(self, name: str, numbers: range) -> None:
        at_a_time = CONNECTIONS * AT_A_TIME
        await asyncio.gather(
            *(
                self._submit(self._submitting[i % CONNECTIONS], name, numbers[i::at_a_time])
                for i in range(at_a_time)
            )
        )

    async def close(self) -> None:
        for channel in (*self._submitting, *self._waiting):
            await channel.close()


async def wait_together(server: Server, contributors: int) -> dict:
    crowd = Crowd(server.address, contributors)
    client = Client(server.address)
    round_ = client.create_round([SPEC], durability="memory")
    marks = [server.cpu_seconds()]
    begin = time.monotonic()
    for tenth in range(10):
        part = range(contributors * tenth // 10, contributors * (tenth + 1) // 10)
        await crowd.submit(round_.name, part)
        marks.append(server.cpu_seconds())
    seconds = time.monotonic() - begin
    round_.seal()
    if set(await asyncio.gather(*crowd.waits)) != {contributors}:
        raise SystemExit("a contributor was told of another number of contributors")
    end = server.cpu_seconds()
    round_.delete()
    client.close()
    await crowd.close()
    return {
        "contributors": contributors,
        "submit_seconds": seconds,
        "cpu_us": 1e6 * (marks[-1] - marks[0]) / contributors,
        "end_cpu_us": 1e6 * (end - marks[-1]) / contributors,
        "last_tenth": (marks[10] - marks[9]) / max(marks[1] - marks[0], 0.01),
    }


def times_until(client: Client, count: int, is_over) -> list[float]:
    """Times of submissions, in seconds; ends when is_over(seconds since the first)."""
    round_ = client.create_round([SPEC], durability="durable")
    times: list[float] = []
    first = time.monotonic()
    while not is_over(time.monotonic() - first) or len(times) < count:
        begin = time.monotonic()
        round_.submit(update_of(len(times)), contributor=f"c{len(times)}", encoding="coo.raw")
        times.append(time.monotonic() - begin)
    round_.abort()
    round_.delete()
    return times


def erase_beside(server: Server, gib: float, turns: int) -> list[dict]:
    entries = PAYLOAD_BYTES // 12
    wide = TensorSpec("t", [entries], "f32", sparse_dim=1)
    payload = {"t": (np.arange(entries), np.ones(entries, np.float32), [entries])}
    found: dict[str, list[float]] = {"alone": [], "beside an erasure": []}
    erased = 0.0
    with Client(server.address) as client:
        for _ in range(turns):
            large = client.create_round([wide], durability="durable")
            for i in range(max(1, int(gib * 2**30) // (entries * 12))):
                large.submit(payload, contributor=f"c{i}", encoding="coo.raw", values="raw")
            found["alone"] += times_until(client, 1, lambda seconds: seconds > ALONE_SECONDS)
            begin = time.monotonic()
            large.abort()
            large.delete()

            def is_erased(_: float) -> bool:
                return not any((server.data / "payloads").iterdir())

            found["beside an erasure"] += times_until(client, 1, is_erased)
            erased += time.monotonic() - begin
    return [
        {
            "submissions": name,
            "number": len(times),
            "p50_ms": 1e3 * float(np.quantile(times, 0.5)),
            "p99_ms": 1e3 * float(np.quantile(times, 0.99)),
            "erased_gib": gib if name != "alone" else 0.0,
            "seconds_of_a_turn": erased / turns if name != "alone" else ALONE_SECONDS,
        }
        for name, times in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="an eighth of the contributors")
    parser.add_argument("--erase-gib", type=float, default=10.0, help="0: no erasure")
    parser.add_argument("--turns", type=int, default=3, help="of the erasure")
    arguments = parser.parse_args()
    report: dict = {"benchmark": "crowd", "tables": {}}
    with tempfile.TemporaryDirectory(dir=arguments.json.resolve().parent) as folder:
        server = Server(arguments.server, pathlib.Path(folder))
        try:
            asyncio.run(wait_together(server, 500))  # makes threads and memory
            rows = report["tables"]["waiting"] = []
            for contributors in (2500, 5000, 10_000):
                number = contributors // 8 if arguments.quick else contributors
                rows.append(asyncio.run(wait_together(server, number)))
                print(json.dumps(rows[-1]), flush=True)
            if arguments.erase_gib > 0:
                rows = erase_beside(server, arguments.erase_gib, arguments.turns)
                report["tables"]["erasing"] = rows
                print(json.dumps(rows), flush=True)
        finally:
            server.stop()
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
