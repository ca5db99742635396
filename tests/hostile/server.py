"""The real server in a process of its own, and what it takes of the machine."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

import http2
from _proto import aggregation_pb2 as api
from _proto import types_pb2 as types

DEADLINE_S = 120


def wait_until(condition: Callable[[], bool]) -> bool:
    """Polls another process; False when it took too long."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def effort(variable: str, usual: int) -> int:
    """The size of a test: what the environment says, or that of a usual test run."""
    return int(os.environ.get(variable, usual))


class Server:
    def __init__(self, *arguments: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sparseagg_hostile_")
        port_file = os.path.join(self._folder.name, "port")
        self.log_path = os.path.join(self._folder.name, "log")
        listen = ["--listen=127.0.0.1:0", f"--port-file={port_file}", "--admin-listen=none"]
        with open(self.log_path, "w") as log:
            self._process = subprocess.Popen(
                [os.environ["SPARSEAGG_BINARY"], "serve", *listen, *arguments], stderr=log
            )
        assert wait_until(lambda: os.path.exists(port_file) or not self.alive())
        with open(port_file) as file:
            self.target = f"127.0.0.1:{file.read().strip()}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def stop(self) -> int:
        """Asks it to stop; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(DEADLINE_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        with open(self.log_path) as file:
            return file.read()

    def memory_bytes(self, what: str = "VmRSS") -> int:
        """VmRSS: resident now. VmHWM: the most that it ever was."""
        with open(f"/proc/{self._process.pid}/status") as file:
            for line in file:
                if line.startswith(what + ":"):
                    return int(line.split()[1]) * 1024
        raise LookupError(what)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def cpu_seconds(self) -> float:
        with open(f"/proc/{self._process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def call(self, method: str, request: object, answer: object) -> object:
        connection = http2.Connection(self.target)
        try:
            (data,) = connection.call(method, [request.SerializeToString()])
        finally:
            connection.close()
        answer.ParseFromString(data)
        return answer

    def load(self) -> object:
        return self.call("GetServerInfo", api.GetServerInfoRequest(), api.ServerInfo()).load

    def create_round(self, name: str, rows: int, durable: bool = False) -> None:
        tensor = types.TensorSpec(
            name="t", value_type=types.VALUE_TYPE_F32, dense_shape=[rows], sparse_dim=1
        )
        spec = types.RoundSpec(
            tensors=[tensor],
            durability=types.DURABILITY_DURABLE if durable else types.DURABILITY_MEMORY,
        )
        self.call("CreateRound", api.CreateRoundRequest(round_id=name, spec=spec), types.Round())

    def abort(self, name: str) -> None:
        self.call("AbortRound", api.AbortRoundRequest(name=f"rounds/{name}"), types.Round())

    def round(self, name: str) -> object:
        return self.call("GetRound", api.GetRoundRequest(name=f"rounds/{name}"), types.Round())
