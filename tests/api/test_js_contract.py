"""The JavaScript client and the OpenAPI document agree. Compares generated files, so it does not need Node."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from servers import Server

from kith import __version__
from kith.client.routes import Routes, Walk

CLIENT = Path(__file__).parents[2] / "clients" / "js"
COMPRESSED_MAX = 15_499  # 15 KB, as its README says
"""Bytes of all modules, compressed, comments included. A bundler drops the comments."""
OF_TYPESCRIPT = {
    "Array", "ArrayBuffer", "ArrayBufferView", "AbortSignal", "AsyncGenerator", "AsyncIterable", "Blob", "Error",
    "Iterable", "Math", "Omit", "Promise", "Record", "Symbol", "URL",
}  # fmt: skip
GENERATE: dict[str, Any] = runpy.run_path(str(CLIENT / "generate.py"))


@pytest.fixture(scope="module")
def document(server: Server) -> dict[str, Any]:
    return dict(server.get("/openapi.json").json())


@pytest.fixture(scope="module")
def types() -> str:
    """Both files of types, without comments and strings."""
    text = (CLIENT / "index.d.ts").read_text() + (CLIENT / "src" / "operations.d.ts").read_text()
    return re.sub(r'/\*.*?\*/|//.*?$|"[^"\n]*"', "", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", ["operations.js", "operations.d.ts"])
def test_generated_files_are_up_to_date(document: dict[str, Any], name: str) -> None:
    made = GENERATE["files"](document)[name]
    assert (CLIENT / "src" / name).read_text() == made, "make client-js"


def test_the_generators_document_equals_that_of_a_server(document: dict[str, Any]) -> None:
    assert GENERATE["document"]() == document


def test_every_operation_is_a_method_or_is_listed_as_an_exception(document: dict[str, Any]) -> None:
    ids = {told["operationId"] for item in document["paths"].values() for told in item.values()}
    methods = {one.id for one in GENERATE["operations_of"](document)}
    assert methods == ids - GENERATE["ELSEWHERE"].keys()
    assert GENERATE["ELSEWHERE"].keys() | GENERATE["NAMES"].keys() | GENERATE["BATCHES"].keys() <= ids


def test_methods_have_the_names_of_the_python_client(document: dict[str, Any]) -> None:
    camel = GENERATE["camel"]
    single = {camel(name) for name in vars(Routes) if not name.startswith("_") and not name.endswith("_page")}
    walked = {camel(name) for name, route in vars(Routes).items() if isinstance(route, Walk)}
    operations = list(GENERATE["operations_of"](document))
    assert {one.method for one in operations} == single
    assert {one.method for one in operations if one.items} == walked


def test_unwrapped_answers_have_one_field(document: dict[str, Any]) -> None:
    for name, field in GENERATE["ONLY"].items():
        assert list(document["components"]["schemas"][name]["properties"]) == [field]


def test_types_name_only_declared_types(types: str) -> None:
    declared = set(re.findall(r"(?:interface|class|type) (\w+)", types)) | {"Item", "Page"}
    named = set(re.findall(r"(?<![\w.])[A-Z]\w+", types))
    assert named <= declared | OF_TYPESCRIPT
    for opening, closing in ("{}", "()", "[]"):
        assert types.count(opening) == types.count(closing)


def test_types_declare_the_exports_of_the_module(types: str) -> None:
    exported = set(re.findall(r"\w+", " ".join(re.findall(r"export {(.*?)}", (CLIENT / "index.js").read_text()))))
    assert exported == set(re.findall(r"export (?:class|function) (\w+)", types))


def test_the_client_is_small() -> None:
    modules = [CLIENT / "index.js", *sorted((CLIENT / "src").glob("*.js"))]
    assert len(gzip.compress(b"".join(module.read_bytes() for module in modules), mtime=0)) <= COMPRESSED_MAX


def test_the_package_can_be_published() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    assert package["version"] == __version__
    assert (CLIENT / "LICENSE").read_bytes() == (CLIENT.parents[1] / "LICENSE").read_bytes()
    for file in [*package["files"], *package["exports"]["."].values()]:
        assert (CLIENT / file).exists(), file
    assert "dependencies" not in package


@pytest.mark.skipif(shutil.which("tsc") is None, reason="needs the TypeScript compiler, `tsc`")
def test_typescript_accepts_right_calls_and_rejects_wrong_ones() -> None:
    flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable"]
    run = subprocess.run(
        ["tsc", *flags, "tests/types.ts"], cwd=CLIENT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout
