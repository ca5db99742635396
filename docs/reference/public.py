"""The public names of the package, read from its sources: nothing is imported, so frameworks need not be installed."""

from __future__ import annotations

import ast
import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "sparseagg"
# Modules that a user imports on their own; everything else that is public is in the package itself.
MODULES = (
    PACKAGE,
    "sparseagg.aio",
    "sparseagg.worker",
    "sparseagg.sparsify",
    "sparseagg.sparse_data",
    "sparseagg.flower",
    "sparseagg.nvflare",
    "sparseagg.ray",
    "sparseagg.tff",
)
# They need the framework that they are for.
ADAPTERS = ("sparseagg.flower", "sparseagg.nvflare", "sparseagg.ray", "sparseagg.tff")


@dataclass(frozen=True)
class Name:
    """A public name: the module that a user takes it from, and where it is defined; no node for a constant."""

    module: str
    name: str
    node: ast.ClassDef | ast.FunctionDef | None

    @property
    def full(self) -> str:
        """Returns a name such as "sparseagg.aio.Client"."""
        return f"{self.module}.{self.name}"

    def members(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Public methods and properties of a class; of overloads, the implementation."""
        if not isinstance(self.node, ast.ClassDef):
            return []
        functions = (
            node
            for node in self.node.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        )
        return [
            node for node in functions if not node.name.startswith("_") and not _is_overload(node)
        ]


def public_names() -> list[Name]:
    """All public names: what `__all__` lists; without one, the classes and functions of the module itself."""
    return [
        Name(module, name, _definition(module, name))
        for module in MODULES
        for name in _names_of(module)
    ]


def package_folder() -> Path:
    """Returns the folder in which the package is installed."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None, "the package is not installed"
    return Path(spec.origin).parent


@functools.cache
def _tree(module: str) -> ast.Module:
    path = package_folder().joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _names_of(module: str) -> list[str]:
    tree = _tree(module)
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return [
        node.name
        for node in tree.body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")
    ]


def _definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    """Where a name of a module is defined: there, or where it is imported from."""
    for node in _tree(module).body:
        is_definition = isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name
        if is_definition and not _is_overload(node):
            return node
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(node.module, alias.name)
    return None


def _is_overload(node: ast.AST) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)
