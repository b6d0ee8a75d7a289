"""The Python client and the OpenAPI document of a server agree: routes, parameters, bodies, and each field.

What a method of the client sends and reads is taken from the client itself. A call is built and inspected, not sent.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import jsonschema_rs
import msgspec
import pytest
from servers import Server

from kith.client import EdgeWrite, Location, QuietHours, out
from kith.client.routes import Routes
from kith.client.wire import Call

Schema = dict[str, Any]

ELSEWHERE = {
    ("GET", "/api/v1/feed/stream"): "`feed_stream`, which is no single call",
    ("GET", "/api/v1/watch"): "`watch`, which is no single call",
    ("GET", "/media/{folder}/{file}"): "addresses of pictures, for browsers",
    ("GET", "/metrics"): "for Prometheus",
}
NOT_READ = {
    "SuggestionsAnswer.meta by Page": "how a ranking came about is for those who debug one",
    "Followed.following by Changed": "removing a follower, answering a request: the method's name says it",
    "Followed.requested by Changed": "the same",
}
"""Fields that the server answers and no method of the client shows."""
NOT_SENT = {
    "ContentRequest.type": "the server tells it from the rest",
    "DeviceRequest.expirationTime": "a browser says it, and there is nothing to do about it",
}
_NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLES: dict[str, Any] = {
    "graph": "follows", "pairs": [(1, 2)], "edges": [EdgeWrite("add", 1, 2, 3, 4, _NEW_YEAR)],
    "program": out("follows", 1),
    "kind": "post", "labels": ["hide"], "job_id": "j", "username": "ann", "text": "x",
    "alt_text": "x", "file": b"x", "link": "https://kith.example", "visibility": "custom", "attributes": {"a": 1},
    "location": Location(latitude=1, longitude=2, name="x"),
    "key": "k", "cursor": "c", "sort": "top", "state": "normal", "type": "latest", "request_id": "r", "reason": "x",
    "display_name": "x", "bio": "x", "name": "x", "url": "https://app.example",
    "graphs": ["follows"], "kinds": ["edge"], "secret": "x" * 20,
    "endpoint": "https://push.example/x", "p256dh": "x", "auth": "x", "token": "x",
    "event_id": "e", "at": _NEW_YEAR, "expires_at": _NEW_YEAR, "off": ["like"],
    "mentions": "these", "quiet_hours": QuietHours(from_="22:00", to="07:00", time_zone="UTC"),
}  # fmt: skip
"""Arguments by name. For any other name, a switch is turned on, and a number stands for an id."""
WORDS = {"graph", "kind", "username", "job_id"}  # path parameters that are words; the others are ids


class Operation(NamedTuple):
    """One operation of the document."""

    verb: str
    path: str
    told: Schema

    def answer(self) -> Schema:
        """The schema of a successful answer."""
        (status,) = (status for status in self.told["responses"] if status < "300")
        return dict(self.told["responses"][status].get("content", {}).get("application/json", {}).get("schema", {}))

    def body(self) -> Schema:
        return dict(self.told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {}))

    def query(self) -> set[str]:
        return {one["name"] for one in self.told.get("parameters", ()) if one["in"] == "query"}


@pytest.fixture(scope="module")
def document(server: Server) -> Schema:
    return dict(server.get("/openapi.json").json())


@pytest.fixture(scope="module")
def operations(document: Schema) -> list[Operation]:
    return [
        Operation(verb.upper(), path, told)
        for path, item in document["paths"].items()
        for verb, told in item.items()
        if (verb.upper(), path) not in ELSEWHERE
    ]


def sample_of(parameter: inspect.Parameter) -> Any:
    """An argument for this parameter."""
    if "Sequence[Id]" in str(parameter.annotation) or "Iterable[Id]" in str(parameter.annotation):
        return [1]
    if parameter.annotation == "DeviceKind":
        return "webpush"
    if "bool" in str(parameter.annotation):
        return True
    return SAMPLES.get(parameter.name, 1)


def first_call(build: Callable[..., Any]) -> Call[Any]:
    """The first call that a method makes, with every argument that it takes."""
    given = {one.name: sample_of(one) for one in inspect.signature(build).parameters.values()}
    call: Call[Any] = next(iter(build(**given)))
    return call


CALLS = {name: first_call(vars(Routes)[name].__wrapped__) for name in vars(Routes) if not name.startswith("_")}


def operation_of(call: Call[Any], operations: list[Operation]) -> Operation:
    """The operation that a call requests."""

    def fits(path: str) -> bool:
        pattern = re.sub(r"{(\w+)}", lambda found: "[a-z]+" if found[1] in WORDS else r"\d+", path)
        return re.fullmatch(pattern, call.path) is not None

    fitting = [one for one in operations if one.verb == call.method and fits(one.path)]
    assert len(fitting) == 1, f"{call.method} {call.path}"
    return fitting[0]


def test_the_client_has_a_method_for_every_operation_and_no_other(operations: list[Operation]) -> None:
    covered = {operation_of(call, operations)[:2] for call in CALLS.values()}
    assert {one[:2] for one in operations} == covered


@pytest.mark.parametrize("name", CALLS)
def test_a_method_can_send_every_field_of_the_operation_and_no_other(
    name: str, document: Schema, operations: list[Operation]
) -> None:
    call = CALLS[name]
    operation = operation_of(call, operations)
    assert set(call.params) == operation.query()
    if call.body is None:
        assert call.form or not operation.body(), f"{name} sends no body"
        return
    sent = msgspec.json.decode(msgspec.json.encode(call.body))
    schema = {**operation.body(), "components": document["components"]}
    jsonschema_rs.validate(schema, sent)
    assert set(unsent(sent, operation.body(), document)) <= set(NOT_SENT)


def unsent(sent: Any, schema: Schema, document: Schema) -> Iterator[str]:
    """The fields of a body that are not sent, and those that the document does not know (`+`)."""
    schema, _ = resolved(schema, document)
    if isinstance(sent, list):
        for value in sent:
            yield from unsent(value, schema.get("items", {}), document)
    if isinstance(sent, dict) and "properties" in schema:
        properties = schema["properties"]
        yield from (f"{schema['title']}.{field}" for field in properties.keys() - sent.keys())
        yield from (f"+{schema['title']}.{field}" for field in sent.keys() - properties.keys())
        for field in sent.keys() & properties.keys():
            yield from unsent(sent[field], properties[field], document)


def words_offered(kind: Any) -> set[str]:
    """The words that a parameter allows; for a list, those that its items allow."""
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return {word for part in get_args(kind) for word in words_offered(part)}


def words_allowed(schema: Schema, document: Schema) -> set[str]:
    """The words that a schema allows."""
    schema, _ = resolved(schema, document)
    return set(schema.get("enum", ())) | (words_allowed(schema["items"], document) if "items" in schema else set())


@pytest.mark.parametrize("name", CALLS)
def test_a_method_offers_the_same_words_as_the_operation(
    name: str, document: Schema, operations: list[Operation]
) -> None:
    operation = operation_of(CALLS[name], operations)
    body, _ = resolved(operation.body(), document)
    takes = {one["name"]: one["schema"] for one in operation.told.get("parameters", ())} | body.get("properties", {})
    for parameter, kind in get_type_hints(vars(Routes)[name].__wrapped__).items():
        if parameter != "return" and (words := words_offered(kind)):
            assert words_allowed(takes[parameter], document) == words, parameter


def test_the_client_reads_each_field_of_each_answer_by_its_documented_name(
    document: Schema, operations: list[Operation]
) -> None:
    shapes = Shapes(document)
    for name, call in CALLS.items():
        kind, schema = type_read(call), operation_of(call, operations).answer()
        if kind is not None:
            shapes.compare(kind, schema, name)
    assert not shapes.wrong(), "\n".join(sorted(shapes.wrong()))
    assert len(shapes.seen) > 30, "the structs of the client were not found"


def type_read(call: Call[Any]) -> Any:
    """The type that a call decodes its answer to. None if it does not read the answer."""
    code = getattr(call.parse, "__code__", None)  # the code of a function that calls a decoder
    named = [] if code is None else [call.parse.__globals__.get(name) for name in code.co_names]
    for found in (call.parse, *named):
        decoder = getattr(found, "__self__", None)
        if isinstance(decoder, msgspec.json.Decoder):
            return decoder.type
    return None


def resolved(schema: Schema, document: Schema) -> tuple[Schema, bool]:
    """A schema without references and null, and whether it allows null."""
    if "$ref" in schema:
        return resolved(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if {"type": "null"} in schema.get("anyOf", ()):
        real = [one for one in schema["anyOf"] if one.get("type") != "null"]
        only, *others = real
        return ({"anyOf": real} if others else resolved(only, document)[0]), True
    return schema, False


class Shapes:
    """Compares types of the client with schemas, and remembers in which schemas a field was seen."""

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._wrong: set[str] = set()
        self.seen: set[tuple[Any, str]] = set()
        self._optional: dict[str, list[bool]] = defaultdict(list)
        """Fields that the client treats as optional: for each schema, whether it has the field."""

    def wrong(self) -> set[str]:
        """The differences found."""
        nowhere = {f"{field} is in no answer" for field, known in self._optional.items() if not any(known)}
        return self._wrong | nowhere

    def compare(self, kind: Any, schema: Schema, where: str) -> None:
        """Check that `kind` reads everything that the schema allows."""
        schema, null = resolved(schema, self._document)
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        self._check(not null or type(None) in kinds or kind is Any, where, "may be null")
        (kind,) = (one for one in kinds if one is not type(None))
        origin, args = get_origin(kind) or kind, get_args(kind)
        if origin is list:
            if self._check(schema.get("type") == "array", where, "is no list"):
                self.compare(args[0], schema["items"], f"{where}[]")
        elif origin is dict:
            self._check(schema.get("type") == "object" and "properties" not in schema, where, "is no free object")
        elif isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            if schema and self._check("properties" in schema, where, "is no object"):
                self._struct(kind, schema)
        elif schema:
            self._check(_is_read_by(origin, args, schema), where, f"is {schema}, and read as {kind}")

    def _struct(self, kind: Any, schema: Schema) -> None:
        title, properties, required = schema["title"], schema["properties"], schema.get("required", ())
        if (kind, title) in self.seen:
            return
        self.seen.add((kind, title))
        name = (get_origin(kind) or kind).__name__
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for field in properties.keys() - fields.keys():
            self._check(f"{title}.{field} by {name}" in NOT_READ, f"{title}.{field}", f"is not read by {name}")
        for field_name, field in fields.items():
            where = f"{name}.{field_name} ({title})"
            if field.required:
                self._check(field_name in required, where, "may be missing, and the client cannot do without")
            else:
                self._optional[f"{name}.{field_name}"].append(field_name in properties)
            if field_name in properties:
                self.compare(field.type, properties[field_name], where)

    def _check(self, holds: bool, where: str, what: str) -> bool:
        if not holds:
            self._wrong.add(f"{where} {what}")
        return holds


def _is_read_by(kind: Any, args: tuple[Any, ...], schema: Schema) -> bool:
    """Whether a simple type reads a simple value. 64-bit values are sent as strings and read as numbers."""
    told, form = schema.get("type"), schema.get("format")
    if kind is Literal:
        return told == "string" and set(schema.get("enum", args)) <= set(args)
    told_as = {
        bool: told == "boolean",
        int: told == "integer" or (told == "string" and form is None and "enum" not in schema),
        float: told in ("number", "integer"),
        str: told == "string" and form is None,
        datetime: told == "string" and form == "date-time",
        Any: True,
    }
    return bool(told_as[kind])
