"""What a request has at hand: the services, wired by `app.py`, and the few things every route needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kith.access.guard import Caller, Guard
from kith.access.quotas import Quotas
from kith.api.metrics import Metrics
from kith.api.stream import StreamLimits
from kith.core.errors import Forbidden
from kith.core.history import History
from kith.core.ids import NodeId
from kith.core.paging import Cursors, Page, Window
from kith.core.tokens import WriteMark, WriteTokens, lost_write
from kith.graph.edge import Direction
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOWS
from kith.graph.nodes import NodeJobs
from kith.graph.store import Listing
from kith.home.home import Home
from kith.media.library import MediaLibrary
from kith.people.privacy import Privacy
from kith.people.profiles import Profiles
from kith.people.relations import Relations
from kith.posts.comments import Comments
from kith.posts.engagement import Engagement
from kith.posts.labels import Moderation
from kith.posts.posts import Posts
from kith.stories.stories import Stories
from kith.stories.strip import Strip
from kith.streams.live import Live
from kith.suggestions.suggestions import Suggestions

TOKEN_HEADER = "kith-token"  # noqa: S105 - a header's name


class Bounds(msgspec.Struct, frozen=True):
    """What a request may cost."""

    batch_max: int
    body_bytes_max: int
    select_ids_max: int
    timeout_s: float
    upload_bytes_max: int
    upload_timeout_s: float


class Backend(msgspec.Struct, frozen=True):
    """Everything behind the API."""

    graph: Graph
    relations: Relations
    privacy: Privacy
    jobs: NodeJobs
    suggestions: Suggestions
    objects: Posts
    comments: Comments
    engagement: Engagement
    profiles: Profiles
    media: MediaLibrary
    feed: Home
    stories: Stories
    strip: Strip
    live: Live
    moderation: Moderation
    guard: Guard
    quotas: Quotas
    cursors: Cursors
    tokens: WriteTokens
    history: History
    metrics: Metrics
    bounds: Bounds
    streams: StreamLimits
    media_base_url: str
    """What stands before the key of a file in its address."""
    sequence: Callable[[], int]
    """How far the log has come here; a token beyond it comes from a future this store has not seen."""
    ready: Callable[[], Mapping[str, str]]
    """What is wrong with this process; empty when it can serve."""

    def token(self, mark: WriteMark) -> str | None:
        """The read-your-writes token of a write; None if it changed nothing."""
        return self.tokens.issue(mark) if mark.sequence else None

    def admit(self, header: Callable[[str], str | None], *, write: bool) -> Caller:
        """The caller behind a request's headers, counted and caught up; every route begins with this."""
        caller = self.guard.caller(header("authorization"), header("x-kith-user"))
        self.guard.admit(caller, write=write)
        token = header(TOKEN_HEADER)
        if token is not None:
            self.catch_up(token)
        return caller

    def catch_up(self, token: str) -> None:
        """Make sure this process sees the write that `token` stands for.

        The embedded engine's reads see every acknowledged write of any process, so there is nothing to wait
        for; what can be is a token from before a restore, whose write this store does not have.
        """
        mark = self.tokens.read(token)
        if mark.sequence > self.sequence():
            raise lost_write()

    def window(self, caller: Caller, query: str, limit: int, cursor: str | None) -> Window:
        """The part of the list `query` that is asked for."""
        return self.cursors.window(cursor, f"{caller.reader()} {query}", limit)

    def paging(self, caller: Caller, query: str, page: Page) -> Pagination:
        """The `pagination` of an answer."""
        bound = f"{caller.reader()} {query}"
        newest, oldest = page.newest, page.oldest
        return Pagination(
            self.cursors.next(bound, oldest) if page.more_after and oldest else None,
            self.cursors.previous(bound, newest) if page.more_before and newest else None,
            page.more_after,
        )


class Pagination(msgspec.Struct, frozen=True, rename="camel"):
    """Where to go on. `hasMore` is about older items; `prevCursor` is there when newer ones exist."""

    next_cursor: str | None
    prev_cursor: str | None
    has_more: bool


def check_may_read(caller: Caller, backend: Backend, listing: Listing) -> None:
    """Forbidden unless the list is the caller's own: out of them in a graph of users, or into them in `follows`.

    The routes under /users show other people's lists, with the rules of the product.
    """
    if caller.server:
        return
    own = listing.node == caller.user and listing.graph not in backend.graph.graphs.between_objects
    follows = listing.graph == backend.graph.graphs.number(FOLLOWS)
    if not (own and (listing.direction is Direction.OUT or follows)):
        raise Forbidden("a user token reads its own lists here; use /users/{id}/..., or a server key")


def check_may_read_pair(caller: Caller, backend: Backend, graph: int, source: int, destination: int) -> None:
    """Forbidden unless the pair is the caller's own: from them, or in `follows` from or to them."""
    if caller.server or (source == caller.user and graph not in backend.graph.graphs.between_objects):
        return
    if destination == caller.user and graph == backend.graph.graphs.number(FOLLOWS):
        return
    raise Forbidden("a user token checks its own edges here; use a server key")


async def hidden_in(caller: Caller, backend: Backend, graph: int, pairs: Sequence[tuple[int, int]]) -> list[bool]:
    """For each pair that the caller may read: is the other end an account that the app hides from them?"""
    if caller.server or graph in backend.graph.graphs.to_objects:
        return [False] * len(pairs)
    return await backend.privacy.hidden([source if source != caller.user else other for source, other in pairs])


def check_server(caller: Caller) -> None:
    """Forbidden for user tokens."""
    if not caller.server:
        raise Forbidden("this takes a server key, not a user token")


def check_own(caller: Caller, user: NodeId) -> None:
    """Forbidden to all who act for another user; a server key that names nobody acts for anyone."""
    if caller.user is None:
        check_server(caller)
    elif caller.user != user:
        raise Forbidden("this is another user's own; act for them (X-Kith-User, or their token)", id=str(user))
