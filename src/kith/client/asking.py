"""What calls are built from: checked ids and paths, pages of lists, readers of answers. Nothing is sent here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from kith.client.answers import Id, Page, Sort
from kith.client.wire import Call, unreadable
from kith.core.errors import BadRequest
from kith.core.ids import parse_id

BATCH_MAX = 1000  # the contract's, for one request
LOOKUP_MAX = 100  # the contract's, for one lookup
PAGE_SIZE = 100
BASE = "/api/v1"
IDEMPOTENCY_KEY = "Idempotency-Key"

T = TypeVar("T")
P = TypeVar("P", bound=Page[Any])


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Reads an answer of this shape."""
    return msgspec.json.Decoder(kind, strict=False).decode  # not strict: "12" is an int


def nothing(_: bytes) -> None:
    """Reads an answer that says no more than that it was done."""


def checked_id(raw: Id, field: str) -> str:
    """An id as it may stand in a request; BadId names the field."""
    return str(parse_id(raw, field))


def several(items: Iterable[T], field: str) -> Iterable[T]:
    """The items as they came; BadRequest for a string, which would be taken for its letters, or what is no list."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise BadRequest(f"`{field}` must be a list, even of one", field=field)
    return items


def checked_ids(raw: Iterable[Id], field: str) -> list[str]:
    """Several, as they may stand in a body."""
    return [checked_id(one, field) for one in several(raw, field)]


def checked_word(word: str, field: str) -> str:
    """A word as it may stand in a path; BadRequest names the field. A path loses its parts `.` and `..` on the way."""
    if word in ("", ".", ".."):
        raise BadRequest(f"`{field}` must be a word, not {word!r}", field=field)
    return quote(word, safe="")


def user_path(user: Id) -> str:
    """Where a user is."""
    return f"{BASE}/users/{checked_id(user, 'user')}"


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were given: all but those that are UNSET. None stays, as it clears."""
    return {name: value for name, value in fields.items() if value is not UNSET}


def once(key: str | None) -> dict[str, str]:
    """The header that makes repetitions of a request one; with a key of its own where none is given."""
    return {IDEMPOTENCY_KEY: secrets.token_hex(16) if key is None else header_value(key, "key")}


def header_value(value: str, field: str) -> str:
    """`value` where a header can carry it; BadRequest otherwise."""
    if not value or not value.isascii() or not value.isprintable():
        raise BadRequest(f"`{field}` must be printable ASCII, and not empty", field=field)
    return value


def listed(path: str, parse: Callable[[bytes], P], page_size: int, cursor: str | None) -> Call[P]:
    """The call for a page of a list."""
    return Call("GET", path, parse).asking(limit=page_size, cursor=cursor)


def listed_by_name(
    path: str,
    parse: Callable[[bytes], P],
    page_size: int,
    cursor: str | None,
    sort: Sort | None,
    q: str | None,
) -> Call[P]:
    """The call for a page of a list of people, which may be asked for by name."""
    return Call("GET", path, parse).asking(limit=page_size, cursor=cursor, sort=sort, q=q)


def batches(items: Iterable[T], field: str, size: int = BATCH_MAX) -> Iterator[list[T]]:
    """The items, `size` at a time, read as they are needed. `field`: what the caller calls them."""
    rest = iter(several(items, field))
    while batch := list(islice(rest, size)):
        yield batch


def whole(answers: list[T], batch: Sequence[Any]) -> list[T]:
    """The answers to a lookup of `batch`; ApiError unless there is one an id."""
    if len(answers) != len(batch):
        raise unreadable(f"a lookup: {len(answers)} answers to {len(batch)} ids")
    return answers
