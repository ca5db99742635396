"""How Sphinx builds the reference of the Python package: `./dev docs`."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
import typing
from pathlib import Path
from typing import Any

from sphinx.ext.autodoc.mock import mock
from sphinx.pycode import ModuleAnalyzer

sys.path.insert(0, str(Path(__file__).parent))
import docstrings
from public import ADAPTERS, MODULES, public_names

project = "sparseagg"
extensions = ["sphinx.ext.autodoc"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "240px", "font_family": "sans-serif"}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_show_copyright = False
html_copy_source = False

# Every name of ours has to lead somewhere; names of other packages are not looked up.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!sparseagg\b).*")]

autodoc_mock_imports = ["flwr", "nvflare", "ray", "tensorflow", "tensorflow_federated"]
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"

_NAMES = public_names()
_LINKS = docstrings.Links(
    {module: [name.name for name in _NAMES if name.module == module] for module in MODULES},
    {name.full: [member.name for member in name.members()] for name in _NAMES},
)
# Their objects come from other calls: how they are made says nothing to a user.
_NOT_MADE_BY_USERS = {
    "sparseagg.Partial",
    "sparseagg.Pipeline",
    "sparseagg.Result",
    "sparseagg.Round",
    "sparseagg.Tasks",
    "sparseagg.aio.Pipeline",
    "sparseagg.aio.Round",
    "sparseagg.aio.Tasks",
    "sparseagg.worker.LeasedTask",
}
_RECORDS = ("sparseagg.records", "sparseagg.tasks.records", "sparseagg.worker._loop")
_MODULE_OF_TYPE = re.compile(r"(?<![~\w.])(?=(?:[a-z_]\w*\.)+\w)")


def _is_record(thing: Any) -> bool:
    """True for what a server tells: its fields are what matters, and not how it is made."""
    return inspect.isclass(thing) and thing.__module__ in _RECORDS


def _prepare(app: Any) -> None:
    """Gives classes the signatures that readers are to see, and forgets overloads, which are for type checkers."""
    with mock(autodoc_mock_imports):
        for module in (*MODULES, *ADAPTERS):
            importlib.import_module(module)
    for name in _NAMES:
        thing = getattr(sys.modules[name.module], name.name)
        if inspect.isclass(thing):
            thing.__signature__ = _signature_of(thing, name.full)
        analyzer = ModuleAnalyzer.for_module(getattr(thing, "__module__", name.module))
        analyzer.analyze()
        analyzer.overloads = {}


def _signature_of(kind: Any, name: str) -> inspect.Signature:
    """That of `__init__` with its types, also where a framework's class is the base, which is not there."""
    is_ours = getattr(kind.__init__, "__module__", "").startswith("sparseagg")
    is_made_by_users = not (issubclass(kind, BaseException) or _is_record(kind))
    if not (is_ours and is_made_by_users) or name in _NOT_MADE_BY_USERS:
        return inspect.Signature()
    try:
        hints = typing.get_type_hints(kind.__init__)
    except NameError:  # a type that only type checkers import; its words have to do
        hints = {}
    _, *parameters = inspect.signature(kind.__init__).parameters.values()
    return inspect.Signature(
        [one.replace(annotation=hints.get(one.name, one.annotation)) for one in parameters]
    )


def _signature(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    # Types are shown without their modules.
    types = app.env.temp_data.get("annotations", {}).get(name, {})
    types.update({part: _MODULE_OF_TYPE.sub("~", text) for part, text in types.items()})
    if what in ("class", "exception") and signature == "()":
        return "", ""
    return None


def _docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    is_class = what in ("class", "exception")
    parameters = docstrings.parameters_of(thing)
    parts = docstrings.split("\n".join(lines), parameters, any_name=is_class)
    if name.startswith("sparseagg.aio."):
        if not parts.items:
            parts.items_at = len(parts.prose)
        parts.items = {**_items_of_twin(name, parameters), **parts.items}
    fields: list[str] = []
    if _is_record(thing) and dataclasses.is_dataclass(thing):
        fields = _fields(thing, name, parts.items)
        parts.items = {}
    if is_class and not inspect.signature(thing).parameters:
        parameters = []
    lines[:] = docstrings.to_rst(parts, _LINKS, name, parameters) + fields


def _items_of_twin(name: str, parameters: list[str]) -> dict[str, str]:
    """Returns the blocking client's text about the parameters that both clients have."""
    twin = sys.modules["sparseagg"]
    for part in name.split(".")[2:]:
        twin = getattr(twin, part)
    items = docstrings.split(inspect.getdoc(twin) or "", parameters).items
    return {parameter: items[parameter] for parameter in parameters if parameter in items}


def _fields(record: Any, name: str, texts: dict[str, str]) -> list[str]:
    """Directives for the fields of a record, each with its type and its text."""
    names = vars(sys.modules[record.__module__])
    lines = []
    for field in dataclasses.fields(record):
        kind = re.sub(r"\b[A-Z]\w*", lambda match: _full_type(names, match.group()), field.type)
        text = _LINKS.inline(texts[field.name], name) if field.name in texts else ""
        lines += [f".. py:attribute:: {field.name}", f"   :type: {kind}", "", f"   {text}", ""]
    return lines


def _full_type(names: dict[str, Any], name: str) -> str:
    module = getattr(names.get(name), "__module__", "")
    return f"~{module}.{name}" if module.startswith("sparseagg") else name


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", _prepare)
    app.connect("autodoc-process-signature", _signature, priority=600)  # after autodoc's own
    app.connect("autodoc-process-docstring", _docstring)
