"""/docs: the OpenAPI document as one self-contained page."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

from kith.api.errors import codes_of
from kith.api.openapi import ERRORS

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}
h2{margin-top:2.5rem;border-bottom:1px solid #ddd}code,pre{font:14px/1.45 ui-monospace,monospace}
details{border:1px solid #ddd;border-radius:6px;margin:.5rem 0;padding:.5rem .8rem}summary{cursor:pointer}
.m{display:inline-block;width:4.5rem;font-weight:600}.get{color:#0a6}.post{color:#06c}.delete{color:#c33}
.put,.patch{color:#a60}td,th{text-align:left;padding:.15rem .8rem .15rem 0;vertical-align:top}
pre{background:#f6f6f6;padding:.6rem;overflow:auto}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#e6e6e6}pre{background:#22252b}
details,h2{border-color:#3a3d44}}
"""


def render(document: dict[str, Any]) -> str:
    """The page for an OpenAPI document."""
    schemas = document.get("components", {}).get("schemas", {})
    groups: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(path, method, operation, schemas))
    body = "".join(f"<h2>{escape(name)}</h2>{''.join(parts)}" for name, parts in groups.items())
    info = document["info"]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(info["title"])} API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1>{_prose(info.get('description', ''))}"
        f"<table>{_errors()}</table>"
        "<p>In a body, what has a <code>?</code> may be left out. "
        f'Machine-readable: <a href="/openapi.json">/openapi.json</a></p>{body}</html>'
    )


def _errors() -> str:
    """Each status, what it says, and its codes."""
    return "".join(
        f"<tr><td><code>{status}</code></td><td>{escape(says)}<br>{', '.join(codes_of(status))}</td></tr>"
        for status, says in ERRORS.items()
    )


def _operation(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}</td>"
        f"<td>{escape(_values(parameter))}</td><td>{_inline(parameter.get('description', ''))}</td></tr>"
        for parameter in operation.get("parameters", [])
    )
    table = f"<table>{rows}</table>" if rows else ""
    body = _schema(operation.get("requestBody", {}), schemas, mark="?")
    answers = operation.get("responses", {})
    answer = next((_schema(value, schemas) for status, value in answers.items() if status.startswith("2")), "")
    return (
        f'<details><summary><span class="m {method}">{method.upper()}</span><code>{escape(path)}</code> '
        f"{_inline(operation.get('summary') or '')}</summary>{_prose(operation.get('description') or '')}{table}"
        f"{f'<p>Body</p><pre>{body}</pre>' if body else ''}{f'<p>Answer</p><pre>{answer}</pre>' if answer else ''}"
        "</details>"
    )


def _prose(text: str) -> str:
    """The HTML of a docstring: paragraphs, lists of lines that begin with `- `, and code in backquotes."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        before, *items = re.split(r"(?:^|\n)- ", block)
        if before:
            blocks.append(f"<p>{_inline(before)}</p>")
        if items:
            blocks.append(f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>")
    return "".join(blocks)


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _values(parameter: dict[str, Any]) -> str:
    """The allowed values of a parameter, and its default."""
    schema = parameter.get("schema", {})
    shape = _shape(schema, {}, "")
    if schema.get("default") is not None:
        shape += f", default {json.dumps(schema['default'])}"
    return f"{shape}, required" if parameter.get("required") and parameter["in"] != "path" else shape


def _schema(holder: dict[str, Any], schemas: dict[str, Any], mark: str = "") -> str:
    schema = holder.get("content", {}).get("application/json", {}).get("schema")
    return "" if schema is None else escape(_shape(schema, schemas, "", mark))


def _shape(schema: dict[str, Any], schemas: dict[str, Any], indent: str, mark: str = "") -> str:
    """The shape of the JSON that a schema describes. A schema that contains itself is expanded once. `mark` follows the
    name of each optional field.
    """
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        remaining = {key: value for key, value in schemas.items() if key != name}
        return _shape(schemas[name], remaining, indent, mark) if name in schemas else "{...}"
    if "properties" in schema:
        inner = indent + "  "
        needed = schema.get("required", ())
        lines = [
            f'{inner}"{name}"{"" if name in needed else mark}: {_shape(value, schemas, inner, mark)}'
            for name, value in schema["properties"].items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if "items" in schema:
        item, size = _shape(schema["items"], schemas, indent, mark), schema.get("maxItems", 0)
        return f"[{', '.join([item] * size)}]" if size and size == schema.get("minItems") else f"[{item}, ...]"
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(_shape(value, schemas, indent, mark) for value in schema[key]))
    kinds = schema.get("type", "any")
    return " | ".join(kinds) if isinstance(kinds, list) else str(kinds)
