"""The pages of the project: links lead somewhere, and named files and members of modules exist."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = {".md", ".py", ".js", ".ts", ".lua", ".sh", ".thrift", ".yaml", ".json"}
NOT_OURS = {".venv", ".git", "node_modules", "kith-data", "shared"}


def files() -> Iterator[Path]:
    """The files of the project that pages may name, relative to its folder."""
    for folder, inner, names in os.walk(ROOT):
        inner[:] = [name for name in inner if name not in NOT_OURS]
        yield from (Path(folder, name).relative_to(ROOT) for name in names if Path(name).suffix in SUFFIXES)


FILES = sorted(files())
PAGES = [path for path in FILES if path.suffix == ".md" and path.name != "CHANGELOG.md"]
MODULES = [path for path in FILES if path.suffix == ".py"]
MADE_LATER = {"my_engine.py", "moving.json", "drill.json", "openapi.json"}
"""Files that pages name and that are not in the project."""
NAMES_OF_OTHERS = {
    "Authorization",
    "Counter",
    "File",
    "GossipingPropertyFileSnitch",
    "None",
    "Private_Dirty",
    "TimerSlackNSec",
    "TypeError",
}
"""Names of Python, browsers, Cassandra and the kernel that pages have in code font."""


@cache
def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = [heading.replace("`", "").lower() for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@cache
def members() -> dict[str, set[str]]:
    """{module name: names in its code}; a package has those of all its files, and the names of the files."""
    found: dict[str, set[str]] = {}
    for path in MODULES:
        names = {path.stem, *path.parts}
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            names.update(str(getattr(node, field)) for field in ("name", "id", "attr", "arg") if hasattr(node, field))
        for module in {path.stem, *path.parts[1:-1]}:
            found.setdefault(module, set()).update(names)
    return found


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        name, _, anchor = link.partition("#")
        target = (ROOT / page.parent / name).resolve() if name else ROOT / page
        if re.match(r"\w+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.relative_to(ROOT))):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_names_files_that_exist(page: Path) -> None:
    named = re.findall(r"`([\w/.-]+\.(?:md|py|js|ts|lua|sh|thrift|yaml|json))`", prose(page))
    paths = [f"/{path}" for path in FILES]
    missing = {name for name in named if not any(path.endswith(f"/{name.lstrip('/')}") for path in paths)}
    assert not {name for name in missing if Path(name).name not in MADE_LATER}


def test_pages_and_docstrings_name_members_that_modules_have() -> None:
    suffixes, wrong = {"mdb", "journal", "toml", "csv", "conf", *(suffix[1:] for suffix in SUFFIXES)}, []
    for page in [*PAGES, *(path for path in MODULES if path.parts[0] == "src")]:
        text = prose(page) if page.suffix == ".md" else (ROOT / page).read_text()
        for module, member in re.findall(r"`(?:\w+[/.])*([a-z_]+)\.(\w+)(?:\(\))?`", text):
            if member not in suffixes and member not in members().get(module, {member}):
                wrong.append(f"{page}: {module}.{member}")
    assert not wrong


@cache
def types(folders: tuple[str, ...]) -> set[str]:
    """Names of classes and aliases in the modules of some folders of the project."""
    sources = [(ROOT / path).read_text() for path in MODULES if path.parts[0] in folders]
    return {name for source in sources for name in re.findall(r"^(?:class )?([A-Z]\w+)(?:\(|:| = )", source, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_names_classes_that_exist(page: Path) -> None:
    known = types(("src", "tests") if page.parts[0] == "tests" else ("src",)) | NAMES_OF_OTHERS
    named = set(re.findall(r"`([A-Z][a-z]\w*)(?:\.\w+)?`", prose(page)))
    assert not named - known
