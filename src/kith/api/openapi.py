"""Builds the OpenAPI document from the table of operations."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated, Any, get_args, get_origin

import msgspec

from kith import __version__
from kith.api.answers import ErrorAnswer, ErrorPart
from kith.api.errors import codes_of
from kith.api.operations import Operation, Parameter
from kith.core.ids import NodeId

ERRORS = {
    400: "The request cannot be served as written.",
    401: "No credentials, or invalid ones.",
    403: "The caller is known, but may not do this.",
    404: "It does not exist, or is hidden from the caller.",
    409: "The current state does not allow it.",
    413: "The body or the batch is too large.",
    416: "The range is past the end of the file.",
    429: "Too many requests; see Retry-After.",
    503: (
        "Not available now; see Retry-After. OVERLOADED: nothing was done. With any other code a write may have been "
        "made: repeat it, with the same Idempotency-Key if the operation takes one."
    ),
}
_CODES = "; ".join(f"{status}: {', '.join(codes_of(status))}" for status in ERRORS)
_ABOUT = (
    "A social backend as a service: follow graph, posts, comments, media, stories, home feeds and their streams. "
    "Ids, positions and updatedAt are strings in answers. Send JSON, and `Authorization: Bearer KEY` with a server key "
    "or a user token. A server key says in X-Kith-User for whom it acts: a user's id, or `system` for the back office, "
    "which sees everything. Without the header it sees what a visitor sees. An error is "
    '`{"error": {"code", "message", "details"}}`; its message says what to do.'
)
_REF = "#/components/schemas/{name}"
OR_STRING = {"x-or-string": True}
"""Marks numbers that may also be sent as strings, because JavaScript loses precision above 2**53."""
_ID = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,18})$"}


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document of these operations."""
    documented = [operation for operation in operations if operation.spec.documented]
    types = [
        ErrorAnswer,
        *(type_ for operation in documented for type_ in (operation.body, operation.answer_type) if _is_struct(type_)),
    ]
    _, schemas = msgspec.json.schema_components(list(dict.fromkeys(types)), ref_template=_REF)
    _complete(schemas)
    schemas[ErrorPart.__name__]["properties"]["code"]["description"] = _CODES
    paths: dict[str, dict[str, Any]] = {}
    for operation in documented:
        paths.setdefault(operation.path, {})[operation.spec.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kith", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "security": [{"bearer": []}],
    }


def _complete(schema: Any) -> None:
    """Adds to a schema what msgspec leaves out: the type of enums, and which numbers may also be strings."""
    if isinstance(schema, list):
        for item in schema:
            _complete(item)
    elif isinstance(schema, dict):
        if isinstance(schema.get("enum"), list) and "type" not in schema:
            schema["type"] = "string"
        if schema.pop("x-or-string", False):
            schema["type"] = ["integer", "string"]
        if schema.get("items") is False:  # a tuple: its length says so too, and some client generators fail on it
            parts = schema.pop("prefixItems")
            schema["items"] = parts[0] if parts.count(parts[0]) == len(parts) else {"anyOf": parts}
        for value in schema.values():
            _complete(value)


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _described(operation: Operation) -> dict[str, Any]:
    spec = operation.spec
    errors = {str(status): _content(ERRORS[status], ErrorAnswer) for status in spec.errors}
    answers = {str(spec.status): _content(HTTPStatus(spec.status).phrase, operation.answer_type, spec.media_type)}
    operation_object: dict[str, Any] = {
        "summary": spec.summary,
        "description": operation.description,
        "operationId": operation.name,
        "tags": [operation.resource],
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": {**answers, **errors},
    }
    if spec.callers == "anyone":
        operation_object["security"] = []
    if operation.body is not None:
        schema = {"$ref": _REF.format(name=operation.body.__name__)}
        operation_object["requestBody"] = {
            "content": {"application/json": {"schema": schema}},
            "required": operation.body_default is None,
        }
    extra = dict(spec.openapi)
    operation_object["responses"] |= extra.pop("responses", {})
    return {**operation_object, **extra}


def _content(description: str, answer: Any, media_type: str = "application/json") -> dict[str, Any]:
    if answer is None or answer is type(None):
        return {"description": description}
    schema = {"$ref": _REF.format(name=answer.__name__)} if _is_struct(answer) else {"type": "string"}
    return {"description": description, "content": {media_type: {"schema": schema}}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    metas = [meta for meta in get_args(parameter.type)[1:] if isinstance(meta, msgspec.Meta)]
    description = next((meta.description for meta in metas if meta.description), "")
    operation_object: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.default is inspect.Parameter.empty,
        "schema": _schema(parameter),
    }
    examples = next((meta.examples for meta in metas if meta.examples), None)
    if examples:
        operation_object["example"] = examples[0]
    return {**operation_object, "description": description} if description else operation_object


def _schema(parameter: Parameter) -> dict[str, Any]:
    annotated = get_origin(parameter.type) is Annotated
    bare = get_args(parameter.type)[0] if annotated else parameter.type
    if bare is NodeId:
        return _ID
    metas = [meta for meta in get_args(parameter.type)[1:] if isinstance(meta, msgspec.Meta)]
    schema = msgspec.json.schema(bare)
    _complete(schema)
    for meta in metas:
        schema |= {key: int(value) for key, value in (("minimum", meta.ge), ("maximum", meta.le)) if value is not None}
    if parameter.default not in (None, inspect.Parameter.empty):
        schema["default"] = parameter.default
    return schema
