"""Shapes that several resources answer with. 64-bit values are strings in answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kith.access.guard import Caller
from kith.api.backend import Backend, Pagination
from kith.core.errors import BadRequest, BatchTooLarge
from kith.core.ids import NodeId, parse_id
from kith.core.paging import LIMIT_DEFAULT, Page, Window

LOOKUP_MAX = 100
OBJECTS_MAX = 100
"""Posts or comments a page; 1,000 would keep everybody else waiting for a tenth of a second."""


class Item(msgspec.Struct, frozen=True):
    """One entry of a list: the other end, and its position."""

    id: str
    position: str


class ListAnswer(msgspec.Struct, frozen=True):
    """A page of a list, newest first."""

    items: list[Item]
    pagination: Pagination


class IdItem(msgspec.Struct, frozen=True):
    """One member of a set."""

    id: str


class SetAnswer(msgspec.Struct, frozen=True):
    """A page of a set program, by id, greatest first."""

    items: list[IdItem]
    pagination: Pagination


class LookupRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Ids of objects of one kind, 100 at most."""

    ids: list[int | str]


class CountAnswer(msgspec.Struct, frozen=True):
    """An exact count."""

    count: int


class ErrorPart(msgspec.Struct, frozen=True):
    """What went wrong: a code for programs, a message for people, fields for both."""

    code: str
    message: str
    details: dict[str, Any]


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every error."""

    error: ErrorPart


class JobAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A bulk operation on all edges of a user, running in the background."""

    id: str
    operation: str
    user: str
    edges: int
    done: bool


def ranged(query: str, since: int | None, until: int | None) -> str:
    """The query of a list between bounds, so that a cursor is good for these bounds only."""
    if since is not None and until is not None and since > until:
        raise BadRequest("`since` must not be greater than `until`", since=str(since), until=str(until))
    return query if since is None and until is None else f"{query} since {since} until {until}"


def check_lookup(ids: Sequence[int | str]) -> list[NodeId]:
    """The ids of a request for many; BatchTooLarge beyond LOOKUP_MAX."""
    if len(ids) > LOOKUP_MAX:
        raise BatchTooLarge(f"at most {LOOKUP_MAX} ids a request; send several", max=LOOKUP_MAX)
    return [parse_id(id_, "ids") for id_ in ids]


class Call(msgspec.Struct, frozen=True):
    """One request: who asks, and what there is to answer with."""

    backend: Backend
    caller: Caller

    @property
    def acting(self) -> NodeId:
        """The user acted for."""
        return self.caller.acting()

    def window(
        self, query: str, limit: int | None, cursor: str | None, since: int | None = None, until: int | None = None
    ) -> Window:
        """The part of the list `query` asked for; `query` has been through `ranged` where bounds may be given."""
        window = self.backend.window(self.caller, query, LIMIT_DEFAULT if limit is None else limit, cursor)
        return window._replace(since=since, until=until)

    def window_of_objects(
        self, query: str, limit: int | None, cursor: str | None, since: int | None = None, until: int | None = None
    ) -> Window:
        """As `window`, of a list whose items are answered whole, with their authors and numbers."""
        if limit is not None and limit > OBJECTS_MAX:
            raise BadRequest(f"limit must be from 1 to {OBJECTS_MAX}", limit=limit)
        return self.window(query, limit, cursor, since, until)

    def answer(self, query: str, page: Page) -> ListAnswer:
        """A page as the client gets it."""
        items = [Item(str(mark.id), str(mark.position)) for mark in page.items]
        return ListAnswer(items, self.backend.paging(self.caller, query, page))
