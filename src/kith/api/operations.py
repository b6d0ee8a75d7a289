"""The table of operations: dispatch, arguments, permissions, quotas, metrics and the OpenAPI document all use it.

A resource is a class whose methods are operations: coroutines under a decorator such as
`@get("/posts/{post_id}", "A post")`. The first parameter is the `Call`, followed by the parameters of the path, in
their order. `body` is the decoded body; it is optional if it has a default. All other parameters come from the query,
or from a header if their type says so (`Header`). The docstring is the operation's description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from kith.access.quotas import QuotaName
from kith.api.bodies import BodyDecoder
from kith.core.errors import BadRequest
from kith.core.ids import ID_MAX, NodeId, parse_id
from kith.http.exchange import Exchange

BASE = "/api/v1"
Callers = Literal["anyone", "known", "acting", "server"]
"""Who may call: anyone, without credentials; every known caller; a caller that acts for a user; a server key."""
Handler = Callable[..., Coroutine[Any, Any, Any]]
Read = Callable[[str], Any]
Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])
_QUERIES_CACHED, _QUERY_CHARS_MAX = 100, 256
"""Parsed queries that an operation caches, and the longest query that is cached, in characters: longer ones have
cursors, which are seldom sent twice.
"""
_SINGLE_HEADERS = frozenset({"idempotency-key", "last-event-id"})
"""Refused if sent twice: to guess which one is meant could write twice, or miss events."""
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_BOOLS = {"true": True, "false": False, "1": True, "0": False}


class Header(NamedTuple):
    """Marks a parameter that is read from the header of this name."""

    name: str


class QueryName(NamedTuple):
    """Gives a query parameter another name for clients."""

    name: str


class Parameter(NamedTuple):
    """A parameter of a request, beside its body. `key`: its name in the handler. `name`: its name for clients."""

    key: str
    name: str
    place: Literal["path", "query", "header"]
    type: Any  # as annotated, for the OpenAPI document
    read: Read
    default: Any = inspect.Parameter.empty


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the decorator above a handler."""

    method: str
    path: str  # below the base path, unless `absolute`
    summary: str
    name: str | None = None  # in metrics and the OpenAPI document; default: the handler's name
    status: int = 200
    callers: Callers = "known"
    write: bool = False
    quota: QuotaName | None = None
    upload: bool = False  # the handler reads the body itself, within the upload timeout
    streams: bool = False  # the handler sends the answer itself, without a deadline
    numbers_as_strings: bool = False  # in the body
    answers: Any = None  # the type of the answer, if the handler returns it encoded
    absolute: bool = False
    documented: bool = True
    errors: Sequence[int] = (400, 401, 403, 404, 409, 413, 429, 503)  # error statuses in the OpenAPI document
    media_type: str = "application/json"
    openapi: Mapping[str, Any] = {}  # merged into the operation in the OpenAPI document


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of the table."""

    spec: Spec
    name: str
    resource: str  # the name of its module; the tag in the OpenAPI document
    path: str
    description: str
    handler: Handler
    parameters: Sequence[Parameter]
    body: type | None
    body_default: Any  # replaces an empty body; None: a body is required
    answer_type: Any
    path_reads: Sequence[Read]
    read_query: Callable[[str], Mapping[str, Any]]  # by the handler's names; BadRequest
    headers: Sequence[tuple[str, str]]  # of the request: (lower-case name, key)
    decoder: BodyDecoder | None
    plain: bool  # has no body and no quota, and does not stream

    def arguments(self, parts: Sequence[str], exchange: Exchange) -> tuple[list[Any], dict[str, Any]]:
        """The handler's arguments, without the call and the body. BadRequest, BadId."""
        query = exchange.query_string
        keywords = dict(self.read_query(query)) if query else {}
        positional = [read(part) for read, part in zip(self.path_reads, parts, strict=True)]
        if self.headers:
            headers = exchange.headers
            for name, key in self.headers:
                value = headers.single(name) if name in _SINGLE_HEADERS else headers.get(name)
                if value is not None:
                    keywords[key] = value
        return positional, keywords

    def decode(self, raw: bytes) -> Any:
        """The decoded body. BadRequest says what is wrong with it, and where."""
        assert self.decoder is not None  # noqa: S101 - asked only of operations with a body
        if not raw:
            if self.body_default is not None:
                return self.body_default
            raise BadRequest("this takes a JSON body, and none was sent; see /docs")
        return self.decoder.decode(raw)


def _query_reader(reads: Mapping[str, tuple[str, Read]]) -> Callable[[str], Mapping[str, Any]]:
    """The parser of a query. `reads`: by the client's name of a parameter, the handler's name and the parser of its
    value. The results for short queries such as `limit=20` are cached.
    """

    def read(query: str) -> Mapping[str, Any]:
        values: dict[str, Any] = {}
        unknown = []
        for name, value in _pairs(query):
            parameter = reads.get(name)
            if parameter is None:
                unknown.append(name)
            elif parameter[0] in values:
                raise BadRequest(f"query parameter {name} is given twice; send it once. See /docs")
            else:
                values[parameter[0]] = parameter[1](value)
        if unknown:
            unknown = sorted(set(unknown))
            raise BadRequest(f"unknown query parameter: {', '.join(unknown)}; see /docs", unknown=unknown)
        return values

    cached_read = lru_cache(_QUERIES_CACHED)(read)
    return lambda query: cached_read(query) if len(query) <= _QUERY_CHARS_MAX else read(query)


def _pairs(query: str) -> list[tuple[str, str]]:
    """The names and values in a query, as `parse_qsl` returns them; three times as fast if nothing is encoded."""
    if "%" in query or "+" in query:
        return parse_qsl(query, keep_blank_values=True)
    return [pair.partition("=")[::2] for pair in query.split("&") if pair]


def route(method: str, path: str, summary: str, **says: Any) -> Callable[[Method], Method]:
    """Make a method of a resource an operation. `says`: further fields of its Spec."""

    def mark(handler: Method) -> Method:
        handler.__spec__ = Spec(method=method, path=path, summary=summary, **says)  # type: ignore[attr-defined]
        return handler

    return mark


def get(path: str, summary: str, **says: Any) -> Callable[[Method], Method]:
    """A read."""
    return route("GET", path, summary, **says)


def post_query(path: str, summary: str, **says: Any) -> Callable[[Method], Method]:
    """A read that uses POST because its query is sent in the body."""
    return route("POST", path, summary, **says)


def post(path: str, summary: str, **says: Any) -> Callable[[Method], Method]:
    """A write."""
    return route("POST", path, summary, write=True, **says)


def put(path: str, summary: str, **says: Any) -> Callable[[Method], Method]:
    """A write."""
    return route("PUT", path, summary, write=True, **says)


def patch(path: str, summary: str, **says: Any) -> Callable[[Method], Method]:
    """A write."""
    return route("PATCH", path, summary, write=True, **says)


def delete(path: str, summary: str, **says: Any) -> Callable[[Method], Method]:
    """A write."""
    return route("DELETE", path, summary, write=True, **says)


def operations_of(resource: object) -> list[Operation]:
    """The operations of a resource, in the order of its methods."""
    methods = (getattr(resource, name) for name in vars(type(resource)))
    file = type(resource).__module__.rpartition(".")[2]
    return [_operation(method.__spec__, method, file) for method in methods if hasattr(method, "__spec__")]


def _operation(spec: Spec, handler: Handler, resource: str) -> Operation:
    hints = get_type_hints(handler, include_extras=True)
    answer = hints.pop("return")
    signature = inspect.signature(handler).parameters
    in_path = re.findall(r"{(\w+)}", spec.path)
    keys = [key for key in signature if key not in ("call", "body")]
    if keys[: len(in_path)] != in_path:
        raise TypeError(f"{spec.path}: {handler.__name__} takes its path as {in_path}, in this order, before all else")
    if spec.streams and spec.quota is not None:
        raise TypeError(f"{spec.path}: what streams is not counted against a quota; bound how many are open instead")
    parameters = [_parameter(key, hints[key], key in in_path, signature[key].default) for key in keys]
    body = hints.get("body")
    default = inspect.Parameter.empty if body is None else signature["body"].default
    return Operation(
        spec=spec,
        name=spec.name or handler.__name__,
        resource=resource,
        path=spec.path if spec.absolute else BASE + spec.path,
        description=inspect.getdoc(handler) or "",
        handler=handler,
        parameters=parameters,
        body=body,
        body_default=None if body is None or default is inspect.Parameter.empty else default,
        answer_type=spec.answers or answer,
        path_reads=[parameter.read for parameter in parameters if parameter.place == "path"],
        read_query=_query_reader(
            {parameter.name: (parameter.key, parameter.read) for parameter in parameters if parameter.place == "query"}
        ),
        headers=[(parameter.name.lower(), parameter.key) for parameter in parameters if parameter.place == "header"],
        decoder=None if body is None else BodyDecoder(body, numbers_as_strings=spec.numbers_as_strings),
        plain=body is None and spec.quota is None and not (spec.upload or spec.streams),
    )


def _parameter(key: str, type_: Any, in_path: bool, default: Any) -> Parameter:
    marks = (
        [mark for mark in get_args(type_)[1:] if isinstance(mark, Header | QueryName)] if _is_annotated(type_) else []
    )
    name = marks[0].name if marks else key
    if in_path:
        shown_name = "other" if key == "other_id" else "id" if key.endswith("_id") else key
        return Parameter(key, key, "path", type_, _reader(type_, shown_name))
    if default is inspect.Parameter.empty:
        raise TypeError(f"{key} comes in the query or a header, so it needs a default")
    place: Literal["query", "header"] = "header" if marks and isinstance(marks[0], Header) else "query"
    return Parameter(key, name, place, type_, _reader(type_, name), default)


def _is_annotated(type_: Any) -> bool:
    return get_origin(type_) is Annotated


def _reader(type_: Any, name: str) -> Read:
    """The parser of a text to a value of this type."""
    metas = [meta for meta in get_args(type_)[1:] if isinstance(meta, msgspec.Meta)] if _is_annotated(type_) else []
    bare = get_args(type_)[0] if _is_annotated(type_) else type_
    kinds = [kind for kind in (get_args(bare) if get_origin(bare) is not Literal else ()) if kind is not type(None)]
    kind = kinds[0] if kinds else bare
    if kind is NodeId:
        return lambda raw: parse_id(raw, name)  # a `partial` with the name takes twice as long
    if kind is int:
        return _integer_reader(name, metas)
    if kind is bool:
        return _one_of(name, _BOOLS)
    if get_origin(kind) is Literal:
        return _one_of(name, {choice: choice for choice in get_args(kind)})
    pattern = next((meta.pattern for meta in metas if meta.pattern is not None), None)
    return str if pattern is None else _matching(name, pattern)


def _integer_reader(name: str, metas: Sequence[msgspec.Meta]) -> Read:
    least = next((int(meta.ge) for meta in metas if meta.ge is not None), -ID_MAX - 1)
    most = next((int(meta.le) for meta in metas if meta.le is not None), ID_MAX)
    says = f"{name} must be a whole number" + (f" from {least} to {most}" if metas and metas[0].ge is not None else "")

    def read(raw: str) -> int:
        if _INTEGER.fullmatch(raw) and least <= int(raw) <= most:
            return int(raw)
        raise BadRequest(f"{says}; see /docs", field=name)

    return read


def _matching(name: str, pattern: str) -> Read:
    def read(raw: str) -> str:
        if re.search(pattern, raw) is None:
            raise BadRequest(f"{name} must match {pattern}; see /docs", field=name)
        return raw

    return read


def _one_of(name: str, choices: Mapping[str, Any]) -> Read:
    def read(raw: str) -> Any:
        if raw not in choices:
            raise BadRequest(f"{name} must be one of {', '.join(choices)}; see /docs", field=name)
        return choices[raw]

    return read
