"""Building blocks of calls: checked ids and paths, pages of lists, decoders of answers. Nothing is sent here."""

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

BATCH_MAX = 1000  # items of one request; the service's limit
LOOKUP_MAX = 100  # ids of one lookup; the service's limit
PAGE_SIZE = 100
BASE = "/api/v1"
IDEMPOTENCY_KEY = "Idempotency-Key"

T = TypeVar("T")
P = TypeVar("P", bound=Page[Any])


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """A decoder of answers of this type."""
    return msgspec.json.Decoder(kind, strict=False).decode  # not strict: "12" is an int


def nothing(_: bytes) -> None:
    """The decoder of an answer without content."""


def checked_id(raw: Id, field: str) -> str:
    """The id as a request carries it; BadId, which names the field, if it is no id."""
    return str(parse_id(raw, field))


def several(items: Iterable[T], field: str) -> Iterable[T]:
    """The items, unchanged. BadRequest for one value, and for a string, which would be read letter by letter."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise BadRequest(f"`{field}` must be a list, even of one", field=field)
    return items


def checked_ids(raw: Iterable[Id], field: str) -> list[str]:
    """Several ids as a body carries them; errors as of `several` and `checked_id`."""
    return [checked_id(id_, field) for id_ in several(raw, field)]


def checked_word(word: str, field: str) -> str:
    """The word, quoted for a path. BadRequest, which names the field, if it is empty, `.` or `..`.

    HTTP libraries and proxies remove the segments `.` and `..` from paths.
    """
    if word in ("", ".", ".."):
        raise BadRequest(f"`{field}` must be a word, not {word!r}", field=field)
    return quote(word, safe="")


def user_path(user: Id) -> str:
    """The path of a user."""
    return f"{BASE}/users/{checked_id(user, 'user')}"


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not UNSET. None is kept: it clears a field."""
    return {name: value for name, value in fields.items() if value is not UNSET}


def once(key: str | None) -> dict[str, str]:
    """The header that makes a request idempotent. Without a `key` it has a random one."""
    return {IDEMPOTENCY_KEY: secrets.token_hex(16) if key is None else header_value(key, "key")}


def header_value(value: str, field: str) -> str:
    """`value` if a header can carry it; otherwise BadRequest."""
    if not value or not value.isascii() or not value.isprintable() or value != value.strip():
        raise BadRequest(f"`{field}` must be printable ASCII, not empty, without spaces around it", field=field)
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
    """The call for a page of a list of people. `sort`: in the order of names; `q`: only names that begin with it."""
    return Call("GET", path, parse).asking(limit=page_size, cursor=cursor, sort=sort, q=q)


def batches(items: Iterable[T], field: str, size: int = BATCH_MAX) -> Iterator[list[T]]:
    """The items in batches of `size`, read lazily. `field`: the caller's name of the list, for errors."""
    rest = iter(several(items, field))
    while batch := list(islice(rest, size)):
        yield batch


def whole(answers: list[T], batch: Sequence[Any]) -> list[T]:
    """The answers to a lookup of `batch`; ApiError unless there is one for each id."""
    if len(answers) != len(batch):
        raise unreadable(f"a lookup: {len(answers)} answers to {len(batch)} ids")
    return answers
