"""How long the program `sparseagg` waits for a server that is not there, and what it says of what answers in its place."""

import http.server
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

from program import BINARY, ProgramTest, wait_for_port

NOBODY = "127.66.77.88:1"  # of this machine's loopback


class Refusing(http.server.BaseHTTPRequestHandler):
    """An HTTP/1 server, and an HTTP proxy that lets nobody through."""

    def do_CONNECT(self) -> None:
        self.send_error(403)

    def log_message(self, *_) -> None:
        pass


class InBetweenTest(ProgramTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
        threading.Thread(target=cls.other.serve_forever, daemon=True).start()
        cls.other_address = f"127.0.0.1:{cls.other.server_port}"

    @classmethod
    def tearDownClass(cls) -> None:
        cls.other.shutdown()
        cls.other.server_close()
        super().tearDownClass()

    def test_what_does_not_speak_grpc_is_told_so(self) -> None:
        line = self.error("info", "--timeout", 60, server=self.other_address, code=3)
        self.assertIn(f"what answers at {self.other_address} does not speak gRPC; give", line)

    def test_an_http_proxy_that_refuses_is_named(self) -> None:
        proxy = {"http_proxy": f"http://user:secret@{self.other_address}"}
        with mock.patch.dict(os.environ, proxy):
            for name in ("grpc_proxy", "https_proxy", "no_grpc_proxy", "no_proxy"):
                os.environ.pop(name, None)
            line = self.error("info", "--timeout", 60, server="sparseagg.invalid", code=3)
            self.assertIn("version", self.run_cli("info").stdout)  # of this machine: no proxy
        self.assertIn(f"the HTTP proxy {self.other_address} refuses to connect to", line)
        self.assertIn("put sparseagg.invalid into no_proxy", line)
        self.assertNotIn("secret", line)


class NobodyTest(ProgramTest):
    def test_a_call_takes_the_time_that_it_was_given(self) -> None:
        start = time.monotonic()
        line = self.error("info", "--timeout", 4, server=NOBODY, code=3)
        self.assertIn(f"cannot reach {NOBODY}: connection refused", line)
        self.assertGreater(time.monotonic() - start, 3)

    def test_watching_nobody_ends(self) -> None:
        line = self.error("round", "watch", "r", server=NOBODY, code=3)
        self.assertIn(f"cannot reach {NOBODY}: connection refused", line)


class RestartTest(unittest.TestCase):
    def serve(self, folder: pathlib.Path, listen: str) -> tuple[subprocess.Popen, str]:
        port_file = folder / "port"
        port_file.unlink(missing_ok=True)
        command = [
            BINARY,
            "serve",
            "--listen",
            listen,
            "--port-file",
            port_file,
            "--admin-listen=none",
        ]
        log = subprocess.DEVNULL
        server = subprocess.Popen([*command, "--data-dir", folder / "data"], stdout=log, stderr=log)
        return server, wait_for_port(server, port_file)

    def test_a_watch_goes_on_over_a_restart_and_says_so(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            server, address = self.serve(pathlib.Path(folder), "127.0.0.1:0")
            environment = dict(os.environ, SPARSEAGG_SERVER=address)

            def run(*args: str) -> None:
                subprocess.run([BINARY, *args], env=environment, check=True, capture_output=True)

            run("round", "create", "--tensor", "t:f32:10", "--id=r", "--durability=durable")
            with subprocess.Popen(
                [BINARY, "round", "watch", "r"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as watch:
                self.assertIn("OPEN", watch.stdout.readline())
                server.kill()
                server.wait()
                self.assertIn("; trying again\n", watch.stderr.readline())
                server, _ = self.serve(pathlib.Path(folder), address)
                run("round", "seal", "r")
                out, _ = watch.communicate(timeout=60)
            self.assertIn("PUBLISHED", out)
            self.assertEqual(watch.returncode, 0)
            server.terminate()
            self.assertEqual(server.wait(timeout=60), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
