"""Shapes that several resources answer with. 64-bit values are strings in answers."""

from __future__ import annotations

from typing import Any

import msgspec

from kith.api.backend import Backend, Pagination
from kith.api.guard import Caller
from kith.core.ids import NodeId
from kith.core.paging import LIMIT_DEFAULT, Page, Window


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


class Call(msgspec.Struct, frozen=True):
    """One request: who asks, and what there is to answer with."""

    backend: Backend
    caller: Caller

    @property
    def acting(self) -> NodeId:
        """The user acted for."""
        return self.caller.acting()

    def window(self, query: str, limit: int | None, cursor: str | None) -> Window:
        """The part of the list `query` asked for."""
        return self.backend.window(self.caller, query, LIMIT_DEFAULT if limit is None else limit, cursor)

    def answer(self, query: str, page: Page) -> ListAnswer:
        """A page as the client gets it."""
        items = [Item(str(mark.id), str(mark.position)) for mark in page.items]
        return ListAnswer(items, self.backend.paging(self.caller, query, page))
