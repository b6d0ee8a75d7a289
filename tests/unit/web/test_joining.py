"""Joining JavaScript modules into one script: in order, each in its own scope, with a source map."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kith.web.joining import joined
from kith.web.site import APP, CONSOLE, MAP, SCRIPT, Site, client_folder

FILES = {
    "main.js": """import { greet, LOUD as loud } from "./words/greet.js";
import {
  name,
} from "./name.js";

console.log(greet(name), loud);
""",
    "words/greet.js": """import { name } from "../name.js";

const own = "of greet";
export const LOUD = `${name}!`;
/** Greet. */
export function greet(whom) {
  return `${own} ${whom}`;
}
""",
    "name.js": """const own = "of name";
export const name = "Alice";
export async function ask() {}
export class Name {}
""",
    "unused.js": "nobody imports this, and it is not even JavaScript",
}


def test_imported_modules_come_first_and_once_and_unused_ones_are_left_out() -> None:
    script = joined("main.js", FILES, MAP).script.decode()
    assert (
        script.index('$modules["name.js"] =') < script.index('$modules["words/greet.js"] =') < script.index("console")
    )
    assert script.count('export const name = "Alice"') == 0
    assert script.count('const name = "Alice"') == 1
    assert 'const { greet, LOUD: loud } = $modules["words/greet.js"];' in script
    assert "return { name, ask, Name };" in script
    assert "nobody" not in script


def test_the_joined_script_does_what_its_modules_do(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    path = tmp_path / "main.mjs"
    path.write_bytes(joined("main.js", FILES, MAP).script)
    assert subprocess.run([node, path], capture_output=True, text=True, check=True).stdout == "of greet Alice Alice!\n"


def test_the_source_map_leads_each_line_to_its_file_and_line() -> None:
    whole = joined("main.js", FILES, MAP)
    shown, lines = json.loads(whole.source_map), whole.script.decode().splitlines()
    assert shown["sourcesContent"] == [FILES[name] for name in shown["sources"]]
    found = {lines[at]: place for at, place in enumerate(places(shown["mappings"])) if place}
    for name, line in (("name.js", 'const own = "of name";'), ("words/greet.js", "  return `${own} ${whom}`;")):
        assert found[line] == (shown["sources"].index(name), FILES[name].splitlines().index(line))
    assert found["console.log(greet(name), loud);"] == (shown["sources"].index("main.js"), 5)


def places(mappings: str) -> list[tuple[int, int] | None]:
    """The (source, line) of each line of a script. Source maps hold differences in base 64 VLQ."""
    found: list[tuple[int, int] | None] = []
    source = line = 0
    for segment in mappings.split(";"):
        numbers, value, shift = list[int](), 0, 0
        for letter in segment:
            digit = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".index(letter)
            value, shift = value | (digit & 31) << shift, shift + 5
            if digit < 32:
                numbers.append(-(value >> 1) if value & 1 else value >> 1)
                value = shift = 0
        if numbers:
            source, line = source + numbers[1], line + numbers[2]
        found.append((source, line) if numbers else None)
    return found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('import { a } from "./none.js";\n', "none.js is imported"),
        ('import all from "./name.js";\n', "cannot be joined"),
        ('import * as all from "./name.js";\n', "cannot be joined"),
        ("export default 1;\n", "cannot be joined"),
        ("export let counter = 0;\n", "cannot be joined"),
        ('import { main } from "./main.js";\n', "cycle"),
    ],
)
def test_a_module_that_cannot_be_joined_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        joined("main.js", {**FILES, "main.js": text}, MAP)


@pytest.mark.parametrize("site", [Site(APP, {"client": client_folder()}), Site(CONSOLE, {})], ids=["reader", "console"])
def test_every_module_of_a_page_is_in_its_script(site: Site) -> None:
    shown = json.loads(site.find(MAP).body)  # type: ignore[union-attr]
    folder = APP if "views/home.js" in shown["sources"] else CONSOLE
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.js")} <= set(shown["sources"])
    assert site.find(SCRIPT).body.startswith(b"const $modules")  # type: ignore[union-attr]
