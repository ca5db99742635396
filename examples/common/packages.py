"""Real data that every Debian or Ubuntu machine has: what its packages need, who looks after them, how they are tagged."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_WORD = re.compile(r"[a-z][a-z0-9+-]{2,}")
_PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]+")


@dataclass(frozen=True)
class Package:
    """One package; the lists are sorted and without repetition."""

    name: str
    maintainer: str
    words: list[str]  # of its name and its description
    needs: list[str]  # packages that it depends on or recommends
    tags: list[str]  # debtags, or its section where it has none


def read_packages(packages_max: int) -> list[Package]:
    """The packages that apt knows (all of the distribution after `apt-get update`, else the installed ones), by name.

    Raises OSError when there is no apt here.
    """
    command = ["apt-cache", "dumpavail"]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found = {}
    for paragraph in text.split("\n\n"):
        fields = dict(_fields(paragraph))
        if "Package" in fields and "Maintainer" in fields:
            found[fields["Package"]] = _package(fields)
    names = sorted(found)
    # Evenly over the alphabet, not the first ones: neighbours in it are packages of one source.
    step = max(1, len(names) // packages_max)
    return [found[name] for name in names[::step][:packages_max]]


def ratings_of(packages: list[Package]) -> list[tuple[str, str, float]]:
    """(user, item, rating): a package is a user, what it needs are its items, each rated 1."""
    return [(package.name, need, 1.0) for package in packages for need in package.needs]


def read_ratings(path: Path) -> list[tuple[str, str, float]]:
    """Lines of user, item, rating, separated by commas, tabs or "::" (MovieLens' formats); a heading is skipped."""
    ratings = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        parts = re.split(r"::|,|\t", line.strip())
        try:
            ratings.append((parts[0], parts[1], float(parts[2])))
        except (IndexError, ValueError):
            if ratings:
                raise ValueError(f'{path}: "{line}" is not "user,item,rating"') from None
    return ratings


def _fields(paragraph: str) -> Iterator[tuple[str, str]]:
    name, value = "", ""
    for line in paragraph.splitlines():
        if line.startswith((" ", "\t")):
            value += line
            continue
        if name:
            yield name, value
        name, _, value = line.partition(":")
        value = value.strip()
    yield name, value


def _package(fields: dict[str, str]) -> Package:
    description = f"{fields['Package']} {fields.get('Description', '')}"
    needed = f"{fields.get('Depends', '')},{fields.get('Recommends', '')}"
    needs = {found.group() for part in needed.split(",") if (found := _PACKAGE_NAME.search(part))}
    tags = re.findall(r"[\w-]+::[\w:+-]+", fields.get("Tag", ""))
    return Package(
        name=fields["Package"],
        maintainer=fields["Maintainer"],
        words=sorted(set(_WORD.findall(description.lower()))),
        needs=sorted(needs),
        tags=sorted(set(tags)) or ["section::" + fields.get("Section", "none")],
    )
