"""./dev does what its help says with a wrong command line, and does not cut off apt-get: from a folder with a blank in its
name, with programs of its own for what would change the machine."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Says that it installs, waits to be let go on, and says that it is done.
APT_GET = """#!/bin/sh
case " $* " in *" install "*) ;; *) exit 0 ;; esac
echo begun >"$FOLDER/begun"
read -r line <"$FOLDER/go_on"
echo done >"$FOLDER/done"
"""
SUDO = """#!/bin/sh
[ "$1" = -v ] || exec "$@"
"""


class DevTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sparseagg dev ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        shutil.copy(ROOT / "dev", self.folder)

    def dev(self, *arguments: str, env: dict | None = None) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.folder / "dev", *arguments], capture_output=True, text=True, check=False, env=env
        )

    def program(self, name: str, text: str) -> None:
        """Writes a program that `environment()` finds by this name."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def environment(self) -> dict:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "FOLDER": str(self.folder)}

    def commands(self) -> list[str]:
        return re.findall(r"^  ([a-z0-9-]+) ", self.dev("--help").stdout, re.MULTILINE)

    def test_every_command_explains_itself(self) -> None:
        functions = re.findall(r"^command_(\w+)\(\)", (ROOT / "dev").read_text(), re.MULTILINE)
        self.assertEqual(
            sorted(self.commands()), sorted(name.replace("_", "-") for name in functions)
        )
        for command in self.commands():
            run = self.dev(command, "--help")
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertTrue(run.stdout.startswith(f"./dev {command}"), run.stdout)

    def test_a_wrong_command_line_ends_with_2_and_does_nothing(self) -> None:
        (self.folder / "build").mkdir()
        for arguments in [
            [],
            ["tests"],
            ["build", "debug"],
            ["clean", "release"],  # would remove all of them
            ["format", "dev"],
            ["package", "--static"],
            ["bench", "everything"],
            ["fuzz", "--forever"],
            ["docs", "--pdf"],
        ]:
            run = self.dev(*arguments)
            self.assertEqual(run.returncode, 2, arguments)
            self.assertNotEqual(run.stderr, "")
            self.assertEqual(list((self.folder / "build").iterdir()), [])

    def test_clean_removes_what_was_made(self) -> None:
        (self.folder / "build/dev").mkdir(parents=True)
        self.assertEqual(self.dev("clean").returncode, 0)
        self.assertFalse((self.folder / "build").exists())

    def test_each_preset_is_tested_once(self) -> None:
        self.program("dpkg-query", "#!/bin/sh\necho ii\n")  # everything is installed
        self.program("cmake", "#!/bin/sh\n")
        self.program("ctest", '#!/bin/sh\necho "$2" >>"$FOLDER/tested"\n')
        for options, presets in [
            ([], ["dev"]),
            (["--tsan"], ["tsan"]),
            (["--asan", "--all"], ["asan", "tsan", "dev"]),
            (["--tsan", "--asan", "--tsan"], ["asan", "tsan"]),
        ]:
            # With a filter the Python tests do not follow.
            run = self.dev("test", *options, "-R", "engine", env=self.environment())
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            tested = self.folder / "tested"
            self.assertEqual(
                [Path(line).name for line in tested.read_text().splitlines()], presets, options
            )
            tested.unlink()

    @unittest.skipUnless(shutil.which("dpkg-query"), "there is no dpkg-query: not a Debian")
    def test_an_interrupt_waits_for_apt_get(self) -> None:
        self.program("apt-get", APT_GET)
        self.program("dpkg-query", "#!/bin/sh\nexit 1\n")  # nothing is installed
        self.program("sudo", SUDO)
        for name in ["begun", "go_on"]:
            os.mkfifo(self.folder / name)
        dev = subprocess.Popen(
            [self.folder / "dev", "format"],
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell that starts the test in the background makes it ignore SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        guard = threading.Timer(60, os.killpg, [dev.pid, signal.SIGKILL])
        guard.start()
        self.addCleanup(guard.cancel)
        (self.folder / "begun").read_text()
        os.killpg(dev.pid, signal.SIGINT)
        for line in dev.stderr:
            if "waiting for apt-get" in line:
                break
        else:
            self.fail("it did not wait")
        (self.folder / "go_on").write_text("\n")
        dev.stderr.close()
        self.assertNotEqual(dev.wait(), 0)
        self.assertTrue((self.folder / "done").exists())


if __name__ == "__main__":
    unittest.main()
