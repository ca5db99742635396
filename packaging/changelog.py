"""Writes CHANGELOG.md as Debian's tools read it (deb-changelog(5)): changelog.py CHANGELOG.md PACKAGE MAINTAINER OUT"""

from __future__ import annotations

import re
import sys
import textwrap
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path

VERSION = re.compile(r"^## (\S+) - (unreleased|[0-9-]+)$", re.MULTILINE)


def entry(item: str) -> str:
    return textwrap.fill(
        " ".join(item.split()),
        width=80,
        initial_indent="  * ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def main() -> None:
    source, package, maintainer, out = sys.argv[1:]
    # Not the time of the build: the same sources give the same package.
    changed = datetime.fromtimestamp(int(Path(source).stat().st_mtime), timezone.utc)
    _, *parts = VERSION.split(Path(source).read_text(encoding="utf-8"))
    versions = []
    for version, released, text in zip(parts[::3], parts[1::3], parts[2::3]):
        is_released = released != "unreleased"
        distribution = "unstable" if is_released else "UNRELEASED"
        date = datetime.fromisoformat(released + "T00:00:00+00:00") if is_released else changed
        entries = "\n".join(entry(item) for item in re.split(r"^\* ", text, flags=re.MULTILINE)[1:])
        versions.append(
            f"{package} ({version}) {distribution}; urgency=medium\n\n{entries}\n\n"
            f" -- {maintainer}  {format_datetime(date)}\n"
        )
    Path(out).write_text("\n".join(versions), encoding="utf-8")


if __name__ == "__main__":
    main()
