"""What a user who installs the wheels of `./dev wheel` with this Python gets: the lines of README.md, the program, and a
server of one's own. Run from the top of the checkout, with the wheels in build/wheel/dist; tests/wheel/run calls it.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "build/wheel/dist"
COMPILERS = ("cc", "gcc", "g++", "clang", "cmake")
LOCAL = """
from sparseagg import Client, TensorSpec
with Client.local() as client:
    round = client.create_round([TensorSpec("emb", [10], "f64")])
    round.submit({"emb": ([5], [2.5], [10])}, contributor="a")
    round.seal()
    print(round.result()["emb"].values)
"""
OPTIONS = argparse.Namespace()


class InstalledTest(unittest.TestCase):
    """Every case uses the virtual environment into which the first lines of README.md have installed the package."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(OPTIONS.folder)
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.bin = cls.folder / "venv/bin"
        subprocess.run([sys.executable, "-m", "venv", cls.folder / "venv"], check=True)
        cls.environment = {
            **{key: text for key, text in os.environ.items() if not key.startswith("SPARSEAGG")},
            "PATH": f"{cls.bin}:/usr/bin:/bin",
        }
        (block,) = (
            text
            for text in re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
            if "pip install" in text
        )
        (cls.printed,) = re.findall(r"prints `(\[.*?\])`", (ROOT / "README.md").read_text())
        begin, cpu_begin = time.monotonic(), cls.children_cpu_seconds()
        cls.first_steps = cls.run_here("bash", "-e", "-c", block)
        cls.seconds = time.monotonic() - begin
        cls.cpu_seconds = cls.children_cpu_seconds() - cpu_begin

    @staticmethod
    def children_cpu_seconds() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    @classmethod
    def run_here(cls, *command: object, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(word) for word in command],
            cwd=ROOT,
            env={**cls.environment, **environment},
            capture_output=True,
            text=True,
        )

    def python(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
        return self.run_here(self.bin / "python", *arguments, **environment)

    def test_the_first_lines_of_the_page_lead_to_an_aggregate(self) -> None:
        self.assertEqual(self.first_steps.returncode, 0, self.first_steps.stderr)
        self.assertEqual(self.first_steps.stdout.splitlines()[-1], self.printed)
        share = os.getloadavg()[0] / (os.cpu_count() or 1)
        print(
            f"the first lines took {self.seconds:.1f} s, of a processor {self.cpu_seconds:.1f} s; "
            f"{share:.1f} processes for each core"
        )
        # The limit is of processor time, because other programs may keep this machine busy.
        if OPTIONS.seconds_max:
            self.assertLess(self.cpu_seconds, OPTIONS.seconds_max)

    def test_the_round_of_the_page_starts_a_server_and_prints_its_rows(self) -> None:
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        (program,) = (text for text in blocks if "Client.local()" in text)
        done = self.python("-c", program)
        self.assertEqual((done.returncode, done.stdout), (0, "[ 3 17]\n"), done.stderr)

    def test_there_is_no_compiler(self) -> None:
        if not OPTIONS.no_compiler:
            self.skipTest("a machine of developers has one")
        self.assertEqual([name for name in COMPILERS if shutil.which(name)], [])

    def test_the_program_is_on_path_and_is_itself(self) -> None:
        self.assertEqual((self.bin / "sparseagg").read_bytes()[:4], b"\x7fELF")
        version = self.run_here("sparseagg", "--version")
        self.assertRegex(version.stdout, r"^sparseagg \d+\.\d+\.\d+\n$")
        self.assertEqual(self.python("-m", "sparseagg", "--version").stdout, version.stdout)
        self.assertEqual(self.python("-m", "sparseagg", "no-such-command").returncode, 2)

    def test_it_serves_and_stops(self) -> None:
        command = ["serve", "--listen=127.0.0.1:0", "--admin-listen=none"]
        for program in (["sparseagg"], ["python", "-m", "sparseagg"]):
            server = subprocess.Popen(
                [str(self.bin / program[0]), *program[1:], *command],
                env=self.environment,
                stderr=subprocess.PIPE,
                text=True,
            )
            for line in server.stderr:
                if "event=serving" in line:
                    break
            server.send_signal(signal.SIGTERM)
            self.assertIn("event=stopped", server.stderr.read())
            self.assertEqual(server.wait(), 0)
            server.stderr.close()

    def test_a_client_starts_the_server_that_came_with_it(self) -> None:
        for path in (f"{self.bin}:/usr/bin", "/usr/bin"):  # an environment that is not activated
            done = self.python("-c", LOCAL, PATH=path)
            self.assertEqual((done.returncode, done.stdout), (0, "[2.5]\n"), done.stderr)

    def installed_into(self, name: str, wheel: str) -> str:
        """The folder of `pip install --target`, for PYTHONPATH."""
        target = self.folder / name
        options = ["--quiet", "--no-deps", "--no-index", "--find-links", WHEELS, "--target", target]
        done = self.python("-m", "pip", "install", *options, wheel)
        self.assertEqual(done.returncode, 0, done.stderr)
        return str(target)

    def test_a_folder_of_its_own_has_its_own_program(self) -> None:
        target = self.installed_into("target", "sparseagg")
        (self.bin / "sparseagg").rename(self.bin / "hidden")
        try:
            done = self.python("-c", LOCAL, PYTHONPATH=target)
        finally:
            (self.bin / "hidden").rename(self.bin / "sparseagg")
        self.assertEqual((done.returncode, done.stdout), (0, "[2.5]\n"), done.stderr)

    def test_the_pure_wheel_says_what_to_install(self) -> None:
        (pure,) = WHEELS.glob("sparseagg-*-py3-none-any.whl")
        target = self.installed_into("pure", str(pure))
        done = self.python("-m", "sparseagg", "serve", PYTHONPATH=target, PATH="/usr/bin")
        self.assertEqual((done.returncode, done.stdout), (127, ""))
        self.assertIn("this is the client alone; install the wheel for Linux", done.stderr)

    def test_z_uninstalling_leaves_nothing(self) -> None:
        done = self.python("-m", "pip", "uninstall", "--quiet", "--yes", "sparseagg")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted((self.folder / "venv").rglob("sparseagg*")), [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="for what is installed; is made anew")
    parser.add_argument("--no-compiler", action="store_true", help="this machine must have none")
    parser.add_argument("--seconds-max", type=float, help="of the first lines of README.md")
    parser.parse_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], "-v"])


if __name__ == "__main__":
    main()
