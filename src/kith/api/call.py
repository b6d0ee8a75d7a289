"""One request as its resource sees it: who asks, where lists begin, and what the answer carries beside its body."""

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

Made = TypeVar("Made")
_WHOLE = Pagination(None, None, has_more=False)
"""Of a page that is the whole list."""


class ClientTokens(NamedTuple):
    """What every request carries for its client: cursors and read-your-writes tokens."""

    cursors: Cursors
    consistency: Consistency


class Call:
    """One request: who asks, and what there is to answer with."""

    __slots__ = ("_seen", "_upload_bytes_max", "_wrote", "caller", "carried", "exchange", "headers", "started")

    def __init__(
        self,
        exchange: Exchange,
        caller: Caller,
        carried: ClientTokens,
        seen: WriteMark,
        started: float,
        upload_bytes_max: int,
    ) -> None:
        """`seen`: the mark of the client's token. `started`: `time.perf_counter()` when it came. Who waits for
        something to happen sets it anew after that, as waiting is no time to answer.
        """
        self.exchange, self.caller, self.carried = exchange, caller, carried
        self._seen, self.started = seen, started
        self.headers: Pairs = []  # of the answer, errors included: the token of what was written
        self._upload_bytes_max, self._wrote = upload_bytes_max, NO_MARK

    @property
    def acting(self) -> NodeId:
        """The user acted for; BadRequest if nobody was named."""
        return self.caller.acting()

    @property
    def viewer(self) -> Viewer:
        """Whose view it is: the user's acted for, the back office's, or a visitor's."""
        return self.caller.viewer

    def header(self, name: str) -> str | None:
        """A header of the request, by its lower-case name."""
        return self.exchange.headers.get(name)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body of an upload as it comes; BodyTooLarge beyond the bound of uploads."""
        return self.exchange.chunks(self._upload_bytes_max)

    def wrote(self, mark: WriteMark) -> str | None:
        """The token of what was written so far, which the answer carries in its header; None if nothing changed. It
        stands for what the client's token does, too: clients keep the newest alone.
        """
        consistency = self.carried.consistency
        if mark.at != NOWHERE:
            before = self._seen if self._wrote is NO_MARK else self._wrote
            self._wrote = mark if before is NO_MARK else consistency.both(before, mark)
        token = consistency.token(self._wrote)
        if token is not None:
            self.headers[:] = [header for header in self.headers if header[0] != TOKEN_HEADER]
            self.headers.append((TOKEN_HEADER, token))
        return token

    async def writing(self, write: Awaitable[tuple[Made, WriteMark]]) -> Made:
        """What a write made. The answer carries its token from then on, also if something else fails."""
        made, mark = await write
        self.wrote(mark)
        return made

    @property
    def has_written(self) -> bool:
        """Whether something was committed; a failure after that takes nothing back."""
        return bool(self.headers)

    def must_reflect(self) -> LogPosition:
        """The place in the log that the answer must reflect: that of the client's token."""
        return self._seen.at

    def window(
        self, list_key: str, limit: int | None, cursor: str | None, since: int | None = None, until: int | None = None
    ) -> Window:
        """The page asked for of the list named `list_key`; a cursor is of use for the same list alone. It has been
        through `ranged` where bounds may be given.
        """
        bound = self._bound(list_key) if cursor else ""
        window = self.carried.cursors.window(cursor, bound, LIMIT_DEFAULT if limit is None else limit)
        return window if since is None and until is None else window._replace(since=since, until=until)

    def window_of_objects(
        self, list_key: str, limit: int | None, cursor: str | None, since: int | None = None, until: int | None = None
    ) -> Window:
        """As `window`, of a list whose items are answered whole, with their authors and numbers."""
        if limit is not None and limit > OBJECTS_MAX:
            raise BadRequest(f"limit must be from 1 to {OBJECTS_MAX}", limit=limit)
        return self.window(list_key, limit, cursor, since, until)

    def pagination(self, list_key: str, page: Page) -> Pagination:
        """The `pagination` of an answer."""
        if not page.more_after and not page.more_before:
            return _WHOLE
        bound, newest, oldest, cursors = self._bound(list_key), page.newest, page.oldest, self.carried.cursors
        return Pagination(
            cursors.next(bound, oldest) if page.more_after and oldest else None,
            cursors.previous(bound, newest) if page.more_before and newest else None,
            page.more_after,
        )

    def next_cursor(self, list_key: str, end: Mark, until: int | None = None) -> str:
        """The cursor that goes on after `end`. `until`: that of its window."""
        return self.carried.cursors.next(self._bound(list_key), end, until)

    def seal(self, list_key: str, content: bytes) -> str:
        """A cursor that carries `content`."""
        return self.carried.cursors.seal(self._bound(list_key), content)

    def unseal(self, list_key: str, cursor: str) -> bytes:
        """What a cursor of `seal` carries; BadCursor."""
        return self.carried.cursors.open(cursor, self._bound(list_key))

    def answer(self, list_key: str, page: Page) -> ListAnswer:
        """A page as the client gets it."""
        return ListAnswer(items_of(page.items), self.pagination(list_key, page))

    def _bound(self, list_key: str) -> str:
        """What a cursor is good for: one list, of one reader."""
        return f"{self.caller.reader()} {list_key}"
