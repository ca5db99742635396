"""Puts each bug of mutations.py into a copy of the tree, builds its checker and runs it: the checker must fail, and must not
without the bug.

  tests/mutations/run.py [--only REGEX]     builds in build/mutations; prints a table
  tests/mutations/run.py --texts            only: every text still stands once in its file (a test of the default suite)

Ends with 1 when a bug was not caught.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from mutation import Checker, Mutation
from mutations import MUTATIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build" / "mutations"
SECONDS_MAX = 600


def texts_that_are_gone() -> list[str]:
    """Returns the mutations whose text is not in the tree any more."""
    problems = []
    for mutation in MUTATIONS:
        for file, text, _ in mutation.edits:
            count = (ROOT / file).read_text().count(text)
            if count != 1:
                problems.append(
                    f'"{mutation.name}": this text stands {count} times in {file}, not once:\n{text}'
                )
    return problems


def copy_tree() -> None:
    """The working tree without what git ignores, beside its builds; only what changed is written."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    wanted = {name for name in listed if name and (ROOT / name).is_file()}
    for path in [
        path
        for path in COPY.rglob("*")
        if path.is_file() and "build" not in path.relative_to(COPY).parts
    ]:
        if str(path.relative_to(COPY)) not in wanted:
            path.unlink()
    for name in wanted:
        source, target = ROOT / name, COPY / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    cache = COPY / "build" / "ccache"
    cache.parent.mkdir(parents=True, exist_ok=True)
    if not cache.exists():
        (ROOT / "build" / "ccache").mkdir(parents=True, exist_ok=True)
        cache.symlink_to(ROOT / "build" / "ccache")


def build(targets: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["cmake", "--build", "build/dev", "--target", *targets],
        cwd=COPY,
        capture_output=True,
        text=True,
        check=False,
    )


def verdict_of(checker: Checker) -> str:
    """ "caught: ..." when the checker failed, otherwise "SURVIVED"."""
    command = [str(COPY / "build/dev/bin" / checker.target), *checker.arguments]
    try:
        run = subprocess.run(
            command,
            cwd=COPY,
            env={**os.environ, **dict(checker.environment)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"caught: still running after {SECONDS_MAX} s"
    if run.returncode == 0:
        return "SURVIVED"
    failed = re.findall(r"\[  FAILED  \] (\S+) \(", run.stdout) + re.findall(
        r"fuzz target: (.*)", run.stderr
    )
    return "caught: " + (failed[0] if failed else f"ended with {run.returncode}")


def try_mutation(mutation: Mutation) -> str:
    originals = {file: (COPY / file).read_text() for file, _, _ in mutation.edits}
    try:
        for file, text, replacement in mutation.edits:
            path = COPY / file
            path.write_text(path.read_text().replace(text, replacement))
        built = build([mutation.checker.target])
        if built.returncode != 0:
            return "does not compile:\n" + built.stdout[-3000:]
        return verdict_of(mutation.checker)
    finally:
        for file, content in originals.items():
            (COPY / file).write_text(content)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="bugs whose name matches")
    parser.add_argument(
        "--texts", action="store_true", help="only look whether the texts are there"
    )
    options = parser.parse_args()

    problems = texts_that_are_gone()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems or options.texts:
        return 1 if problems else 0

    chosen = [mutation for mutation in MUTATIONS if re.search(options.only, mutation.name)]
    copy_tree()
    python = "-DPython3_EXECUTABLE=/usr/bin/python3"
    subprocess.run(["cmake", "--preset", "dev", python], cwd=COPY, check=True, capture_output=True)
    built = build(sorted({mutation.checker.target for mutation in chosen}))
    if built.returncode != 0:
        print(built.stdout[-3000:])
        return 1
    # A checker that fails without a bug would catch every one.
    for checker in dict.fromkeys(mutation.checker for mutation in chosen):
        verdict = verdict_of(checker)
        if verdict != "SURVIVED":
            print(f"{checker.target} fails without a bug: {verdict}")
            return 1
    not_caught = 0
    print("| bug | checker | verdict | took |\n|---|---|---|---|", flush=True)
    for mutation in chosen:
        start = time.monotonic()
        verdict = try_mutation(mutation)
        not_caught += not verdict.startswith("caught")
        took = time.monotonic() - start
        print(
            f"| {mutation.name} | {mutation.checker.target} | {verdict} | {took:.0f} s |",
            flush=True,
        )
    print(f"{len(chosen) - not_caught} of {len(chosen)} bugs were caught")
    return 1 if not_caught else 0


if __name__ == "__main__":
    sys.exit(main())
