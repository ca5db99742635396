"""Flower's own quickstart apps, from the last wheel that has them, and the change that docs/flower.md shows."""

from __future__ import annotations

import re
import string
import subprocess
import sys
import zipfile
from pathlib import Path

# `flwr new` of later versions downloads its apps from Flower's server.
WHEEL = "flwr==1.23.0"
_TEMPLATES = "flwr/cli/new/templates/app/"


def download(folder: Path) -> Path | None:
    """The wheel; None where pip cannot reach an index that has it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", WHEEL]
    subprocess.run([*command, "--dest", str(folder)], check=False)
    return next(folder.glob("flwr-*.whl"), None)


def render(wheel: Path, framework: str, folder: Path) -> Path:
    """The app that `flwr new quickstart --framework ...` writes, but for its licence and README."""
    words = {
        "package_name": "quickstart",
        "project_name": "quickstart",
        "import_name": "quickstart",
        "framework_str": framework,
        "username": "user",
    }
    files = {
        f"pyproject.{framework}.toml": "pyproject.toml",
        "code/__init__.py": "quickstart/__init__.py",
        f"code/client.{framework}.py": "quickstart/client_app.py",
        f"code/server.{framework}.py": "quickstart/server_app.py",
        f"code/task.{framework}.py": "quickstart/task.py",
    }
    (folder / "quickstart").mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        for template, file in files.items():
            text = archive.read(f"{_TEMPLATES}{template}.tpl").decode()
            (folder / file).write_text(string.Template(text).substitute(words))
    return folder


def changes_of(page: str) -> list[tuple[str, str, str]]:
    """(file, line, line in its place) of the first diff of a page."""
    diff = re.search(r"```diff\n(.*?)```", page, re.DOTALL)
    assert diff
    changes = []
    file = ""
    lines = diff.group(1).splitlines()
    for line, following in zip(lines, [*lines[1:], ""]):
        if line.startswith("--- "):
            file = line.split()[1]
        elif line.startswith("-") and following.startswith("+"):
            changes.append((file, line[1:], following[1:]))
    return changes


def change(app: Path, changes: list[tuple[str, str, str]]) -> None:
    """Makes the changes; each line has to be there once."""
    for file, before, after in changes:
        path = app / "quickstart" / file
        lines = path.read_text().splitlines()
        assert lines.count(before) == 1, f"{file}: {before}"
        path.write_text("\n".join(after if line == before else line for line in lines) + "\n")
