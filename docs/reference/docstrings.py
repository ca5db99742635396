"""The package's docstrings as reStructuredText.

They are prose for people who read the source: paragraphs, "name: text" for a parameter or a field, indented lines for
code, and `...` around code, which is a link where it is the name of something public. A name that looks like one of ours
and does not exist becomes a link that finds nothing, for which the build fails.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_ITEM = re.compile(r"(`?[a-z_]\w*`?(?:, `?[a-z_]\w*`?)*): +(\S.*)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_CAMEL = re.compile(r"(?<![\w.])[A-Z]\w*[a-z0-9]\w*[A-Z]\w*\b")
_SPECIAL = re.compile(r"([\\*_|]|:(?=//))")  # the last: addresses are examples, not links
_PACKAGE = "sparseagg"
_SHORT_TEXT = 60  # characters of "name, other: text" up to which the text is repeated for each name


@dataclasses.dataclass
class Parts:
    """What a docstring consists of: `prose` has paragraphs (str) and code (list of lines), `items` the described names."""

    prose: list[str | list[str]]
    items: dict[str, str]
    items_at: int = 0  # how much of the prose stands before them


def split(docstring: str, names: Iterable[str], *, any_name: bool = False) -> Parts:
    """The parts of a docstring. names: what "name: text" may describe; with `any_name`, further ones at a line's start."""
    names = frozenset(names)
    parts = Parts([], {})
    for block in re.split(r"\n[ ]*\n", inspect.cleandoc(docstring).rstrip()):
        lines = block.split("\n")
        if lines[0].startswith("    "):
            _add_code(parts.prose, lines)
            continue
        for text in _texts(lines, names, any_name):
            _add_text(parts, text, names, any_name)
    return parts


def _add_code(prose: list[str | list[str]], lines: list[str]) -> None:
    if prose and isinstance(prose[-1], list):
        prose[-1] += ["", *lines]  # a blank line within code
    else:
        prose.append(lines)


def _texts(lines: list[str], names: frozenset[str], any_name: bool) -> Iterator[str]:
    """The texts of a block: each item with what belongs to it, and what is between them.

    To an item belong the lines below it that are indented, and one that goes on with its sentence.
    """
    text: list[str] = []
    in_item = False
    for line in lines:
        starts_item = bool(_item(line, names, any_name))
        goes_on = line.startswith("    ") or (text and not text[-1].endswith((".", ";", ":")))
        if text and (starts_item or (in_item and not goes_on)):
            yield " ".join(text)
            text = []
        in_item = starts_item or (in_item and bool(text))
        text.append(line.strip())
    yield " ".join(text)


def _item(line: str, names: frozenset[str], any_name: bool) -> tuple[list[str], str] | None:
    """(names, text) of "name, other: text"."""
    match = _ITEM.match(line)
    if match is None:
        return None
    described = match.group(1).replace("`", "").split(", ")
    return (described, match.group(2)) if any_name or names.issuperset(described) else None


def _add_text(parts: Parts, text: str, names: frozenset[str], any_name: bool) -> None:
    """A text as a paragraph or an item; within a line, "... text. other: text" begins another item."""
    for sentence_group in _split_at_names(text, names):
        item = _item(sentence_group, names, any_name)
        if item is None:
            parts.prose.append(sentence_group)
            continue
        described, words = item
        if not parts.items:
            parts.items_at = len(parts.prose)
        first, *others = described
        parts.items[first] = words
        again = words if len(words) <= _SHORT_TEXT else f"see `{first}`."
        parts.items.update(dict.fromkeys(others, again))


def _split_at_names(text: str, names: frozenset[str]) -> list[str]:
    starts = [
        match.start()
        for match in re.finditer(r"(?<=[.;] )(`?)([a-z_]\w*)\1(?=: )", text)
        if match.group(2) in names
    ]
    borders = [0, *starts, len(text)]
    return [text[a:b].strip() for a, b in zip(borders, borders[1:]) if text[a:b].strip()]


class Links:
    """Which name of a docstring is a link to what.

    public: the public names by module. members: those of each class, by its full name.
    """

    def __init__(
        self, public: Mapping[str, Iterable[str]], members: Mapping[str, Iterable[str]]
    ) -> None:
        self._public = {module: frozenset(names) for module, names in public.items()}
        self._members = {name: frozenset(found) for name, found in members.items()}

    def target(self, text: str, where: str) -> str | None:
        """What `text` names, in the docstring of `where`; None where it is only code."""
        if not _DOTTED.fullmatch(text):
            return None
        if text.split(".")[0] == _PACKAGE:
            return text
        module, owner = self._place(where)
        if owner is not None and text in self._members.get(owner, ()):
            return f"{owner}.{text}"
        first = text.split(".")[0]
        others = [name for name in self._public if name not in (module, _PACKAGE)]
        for candidate in (module, _PACKAGE, *others):
            if first in self._public.get(candidate, ()):
                return f"{candidate}.{text}"
        return None

    def _place(self, where: str) -> tuple[str, str | None]:
        """(module, class) in which a name stands."""
        module = max((m for m in self._public if f"{where}.".startswith(f"{m}.")), key=len)
        rest = where[len(module) + 1 :].split(".")
        owner = f"{module}.{rest[0]}"
        return module, owner if owner in self._members else None

    def inline(self, text: str, where: str) -> str:
        """A text with its code and its links."""
        pieces = text.split("`")
        if len(pieces) % 2 == 0:
            raise ValueError(f"{where}: an odd number of ` in: {text}")
        marked = []
        for number, piece in enumerate(pieces):
            marked.append(self._code(piece, where) if number % 2 else self._words(piece, where))
        return "".join(marked)

    def _code(self, code: str, where: str) -> str:
        target = self.target(code, where)
        role = f"``{code}``" if target is None else f":py:obj:`{code} <{target}>`"
        return f"\\ {role}\\ "

    def _words(self, words: str, where: str) -> str:
        """Plain text; names in mixed capitals are links without further marks."""
        marked, end = [], 0
        for match in _CAMEL.finditer(words):
            target = self.target(match.group(), where)
            if target is not None:
                marked.append(_SPECIAL.sub(r"\\\1", words[end : match.start()]))
                marked.append(f"\\ :py:obj:`{match.group()} <{target}>`\\ ")
                end = match.end()
        return "".join(marked) + _SPECIAL.sub(r"\\\1", words[end:])


def to_rst(parts: Parts, links: Links, where: str, parameters: Iterable[str]) -> list[str]:
    """Lines for Sphinx. Items that are no parameters are fields of the object."""
    parameters = frozenset(parameters)
    lines: list[str] = []

    def add_items() -> None:
        for name, text in parts.items.items():
            kind = "param" if name in parameters else "ivar"
            lines.append(f":{kind} {name}: {links.inline(text, where)}")
        lines.append("")

    for position, part in enumerate(parts.prose):
        if parts.items and position == parts.items_at:
            add_items()
        if isinstance(part, str):
            lines += [links.inline(part, where), ""]
        else:
            lines += _code_block(part)
    if parts.items and parts.items_at >= len(parts.prose):
        add_items()
    return lines


def _code_block(lines: list[str]) -> list[str]:
    code = textwrap.dedent("\n".join(lines))
    language = "pycon" if code.startswith(">>>") else "python" if _is_python(code) else "text"
    return [f".. code-block:: {language}", "", *textwrap.indent(code, "   ").split("\n"), ""]


def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def parameters_of(thing: Any) -> list[str]:
    """Names of the parameters of a function, or of making an object of a class."""
    function = thing.__init__ if inspect.isclass(thing) else thing
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
