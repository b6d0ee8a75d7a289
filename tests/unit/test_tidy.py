"""Checks of the code base: settings are documented, files are short and in use, layers import only layers below."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kith.commands import cli
from kith.run import config
from kith.run.config import Settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = sorted((SOURCE / "kith").rglob("*.py"))
REQUIREMENTS = (ROOT / "requirements.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]

FILE_LINES_MAX, FUNCTION_LINES_MAX = 400, 60
LONG_FILES: dict[str, str] = {"run/config.py": "every setting, in one table"}
"""`path: reason` of files longer than FILE_LINES_MAX, relative to src/kith."""
LONG_FUNCTIONS: dict[str, str] = {}
"""`path:name: reason` of functions longer than FUNCTION_LINES_MAX."""
ENTRY_POINTS = {
    "kith.__main__": "python -m kith",
    "kith.commands.cli": "the command `kith`",
    "kith.client": "what apps import",
    "kith.run.opening.cluster": "the wiring of distributed engines, imported where the settings ask for it",
}
ALIKE = {
    "api/resources": "a resource",
    "commands": "a command",
    "engines": "an engine",
}
"""Rooms whose files are all of one kind, so the paragraph of the room need not name them."""
OTHER_WORDS = {
    "commands": {"kith"},
    "commands/capacity": {"cluster", "embedded"},
    "checks": {"exists_many"},
    "home": {"timeline_days"},
}
"""Words that a room's paragraph has in code font and that are no files of it."""
SEVERAL_TYPES = {"Pair", "Rows"}
"""Names of types with several meanings, each used in one or two files."""
NO_DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "lib"}


def name_of(path: Path) -> str:
    """The dotted module name of a file."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


@cache
def trees() -> dict[str, ast.Module]:
    """Every module, parsed. Lazy, because every pytest worker imports this file."""
    return {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imported_by(name: str) -> Iterator[str]:
    """Every module of Kith that a module imports, anywhere in the file."""
    for node in ast.walk(trees()[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "kith")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            if node.module and node.module.split(".")[0] == "kith":
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield inner if inner in MODULES else node.module


@cache
def imports() -> dict[str, set[str]]:
    """The modules of Kith that each module imports."""
    return {name: set(imported_by(name)) for name in MODULES}


def is_in(name: str, package: str) -> bool:
    """Whether a module is `package` or inside it."""
    return name == package or name.startswith(package + ".")


def local(path: Path) -> str:
    """The path of a file as in the dictionaries above, relative to src/kith."""
    return path.relative_to(SOURCE / "kith").as_posix()


# Settings


def documented() -> dict[str, tuple[str, str]]:
    """The settings in docs/operations.md: (default, meaning) by name."""
    text = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? *\| (.*) \|$", text, re.MULTILINE)
    return {name: (default, meaning) for name, default, meaning in rows}


def test_the_operations_guide_lists_every_setting_with_default_and_meaning() -> None:
    rows = config.table(Settings())
    assert documented() == {row.name: (row.default, row.meaning) for row in rows}
    assert list(documented()) == [row.name for row in rows]


# Files


def test_source_files_are_found() -> None:
    assert len(FILES) > 30


def test_every_module_has_a_docstring() -> None:
    assert not [name for name, tree in trees().items() if not ast.get_docstring(tree)]


def rooms_and_files(package: Path) -> set[str]:
    """The names of the modules and folders in a package."""
    files = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return files | {path.name for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"}


def test_every_package_docstring_names_exactly_its_files() -> None:
    wrong: dict[str, set[str]] = {}
    for package in {path.parent for path in FILES}:
        room = local(package)
        text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
        named = set(re.findall(r"`([a-z]\w*)/?`", text)) - OTHER_WORDS.get(room, set())
        there = rooms_and_files(package)
        unsaid = set() if room in ALIKE else there - named
        if differing := unsaid | (named - there):
            wrong[room] = differing
    assert not wrong


def test_no_file_is_too_long_without_a_reason() -> None:
    long = {local(path) for path in FILES if len(path.read_text().splitlines()) > FILE_LINES_MAX}
    assert long == set(LONG_FILES), "split the file or give a reason; remove entries that are short again"
    assert all(LONG_FILES.values())


def test_no_test_file_is_too_long() -> None:
    files = [path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts]
    assert not [path.name for path in files if len(path.read_text().splitlines()) > FILE_LINES_MAX]


def test_no_unit_test_opens_a_store() -> None:
    opens = re.compile(r"\b(?:open_environment|open_embedded\w*|wiring\.opened|EmbeddedEdges|Environment)\(")
    files = (ROOT / "tests" / "unit").rglob("test_*.py")
    assert not [path.name for path in files if opens.search(path.read_text())]


def test_no_function_is_too_long_without_a_reason() -> None:
    long = {
        f"{local(MODULES[name])}:{node.name}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert long == set(LONG_FUNCTIONS), "split the function or give a reason; remove entries that are short again"
    assert all(LONG_FUNCTIONS.values())


def test_no_module_has_a_catch_all_name() -> None:
    assert not [name for name in MODULES if NO_DRAWERS & set(name.split("."))]


def named_types(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, meaning) of each public class and type alias of a module. The meaning of an alias is its right side."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, "a class"
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            name = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            made = ast.unparse(node.value)
            if (
                isinstance(name, ast.Name)
                and re.fullmatch(r"[A-Z][a-z]\w*", name.id)
                and not made.startswith("TypeVar")
            ):
                yield name.id, made


def test_a_type_name_has_one_meaning() -> None:
    """The Python client mirrors the API's shapes and may use their names. Equal aliases count as one meaning."""
    places: dict[str, dict[str, str]] = {}
    for name, tree in trees().items():
        if not name.startswith("kith.client"):
            for type_, made in named_types(tree):
                places.setdefault(type_, {})[name] = f"{name}.{type_}" if made == "a class" else made
    several = {type_ for type_, made in places.items() if len(set(made.values())) > 1}
    assert several == SEVERAL_TYPES, "choose another name; remove entries that have one meaning again"


def test_no_module_is_unused() -> None:
    """Every module is imported by another one, or is an entry point."""
    used = set(cli.MODULES.values()).union(*(found - {name} for name, found in imports().items()))
    alive = {name for name in MODULES if any(is_in(found, name) for found in used)}  # packages by their modules
    assert not sorted(set(MODULES) - alive - set(ENTRY_POINTS))


def test_entry_points_exist_and_include_the_scripts_of_the_project() -> None:
    for target in PROJECT["project"]["scripts"].values():
        assert target.split(":")[0] in ENTRY_POINTS
    assert set(ENTRY_POINTS) <= set(MODULES)


def test_every_dependency_requires_the_tested_version_at_least() -> None:
    """The lowest version is major.minor of the version that requirements.txt pins."""
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\d+\.\d+)", REQUIREMENTS, re.MULTILINE))
    project = PROJECT["project"]
    optional = [line for lines in project["optional-dependencies"].values() for line in lines]
    for line in (*project["dependencies"], *optional):
        name, _, lowest = line.split(";")[0].partition(">=")
        assert pins[name.split("[")[0].lower().replace(".", "-")] == lowest, line


@pytest.mark.parametrize("version", ["3.11.0", "3.11.2", "3.11.3", "3.12.0", "3.13.0", "3.14.0"])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_requirements_pin_every_dependency_for_every_python(version: str, platform: str) -> None:
    """With hashes, pip installs only pinned packages, so setup fails if a package needs one that is not pinned.

    Only packages that are installed here are checked.
    """
    there = {"python_full_version": version, "python_version": version.rpartition(".")[0], "sys_platform": platform}
    pins = [Requirement(line) for line in re.findall(r"^[a-z0-9-]+==[^\\]+", REQUIREMENTS, re.MULTILINE)]
    pinned = {pin.name for pin in pins if _is_needed(pin, there)}
    missing = {
        (package.name, needed.name)
        for package in metadata.distributions()
        if canonicalize_name(package.name) in pinned
        for needed in map(Requirement, package.requires or ())
        if _is_needed(needed, there) and canonicalize_name(needed.name) not in pinned
    }
    assert not missing


def _is_needed(requirement: Requirement, there: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**there, "extra": ""})


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/where-a-file-goes.md", "CONTRIBUTING.md"])
def test_pages_for_developers_name_files_that_exist(page: str) -> None:
    roots = [ROOT, SOURCE / "kith", SOURCE / "kith" / "engines", ROOT / "tests"]
    named = set(re.findall(r"`((?:[\w-]+/)+(?:[\w-]+\.\w+)?)`", (ROOT / page).read_text()))
    assert named
    assert not [name for name in sorted(named) if not any((root / name).exists() for root in roots)]


def test_pages_of_engines_name_files_that_exist() -> None:
    pages = sorted((SOURCE / "kith" / "engines").rglob("*.md"))
    named = {page: re.findall(r"`(?:(\w+)/)?(\w+\.(?:py|lua))`", page.read_text()) for page in pages}
    assert any(named.values())
    wrong = [
        (page.parent.name, file)
        for page, found in named.items()
        for folder, file in found
        if not (page.parent / file).exists() and not any(one.name == file for one in FILES if folder)
    ]
    assert not wrong


def classes() -> dict[str, tuple[set[str], set[str]]]:
    """{class name: (names that the class defines or uses, names of its bases)}."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for node in (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        names, bases = found.setdefault(node.name, (set(), set()))
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(inner.name)
            elif isinstance(inner, ast.Name | ast.Attribute):
                names.add(inner.id if isinstance(inner, ast.Name) else inner.attr)
        bases |= {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}
    return found


def test_methods_named_in_docstrings_exist() -> None:
    known = classes()

    def names(class_: str) -> set[str]:
        own, bases = known.get(class_, (set(), set()))
        return own.union(*map(names, bases - {class_}))

    pointed = re.compile(r"`(?:\w+\.)*([A-Z]\w*)\.([a-z]\w*)`")
    wrong = [
        f"{module}: {class_}.{name}"
        for module, path in MODULES.items()
        for class_, name in pointed.findall(path.read_text())
        if class_ in known and name not in names(class_)
    ]
    assert not wrong


def test_the_test_readmes_name_each_suite_and_each_shared_module() -> None:
    folder = ROOT / "tests"
    page, suites = ((one / "README.md").read_text() for one in (folder, folder / "conformance"))
    shared = {path.stem for path in folder.glob("*.py")} - {"conftest"}
    named = set(re.findall(r"`([a-z0-9_]+)`", page))
    assert not sorted(name for name in shared - named if not name.startswith("reference_"))
    assert not [path.name for path in (folder / "conformance").glob("test_*.py") if f"`{path.name}`" not in suites]


# Dependencies. `lint-imports` checks the layers (pyproject.toml); these tests check what its contracts cannot express


def test_imports_form_no_circle() -> None:
    within = {name: found - {"kith"} for name, found in imports().items()}
    TopologicalSorter(within).prepare()  # CycleError names the modules of a circle


def test_every_room_is_in_the_layers_contract() -> None:
    rooms = {path.parent.name for path in FILES if path.parent.parent == SOURCE / "kith"}
    (house,) = (one for one in CONTRACTS if one["type"] == "layers")
    layered = {room for layer in house["layers"] for room in re.split(r" [|:] ", layer)}
    assert rooms == layered | {"client", "engines"}


PORTS = {
    "kith.checks.sets",
    "kith.access.credentials",
    "kith.access.sliding_window",
    "kith.graph.edge",
    "kith.graph.graphs",
    "kith.graph.questions",
    "kith.graph.shapes",
    "kith.graph.store",
    "kith.home.served",
    "kith.home.fanout.state",
    "kith.home.timelines",
    "kith.leases.store",
    "kith.log.commands",
    "kith.log.store",
    "kith.media.blobs",
    "kith.moving.contents",
    "kith.notifications.activity",
    "kith.notifications.inbox",
    "kith.records.store",
    "kith.standby.source",
    "kith.suggestions.store",
}
"""Modules of rooms that an engine may import: ports, and the values in their signatures."""


def test_engines_import_only_ports_and_core() -> None:
    assert set(MODULES) >= PORTS
    known = {found for name, imported in imports().items() if is_in(name, "kith.engines") for found in imported}
    assert not {
        found for found in known - PORTS if not any(is_in(found, room) for room in ("kith.core", "kith.engines"))
    }


def test_the_client_imports_only_core() -> None:
    known = {found for name, imported in imports().items() if is_in(name, "kith.client") for found in imported}
    assert not {found for found in known if not any(is_in(found, room) for room in ("kith.core", "kith.client"))}


def test_the_core_does_no_input_or_output() -> None:
    outside = {"socket", "pathlib", "httpx", "lmdb", "subprocess", "shutil", "io"}
    of_tasks = {"gather", "ensure_future", "current_task", "wait", "Task", "CancelledError"}
    of_tasks |= {"get_running_loop", "AbstractEventLoop", "TimerHandle"}  # for the timers of deadlines
    for name in MODULES:
        if is_in(name, "kith.core"):
            roots = {
                (alias.name if isinstance(node, ast.Import) else str(node.module)).split(".")[0]
                for node in ast.walk(trees()[name])
                if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names
            }
            assert not roots & outside, name
            of_asyncio = {
                node.attr
                for node in ast.walk(trees()[name])
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "asyncio"
            }
            assert of_asyncio <= of_tasks, name


def test_the_figures_in_the_readme_are_on_the_page_of_measurements() -> None:
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/measured.md"))
    rows = [line for line in readme.partition("| measured | target |")[2].splitlines()[2:] if line.startswith("|")]
    assert len(rows) > 5
    assert not set(rows) - set(page.splitlines()), "change both"
