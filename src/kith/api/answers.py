"""Answer shapes that several resources share. 64-bit values are strings in answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import msgspec
from msgspec import Meta, Raw

from kith.core.errors import BadRequest, BatchTooLarge, KithError
from kith.core.ids import NodeId, parse_id
from kith.core.paging import Mark

LOOKUP_MAX = 100
OBJECTS_MAX = 100
"""Most posts or comments on a page. A page of 1,000 would block other requests for a tenth of a second."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_TIME_MS_MAX = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
_encode = msgspec.json.Encoder().encode

Time = Annotated[datetime, Meta(tz=True)]
"""RFC 3339 in UTC."""


def ms_of_time(time: datetime) -> int:
    """A time as milliseconds since the epoch. One after the last that answers can hold becomes the last."""
    return min((time - _EPOCH) // timedelta(milliseconds=1), _TIME_MS_MAX)


class RawAnswer(NamedTuple):
    """An answer that is not JSON of an operation, with its own status and headers."""

    body: bytes
    headers: list[tuple[str, str]]
    status: int = 200


class FileAnswer(NamedTuple):
    """A part of a file, sent as fast as the client reads it. `missing`: the error if it is deleted before that."""

    path: Path
    start: int
    end: int
    status: int
    headers: list[tuple[str, str]]
    missing: KithError


class Pagination(msgspec.Struct, frozen=True, rename="camel"):
    """Cursors of the neighbouring pages. `hasMore`: older items exist. `prevCursor`: null unless newer items exist."""

    next_cursor: str | None
    prev_cursor: str | None
    has_more: bool


class Item(msgspec.Struct, frozen=True):
    """One entry of a list: the node at the other end of the edge, and its position."""

    id: str
    position: str


class ListAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of a list, newest first. `partial`: the list was too long to sort by name, so only its newest entries
    were.
    """

    items: list[Item]
    pagination: Pagination
    partial: bool = False


def items_of(marks: Sequence[Mark]) -> list[Item]:
    """The items of a page, already encoded; as structs of strings they would take four times as long.

    [[1,2],[3,4]] becomes [{"id":"1","position":"2"},{"id":"3","position":"4"}].
    """
    if not marks:
        return []
    numbers = _encode([(id_, position) for position, id_ in marks])[2:-2]
    fields = numbers.replace(b"],[", b"|").replace(b",", b'","position":"').replace(b"|", b'"},{"id":"')
    return cast(list[Item], Raw(b'[{"id":"%b"}]' % fields))


class LookupRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Ids of objects of one kind, at most 100."""

    ids: list[int | str]


class CountAnswer(msgspec.Struct, frozen=True):
    """An exact count."""

    count: int


class ErrorPart(msgspec.Struct, frozen=True):
    """What went wrong: `code` for programs, `message` for people, `details` for both."""

    code: str
    message: str
    details: dict[str, Any]


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every error."""

    error: ErrorPart


def with_bounds(query: str, since: int | None, until: int | None) -> str:
    """The query of a list with its bounds added, so that a cursor is valid for these bounds only."""
    if since is not None and until is not None and since > until:
        raise BadRequest("`since` must not be greater than `until`", since=str(since), until=str(until))
    return query if since is None and until is None else f"{query} since {since} until {until}"


def check_batch(size: int, batch_max: int) -> None:
    """Raise BatchTooLarge for more than `batch_max` items."""
    if size > batch_max:
        raise BatchTooLarge(f"{size} in one request; send at most {batch_max}", max=batch_max)


def check_lookup(ids: Sequence[int | str]) -> list[NodeId]:
    """The ids of a lookup; BatchTooLarge for more than LOOKUP_MAX."""
    if len(ids) > LOOKUP_MAX:
        raise BatchTooLarge(f"at most {LOOKUP_MAX} ids a request; send several", max=LOOKUP_MAX)
    return [parse_id(id_, "ids") for id_ in ids]


def ids_of(raw: Sequence[int | str], field: str) -> tuple[int, ...]:
    """Ids of a request in their order, without repetitions."""
    return tuple(dict.fromkeys(parse_id(one, field) for one in raw))
