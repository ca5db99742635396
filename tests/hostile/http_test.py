"""Clients of the HTTP edge that mean harm, or only break: each gets a clear answer, and nothing of them remains.

Sizes for a usual test run; ./dev reliability sets them to what docs/security.md reports:
  SPARSEAGG_HTTP_CONNECTIONS (9000), SPARSEAGG_HTTP_SLOW (200), SPARSEAGG_HTTP_PIPELINED (500),
  SPARSEAGG_HTTP_MALFORMED (1, of each kind), SPARSEAGG_HTTP_RESETS (80)
"""

import json
import os
import resource
import select
import socket
import struct
import tempfile
import threading
import unittest

from server import Server, effort, wait_until

MIB = 1 << 20
CONNECTIONS = effort("SPARSEAGG_HTTP_CONNECTIONS", 9_000)
SLOW = effort("SPARSEAGG_HTTP_SLOW", 200)
PIPELINED = effort("SPARSEAGG_HTTP_PIPELINED", 500)
MALFORMED = effort("SPARSEAGG_HTTP_MALFORMED", 1)
RESETS = effort("SPARSEAGG_HTTP_RESETS", 80)
PATH = "/sparseagg.v1.AggregationService/"
TIMEOUT_S = 120
RESETS_AT_CLOSE = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def request(method: str, body: bytes = b"{}", *headers: str, length: int | None = None) -> bytes:
    """A POST with a JSON body, as it is sent."""
    lines = [
        f"POST {PATH}{method} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Connection:
    """A socket, and the answers that come over it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._received = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_some(self, data: bytes) -> None:
        """Sends a body that the server may refuse before its end."""
        try:
            self.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def close(self) -> None:
        self.socket.close()

    def _more(self) -> bool:
        data = self.socket.recv(1 << 16)
        self._received += data
        return bool(data)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer; ConnectionError at the end."""
        while b"\r\n\r\n" not in self._received:
            if not self._more():
                raise ConnectionError(f"the connection ended with {self._received!r}")
        head, self._received = self._received.split(b"\r\n\r\n", 1)
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = int(headers.get("content-length", 0))
        while len(self._received) < size and self._more():
            pass
        body, self._received = self._received[:size], self._received[size:]
        return int(first.split()[1]), headers, body

    def is_closed(self) -> bool:
        """Waits for the end of the connection; False if something else comes."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def reason_of(body: bytes) -> str:
    return json.loads(body)["details"][0]["debug"]["reason"]


class HttpTest(unittest.TestCase):
    def setUp(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        # The server takes half of its file descriptors for connections, and has as many as this process.
        self.limit = hard // 2
        self.most = self.limit - 100

    def start(self, *arguments: str) -> Server:
        folder = tempfile.TemporaryDirectory(prefix="sparseagg_http_")
        self.addCleanup(folder.cleanup)
        port_file = os.path.join(folder.name, "port")
        server = Server("--http-listen=127.0.0.1:0", f"--http-port-file={port_file}", *arguments)
        self.addCleanup(server.close)
        with open(port_file) as file:
            self.port = int(file.read())
        return server

    def connect(self) -> Connection:
        connection = Connection(self.port)
        self.addCleanup(connection.close)
        return connection

    def check_serves(self, server: Server) -> None:
        self.assertTrue(server.alive(), server.log())
        connection = self.connect()
        connection.send(request("ListRounds"))
        self.assertEqual(connection.answer()[0], 200)

    def check_refused(self, sent: bytes, status: int, reason: str) -> None:
        """The answer names the reason, and the connection is closed after it."""
        connection = self.connect()
        connection.send(sent)
        got, headers, body = connection.answer()
        self.assertEqual((got, reason_of(body)), (status, reason), body)
        self.assertEqual(headers["connection"], "close")
        self.assertTrue(connection.is_closed())
        connection.close()


class MalformedTest(HttpTest):
    def test_lengths_that_contradict_each_other(self) -> None:
        server = self.start()
        twice = request("ListRounds", b"{}", "Content-Length: 3")
        both = request("ListRounds", b"2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked")
        for sent in MALFORMED * [
            twice,
            both,
            request("ListRounds").replace(b"Length: 2", b"Length: -2"),
            request("ListRounds").replace(b"Length: 2", b"Length: 2e0"),
            request("ListRounds").replace(b"Length: 2", b"Length: 99999999999999999999"),
        ]:
            self.check_refused(sent, 400, "MALFORMED_REQUEST")
        chunked = request("ListRounds", b"").replace(
            b"Content-Length: 0", b"Transfer-Encoding: chunked"
        )
        for body in MALFORMED * [
            b"x\r\n{}\r\n0\r\n\r\n",
            b"2\r\n{}\r\nxx\r\n",
            b"1;" + b"x" * (20 << 10),
            b"fffffffffffffffff\r\n",
        ]:
            self.check_refused(chunked + body, 400, "MALFORMED_REQUEST")
        connection = self.connect()
        connection.send(chunked + b"1\r\n{\r\n1;name=value\r\n}\r\n0\r\n\r\n")
        self.assertEqual(connection.answer()[0], 200)
        # Less than was stated: the client has gone. More: the next request, which is none.
        connection.send(request("ListRounds", b"{}", length=3))
        connection.close()
        connection = self.connect()
        connection.send(request("ListRounds", b"{}xx\r\n\r\n", length=2))
        self.assertEqual(connection.answer()[0], 200)
        self.assertEqual(reason_of(connection.answer()[2]), "MALFORMED_REQUEST")
        self.check_serves(server)

    def test_a_body_of_unknown_length_is_not_the_next_request(self) -> None:
        server = self.start()
        chunked = b"2\r\n{}\r\n0\r\n\r\n"
        head = request("ListRounds", b"").replace(b"Content-Length: 0\r\n", b"")
        for coding in MALFORMED * [
            b"identity",
            b"gzip",
            b"gzip, chunked",
            b"chunked, gzip",
            b"chunked, chunked",
            b"chunked\r\nTransfer-Encoding: gzip",
            b"gzip\r\nTransfer-Encoding: chunked",
            b"gzip\r\nContent-Length: 2",
            b"chunked;a=b",
            b"",
        ]:
            hidden = head[:-2] + b"Transfer-Encoding: " + coding + b"\r\n\r\n"
            self.check_refused(hidden + request("ListRounds"), 400, "MALFORMED_REQUEST")
            self.check_refused(hidden + chunked, 400, "MALFORMED_REQUEST")
        accepted = head[:-2] + b"Transfer-Encoding: Chunked\r\n\r\n" + chunked
        connection = self.connect()
        connection.send(accepted + accepted)
        self.assertEqual([connection.answer()[0] for _ in range(2)], [200, 200])
        old = accepted.replace(b"HTTP/1.1", b"HTTP/1.0")
        self.check_refused(old, 400, "MALFORMED_REQUEST")
        self.check_serves(server)

    def test_what_is_not_http(self) -> None:
        server = self.start()
        for sent in MALFORMED * [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"\0" * 100 + b"\r\n\r\n",
            b"POST /a b HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\nno colon\r\n\r\n",
            b"POST / HTTP/1.1\r\nName : value\r\n\r\n",
        ]:
            self.check_refused(sent, 400, "MALFORMED_REQUEST")
        self.check_serves(server)

    def test_heads_and_bodies_that_are_too_large(self) -> None:
        server = self.start()
        before = server.memory_bytes("VmHWM")
        head = b"POST / HTTP/1.1\r\n" + b"Name: " + b"x" * (15 << 10) + b"\r\n"
        many = b"".join(b"N%d: v\r\n" % i for i in range(3_000))
        for _ in range(MALFORMED):
            self.check_refused(head + b"Other: " + b"y" * (2 << 10), 431, "HEADERS_TOO_LARGE")
            self.check_refused(b"POST / HTTP/1.1\r\n" + many, 431, "HEADERS_TOO_LARGE")
            self.check_refused(
                request("SubmitUpdate", b"", length=1 << 40), 413, "MESSAGE_TOO_LARGE"
            )
        chunked = request("SubmitUpdate", b"").replace(
            b"Content-Length: 0", b"Transfer-Encoding: chunked"
        )
        connection = self.connect()
        connection.send_some(chunked + (b"100000\r\n" + b" " * MIB + b"\r\n") * 30)
        self.assertEqual(reason_of(connection.answer()[2]), "MESSAGE_TOO_LARGE")
        self.check_serves(server)
        grown = server.memory_bytes("VmHWM") - before
        print(f"{3 * MALFORMED + 1} heads and bodies: memory grew {grown / MIB:.1f} MiB")
        if not os.environ.get("SPARSEAGG_SANITIZE"):
            self.assertLess(grown, 200 * MIB)

    def test_json_that_would_take_much_more_memory_than_its_text(self) -> None:
        server = self.start()
        before = server.memory_bytes("VmHWM")
        for body in [
            b'{"tensors": [' + b"{}," * (4 * MIB // 3) + b"{}]}",
            b'{"tensors": [{"header": {"denseShape": [' + b"1," * (2 * MIB) + b"1]}}]}",
            b'{"tensors": ' * 100_000,
            b"[" * MIB,
            b'"' + b"\\u0041" * (MIB // 2) + b'"',
        ]:
            connection = self.connect()
            connection.send(request("SubmitUpdate", body))
            status, _, answer = connection.answer()
            self.assertEqual(status, 400, answer[:500])
            self.assertLess(len(answer), 4096)
        self.check_serves(server)
        if not os.environ.get("SPARSEAGG_SANITIZE"):
            self.assertLess(server.memory_bytes("VmHWM") - before, 400 * MIB)

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        server = self.start()
        connection = self.connect()
        before, cpu = server.memory_bytes("VmHWM"), server.cpu_seconds()
        ids = [f"id-{i}" for i in range(PIPELINED)]
        sent = b"".join(request("ListRounds", b"{}", f"X-Request-Id: {i}") for i in ids)
        # A thread of its own: the server reads no more requests while its answers wait.
        sender = threading.Thread(target=connection.send, args=(sent,))
        sender.start()
        answers = [connection.answer() for _ in ids]
        sender.join()
        self.assertEqual([headers["x-request-id"] for _, headers, _ in answers], ids)
        grown, cpu = server.memory_bytes("VmHWM") - before, server.cpu_seconds() - cpu
        print(f"{PIPELINED} at once: memory grew {grown / MIB:.1f} MiB, {cpu:.1f} s of CPU")
        if not os.environ.get("SPARSEAGG_SANITIZE"):
            self.assertLess(grown, 80 * MIB)
        # One that is refused before its body ends the connection, and the others are dropped.
        connection.send(request("Nothing", b"{}") + request("CreateRound", b"{}"))
        self.assertEqual(reason_of(connection.answer()[2]), "UNKNOWN_METHOD")
        self.assertTrue(connection.is_closed())
        self.check_serves(server)


class SlowTest(HttpTest):
    def test_a_head_that_does_not_end_and_a_body_that_stands_still(self) -> None:
        server = self.start("--upload-rate-window-ms=2000")
        before, cpu = server.memory_bytes("VmHWM"), server.cpu_seconds()
        number = min(SLOW, self.most // 2)
        heads = [self.connect() for _ in range(number)]
        for connection in heads:
            connection.send(request("ListRounds")[:20])
        bodies = [self.connect() for _ in range(number)]
        for connection in bodies:
            connection.send(request("ListRounds", b"{", length=1000))
        self.check_serves(server)
        for connection in bodies + heads:
            status, _, body = connection.answer()
            self.assertEqual((status, reason_of(body)), (408, "REQUEST_TOO_SLOW"))
            self.assertTrue(connection.is_closed())
        self.check_serves(server)
        grown, cpu = server.memory_bytes("VmHWM") - before, server.cpu_seconds() - cpu
        print(f"{number} heads, as many bodies: {grown / MIB:.1f} MiB, {cpu:.1f} s of CPU")
        if not os.environ.get("SPARSEAGG_SANITIZE"):
            self.assertLess(grown, 20 * MIB + 2 * number * 32 * 1024)

    def test_an_answer_that_nobody_reads(self) -> None:
        server = self.start("--upload-rate-window-ms=1000", "--upload-rate-min=1099511627776")
        connection = self.connect()
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sent = threading.Thread(target=self.send_until_closed, args=(connection,))
        sent.start()
        sent.join()
        self.check_serves(server)

    def send_until_closed(self, connection: Connection) -> None:
        """Sends requests and reads no answer, until the server has enough of it."""
        data = request("GetServerInfo") * 100
        try:
            while True:
                connection.send(data)
        except OSError:
            pass

    def test_a_client_that_goes_on_after_its_last_answer(self) -> None:
        server = self.start("--message-bytes-max=1MiB")
        connection = self.connect()
        connection.send(b"GARBAGE\r\n\r\n")
        self.assertEqual(reason_of(connection.answer()[2]), "MALFORMED_REQUEST")
        sent = self.sent_until_closed(connection)
        print(f"sent {sent / MIB:.1f} MiB after the last answer")
        self.assertLess(sent, 32 * MIB)  # 3 are read, the others are the buffers of the system
        # One that sends the rest slowly is not waited for.
        connection = self.connect()
        connection.send(b"GARBAGE\r\n\r\n")
        self.assertEqual(reason_of(connection.answer()[2]), "MALFORMED_REQUEST")
        self.assertTrue(wait_until(lambda: self.is_refused_a_byte(connection)))
        self.check_serves(server)

    def sent_until_closed(self, connection: Connection) -> int:
        """How many bytes can be sent, up to 1 GiB, before the server has enough of them."""
        sent = 0
        try:
            while sent < 1024 * MIB:
                sent += connection.socket.send(b"x" * (64 << 10))
        except OSError:
            pass
        return sent

    def is_refused_a_byte(self, connection: Connection) -> bool:
        try:
            connection.send(b"x")
        except OSError:
            return True
        return False

    def test_a_wait_that_nobody_waits_for_any_more_ends(self) -> None:
        server = self.start()
        server.create_round("r", 10)
        wait = request("WaitRound", b'{"name": "rounds/r", "timeout": "300s"}')
        for sent, resets in [
            (wait, False),
            (wait, True),
            (wait + request("ListRounds"), False),  # the next request has been received
            (wait + b" " * (64 << 10), True),
        ]:
            waits = [self.connect() for _ in range(50)]
            for connection in waits:
                connection.send(sent)
            self.assertTrue(wait_until(lambda: server.load().calls > 50))
            for connection in waits:
                if resets:
                    connection.socket.setsockopt(*RESETS_AT_CLOSE)
                connection.close()
            self.assertTrue(wait_until(lambda: server.load().calls == 1))

    def test_a_call_whose_client_has_sent_the_next_request_takes_no_processor(self) -> None:
        server = self.start()
        server.create_round("r", 10)
        connection = self.connect()
        wait = request("WaitRound", b'{"name": "rounds/r", "timeout": "3s"}')
        connection.send(wait)
        self.assertTrue(wait_until(lambda: server.load().calls > 1))
        before = server.cpu_seconds()
        connection.send(request("ListRounds"))
        self.assertEqual([connection.answer()[0] for _ in range(2)], [200, 200])
        self.assertLess(server.cpu_seconds() - before, 1.5)


class ManyTest(HttpTest):
    def threads_of(self, server: Server) -> int:
        return len(os.listdir(f"/proc/{server.pid}/task"))

    def test_idle_connections_cost_memory_of_a_buffer_and_no_thread(self) -> None:
        server = self.start()
        self.check_serves(server)
        before, threads = server.memory_bytes(), self.threads_of(server)
        number = min(CONNECTIONS, self.most)
        connections = [self.connect() for _ in range(number)]
        for connection in connections[::10]:  # some have been used
            connection.send(request("ListRounds"))
        for connection in connections[::10]:
            self.assertEqual(connection.answer()[0], 200)
        self.check_serves(server)
        each = (server.memory_bytes() - before) / number
        print(f"{number} idle connections: {each / 1024:.1f} KiB each")
        self.assertLessEqual(self.threads_of(server), threads + 16)
        if not os.environ.get("SPARSEAGG_SANITIZE"):
            self.assertLess(each, 32 << 10)
        for connection in connections:
            connection.close()
        self.assertTrue(wait_until(lambda: server.descriptors() < 200))
        self.check_serves(server)

    def test_connections_beyond_the_limit_are_told_and_later_ones_served(self) -> None:
        number, beyond = min(CONNECTIONS, self.limit), 100
        server = self.start(f"--http-connections-max={number}")
        before, cpu = server.memory_bytes(), server.cpu_seconds()
        held = [self.connect() for _ in range(number)]
        used = [held[0], *held[1:-1:10], held[-1]]
        for connection in used:
            connection.send(request("ListRounds"))
        for connection in used:
            self.assertEqual(connection.answer()[0], 200)
        each = (server.memory_bytes() - before) / number
        for connection in [self.connect() for _ in range(beyond)]:
            status, headers, body = connection.answer()
            self.assertEqual((status, json.loads(body)["code"]), (503, "unavailable"))
            self.assertEqual(headers["retry-after"], "1")
            self.assertTrue(connection.is_closed())
            connection.close()
        for connection in held:  # none of them has lost its place
            connection.send(request("ListRounds"))
        self.assertEqual({connection.answer()[0] for connection in held}, {200})
        cpu = server.cpu_seconds() - cpu
        print(f"{number} held, {each / 1024:.1f} KiB each, {beyond} refused; {cpu:.1f} s of CPU")
        held.pop().close()
        self.assertTrue(wait_until(self.is_served))
        for connection in held:
            connection.close()
        self.assertTrue(wait_until(lambda: server.descriptors() < 200))
        self.assertTrue(server.alive())

    def is_served(self) -> bool:
        connection = Connection(self.port)
        try:
            connection.send(request("ListRounds"))
            return connection.answer()[0] == 200
        except OSError:
            return False
        finally:
            connection.close()

    def test_bodies_share_a_budget(self) -> None:
        server = self.start("--http-bytes-max=4MiB")
        # Announced bytes take nothing, those that have come do.
        held = [self.connect() for _ in range(20)]
        for connection in held:
            connection.send(request("SubmitUpdate", b" " * 1000, length=10 * MIB))
        self.check_serves(server)
        large = held[:2]  # one of them comes too late, or both disturb each other
        for connection in large:
            connection.send_some(b" " * (3 * MIB))
        answered, _, _ = select.select([one.socket for one in large], [], [], TIMEOUT_S)
        refused = next(one for one in large if one.socket is answered[0])
        status, headers, body = refused.answer()
        self.assertEqual((status, reason_of(body)), (429, "HTTP_MEMORY_FULL"))
        self.assertEqual(headers["retry-after"], "1")
        for connection in large:
            connection.close()
        self.assertTrue(wait_until(lambda: self.answer_to_2_mib() == "MALFORMED_JSON"))
        self.check_serves(server)

    def answer_to_2_mib(self) -> str:
        connection = Connection(self.port)
        connection.send_some(request("SubmitUpdate", b" " * (2 * MIB)))
        _, _, body = connection.answer()
        connection.close()
        return reason_of(body)

    def test_a_stop_does_not_wait_for_idle_connections(self) -> None:
        server = self.start("--drain-timeout-ms=600000")
        for connection in [self.connect() for _ in range(100)]:
            connection.send(request("ListRounds"))
            self.assertEqual(connection.answer()[0], 200)
        self.assertEqual(server.stop(), 0)

    def test_resets_at_every_moment(self) -> None:
        server = self.start()
        before, cpu = server.memory_bytes("VmHWM"), server.cpu_seconds()
        sent = request("ListRounds") * 3
        for number in range(RESETS):
            connection = Connection(self.port)
            connection.send(sent[: 7 * number % len(sent)])
            connection.socket.setsockopt(*RESETS_AT_CLOSE)
            connection.close()
        self.assertTrue(wait_until(lambda: server.descriptors() < 100))
        self.check_serves(server)
        grown, cpu = server.memory_bytes("VmHWM") - before, server.cpu_seconds() - cpu
        print(f"{RESETS} resets: memory grew {grown / MIB:.1f} MiB, {cpu:.1f} s of CPU")
        if not os.environ.get("SPARSEAGG_SANITIZE"):
            self.assertLess(grown, 30 * MIB)


if __name__ == "__main__":
    unittest.main(verbosity=2)
