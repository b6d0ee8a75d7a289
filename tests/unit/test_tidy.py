"""The house is in order: settings documented, files short and alive, and each layer knows only those below it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kith import config
from kith.config import Settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = sorted((SOURCE / "kith").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

FILE_LINES_MAX, FUNCTION_LINES_MAX = 400, 60
LONG_FILES: dict[str, str] = {}
"""`path: reason` of the files that are longer, relative to src/kith."""
LONG_FUNCTIONS: dict[str, str] = {}
"""`path:name: reason` of the functions that are longer."""
ENTRY_POINTS = {
    "kith.__main__": "python -m kith",
    "kith.cli": "the command `kith`",
    "kith.client": "what apps import",
}
NO_DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "lib"}
WIRING = {"kith.app", "kith.backups", "kith.chores"}  # the only modules that may know an engine


def name_of(path: Path) -> str:
    """The module of a file."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imported_by(name: str) -> Iterator[str]:
    """Every module of ours that a module imports, wherever in the file."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "kith")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            if node.module and node.module.split(".")[0] == "kith":
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield inner if inner in MODULES else node.module


IMPORTS = {name: set(imported_by(name)) for name in MODULES}


def is_in(name: str, package: str) -> bool:
    """Whether a module is `package` or inside it."""
    return name == package or name.startswith(package + ".")


def local(path: Path) -> str:
    """How the dictionaries above name a file."""
    return path.relative_to(SOURCE / "kith").as_posix()


# Settings


def documented() -> dict[str, tuple[str, str]]:
    """The settings in docs/operations.md: (default, meaning) by name."""
    text = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? *\| (.*) \|$", text, re.MULTILINE)
    return {name: (default, meaning) for name, default, meaning in rows}


def test_every_setting_stands_in_the_operations_guide_with_its_default_and_meaning() -> None:
    rows = config.table(Settings())
    assert documented() == {row.name: (row.default, row.meaning) for row in rows}
    assert list(documented()) == [row.name for row in rows]


# Files


def test_there_are_files_to_look_at() -> None:
    assert len(FILES) > 30


@pytest.mark.parametrize("name", MODULES)
def test_every_file_opens_with_its_idea(name: str) -> None:
    said = ast.get_docstring(TREES[name])
    assert said, f"{MODULES[name]} has no docstring"
    assert isinstance(TREES[name].body[0], ast.Expr)


def test_every_package_says_what_its_rooms_are() -> None:
    packages = {path.parent for path in FILES}
    assert not [package for package in packages if not (package / "__init__.py").exists()]


def test_no_file_is_too_long_without_a_reason() -> None:
    long = {local(path) for path in FILES if len(path.read_text().splitlines()) > FILE_LINES_MAX}
    assert long == set(LONG_FILES), "split it, or give a reason; take out those that are short again"
    assert all(LONG_FILES.values())


def test_no_function_is_too_long_without_a_reason() -> None:
    long = {
        f"{local(MODULES[name])}:{node.name}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert long == set(LONG_FUNCTIONS), "split it, or give a reason; take out those that are short again"
    assert all(LONG_FUNCTIONS.values())


def test_nothing_is_called_a_drawer() -> None:
    assert not [name for name in MODULES if NO_DRAWERS & set(name.split("."))]


def test_no_file_is_dead() -> None:
    """Every module is imported by another, or named where the outside comes in."""
    used = set().union(*(found - {name} for name, found in IMPORTS.items()))
    alive = {name for name in MODULES if any(is_in(found, name) for found in used)}  # a package by its rooms
    assert not sorted(set(MODULES) - alive - set(ENTRY_POINTS))


def test_entry_points_exist_as_the_project_names_them() -> None:
    for target in PROJECT["project"]["scripts"].values():
        assert target.split(":")[0] in ENTRY_POINTS
    assert set(ENTRY_POINTS) <= set(MODULES)


# Who knows whom


def layers_above(contract: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A layer may import neither the ones above it nor, where several share it (a | b), its neighbours."""
    layers = [layer.split(" | ") for layer in contract["layers"]]
    for at, rooms in enumerate(layers):
        for who in rooms:
            yield from ((who, above) for higher in layers[:at] for above in higher)
            yield from ((who, beside) for beside in rooms if beside != who)


def forbidden() -> Iterator[tuple[str, str]]:
    """(who, whom) from the contracts in pyproject.toml."""
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            yield from layers_above(contract)
        else:
            yield from ((who, whom) for who in contract["source_modules"] for whom in contract["forbidden_modules"])


def test_the_contracts_of_the_house_hold() -> None:
    assert len(list(forbidden())) > 20
    broken = [
        f"{name} imports {found}"
        for who, whom in forbidden()
        for name, imports in IMPORTS.items()
        if is_in(name, who)
        for found in imports
        if is_in(found, whom)
    ]
    assert not broken


def test_contracts_name_modules_that_exist() -> None:
    assert not {name for pair in forbidden() for name in pair} - set(MODULES)


def test_only_the_wiring_knows_an_engine() -> None:
    knowing = {
        name
        for name, imports in IMPORTS.items()
        if not is_in(name, "kith.engines") and any(is_in(found, "kith.engines") for found in imports)
    }
    assert knowing <= WIRING


@pytest.mark.parametrize(
    ("who", "knows"),
    [
        ("kith.core", {"kith.core"}),
        ("kith.graph", {"kith.graph", "kith.core"}),
        ("kith.client", {"kith.client", "kith.core"}),
        ("kith.objects", {"kith.objects", "kith.graph", "kith.core"}),
        ("kith.timeline", {"kith.timeline", "kith.core"}),
        ("kith.log", {"kith.log", "kith.core"}),
        (
            "kith.engines",
            {
                "kith.engines",
                "kith.feed.served",
                "kith.timeline",
                "kith.log",
                "kith.objects",
                "kith.graph",
                "kith.core",
            },
        ),
        ("kith.transfer", {"kith.transfer", "kith.graph", "kith.core"}),
        ("kith.capacity", {"kith.capacity", "kith.core"}),
        ("kith.config", {"kith.core"}),
        ("kith.generate", {"kith.core"}),
    ],
)
def test_a_room_knows_only_what_is_below_it(who: str, knows: set[str]) -> None:
    strange = {
        f"{name} imports {found}"
        for name, imports in IMPORTS.items()
        if is_in(name, who)
        for found in imports
        if found != "kith" and not any(is_in(found, room) for room in knows)
    }
    assert not strange


def test_engines_use_ports_and_not_services() -> None:
    ports = {
        "kith.graph": {"store", "edge", "graphs", "suggestion_store"},
        "kith.objects": {"store", "blobs"},
        "kith.timeline": {"store"},
        "kith.log": {"store"},
    }
    services = {
        name
        for room, open_ in ports.items()
        for name in MODULES
        if name.startswith(room + ".") and name.removeprefix(room + ".") not in open_
    }
    assert not [
        (name, found)
        for name, imports in IMPORTS.items()
        if is_in(name, "kith.engines")
        for found in imports & services
    ]


def test_the_core_does_no_input_or_output() -> None:
    outside = {"socket", "pathlib", "httpx", "lmdb", "asyncio", "subprocess", "shutil", "io"}
    for name in MODULES:
        if is_in(name, "kith.core"):
            roots = {
                (alias.name if isinstance(node, ast.Import) else str(node.module)).split(".")[0]
                for node in ast.walk(TREES[name])
                if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names
            }
            assert not roots & outside, name
