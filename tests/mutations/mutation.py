"""What a bug is, and what has to catch it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Checker:
    """A program of the build, and how it is run."""

    target: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A bug: `edits` are (file, text, replacement)."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    checker: Checker
