"""Clients that mean harm, or only break, against the real server: it goes on serving, and nothing of them remains.

Sizes for a usual test run; ./dev reliability sets them to what docs/security.md reports:
  SPARSEAGG_SLOW_UPLOADS (300), SPARSEAGG_CUT_STREAMS (300), SPARSEAGG_RESETS (3000), SPARSEAGG_HPACK_MIB (1)
"""

import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import http2
import uploads
from _proto import aggregation_pb2 as api
from server import Server, effort, wait_until
from swarm import Swarm

MIB = 1 << 20
ROWS = 10_000
# The slowest rate that upload-rate-min allows, and some more.
SLOW_BYTES_PER_S = 1_100
SLOW_PERIOD_S = 2.0


class HostileTest(unittest.TestCase):
    def start(self, *arguments: str) -> Server:
        server = Server(*arguments)
        self.addCleanup(server.close)
        return server

    def check_memory(self, grown: float, limit: float) -> None:
        """A sanitizer keeps what is freed, and puts guards around what is not: its server has no such limits."""
        if not os.environ.get("SPARSEAGG_SANITIZE"):
            self.assertLess(grown, limit)

    def check_serves(self, server: Server, name: str) -> None:
        self.assertTrue(server.alive(), server.log())
        server.create_round(name, ROWS)
        self.assertEqual(server.round(name).name, f"rounds/{name}")


class ProbesTest(HostileTest):
    def test_a_compressed_message_is_refused_without_being_unpacked(self) -> None:
        server = self.start()
        packed = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = bytearray()
        for _ in range(256):
            bomb += packed.compress(bytes(MIB))
        bomb += packed.flush()
        before = server.memory_bytes("VmHWM")
        connection = http2.Connection(server.target)
        headers = http2.request_headers(http2.SERVICE + "SubmitUpdate", [("grpc-encoding", "gzip")])
        connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, headers))
        body = http2.message(bytes(bomb[:60_000]), compressed=True)
        connection.send(uploads.data_frames(1, body, last=True))
        answered = False
        trailers = b""
        for _ in range(100):
            for kind, _flags, stream, payload in connection.receive():
                if stream == 1 and kind in (http2.HEADERS, http2.RST_STREAM):
                    answered = True
                    trailers += payload
            if answered:
                break
        connection.close()
        grown = server.memory_bytes("VmHWM") - before
        print(f"bomb of {len(bomb)} bytes for 256 MiB: memory grew {grown / MIB:.1f} MiB")
        self.assertTrue(answered)
        self.check_memory(grown, 32 * MIB)
        self.check_serves(server, "after")

    def test_fields_that_nobody_knows_take_no_memory(self) -> None:
        server = self.start()
        server.create_round("open", ROWS)
        before = server.memory_bytes("VmHWM")
        calls = 200
        request = api.WaitRoundRequest(name="rounds/open").SerializeToString()
        request += b"\x7b\x7c" * 30_000  # empty groups: protobuf keeps each in 50 bytes
        connection = http2.Connection(server.target)
        for _ in range(calls):
            connection.start("WaitRound", [request])
        self.assertTrue(wait_until(lambda: server.load().calls == calls + 1))
        grown = server.memory_bytes("VmHWM") - before
        connection.close()
        print(f"{calls} waiting calls of {len(request)} bytes: memory grew {grown / MIB:.1f} MiB")
        self.check_memory(grown, 100 * MIB)
        self.check_serves(server, "after")

    def test_rapid_resets_are_survived(self) -> None:
        server = self.start()
        number = effort("SPARSEAGG_RESETS", 3000)
        before, cpu = server.memory_bytes("VmHWM"), server.cpu_seconds()
        connection = http2.connect(server.target)
        connection.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0))
        headers = http2.request_headers(http2.SERVICE + "StreamUpdates")
        cancel = struct.pack(">I", 8)
        try:
            for first in range(0, number, 100):
                batch = b""
                for stream in range(2 * first + 1, 2 * first + 201, 2):
                    batch += http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers)
                    batch += http2.frame(http2.RST_STREAM, 0, stream, cancel)
                connection.sendall(batch)
        except OSError as error:
            print(f"the server ended the connection: {error}")
        connection.close()
        self.assertTrue(wait_until(lambda: server.load().calls == 1), "streams are left over")
        grown = server.memory_bytes("VmHWM") - before
        print(
            f"{number} resets: memory grew {grown / MIB:.1f} MiB, {server.cpu_seconds() - cpu:.1f} s of CPU"
        )
        # What the distribution's gRPC takes for a stream, and some for the process: see docs/security.md.
        self.check_memory(grown, 64 * MIB + number * 24 * 1024)
        self.check_serves(server, "after")

    def test_an_endless_header_is_survived(self) -> None:
        server = self.start()
        mib = effort("SPARSEAGG_HPACK_MIB", 1)
        before, cpu = server.memory_bytes("VmHWM"), server.cpu_seconds()
        connection = http2.connect(server.target)
        connection.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0))
        start = b"\0" + http2.integer(1, 7) + b"x" + http2.integer(1 << 30, 7)
        try:
            connection.sendall(http2.frame(http2.HEADERS, 0, 1, start))
            for _ in range(mib * MIB // 16_000):
                connection.sendall(http2.frame(http2.CONTINUATION, 0, 1, b"y" * 16_000))
        except OSError as error:
            print(f"the server ended the connection: {error}")
        connection.close()
        self.check_serves(server, "after")
        grown = server.memory_bytes("VmHWM") - before
        print(
            f"a header of {mib} MiB: memory grew {grown / MIB:.1f} MiB, {server.cpu_seconds() - cpu:.1f} s of CPU"
        )
        self.check_memory(grown, (64 + 4 * mib) * MIB)

    def test_garbage_is_survived(self) -> None:
        server = self.start()
        generator = random.Random(11)
        for _ in range(100):
            connection = http2.connect(server.target)
            try:
                if generator.random() < 0.5:
                    connection.sendall(http2.PREFACE)
                connection.sendall(generator.randbytes(generator.randrange(1, 5000)))
            except OSError:
                pass  # it has had enough
            connection.close()
        self.check_serves(server, "after")


class SwarmTest(HostileTest):
    def latency(self, server: Server, prefix: str, seconds: float) -> subprocess.Popen:
        script = os.path.join(os.path.dirname(__file__), "latency.py")
        arguments = [server.target, prefix, str(seconds), "memory", "durable"]
        client = subprocess.Popen(
            [sys.executable, script, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(client.stdout.close)
        return client

    def result(self, client: subprocess.Popen) -> dict:
        out, _ = client.communicate()
        self.assertEqual(client.returncode, 0)
        return json.loads(out)

    def test_thousands_of_slow_uploads_cost_little_and_all_come_to_their_end(self) -> None:
        number = effort("SPARSEAGG_SLOW_UPLOADS", 300)
        seconds = effort("SPARSEAGG_SLOW_SECONDS", 4)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        folder = tempfile.TemporaryDirectory(prefix="sparseagg_swarm_")
        self.addCleanup(folder.cleanup)
        server = self.start(f"--data-dir={folder.name}", "--store-free-bytes-min=0")
        for name in ("memory", "durable", "idle", "slow"):
            server.create_round(name, 1_000_000 if name == "idle" else ROWS, name == "durable")
        alone = self.result(self.latency(server, "alone", seconds))

        # Uploads of 1 MB that have begun and send nothing.
        before = server.memory_bytes()
        idle = Swarm(server.target, "idle", 1_000_000, MIB // uploads.ENTRY_BYTES, number)
        self.assertTrue(idle.wait_for("progress"), [c.errors for c in idle.clients if c.errors][:3])
        each = (server.memory_bytes() - before) / number
        load = server.load()
        print(f"{number} idle uploads: {each / 1024:.1f} KiB each, staging {load.staging_bytes}")
        self.assertEqual(load.open_uploads, number)
        self.assertLess(load.staging_bytes, number * 1024, "no more than headers take")
        self.check_memory(each, 64 * 1024)
        idle.close()
        self.assertTrue(wait_until(lambda: server.load().calls == 1))
        self.assertEqual(server.load().open_uploads, number, "they could be resumed")
        server.abort("idle")
        self.assertEqual(server.load().open_uploads, 0)

        # The same swarm at another server first: what it takes of the machine, not of the server.
        other = self.start("--store-free-bytes-min=0")
        other.create_round("slow", ROWS, False)
        elsewhere = self.beside(other, server, "elsewhere", number, seconds)
        other.close()
        beside = self.beside(server, server, "beside", number, seconds)
        print(f"  alone: {alone}\n  swarm elsewhere: {elsewhere}\n  swarm here: {beside}")

    def beside(
        self, crowded: Server, measured: Server, name: str, number: int, seconds: float
    ) -> dict:
        """Receipts of a client of `measured` while uploads to `crowded` come as slowly as they may."""
        entries = 2_500
        swarm = Swarm(crowded.target, "slow", ROWS, entries, number)
        self.addCleanup(swarm.close)
        self.assertTrue(
            swarm.wait_for("progress"), [c.errors for c in swarm.clients if c.errors][:3]
        )
        client = self.latency(measured, name, seconds)
        reached, rate = swarm.send_slowly(seconds + 2, SLOW_BYTES_PER_S, SLOW_PERIOD_S)
        result = self.result(client)
        swarm.finish(reached)
        self.assertTrue(
            swarm.wait_for("receipts"), [c.errors for c in swarm.clients if c.errors][:3]
        )
        self.assertEqual(crowded.round("slow").contributors, number)
        swarm.close()
        print(f"{number} uploads at {rate:.0f} B/s each")
        return result


class CutStreamsTest(HostileTest):
    def check(self, durable: bool) -> None:
        number = effort("SPARSEAGG_CUT_STREAMS", 300)
        generator = random.Random(7)
        with tempfile.TemporaryDirectory(prefix="sparseagg_cut_") as folder:
            arguments = ["--upload-idle-ms=2000", "--store-free-bytes-min=0"]
            if durable:
                arguments.append(f"--data-dir={folder}")
            server = self.start(*arguments)
            server.create_round("cut", 100_000, durable)
            # More than 128 KiB is written to a file as it comes; but only 64 KiB fit the first window.
            entries = 12_000
            data = uploads.payload(entries)
            sizes = [1, 100, 5_000, 30_000, 60_000]

            def cut_one(contributor: str) -> None:
                opening = uploads.begin("cut", contributor, 100_000, entries)
                part = data[: generator.choice(sizes)]
                whole = (
                    http2.PREFACE
                    + http2.frame(http2.SETTINGS, 0, 0)
                    + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, uploads.OPEN_STREAM)
                    + uploads.data_frames(1, opening)
                    + uploads.data_frames(1, uploads.chunk(part, 0))
                )
                connection = http2.connect(server.target)
                connection.sendall(whole[: generator.randrange(1, len(whole) + 1)])
                if generator.random() < 0.5:  # a reset instead of an end
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.close()

            def small_one(contributor: str) -> None:
                """Complete, but the sender is gone before its receipt."""
                opening = uploads.begin("cut", contributor, 100_000, 10)
                body = uploads.chunk(uploads.payload(10), 0)
                connection = http2.connect(server.target)
                connection.sendall(
                    http2.PREFACE
                    + http2.frame(http2.SETTINGS, 0, 0)
                    + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, uploads.OPEN_STREAM)
                    + uploads.data_frames(1, opening + body)
                )
                connection.close()

            def nothing_left() -> bool:
                load = server.load()
                return (
                    load.calls,
                    load.open_uploads,
                    load.staging_bytes,
                    load.upload_disk_bytes,
                ) == (
                    1,
                    0,
                    0,
                    0,
                )

            def cut_all(name: str) -> None:
                for n in range(number):
                    small_one(f"{name}-{n}") if n % 10 == 0 else cut_one(f"{name}-{n}")
                self.assertTrue(wait_until(nothing_left), server.load())

            # A burst leaves behind what the libraries keep of the most that were open at a time, which are as many as
            # came within --upload-idle-ms, and more on a busy machine. What is lost with each stream grows every time.
            limit = 16 * MIB
            cut_all("first")
            for burst in ("second", "third", "fourth"):
                files, memory = server.descriptors(), server.memory_bytes()
                cut_all(burst)
                self.assertTrue(wait_until(lambda most=files + 2: server.descriptors() <= most))
                grown = server.memory_bytes() - memory
                print(f"{number} cut streams, durable {durable}: memory grew {grown / MIB:.1f} MiB")
                if grown < limit:
                    break
            self.check_memory(grown, limit)
            if durable:
                self.assertEqual(os.listdir(os.path.join(folder, "payloads")), [])
            self.check_serves(server, "after")
            server.close()

    def test_nothing_remains_of_cut_streams(self) -> None:
        self.check(durable=False)

    def test_nothing_remains_of_cut_streams_of_a_durable_round(self) -> None:
        self.check(durable=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
