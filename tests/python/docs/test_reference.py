"""The reference that Sphinx makes of the docstrings: without a warning, with every public name, and none undescribed."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import operator
import re
import subprocess
import sys
import zlib

import pytest
import sparseagg
import sparseagg.aio
from conftest import ROOT

pytest.importorskip("sphinx", reason="builds the reference with the package sphinx")

SOURCES = ROOT / "docs/reference"
sys.path.insert(0, str(SOURCES))
import docstrings  # noqa: E402
import public  # noqa: E402

NAMES = public.public_names()
LINKS = docstrings.Links(
    {"sparseagg": ["Client", "Round", "SparseTensor"], "sparseagg.aio": ["Client"]},
    {"sparseagg.Client": ["rounds"], "sparseagg.aio.Client": ["rounds"]},
)


def build(sources, out):
    """The finished process: every warning is an error, also a name that leads nowhere."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    return subprocess.run([*command, sources, out], capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the pages."""
    out = tmp_path_factory.mktemp("reference")
    done = build(SOURCES, out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return out


def described(folder):
    """What the pages describe: kinds by name, from the inventory that Sphinx makes for other projects."""
    content = (folder / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = (line.split(" ") for line in zlib.decompress(content).decode().splitlines())
    return {name: kind for name, kind, *_ in entries if kind.startswith("py:")}


def test_every_public_name_is_on_a_page(built):
    found = described(built)
    missing = [name.full for name in NAMES if name.full not in found]
    assert not missing, f"add them to a page of {SOURCES}"
    members = [f"{name.full}.{member.name}" for name in NAMES for member in name.members()]
    assert not set(members) - set(found)


def test_the_pages_have_the_types(built):
    page = (built / "rounds.html").read_text()
    start = page.index('id="sparseagg.Round.submit"')
    text = re.sub(r"<[^>]*>", "", page[start : page.index("</dl>\n</dd>", start)])
    for words in ["contributor (str)", "weight (SupportsFloat | None)", "Return type"]:
        assert words in text
    assert 'title="sparseagg.SparseTensor"' in page


def test_all_modules_that_users_import_are_covered():
    """They are those that `import sparseagg` leaves out; a new one needs a page."""
    program = "import sys, sparseagg; print(*(name for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    folder = public.package_folder()
    modules = {
        f"sparseagg.{path.stem}"
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    others = {name for name in modules - loaded if not name.startswith("sparseagg._")}
    assert others == set(public.MODULES) - {"sparseagg"}


@pytest.mark.parametrize("name", NAMES, ids=[name.full for name in NAMES])
def test_a_public_name_has_a_docstring(name):
    if name.node is None:  # a constant, whose words are on its page
        assert not callable(getattr(importlib.import_module(name.module), name.name))
        return
    nodes = {name.full: name.node, **{f"{name.full}.{m.name}": m for m in name.members()}}
    assert [full for full, node in nodes.items() if not ast.get_docstring(node)] == []


RECORDS = [
    thing
    for module in (sparseagg.records, sparseagg.tasks.records)
    for thing in vars(module).values()
    if inspect.isclass(thing) and thing.__module__ == module.__name__
]
NOT_MADE_BY_USERS = (
    sparseagg.Partial,
    sparseagg.Pipeline,
    sparseagg.Result,
    sparseagg.Round,
    sparseagg.Tasks,
    sparseagg.aio.Pipeline,
    sparseagg.aio.Round,
    sparseagg.aio.Tasks,
)


@pytest.mark.parametrize("record", [one for one in RECORDS if dataclasses.is_dataclass(one)])
def test_every_field_of_a_record_is_described(record):
    names = [field.name for field in dataclasses.fields(record)]
    assert list(docstrings.split(record.__doc__, names).items) == names


def described_things():
    """(full name, object) of functions, methods and classes whose parameters a user gives."""
    for name in NAMES:
        if name.module in public.ADAPTERS or name.node is None:
            continue  # the parameters of an adapter are its framework's
        thing = getattr(importlib.import_module(name.module), name.name)
        is_made_by_users = thing not in RECORDS and thing not in NOT_MADE_BY_USERS
        if is_made_by_users and not (inspect.isclass(thing) and issubclass(thing, BaseException)):
            yield name.full, thing
        for member in name.members():
            yield f"{name.full}.{member.name}", getattr(thing, member.name)


@pytest.mark.parametrize(
    ("full", "thing"), [pytest.param(*one, id=one[0]) for one in described_things()]
)
def test_every_parameter_is_described(full, thing):
    parameters = [] if isinstance(thing, property) else docstrings.parameters_of(thing)
    texts = inspect.getdoc(thing) or ""
    if full.startswith("sparseagg.aio."):  # its pages show what the blocking client says
        texts += "\n\n" + (inspect.getdoc(operator.attrgetter(full[14:])(sparseagg)) or "")
    described = docstrings.split(texts, parameters).items
    assert set(parameters) - {"self"} <= set(described)


def test_a_wrong_name_and_a_name_without_a_page_fail(tmp_path):
    """The build exists to find these."""
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("conf.py", "docstrings.py", "public.py"):
        (sources / name).write_text((SOURCES / name).read_text())
    page = "Page\n====\n\n.. py:module:: sparseagg\n\n.. autoclass:: sparseagg.RoundPolicy\n"
    (sources / "index.rst").write_text(page)
    done = build(sources, tmp_path / "out")
    assert done.returncode == 1
    assert "sparseagg.Client.create_round" in done.stderr
    found = described(tmp_path / "out")
    assert "sparseagg.RoundPolicy.goal" in found and "sparseagg.Client" not in found


@pytest.mark.parametrize(
    ("text", "where", "target"),
    [
        ("Client", "sparseagg.Round.info", "sparseagg.Client"),
        ("Client", "sparseagg.aio.Client", "sparseagg.aio.Client"),
        ("Round", "sparseagg.aio.Client", "sparseagg.Round"),
        ("rounds", "sparseagg.aio.Client.close", "sparseagg.aio.Client.rounds"),
        ("Client.sumbit", "sparseagg.Round", "sparseagg.Client.sumbit"),  # leads nowhere
        ("sparseagg.aio", "sparseagg.Round", "sparseagg.aio"),
        ("grpc.StatusCode", "sparseagg.Round", None),
        ("[nnz, sparse_dim]", "sparseagg.Round", None),
    ],
)
def test_what_a_name_links_to(text, where, target):
    assert LINKS.target(text, where) == target


def test_a_docstring_becomes_parts():
    text = """What it does.

    shape: the full one,
        in two lines. kind: of it.
    low, high: limits.
    one, two: what is said of both at such a length that nobody wants to read it again.
    Raises ValueError: never.

        one = 1

        two = 2
    """
    parts = docstrings.split(text, ["shape", "kind", "low", "high", "one", "two"])
    assert parts.items == {
        "shape": "the full one, in two lines.",
        "kind": "of it.",
        "low": "limits.",
        "high": "limits.",
        "one": "what is said of both at such a length that nobody wants to read it again.",
        "two": "see `one`.",
    }
    assert parts.prose == [
        "What it does.",
        "Raises ValueError: never.",
        ["    one = 1", "", "    two = 2"],
    ]
    assert docstrings.to_rst(parts, LINKS, "sparseagg.Client", ["shape"])[:4] == [
        "What it does.",
        "",
        ":param shape: the full one, in two lines.",
        ":ivar kind: of it.",
    ]


def test_signs_of_a_text_are_no_markup():
    text = "[A-Za-z._|-] of *args and `x*` in a SparseTensor"
    assert LINKS.inline(text, "sparseagg.Client") == (
        r"[A-Za-z.\_\|-] of \*args and \ ``x*``\  in a "
        "\\ :py:obj:`SparseTensor <sparseagg.SparseTensor>`\\ "
    )
    with pytest.raises(ValueError, match="odd number"):
        LINKS.inline("`x", "sparseagg.Client")
