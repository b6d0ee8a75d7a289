"""Names of Kith used in tests exist.

Tests are not type-checked, and some run only on engines or where a process is killed: a wrong name could stay hidden.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent


def imported(tree: ast.AST) -> Iterator[tuple[str, Any]]:
    """(local name, object) of each import of Kith in a test file, at its top and elsewhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "kith":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                yield alias.asname or alias.name, getattr(module, alias.name)


def named(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(object, attribute) of each `Class.name`, `patch.object(object, "name")` and `setattr(object, "name")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=what), attr=name) if what[0].isupper():
                yield what, name
            case ast.Call(
                func=ast.Attribute(attr="object" | "setattr"),
                args=[ast.Name(id=what), ast.Constant(value=str(name)), *_],
            ):
                yield what, name


@pytest.mark.parametrize("file", sorted(TESTS.rglob("*.py")), ids=lambda file: str(file.relative_to(TESTS)))
def test_names_of_kith_in_tests_exist(file: Path) -> None:
    tree = ast.parse(file.read_text())
    known = dict(imported(tree))
    for what, name in named(tree):
        it = known.get(what)
        assert not isinstance(it, type | ModuleType) or hasattr(it, name), f"{what} has no {name}"
