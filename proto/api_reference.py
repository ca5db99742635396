#!/usr/bin/env python3
"""Writes the reference part of docs/api.md from the comments of proto/sparseagg/v1.

Usage: proto/api_reference.py [--check]      with --check it writes nothing, and fails when the page is not up to date

Comments before a declaration and after it on the same line are treated alike. Needs protoc and Python's protobuf.
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

try:
    from google.protobuf import descriptor_pb2
except ImportError:
    sys.exit(77)  # CTest: skipped

PROTO = Path(__file__).resolve().parent
PAGE = PROTO.parent / "docs" / "api.md"
FILES = sorted(str(file.relative_to(PROTO)) for file in PROTO.glob("sparseagg/v1/*.proto"))
PACKAGE = ".sparseagg.v1."
BEGIN = "<!-- From here on made by proto/api_reference.py: change the comments in proto/sparseagg/v1. -->\n"

Field = descriptor_pb2.FieldDescriptorProto
# Field numbers of descriptor.proto, which make up the paths of source comments.
MESSAGES, ENUMS, SERVICES = 4, 5, 6
MESSAGE_FIELDS = ENUM_VALUES = SERVICE_METHODS = 2


def descriptors() -> list[descriptor_pb2.FileDescriptorProto]:
    protoc = shutil.which("protoc") or sys.exit("proto/api_reference.py: there is no protoc")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        subprocess.run(
            [protoc, f"-I{PROTO}", "--include_source_info", f"--descriptor_set_out={out}", *FILES],
            check=True,
        )
        found = {
            file.name: file
            for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
        }
    return [found[name] for name in FILES]


class Comments:
    """The comments of one file, by the path of what they explain."""

    def __init__(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        self._by_path = {
            tuple(location.path): " ".join(
                " ".join([location.leading_comments, location.trailing_comments]).split()
            )
            for location in file.source_code_info.location
        }

    def of(self, *path: int) -> str:
        return markdown(self._by_path.get(path, ""))


def markdown(text: str) -> str:
    return re.sub(r"([*|<\[])", r"\\\1", text)


def anchor(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def type_name(full: str) -> str:
    return (
        anchor(full.removeprefix(PACKAGE)) if full.startswith(PACKAGE) else f"`{full.lstrip('.')}`"
    )


def type_of(field: Field, message: descriptor_pb2.DescriptorProto) -> str:
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None:
        return "map of " + " to ".join(type_of(part, entry) for part in entry.field)
    if field.type_name:
        name = type_name(field.type_name)
    else:
        name = f"`{Field.Type.Name(field.type).removeprefix('TYPE_').lower()}`"
    if field.label == Field.LABEL_REPEATED:
        return "repeated " + name
    if field.proto3_optional:
        return "optional " + name
    if field.HasField("oneof_index"):
        return f"{name}, one of `{message.oneof_decl[field.oneof_index].name}`"
    return name


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(row)} |".replace("|  |", "| |")


def section(title: str, comment: str) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    if comment:
        yield comment
        yield ""


def calls(file: descriptor_pb2.FileDescriptorProto) -> Iterator[str]:
    comments = Comments(file)
    for i, service in enumerate(file.service):
        yield from section(service.name, comments.of(SERVICES, i))
        rows = []
        for j, call in enumerate(service.method):
            take, give = type_name(call.input_type), type_name(call.output_type)
            rows.append(
                [
                    f"`{call.name}`",
                    f"stream of {take}" if call.client_streaming else take,
                    f"stream of {give}" if call.server_streaming else give,
                    comments.of(SERVICES, i, SERVICE_METHODS, j),
                ]
            )
        yield from table(["call", "takes", "answers", ""], rows)
        yield ""


def types(file: descriptor_pb2.FileDescriptorProto) -> Iterator[str]:
    comments = Comments(file)
    for i, message in enumerate(file.message_type):
        yield from section(message.name, comments.of(MESSAGES, i))
        rows = [
            [
                str(field.number),
                f"`{field.name}`",
                type_of(field, message),
                comments.of(MESSAGES, i, MESSAGE_FIELDS, j),
            ]
            for j, field in enumerate(message.field)
        ]
        yield from table(["", "field", "type", ""], rows) if rows else ["No fields."]
        yield ""
    for i, enum in enumerate(file.enum_type):
        yield from section(enum.name, comments.of(ENUMS, i))
        rows = [
            [str(value.number), f"`{value.name}`", comments.of(ENUMS, i, ENUM_VALUES, j)]
            for j, value in enumerate(enum.value)
        ]
        yield from table(["", "value", ""], rows)
        yield ""


def reference() -> str:
    files = descriptors()
    lines = [
        "## Reference",
        "",
        'Package `sparseagg.v1`. A field that is not set has the value 0, "" or nothing.',
        "",
    ]
    for file in files:
        lines += calls(file)
    for file in files:
        lines += types(file)
    return BEGIN + "\n" + "\n".join(lines).rstrip() + "\n"


def main() -> None:
    before = PAGE.read_text(encoding="utf-8")
    after = before.partition(BEGIN)[0] + reference()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(after, encoding="utf-8")
    elif before != after:
        difference = difflib.unified_diff(
            before.splitlines(), after.splitlines(), "is", "should be"
        )
        sys.exit("\n".join(difference) + "\ndocs/api.md: run proto/api_reference.py")


if __name__ == "__main__":
    main()
