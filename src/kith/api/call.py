"""One request as a resource sees it: the caller, the page asked for, and the headers of the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import NamedTuple, TypeVar

from kith.access.guard import Caller
from kith.api.answers import OBJECTS_MAX, ListAnswer, Pagination, items_of
from kith.api.consistency import TOKEN_HEADER, Consistency
from kith.core.errors import BadRequest
from kith.core.events import NOWHERE, LogPosition
from kith.core.ids import NodeId
from kith.core.paging import LIMIT_DEFAULT, Cursors, Mark, Page, Window
from kith.core.tokens import NO_MARK, WriteMark
from kith.http.exchange import Exchange
from kith.http.headers import Pairs
from kith.people.privacy import Viewer

Result = TypeVar("Result")
_WHOLE = Pagination(None, None, has_more=False)
"""The pagination of a page that is the whole list."""


class ClientTokens(NamedTuple):
    """Makes and reads what clients carry from request to request: cursors and read-your-writes tokens."""

    cursors: Cursors
    consistency: Consistency


class Call:
    """One request: its caller, its parameters, and the headers of its answer."""

    __slots__ = (
        "_client_mark",
        "_upload_bytes_max",
        "_written_mark",
        "caller",
        "client_tokens",
        "exchange",
        "headers",
        "started",
    )

    def __init__(
        self,
        exchange: Exchange,
        caller: Caller,
        client_tokens: ClientTokens,
        client_mark: WriteMark,
        started: float,
        upload_bytes_max: int,
    ) -> None:
        """`client_mark`: the mark of the client's token. `started`: `time.perf_counter()` when the request arrived. A
        handler that waits for an event resets it afterwards, because that wait is no latency.
        """
        self.exchange, self.caller, self.client_tokens = exchange, caller, client_tokens
        self._client_mark, self.started = client_mark, started
        self.headers: Pairs = []  # of the answer, also of an error: the token of the last write
        self._upload_bytes_max, self._written_mark = upload_bytes_max, NO_MARK

    @property
    def acting_user(self) -> NodeId:
        """The user acted for. BadRequest if the request names none."""
        return self.caller.acting_user()

    @property
    def viewer(self) -> Viewer:
        """Whose view applies: the acting user's, the back office's, or a visitor's."""
        return self.caller.viewer

    def header(self, name: str) -> str | None:
        """A header of the request, by its lower-case name."""
        return self.exchange.headers.get(name)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body of an upload in chunks. BodyTooLarge beyond the limit for uploads."""
        return self.exchange.chunks(self._upload_bytes_max)

    def note_write(self, mark: WriteMark) -> str | None:
        """Record a write. Returns the token of all writes so far, which the answer sends in its header; None if nothing
        changed. The token also covers the client's own token, because clients keep only the newest one.
        """
        consistency = self.client_tokens.consistency
        if mark.at != NOWHERE:
            before = self._client_mark if self._written_mark is NO_MARK else self._written_mark
            self._written_mark = mark if before is NO_MARK else consistency.both(before, mark)
        token = consistency.token(self._written_mark)
        if token is not None:
            self.headers[:] = [header for header in self.headers if header[0] != TOKEN_HEADER]
            self.headers.append((TOKEN_HEADER, token))
        return token

    async def perform_write(self, write: Awaitable[tuple[Result, WriteMark]]) -> Result:
        """Await a write and return what it made. From then on the answer carries its token, even if something else
        fails.
        """
        result, mark = await write
        self.note_write(mark)
        return result

    @property
    def has_written(self) -> bool:
        """Whether something was committed. A later failure does not undo it."""
        return bool(self.headers)

    def must_reflect(self) -> LogPosition:
        """The log position that the answer must reflect: that of the client's token."""
        return self._client_mark.at

    def window(
        self, list_key: str, limit: int | None, cursor: str | None, since: int | None = None, until: int | None = None
    ) -> Window:
        """The requested page of the list named `list_key`. A cursor is valid only for the list that it came from. For a
        list with bounds, `list_key` must come from `with_bounds`.
        """
        bound = self._bound(list_key) if cursor else ""
        window = self.client_tokens.cursors.window(cursor, bound, LIMIT_DEFAULT if limit is None else limit)
        return window if since is None and until is None else window._replace(since=since, until=until)

    def window_of_objects(
        self, list_key: str, limit: int | None, cursor: str | None, since: int | None = None, until: int | None = None
    ) -> Window:
        """As `window`, for a list whose items are full objects with authors and counts: its pages are smaller."""
        if limit is not None and limit > OBJECTS_MAX:
            raise BadRequest(f"limit must be from 1 to {OBJECTS_MAX}", limit=limit)
        return self.window(list_key, limit, cursor, since, until)

    def pagination(self, list_key: str, page: Page) -> Pagination:
        """The `pagination` of an answer."""
        if not page.more_after and not page.more_before:
            return _WHOLE
        bound, newest, oldest, cursors = self._bound(list_key), page.newest, page.oldest, self.client_tokens.cursors
        return Pagination(
            cursors.next(bound, oldest) if page.more_after and oldest else None,
            cursors.previous(bound, newest) if page.more_before and newest else None,
            page.more_after,
        )

    def next_cursor(self, list_key: str, end: Mark, until: int | None = None) -> str:
        """The cursor of the page after `end`. `until`: the bound of its window."""
        return self.client_tokens.cursors.next(self._bound(list_key), end, until)

    def seal(self, list_key: str, content: bytes) -> str:
        """A cursor that carries `content`."""
        return self.client_tokens.cursors.seal(self._bound(list_key), content)

    def unseal(self, list_key: str, cursor: str) -> bytes:
        """The content of a cursor from `seal`. BadCursor."""
        return self.client_tokens.cursors.open(cursor, self._bound(list_key))

    def answer(self, list_key: str, page: Page) -> ListAnswer:
        """The answer with a page."""
        return ListAnswer(items_of(page.items), self.pagination(list_key, page))

    def _bound(self, list_key: str) -> str:
        """What a cursor is bound to: one list, read by one reader."""
        return f"{self.caller.reader()} {list_key}"
