"""Measures of the house: sizes of files, functions, folders and pages, and sentences of comments that have no main clause.

    house.py [--fragments]    prints each measure beside its limit; ends with 1 when one is exceeded

The limits are those of docs/decisions/0015-the-house.md.
"""

import ast
import collections
import math
import os
import re
import sys

import checks

SOURCES = re.compile(
    r"(base|sparse|cpu|cuda|proto|service|client|bench|tests|python|examples)/.*\.(h|cc|cu|cuh)$"
)
FOLDERS = re.compile(r"(base|sparse|cpu|cuda|proto|service|client|bench|tests|python|examples)/")
CODE = re.compile(r".*\.(h|cc|cu|cuh|py|js)$")
JAVASCRIPT = re.compile(r"examples/.*\.js$")
PYTHON = re.compile(r"(docs|packaging|python|bench|tests|examples)/.*\.py$")

# A sentence that begins with one of these and has no finite verb is a fragment: "Of one reduction."
PHRASE_STARTS = frozenset(
    "of for by with from in at on to without until beside nor also or and but not only those these none".split()
)
# A sentence that begins with one of these needs a main clause behind a comma: "Whether it is the first."
CLAUSE_STARTS = frozenset(
    "whether what who whoever whose which where when as if because since how why though although while".split()
)
FINITE_VERB = re.compile(
    r"\b(is|are|was|were|has|have|had|does|do|did|can|cannot|could|must|may|might|will|would|shall|should|"
    r"[a-z]+(?:s|es)|[a-z]+ed)\b"
)


def _sentences(paragraph):
    return re.split(r"(?<=[.:;!?])\s+(?=[A-Z])", " ".join(paragraph)) if paragraph else []


def comment_sentences(text, mark="//"):
    """Sentences of comments that have lines of their own; lists, tables, formulas and notes behind code are left out."""
    paragraph = []
    for line in [*text.splitlines(), ""]:
        match = re.match(rf"\s*(?:{mark})+ ?(.*)", line)
        words = match.group(1) if match else ""
        if words and not re.match(r"[\s|*\-\d+#<>!]|NOLINT|clang-format|type:|noqa", words):
            paragraph.append(words)
            continue
        yield from _sentences(paragraph)
        paragraph = []


def docstring_sentences(text):
    """Sentences of the first paragraph of each docstring; descriptions of parameters come after it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node) or ""
            yield from _sentences(re.split(r"\n\s*\n", docstring)[0].split())


def sentences_of(path, text):
    if SOURCES.match(path) or JAVASCRIPT.match(path):
        yield from comment_sentences(text)
    elif PYTHON.match(path):
        yield from comment_sentences(text, "#")
        yield from docstring_sentences(text)


def is_fragment(sentence):
    words = re.findall(r"[A-Za-z_']+", sentence)
    if len(words) < 2 or not sentence[0].isupper():
        return False
    first = words[0].lower()
    if first in CLAUSE_STARTS:
        return "," not in sentence and ":" not in sentence[:-1]
    if sentence.startswith(("In: ", "Out: ")):
        return False  # what a kernel reads and writes
    return first in PHRASE_STARTS and not FINITE_VERB.search(sentence[len(words[0]) :])


def measures(tree):
    sources = {path: text for path, text in tree.items() if SOURCES.match(path)}
    lines = sorted(text.count("\n") for text in sources.values())
    functions = [length for text in sources.values() for _, length in checks.functions(text)]
    folders = collections.Counter(
        os.path.dirname(path) for path in tree if FOLDERS.match(path) and CODE.match(path)
    )
    sentences = [s for path, text in tree.items() for s in sentences_of(path, text)]
    decisions = [text for path, text in tree.items() if re.match(r"docs/decisions/.*\.md$", path)]
    results = sum(
        text.count("\n")
        for path, text in tree.items()
        if re.match(r"bench/results/.*\.json$", path)
    )
    folder, most = max(folders.items(), key=lambda item: item[1])
    long_functions = sum(length > 70 for length in functions)
    fragments = sum(map(is_fragment, sentences))
    yield "functions of more than 70 lines, %", 100 * long_functions / len(functions), 0.5
    yield "lines of a file, 90th percentile", lines[math.ceil(0.9 * len(lines)) - 1], 250
    yield f"files of a folder, most ({folder})", most, 32
    yield "fragments among the sentences of comments, %", 100 * fragments / len(sentences), 2
    yield "lines of a decision, most", max(text.count("\n") for text in decisions), 80
    yield (
        "characters of a line of decisions, most",
        max(len(line) for text in decisions for line in text.splitlines()),
        120,
    )
    yield "lines of bench/results", results, 4000
    yield "lines of README", tree["README.md"].count("\n"), 150
    yield "lines of CHANGELOG", tree["CHANGELOG.md"].count("\n"), 40


def main():
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    tree = checks.read_tree(root)
    exceeded = 0
    for name, value, limit in measures(tree):
        exceeded += value > limit
        print(f"{'  ' if value <= limit else '! '}{name}: {value:.4g} of {limit}")
    if "--fragments" in sys.argv:
        for path, text in tree.items():
            for sentence in filter(is_fragment, sentences_of(path, text)):
                print(f"{path}: {sentence}")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
