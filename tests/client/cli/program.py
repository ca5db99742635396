"""The program `sparseagg` for tests that run it as a user does: a server of its own for each class of tests, and real
processes of the client."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
    import scipy.io  # noqa: F401: cli_test takes it from here
    import scipy.sparse as sp
except ImportError as error:
    print(f"skipped: {error}; install the packages python3-numpy and python3-scipy")
    sys.exit(77)

BINARY = os.environ["SPARSEAGG_BINARY"]
START_SECONDS_MAX = 60


def wait_for_port(server: subprocess.Popen, port_file: pathlib.Path) -> str:
    """Polls another process: the one thing there is no event for."""
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end and server.poll() is None:
        text = port_file.read_text().strip() if port_file.exists() else ""
        if text:
            return f"127.0.0.1:{text}"
        time.sleep(0.02)
    raise RuntimeError(f"the server did not start: {server.returncode}")


class ProgramTest(unittest.TestCase):
    # Further arguments of the server.
    serve_arguments: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        port_file = cls.path / "port"
        cls.log = open(cls.path / "serve.log", "w")  # noqa: SIM115 - tearDownClass closes it
        cls.server = subprocess.Popen(
            [
                BINARY,
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--port-file",
                str(port_file),
                "--admin-listen=none",
                *cls.serve_arguments,
            ],
            stdout=cls.log,
            stderr=cls.log,
        )
        cls.address = wait_for_port(cls.server, port_file)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.terminate()
        code = cls.server.wait(timeout=60)
        cls.log.close()
        cls.folder.cleanup()
        assert code == 0, f"the server ended with {code}"

    def run_cli(
        self, *args, server: str | None = None, code: int = 0
    ) -> subprocess.CompletedProcess:
        environment = dict(os.environ, SPARSEAGG_SERVER=server or self.address)
        result = subprocess.run(
            [BINARY, *map(str, args)],
            env=environment,
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def error(self, *args, code: int = 1, server: str | None = None) -> str:
        """The one line on stderr of a command that fails with `code`."""
        result = self.run_cli(*args, code=code, server=server)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("sparseagg: "), result.stderr)
        return result.stderr

    def matrix(self, name: str, seed: int, dtype="f4", shape=(200, 300)) -> sp.coo_matrix:
        rng = np.random.default_rng(seed)
        matrix = sp.random(*shape, density=0.05, format="coo", random_state=rng)
        matrix.data = (
            rng.integers(-8, 8, matrix.nnz).astype(dtype)
            if dtype[0] != "u"
            else rng.integers(0, 8, matrix.nnz).astype(dtype)
        )
        sp.save_npz(self.path / name, matrix)
        return matrix

    def load(self, name: str) -> sp.coo_matrix:
        return sp.load_npz(self.path / name)
