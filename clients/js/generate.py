"""Writes what the JavaScript client knows of the API, from the OpenAPI document: `src/operations.js` and its types.

    python clients/js/generate.py        (or: make client-js)

One rule makes a method of an operation. Its arguments are what the path names, then what the body requires; all that
may be left out (rest of the body, query, headers) is named in one last object, with the options of a call.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from kith.api import openapi
from kith.run import config
from kith.run.api import open_api
from kith.streams.messages import Message

Schema = dict[str, Any]

SOURCES = Path(__file__).parent / "src"
NAMES = {
    "check": "exists", "check_many": "exists_many", "out": "edges_out", "in": "edges_in",
    "accept": "accept_follow_request", "decline": "decline_follow_request",
    "deactivate": "deactivate_user", "reactivate": "reactivate_user",
    "get_user": "user", "get_job": "job", "get_post": "post", "get_media": "media", "get_story": "story",
    "get_labels": "labels", "get_board": "board", "get_preferences": "preferences",
    "healthz": "is_alive", "readyz": "is_ready",
}  # fmt: skip
"""Operations that clients call by another name than the service: that of the Python client."""
ELSEWHERE = {
    "feed_stream": "`feedStream` (stream.js): no call with one answer",
    "watch": "`watch` (stream.js): no call with one answer",
    "media_file": "addresses of pictures, for browsers: `fileUrl`",
    "metrics": "for Prometheus",
}
ONLY = {
    "Exists": "exists", "ExistMany": "exists", "CountAnswer": "count", "RelationshipsAnswer": "relationships",
    "UsersLookedUp": "users", "PostsLookedUp": "posts", "PostsViewed": "posts", "JobStarted": "job",
    "WebhooksAnswer": "webhooks",
}  # fmt: skip
"""Answers that only wrap one value: methods answer that value."""
BATCHES = {
    "check_many": 1000, "write_edges": 1000, "relationships": 1000,
    "lookup_users": 100, "lookup_posts": 100, "view_posts": 100,
}  # fmt: skip
"""Operations on many items, and how many one request may have: methods take any number."""
WALKED = 100
"""Items a request where a whole list is walked; of home as many as the service gives, which are heavy."""
HEADERS = {"Idempotency-Key": "key", "X-Request-Id": "requestId"}
"""What the options of a call name the headers."""
ASKS_HEALTH = {"healthz", "readyz"}
"""A 503 of these is an answer: no."""
_MADE = "Made by generate.py from the OpenAPI document; change that, not this."


def document() -> Schema:
    """The document of this version of Kith, of a server over an empty folder that nobody can reach."""

    async def made() -> Schema:
        with tempfile.TemporaryDirectory() as folder:
            async with open_api(config.load({"data": folder})) as api:
                return openapi.document(api.operations)

    return asyncio.run(made())


def files(document: Schema) -> dict[str, str]:
    """The generated files, by name."""
    operations = list(operations_of(document))
    return {"operations.js": table(operations), "operations.d.ts": types(operations, document)}


class Operation:
    """One operation, and the method that it becomes."""

    def __init__(self, verb: str, path: str, told: Schema, schemas: Schema) -> None:
        self.verb, self.told, self.id = verb, told, told["operationId"]
        self.method = camel(NAMES.get(self.id, self.id))
        self.parameters: list[Schema] = told["parameters"]
        self.path = re.sub(r"{(\w+)}", lambda found: self._slot(found[1]), path)
        content = told.get("requestBody", {}).get("content", {})
        self.form = "multipart/form-data" in content
        self.body_name = "" if self.form or not content else ref_of(content["application/json"]["schema"])
        self.body: Schema = {}
        if content:
            self.body = content["multipart/form-data"]["schema"] if self.form else schemas[self.body_name]
        self.required: list[str] = self.body.get("required", [])
        (self.status,) = (status for status in told["responses"] if status < "300")
        answer = told["responses"][self.status].get("content", {}).get("application/json", {}).get("schema")
        self.answer = ref_of(answer) if answer else None
        self.only = ONLY.get(self.answer or "")
        properties = schemas[self.answer]["properties"] if self.answer else {}
        self.items = next((one for one in ("items", "posts") if one in properties and "pagination" in properties), None)
        self.item = ts(properties[self.items]["items"]) if self.items else ""

    def _slot(self, name: str) -> str:
        """An id stands in braces and is checked as one; other words stand in angles."""
        (schema,) = (one["schema"] for one in self.parameters if one["name"] == name)
        word = argument(name)
        return f"{{{word}}}" if "pattern" in schema else f"<{word}>"

    def of(self, place: str) -> list[Schema]:
        return [one for one in self.parameters if one["in"] == place]

    def entry(self) -> Schema:
        """Its row in operations.js."""
        optional = [name for name in self.body.get("properties", {}) if name not in self.required]
        headers = {HEADERS[one["name"]]: one["name"] for one in self.of("header")}
        walked = WALKED if self.items and self.id != "feed" else None
        entry = {
            "verb": self.verb, "path": self.path, "takes": self.required, "fields": optional,
            "query": [one["name"] for one in self.of("query")], "headers": headers, "only": self.only,
            "items": self.items, "walked": walked, "batch": BATCHES.get(self.id), "form": self.form,
            "deletes": self.verb == "DELETE" and self.status == "204", "health": self.id in ASKS_HEALTH,
        }  # fmt: skip
        return {name: value for name, value in entry.items() if value}

    def signatures(self) -> Iterator[str]:
        """Its methods in TypeScript."""
        arguments = [f"{argument(one['name'])}: {ts(one['schema'], argument(one['name']))}" for one in self.of("path")]
        for name in self.required:
            arguments.append(f"{name}: {self._taken(name)}")
        options = [*self._options(), "UploadOptions" if self.form else "CallOptions"]
        arguments.append(f"options?: {' & '.join(options)}")
        listed = ", ".join(arguments)
        if self.items:
            yield f"{self.method}({listed}): Listing<{self.item}, {self.answer}>;"
            yield f"{self.method}Page({listed}): Promise<{self.answer}>;"
        else:
            yield f"{self.method}({listed}): Promise<{self._answer()}>;"

    def _taken(self, name: str) -> str:
        schema = self.body["properties"][name]
        if self.form:
            return "UploadFile"
        return f"Many<{ts(schema['items'])}>" if self.id in BATCHES else ts(schema, name)

    def _options(self) -> Iterator[str]:
        optional = {name for name in self.body.get("properties", {}) if name not in self.required}
        if self.form:
            yield "{ altText?: string }"
        elif optional and self.required:
            yield f"Omit<{self.body_name}, {' | '.join(quoted(name) for name in self.required)}>"
        elif optional:
            yield self.body_name
        named = [f"{one['name']}?: {ts(one['schema']).removesuffix(' | null')}" for one in self.of("query")]
        named += [f"{HEADERS[one['name']]}?: string" for one in self.of("header")]
        if named:
            yield f"{{ {'; '.join(named)} }}"

    def _answer(self) -> str:
        if self.id in ASKS_HEALTH:
            return "boolean"
        if self.answer is None:
            return "void"
        return f"{self.answer}[{quoted(self.only)}]" if self.only else self.answer


def operations_of(document: Schema) -> Iterator[Operation]:
    """Those that are methods, as the document has them."""
    for path, item in document["paths"].items():
        for verb, told in item.items():
            if told["operationId"] not in ELSEWHERE:
                yield Operation(verb.upper(), path, told, document["components"]["schemas"])


def table(operations: Iterable[Operation]) -> str:
    """operations.js."""
    rows = [f"  {one.method}: {script(one.entry())}," for one in operations]
    return f"""// {_MADE}

/**
 * Every operation by the name of its method: what to send, and how its answer reads.
 *
 * In a path `{{user}}` takes an id and `<graph>` a word. `takes`: fields of the body that are arguments, `fields`:
 * those that may be left out. `only`: the field that is the answer. `items`: the field with the items of a page,
 * `walked`: how many to ask for where a whole list is wanted. `batch`: how many items one request may have.
 * `deletes`: not found is as good as deleted, after a try whose answer was lost. `health`: a 503 is an answer.
 */
export const OPERATIONS = {{
{chr(10).join(rows)}
}};
"""


def types(operations: Iterable[Operation], document: Schema) -> str:
    """operations.d.ts."""
    methods = [f"{doc(summary(one), '  ')}  {signature}" for one in operations for signature in one.signatures()]
    shapes = [interface(name, schema) for name, schema in document["components"]["schemas"].items()]
    return f"""// {_MADE}

import type {{ CallOptions, Int64, Listing, Many, Program, UploadFile, UploadOptions }} from "../index.js";

/** A method for every operation of the API. */
export interface Operations {{
{chr(10).join(methods)}
}}

{chr(10).join(shapes)}
{events()}"""


def events() -> str:
    """The types of what a stream tells."""
    made = []
    for message in get_args(Message):
        _, schemas = msgspec.json.schema_components([message], ref_template="#/{name}")
        schema = schemas[message.__name__]
        name, tag = f"{message.__name__}Event", schema["properties"].pop("event")["enum"][0]
        schema["properties"] = {
            "type": {"enum": [tag]},
            "eventId": {"type": "string", "description": "Where to resume after it."},
            **schema["properties"],
        }
        schema["required"] = list(schema["properties"])
        made.append((name, interface(name, schema)))
    union = f"/** What a stream tells. */\nexport type FeedEvent = {' | '.join(name for name, _ in made)};\n"
    return "\n".join([*(text for _, text in made), union])


def interface(name: str, schema: Schema) -> str:
    required = set(schema.get("required", []))
    lines = [
        f"{doc(one.get('description', ''), '  ')}  {field}{'' if field in required else '?'}: {ts(one, field)};"
        for field, one in schema["properties"].items()
    ]
    return f"{doc(schema.get('description', ''))}export interface {name} {{\n{chr(10).join(lines)}\n}}\n"


def ts(schema: Schema, name: str = "") -> str:
    """A schema as TypeScript writes it; `name` is that of the field. Integers that may be strings: see `Int64`."""
    if "$ref" in schema:
        return ref_of(schema)
    if "enum" in schema:
        return " | ".join(quoted(one) for one in sorted(schema["enum"]))
    kind = schema.get("type")
    variants = schema.get("anyOf") or ([{"type": one} for one in kind] if isinstance(kind, list) else [])
    if variants:
        kinds = [one.get("type") for one in variants]
        wide = {"maximum": schema.get("maximum", 0)}
        names = (ts({**wide, **one}, name) for one in variants)
        if "integer" in kinds and "string" in kinds:
            names = ("null" if one == "null" else "Int64" for one in kinds)
        return " | ".join(dict.fromkeys(names))
    match kind:
        case "array" if schema.get("minItems") == schema.get("maxItems", 0):
            return f"[{', '.join([ts(schema['items'])] * schema['minItems'])}]"
        case "array":
            item = ts(schema["items"])
            return f"{item}[]" if item.isidentifier() else f"Array<{item}>"
        case "object":
            return "Program" if name == "program" else f"Record<string, {ts(schema.get('additionalProperties', {}))}>"
        case "string" if "pattern" in schema:
            return "Int64"
        case "integer" | "number":
            return "Int64" if schema.get("maximum", 0) >= 2**53 else "number"
        case _:
            return str(kind or "unknown")


def ref_of(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def argument(name: str) -> str:
    """`user_id` is the argument `user`."""
    return {"object_id": "id"}.get(name, camel(name.removesuffix("_id")))


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def quoted(word: str | None) -> str:
    return json.dumps(word)


def script(value: Any) -> str:
    """A value as JavaScript writes it."""
    if isinstance(value, dict):
        pairs = (f"{name if name.isidentifier() else quoted(name)}: {script(one)}" for name, one in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value)


def summary(operation: Operation) -> str:
    first = operation.told["summary"]
    return "\n\n".join(filter(None, [first if first.endswith("?") else first + ".", operation.told["description"]]))


def doc(text: str, indent: str = "") -> str:
    """A comment for editors to show, or nothing."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "\n".join(f"{indent} * {line}".rstrip() for line in lines)
    return f"{indent}/**\n{body}\n{indent} */\n"


if __name__ == "__main__":
    for name, text in files(document()).items():
        (SOURCES / name).write_text(text)
