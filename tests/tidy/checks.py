"""The checks of the tidy test. Each takes a tree (path -> text) and yields Problems; none touches the file system."""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping

import rules

Tree = Mapping[str, str]  # path below the root, with "/" -> text

CPP = re.compile(r".*\.(h|cc|cu|cuh)$")
HEADER = re.compile(r".*\.(h|cuh)$")
SOURCE = re.compile(r".*\.(h|cc|cu|cuh|py|js)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")
REASON = "[A-Z0-9]+(?:_[A-Z0-9]+)+"
ERROR = re.compile(rf'\(\s*absl::StatusCode::k(\w+),\s*"({REASON})"')
ERROR_MAKER = re.compile(
    r"^absl::Status (?:\w+::)?(\w+)\([^;{]*\breason\b[^;{]*\{$"
    r"(?:(?!^\}).)*?MakeError\(absl::StatusCode::k(\w+), reason",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s]+)\)")
NAMED_PATH = re.compile(
    r"(?<![\w./{}<>$%~-])((?:[\w-]+/)+\w[\w.-]*\.(?:h|cc|cu|cuh|py|js|proto|md))(?![\w{}])"
)
NAMED_SOURCE = re.compile(r"`([\w-]+\.(?:h|cc|cu|cuh|proto))`")
DEV_COMMAND = re.compile(r"(?:`|^ *|\()\./dev ([a-z][a-z0-9-]*)", re.MULTILINE)
REASON_ROW = re.compile(rf"^\| `({REASON})` \| ([A-Z_, ]+) \|", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Problem:
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def read_tree(root: str) -> dict[str, str]:
    """All text files below `root`, without what is generated or ignored."""
    tree = {}
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - rules.IGNORED_FOLDERS)
        for name in sorted(files):
            full = os.path.join(folder, name)
            path = os.path.relpath(full, root).replace(os.sep, "/")
            if re.fullmatch(rules.GENERATED, path) or os.path.islink(full):
                continue
            try:
                with open(full, encoding="utf-8") as file:
                    tree[path] = file.read()
            except (UnicodeDecodeError, FileNotFoundError):
                continue  # binary data, or an editor's file that is gone already
    return tree


def _line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def library_of(include: str) -> str | None:
    for name, pattern in rules.LIBRARIES:
        if re.fullmatch(pattern, include):
            return name
    return None


def _allowed_for(path: str) -> list[str] | None:
    for pattern, allowed in rules.DEPENDENCIES:
        if re.fullmatch(pattern, path):
            return allowed
    return None


def _is_allowed(library: str, allowed: list[str]) -> bool:
    return any(
        library == name or (name.endswith("/") and library.startswith(name)) for name in allowed
    )


def _include_message(tree: Tree, path: str, include: str, allowed: list[str]) -> str | None:
    library = library_of(include)
    if library is None:
        return f'"{include}" belongs to no library of tests/tidy/rules.py'
    if not _is_allowed(library, allowed):
        return f'must not include "{include}" ({library}); allowed here: {", ".join(allowed)}'
    for file_pattern, include_pattern, reason in rules.FORBIDDEN:
        if re.fullmatch(file_pattern, path) and re.fullmatch(include_pattern, include):
            return f'must not include "{include}": {reason}'
    device = library == "sparse" and re.fullmatch(rules.HOST_DEVICE_ONLY, path)
    if device and not _is_host_device(tree, include):
        return f'must not include "{include}": it is not marked for host and device'
    return None


def _is_host_device(tree: Tree, header: str) -> bool:
    marker = "base/host_device.h"
    return header == marker or header not in tree or f'"{marker}"' in tree[header]


def check_dependencies(tree: Tree) -> Iterator[Problem]:
    """Every #include obeys the dependency table."""
    for path, text in tree.items():
        if not CPP.match(path):
            continue
        allowed = _allowed_for(path)
        if allowed is None:
            yield Problem(
                path, 1, "belongs to no row of the dependency table in tests/tidy/rules.py"
            )
            continue
        for match in INCLUDE.finditer(text):
            message = _include_message(tree, path, match.group(1), allowed)
            if message is not None:
                yield Problem(path, _line_of(text, match.start(1)), message)


def _guard(path: str) -> str:
    return "SPARSEAGG_" + re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"


def check_header_guards(tree: Tree) -> Iterator[Problem]:
    """A header is guarded by its path."""
    for path, text in tree.items():
        # Highway includes these headers once for each instruction set, so they have no guard.
        if not HEADER.match(path) or path.endswith("-inl.h"):
            continue
        guard = _guard(path)
        lines = [line for line in text.splitlines() if line.startswith("#")]
        if (
            lines[:2] != [f"#ifndef {guard}", f"#define {guard}"]
            or lines[-1] != f"#endif  // {guard}"
        ):
            yield Problem(
                path, 1, f"the header guard must be {guard}, closed by #endif  // {guard}"
            )


def check_conditionals(tree: Tree) -> Iterator[Problem]:
    """No #if outside the files that are allowed to have one."""
    for path, text in tree.items():
        if not CPP.match(path) or any(re.fullmatch(p, path) for p in rules.CONDITIONALS_ALLOWED):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if CONDITION.match(line) and line != f"#ifndef {_guard(path)}":
                yield Problem(path, number, f"no preprocessor conditions here: {line.strip()}")


def check_unfinished(tree: Tree) -> Iterator[Problem]:
    """Nothing is marked as unfinished."""
    pattern = re.compile("|".join(rf"\b{word}" for word in rules.UNFINISHED))
    for path, text in tree.items():
        for match in pattern.finditer(text):
            yield Problem(
                path, _line_of(text, match.start()), f"{match.group()}: finish it, or open an issue"
            )


def check_skips(tree: Tree) -> Iterator[Problem]:
    """A test that skips itself names the hardware or package that is missing."""
    for path, text in tree.items():
        if not CPP.match(path):
            continue
        for match in re.finditer(r"GTEST_SKIP\(\)([^;]*);", text):
            if not re.search(rules.SKIP_REASON, match.group(1)):
                yield Problem(
                    path,
                    _line_of(text, match.start()),
                    "GTEST_SKIP must name the missing GPU or package",
                )


def check_sleeps(tree: Tree) -> Iterator[Problem]:
    """No test waits by the clock."""
    for path, text in tree.items():
        if (
            not path.startswith("tests/")
            or path.startswith("tests/tidy/")
            or not SOURCE.match(path)
        ):
            continue
        if path in rules.SLEEPS_ALLOWED:
            continue
        for match in re.finditer(rules.SLEEPS, text):
            yield Problem(
                path, _line_of(text, match.start()), "no sleeps in tests: wait for the event"
            )


def check_reactions(tree: Tree) -> Iterator[Problem]:
    """gRPC swallows what a reaction throws, and the call would never end."""
    for path, text in tree.items():
        if not path.startswith("service/rpc/"):
            continue
        for match in re.finditer(rules.REACTION, text):
            yield Problem(path, _line_of(text, match.start()), "a reaction of gRPC is noexcept")


def check_file_sizes(tree: Tree) -> Iterator[Problem]:
    """Files hold one idea."""
    for path, text in tree.items():
        lines = text.count("\n")
        limit = rules.TEST_FILE_LINES_MAX if path.startswith("tests/") else rules.FILE_LINES_MAX
        if SOURCE.match(path) and lines > limit:
            yield Problem(path, 1, f"{lines} lines, at most {limit}: split it")


def functions(text: str) -> Iterator[tuple[int, int]]:
    """(first line, lines) of the function bodies of formatted C++: a "{" that ends a line whose statement has a
    parameter list, up to the "}" of the same indentation."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.endswith("{") or re.match(
            r"\s*(namespace|struct|class|enum|union|extern|else|do)\b", line
        ):
            continue
        if not re.search(r"\)[^;]*\{$", line) or re.match(
            r"\s*(if|for|while|switch|catch|\}|return)\b", line.strip()
        ):
            continue
        indent = re.match(r"\s*", line).group()
        if len(indent) > 2:
            continue  # a lambda or a nested block
        for end in range(number + 1, len(lines)):
            if lines[end].startswith(indent + "}"):
                yield number + 1, end - number + 1
                break


def check_function_sizes(tree: Tree) -> Iterator[Problem]:
    """Functions of a screen. Tables of test data may be longer."""
    lengths = []
    for path, text in tree.items():
        if not CPP.match(path):
            continue
        for line, length in functions(text):
            lengths.append(length)
            if length > rules.FUNCTION_LINES_MAX:
                yield Problem(
                    path, line, f"a function of {length} lines, at most {rules.FUNCTION_LINES_MAX}"
                )
    long_functions = sum(length > rules.FUNCTION_LINES_LONG for length in lengths)
    if long_functions > rules.LONG_FUNCTIONS_SHARE_MAX * max(len(lengths), 100):
        yield Problem(
            ".",
            1,
            f"{long_functions} of {len(lengths)} functions are over "
            f"{rules.FUNCTION_LINES_LONG} lines, at most {rules.LONG_FUNCTIONS_SHARE_MAX:.0%} may be",
        )


def errors(tree: Tree) -> Iterator[tuple[str, int, str, str]]:
    """(path, line, code, reason) of the errors that the sources make, at once or through a function that is given the
    reason and used in the same folder."""
    sources = {path: text for path, text in tree.items() if re.match(rules.ERRORS_OF, path)}
    makers = set()  # (folder, pattern of a call, code)
    for path, text in sources.items():
        for match in ERROR.finditer(text):
            yield path, _line_of(text, match.start()), match.group(1), match.group(2)
        for match in ERROR_MAKER.finditer(text):
            call = re.compile(rf'(?<!absl::Status )\b{match.group(1)}\([^;]*?"({REASON})"')
            makers.add((os.path.dirname(path), call, match.group(2)))
    for folder, call, code in makers:
        for path, text in sources.items():
            if os.path.dirname(path) == folder:
                for match in call.finditer(text):
                    yield path, _line_of(text, match.start()), code, match.group(1)


def check_reasons(tree: Tree) -> Iterator[Problem]:
    """Every reason of an error has its row in the tables of docs/api.md, with its code."""
    rows = {}
    for match in REASON_ROW.finditer(tree.get("docs/api.md", "")):
        rows.setdefault(match.group(1), set()).update(match.group(2).split(", "))
    for path, line, code, reason in errors(tree):
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper()
        if word not in rows.get(reason, ()):
            yield Problem(path, line, f"docs/api.md has no row for {reason} with code {word}")


def _anchors(text: str) -> set[str]:
    """What #... of a link to this page can be: its headings as GitHub and GitLab name them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {word.strip().replace(" ", "-") for word in words}


def check_links(tree: Tree) -> Iterator[Problem]:
    """A link of a page to a file, folder or heading of this tree finds it."""
    folders = {path[:i] for path in tree for i, letter in enumerate(path) if letter == "/"}
    for path, text in tree.items():
        if not path.endswith(".md"):
            continue
        for match in LINK.finditer(text):
            file, _, anchor = match.group(1).partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if re.search(rules.PICTURES, to) or to in folders:
                continue
            if to not in tree or (anchor and anchor not in _anchors(tree[to])):
                line = _line_of(text, match.start())
                yield Problem(path, line, f"the link to {match.group(1)} finds nothing")


def check_paths(tree: Tree) -> Iterator[Problem]:
    """A source or page that a page, a comment or a message names is in the tree. First folders may be left out."""
    folders = {folder for path in tree for folder in path.split("/")[:-1]}
    folders -= {"sparseagg", "google"}  # headers that are generated or installed begin with these
    for path, text in tree.items():
        if path.startswith(("tests/tidy/", "bench/results/")):
            continue
        names = [m for m in NAMED_PATH.finditer(text) if m.group(1).partition("/")[0] in folders]
        if path.endswith(".md"):
            names += NAMED_SOURCE.finditer(text)
        for match in names:
            name = match.group(1)
            if name not in tree and not any(file.endswith("/" + name) for file in tree):
                line = _line_of(text, match.start())
                yield Problem(path, line, f"there is no file {name}")


def check_dev_commands(tree: Tree) -> Iterator[Problem]:
    """`./dev COMMAND` in a page, a comment or a message is a command of ./dev."""
    commands = re.findall(r"^command_(\w+)\(\)", tree.get("dev", ""), re.MULTILINE)
    known = {name.replace("_", "-") for name in commands} | rules.DEV_COMMANDS_OTHER
    for path, text in tree.items():
        for match in DEV_COMMAND.finditer(text):
            if match.group(1) not in known:
                line = _line_of(text, match.start())
                yield Problem(path, line, f"./dev has no command {match.group(1)}")


ALL_CHECKS = [
    check_dependencies,
    check_header_guards,
    check_conditionals,
    check_unfinished,
    check_skips,
    check_sleeps,
    check_reactions,
    check_file_sizes,
    check_function_sizes,
    check_reasons,
    check_links,
    check_paths,
    check_dev_commands,
]
