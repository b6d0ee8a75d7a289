"""Joins a page's modules into one script, each in its own scope, with a source map that shows them as files again.

So a browser requests one file instead of forty. The source files stay as they are; they are joined when a server
starts. Supported are `import { a, b as c } from "./x.js"`, and `export` before const, class and function. All else, a
missing file and circular imports raise ValueError at the start; a test joins our pages.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import NamedTuple

import msgspec

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class JoinedScript(NamedTuple):
    """A script, and its source map for developer tools."""

    script: bytes
    source_map: bytes


class _Module(NamedTuple):
    body: str  # as many lines as its file has
    needs: tuple[str, ...]
    names: tuple[str, ...]


def joined(entry: str, files: Mapping[str, str], map_name: str) -> JoinedScript:
    """Join `entry` with all modules that it imports, by name in `files`. Only `entry` may use top-level `await`."""
    modules = {name: _module(name, files[name]) for name in _needed(entry, files)}
    order = list(TopologicalSorter({name: module.needs for name, module in modules.items()}).static_order())
    lines, places = ["const $modules = {};"], list[tuple[int, int] | None]([None])
    for number, name in enumerate(order):
        module = modules[name]
        head, tail = (f'$modules["{name}"] = (() => {{', f"return {{ {', '.join(module.names)} }}; }})();")
        body = module.body.splitlines()
        lines += ["{", *body, "}"] if name == entry else [head, *body, tail]
        places += [None, *((number, line) for line in range(len(body))), None]
    lines.append(f"//# sourceMappingURL={map_name}")
    texts = [files[name] for name in order]
    shown = {"version": 3, "sources": order, "sourcesContent": texts, "names": [], "mappings": _mappings(places)}
    return JoinedScript("\n".join(lines).encode(), msgspec.json.encode(shown))


def _needed(entry: str, files: Mapping[str, str]) -> Iterator[str]:
    found, waiting = {entry}, [entry]
    while waiting:
        name = waiting.pop()
        if name not in files:
            raise ValueError(f"{name} is imported, and there is no such file")
        yield name
        fresh = {_resolved(name, target) for _, target in _IMPORT.findall(files[name])} - found
        found |= fresh
        waiting += sorted(fresh)


def _module(name: str, text: str) -> _Module:
    needs = tuple(_resolved(name, target) for _, target in _IMPORT.findall(text))
    body = _IMPORT.sub(
        lambda found: f'const {found[1].replace(" as ", ": ")} = $modules["{_resolved(name, found[2])}"];', text
    )
    names = tuple(found[1] for found in _EXPORT.findall(body))
    body = _EXPORT.sub(r"\1 \2", body)
    if left := _LEFT.search(body):
        raise ValueError(f"{name}: `{left[0]}` cannot be joined; write it as in the other files")
    return _Module(body, needs, names)


def _resolved(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def _mappings(places: list[tuple[int, int] | None]) -> str:
    """Encode the origin (file, line) of each line as a source map does (ECMA-426): as differences."""
    lines, before = [], (0, 0)
    for place in places:
        if place is None:
            lines.append("")
            continue
        lines.append(f"A{_number(place[0] - before[0])}{_number(place[1] - before[1])}A")
        before = place
    return ";".join(lines)


def _number(value: int) -> str:
    """A number in the base 64 VLQ of source maps: sign in the lowest bit, five bits a digit, lowest digit first."""
    rest, text = (-value << 1) | 1 if value < 0 else value << 1, ""
    while True:
        digit, rest = rest & 31, rest >> 5
        text += _DIGITS[digit | (32 if rest else 0)]
        if not rest:
            return text
