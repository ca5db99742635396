"""The sources that .dockerignore leaves to an image are all that its configuration needs."""

import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ImagesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sparseagg image ")
        self.addCleanup(folder.cleanup)
        self.sources = Path(folder.name) / "src"
        # The other patterns are about files that no build reads.
        left_out = re.findall(r"^[\w.]+$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
        self.assertIn("tests", left_out)

        def ignored(folder: str, names: list[str]) -> list[str]:
            return [name for name in names if Path(folder) == ROOT and name in left_out]

        shutil.copytree(ROOT, self.sources, ignore=ignored)

    def test_each_image_can_be_configured(self) -> None:
        for dockerfile in sorted((ROOT / "docker").glob("*.Dockerfile")):
            with self.subTest(dockerfile.name):
                text = dockerfile.read_text().replace("\\\n", " ")
                command = re.search(r"^RUN (cmake --preset .*?) && ", text, re.MULTILINE)
                self.assertIsNotNone(command)
                arguments = shlex.split(command[1].replace("${PRESET}", "release"))
                arguments.append("-DSPARSEAGG_CUDA=OFF")  # not every machine has the toolkit
                done = subprocess.run(arguments, cwd=self.sources, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
