"""Writes the manual page from what the program says about itself: man_page.py PROGRAM VERSION OUT"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def help_of(program: str, *command: str) -> str:
    run = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True)
    return run.stdout


def subcommands(text: str) -> list[str]:
    _, found, listed = text.partition("\nSubcommands:\n")
    return (
        re.findall(r"^  ([a-z][a-z-]*)\b", listed.split("\n\n")[0], re.MULTILINE) if found else []
    )


def roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(
        "\\&" + line if line.startswith((".", "'")) else line for line in escaped.split("\n")
    )


def sections(program: str, command: tuple[str, ...] = ()) -> list[str]:
    text = help_of(program, *command)
    parts = []
    if command:
        parts.append(f'.SS "sparseagg {roff(" ".join(command))}"\n.nf\n{roff(text.strip())}\n.fi')
    for name in subcommands(text):
        parts += sections(program, (*command, name))
    return parts


def main() -> None:
    program, version, out = sys.argv[1:]
    top = help_of(program)
    exit_codes = top[top.index("Exit codes:") :].strip().replace("Exit codes: ", "")
    page = f""".TH SPARSEAGG 1 "" "sparseagg {version}" "User Commands"
.SH NAME
sparseagg \\- exact sums of sparse federated updates
.SH SYNOPSIS
.B sparseagg
.I command
[\\fIoptions\\fR]
.SH DESCRIPTION
The server (\\fBsparseagg serve\\fR), and a client of it. Sparse client updates of a round are summed exactly, in any order
with the same bits; an acknowledged update is counted once, and a durable one survives a crash.
.SH COMMANDS
{chr(10).join(sections(program))}
.SH EXIT STATUS
{roff(exit_codes)}
.SH FILES
.TP
.I /etc/sparseagg/sparseagg.conf
settings of the system's server
.TP
.I /var/lib/sparseagg
its data directory
"""
    Path(out).write_text(page)


if __name__ == "__main__":
    main()
