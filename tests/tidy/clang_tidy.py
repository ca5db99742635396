"""Runs clang-tidy over the sources of a build whose path matches, and remembers what was clean.

Precompiled headers, which are another compiler's, are left out of the commands. A source is looked at again when what the compiler sees of it, the checks or clang-tidy itself have changed. What it sees is
the preprocessed text with its comments, which may switch a check off, and its macros, whose names are checked.

    clang_tidy.py BUILD REGEX --clean FOLDER --jobs N
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

NOISE = re.compile(r"^(\d+ (warning|error)s? .*generated|Suppressed .*|Use -header-filter.*)")


def without_precompiled_headers(entry):
    """The row of compile_commands.json with a command that includes what the source includes, and no more."""
    command = shlex.split(entry["command"])
    for position, word in reversed(list(enumerate(command))):
        if word == "-include" and command[position + 1].endswith("/cmake_pch.hxx"):
            del command[position : position + 2]
    return {**entry, "command": shlex.join(w for w in command if w != "-Winvalid-pch")}


def preprocessed(entry):
    """The text of a row of compile_commands.json as the compiler sees it, or None where it does not compile."""
    command = shlex.split(entry["command"])
    output = command.index("-o")
    command = command[:output] + command[output + 2 :]
    result = subprocess.run(
        [*command, "-E", "-C", "-dD"], cwd=entry["directory"], capture_output=True, check=False
    )
    return result.stdout if result.returncode == 0 else None


def findings(entry, build):
    """Returns clang-tidy's findings about the source, or None if there are none."""
    result = subprocess.run(
        ["clang-tidy", "-quiet", f"-p={build}", entry["file"]],
        cwd=entry["directory"],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        return None
    lines = [line for line in (result.stdout + result.stderr).splitlines() if not NOISE.match(line)]
    return "\n".join(lines)


def look(entry, build, clean, configuration):
    text = preprocessed(entry)
    stamp = text and clean / hashlib.sha256(configuration + text).hexdigest()
    if stamp and stamp.exists():
        return None
    found = findings(entry, build)
    if stamp and found is None:
        stamp.touch()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("regex")
    parser.add_argument("--clean", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    arguments.clean.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(__file__).resolve().parents[2]
    configuration = (root / ".clang-tidy").read_bytes() + subprocess.run(
        ["clang-tidy", "--version"], capture_output=True, check=True
    ).stdout

    entries = json.loads((arguments.build / "compile_commands.json").read_text())
    entries = list(
        {
            e["file"]: without_precompiled_headers(e)
            for e in entries
            if re.search(arguments.regex, e["file"])
        }.values()
    )
    failed = 0
    with (
        tempfile.TemporaryDirectory() as commands,
        concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool,
    ):
        (pathlib.Path(commands) / "compile_commands.json").write_text(json.dumps(entries))
        looks = [pool.submit(look, e, commands, arguments.clean, configuration) for e in entries]
        for number, done in enumerate(concurrent.futures.as_completed(looks), 1):
            found = done.result()
            if found is not None:
                failed += 1
                print(found, flush=True)
            if number % 50 == 0 or number == len(entries):
                print(f"{number} of {len(entries)} sources, {failed} with findings", flush=True)
    return 1 if failed or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
