"""What a user is shown of their inbox: pages, the unread number, what was read and seen.

Rows of the inbox are read newest first. The list and the unread number both leave out what the rules or the user's
preferences hide at that moment, so the two always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kith.boards.board import Board
from kith.core.errors import BatchTooLarge, Unavailable
from kith.core.gathering import gather
from kith.core.ids import ID_MAX, NodeId
from kith.core.paging import Mark, Page, Window
from kith.core.tokens import WriteMark
from kith.graph.graph import Graph
from kith.graph.questions import Questions
from kith.notifications.answer_cache import AnswerCache, RecordedReads
from kith.notifications.grouping import groups_of, is_groupable, newest_first
from kith.notifications.inbox import PAGE_MAX, InboxRow, InboxStore, Users
from kith.notifications.marks import AT_ONCE_MAX, Marks, MarkStore
from kith.notifications.notice import Notice
from kith.notifications.notices import Notices
from kith.notifications.preferences import DEFAULT, Preferences, PreferenceStore
from kith.notifications.recent import RecentMentions
from kith.notifications.rules import NoticeRules
from kith.posts.comment import Comment
from kith.posts.post import Post

UNREAD_MAX = 1_000
"""Newest rows that the unread number covers. If there are more, the number is partial."""
PAGE_ROWS_MAX = 500
"""Rows that a page reads to fill its groups."""
RECENT_USERS_MAX = 50_000
"""Users for whom a process remembers which recent mentions are rows already."""
READ_MAX = 1_000
"""Notices that one request marks as read."""
_ROWS_AN_ID = 8
"""Rows that are read next, for each notice that the last rows settled."""


class UnreadCount(NamedTuple):
    """How many notices that the user may see are not read. `partial`: only the newest UNREAD_MAX rows were counted, or
    the inboxes of this store are not filled yet.
    """

    number: int
    partial: bool = False


class NoticeGroup(NamedTuple):
    """A group of notices, newest first, and its state for the reader. `partial`: a later page may have older ones."""

    notices: list[Notice]
    read: bool
    seen: bool
    partial: bool


class NotificationPage(NamedTuple):
    """Entries, newest first; what they are about, as far as the reader may see it; and the unread number.

    `partial`: recent mentions may be missing, perhaps of accounts that the reader follows: there were more than are
    stored (`recent`), or their rows cannot be written now. Or the inboxes of this store are not filled yet.
    """

    entries: list[NoticeGroup]
    posts: Mapping[int, Post]
    comments: Mapping[int, Comment]
    boards: Mapping[int, Board]
    page: Page
    unread: UnreadCount
    partial: bool


class Notifications:
    """Reads and marks the notices of a user."""

    def __init__(
        self,
        graph: Graph,
        notices: Notices,
        rules: NoticeRules,
        preferences: PreferenceStore,
        recent: RecentMentions,
        are_filled: Callable[[], bool] = lambda: True,
    ) -> None:
        """`are_filled`: whether the inboxes have the rows of all notices; not so on a standby, nor at once after a
        restore.
        """
        self.are_filled = are_filled
        self._graph, self._notices, self._rules, self._recent = graph, notices, rules, recent
        self._inbox: InboxStore = notices.inbox
        self.preferences = preferences
        self._marks = MarkStore(notices.records, graph.clock)
        self._recent_of_user: dict[int, list[int]] = {}
        self.immediate = graph.store.immediate and notices.inbox.immediate
        self._numbers = AnswerCache[UnreadCount](immediate=self.immediate)

    async def page(
        self, user: NodeId, window: Window, *, grouped: bool = True, reads: RecordedReads | None = None
    ) -> NotificationPage:
        """A page of at most `window.limit` groups, for which at most about PAGE_ROWS_MAX rows are read."""
        size, reads = window.limit + 1, RecordedReads() if reads is None else reads
        are_filled = self.are_filled()
        part, marks, preferences = await gather(
            self.immediate,
            self._rows(reads, user, window, [], size),
            reads.of(self._marks.of, user),
            reads.of(self.preferences.of, user),
        )
        missing = False
        if _is_first(window) and preferences.mentions in ("followed", "these"):
            added, missing = await self._add_recent_rows(reads, user, preferences)
            part = await self._rows(reads, user, window, [], size) if added else part
        unread_rows = await self._unread_rows(reads, user, marks, part if _is_first(window) else None, size)
        checks = _RowChecks(self._graph, self._notices, self._rules, user, preferences, reads)
        rows, unread_ids = part, _unread_of(unread_rows, marks)
        while True:
            await checks.check([*part, *unread_ids])
            groups, rest = groups_of(checks.shown(rows), window.limit, grouped=grouped)
            more = len(part) == size
            if rest is not None or not more or len(rows) >= PAGE_ROWS_MAX:
                break
            size, unread_ids = min(2 * len(rows), PAGE_ROWS_MAX), []
            part = await self._rows(reads, user, window, rows, size)
            rows = rows + part
        if rest is not None:
            rows = rows[: rows.index(rest.id)]
        page = _page_of(window, rows, more=more or rest is not None)
        ordered_groups = groups if window.before is None else newest_first(groups)
        entries = [
            _entry(group, marks, partial=page.more_after and grouped and is_groupable(group[0]))
            for group in ordered_groups
        ]
        unread = _as_far_as_filled(_count(unread_rows, marks, checks), are_filled=are_filled)
        is_partial = missing or not are_filled
        return NotificationPage(entries, checks.posts, checks.comments, checks.boards, page, unread, is_partial)

    async def unread(self, user: NodeId) -> UnreadCount:
        """How many notices the user has not read."""
        are_filled = self.are_filled()
        return _as_far_as_filled(await self._numbers.get(user, partial(self._unread, user)), are_filled=are_filled)

    async def _unread(self, user: NodeId, reads: RecordedReads) -> UnreadCount:
        marks, preferences = await gather(
            self.immediate, reads.of(self._marks.of, user), reads.of(self.preferences.of, user)
        )
        await self._add_recent_rows(reads, user, preferences)
        rows = await self._unread_rows(reads, user, marks)
        checks = _RowChecks(self._graph, self._notices, self._rules, user, preferences, reads)
        await checks.check(_unread_of(rows, marks))
        return _count(rows, marks, checks)

    async def visible(self, user: NodeId, ids: Sequence[int]) -> list[Notice]:
        """Those of a user's notices `ids` that the user may see now, and wants."""
        if not ids:
            return []
        checks = _RowChecks(
            self._graph, self._notices, self._rules, user, await self.preferences.of(user), RecordedReads()
        )
        await checks.check(ids)
        return checks.shown(ids)

    async def holders(self, notice: int, users: Users) -> list[int]:
        """Which of these users have a notice in their inbox. `users` ascend."""
        holders: list[int] = users[await self._inbox.holding(notice, users)].tolist()
        return holders

    async def held_ids(self, user: NodeId, ids: Collection[int]) -> set[int]:
        """Which of these notices are in the user's inbox. If they are far apart, few of the rows between are read."""
        remaining, in_inbox, size = sorted(ids), set[int](), PAGE_MAX
        while remaining:
            rows = await self._inbox.page(
                user, before=min(remaining[-1] + 1, ID_MAX), after=remaining[0] - 1, limit=size
            )
            in_inbox.update(rows)
            older = [id_ for id_ in remaining if id_ < rows[-1]] if len(rows) == size else []
            remaining, size = older, min(PAGE_MAX, _ROWS_AN_ID * (len(remaining) - len(older)))
        return in_inbox.intersection(ids)

    async def read(self, user: NodeId, ids: Collection[int]) -> WriteMark:
        """Note that the user has read these notices; ids not in their inbox are ignored. Errors: BatchTooLarge."""
        if len(ids) > READ_MAX:
            raise BatchTooLarge(f"at most {READ_MAX} ids a request; send several, or `upTo`", max=READ_MAX)
        return (await self._marks.read(user, await self.held_ids(user, ids)))[1]

    async def read_up_to(self, user: NodeId, id_: int) -> WriteMark:
        """Note that the user has read everything up to this notice, at most up to their newest one."""
        return (await self._marks.read_up_to(user, *await self._up_to(user, id_)))[1]

    async def seen_up_to(self, user: NodeId, id_: int) -> WriteMark:
        """Note that the user has seen that everything up to this notice is there, at most up to their newest one."""
        return (await self._marks.seen_up_to(user, *await self._up_to(user, id_)))[1]

    async def forget(self, user: NodeId) -> None:
        """Delete the rows, marks and preferences of a removed user. May be repeated."""
        await self._inbox.remove_all(user)
        await self._marks.forget(user)
        await self.preferences.put(user, DEFAULT)

    async def _up_to(self, user: NodeId, id_: int) -> tuple[int, list[int]]:
        """This notice, or the user's newest if that is older, since marks must not reach to rows written later. Also
        the newest rows up to it.
        """
        up_to = min(id_, next(iter(await self._inbox.page(user, limit=1)), -1))
        return up_to, await self._inbox.page(user, before=up_to + 1, limit=AT_ONCE_MAX + 1)

    async def _add_recent_rows(self, reads: RecordedReads, user: NodeId, preferences: Preferences) -> tuple[bool, bool]:
        """Write rows of the recent mentions of accounts that the user follows.

        Returns whether one was new, and whether some are missing: the list of recent mentions lacks them, or no row
        could be written.
        """
        recent_ids, missing = await reads.of(self._recent.followed, user, preferences)
        if not recent_ids or self._recent_of_user.get(user) == recent_ids:
            return False, missing
        in_inbox = await self.held_ids(user, recent_ids)
        new_ids = [id_ for id_ in recent_ids if id_ not in in_inbox]
        notices = [
            notice for notice in await self._notices.read(new_ids) if notice is not None and notice.actor != user
        ]
        if notices:
            try:
                await self._inbox.add([InboxRow(user, notice.id) for notice in notices])
            except Unavailable:  # such as a full disk; reads continue
                reads.complete = False  # so that the next read tries again
                return False, True
        self._recent_of_user[user] = recent_ids
        if len(self._recent_of_user) > RECENT_USERS_MAX:
            del self._recent_of_user[next(iter(self._recent_of_user))]
        return bool(notices), missing

    async def _rows(
        self, reads: RecordedReads, user: NodeId, window: Window, before: Sequence[int], limit: int
    ) -> list[int]:
        """The rows of a window that follow the rows `before`, the nearest first."""
        if window.before is not None:
            rows = await self._inbox.page(user, after=before[-1] if before else window.before.id, limit=limit)
            return rows[::-1]
        first = None if window.after is None else window.after.id
        newest = partial(self._inbox.page, user, before=before[-1] if before else first, limit=limit)
        return await reads.of(newest)

    async def _unread_rows(
        self, reads: RecordedReads, user: NodeId, marks: Marks, newest: Sequence[int] | None = None, limit: int = 0
    ) -> list[int]:
        """The rows newer than `marks.read_up_to`: the newest UNREAD_MAX, and one more if there is.

        `newest`: the newest rows, if the caller has them, up to `limit`; fewer than `limit` are all there are.
        """
        unread = [row for row in newest or () if row > marks.read_up_to]
        if newest is not None and (len(unread) < len(newest) or len(newest) < limit):
            return unread
        below, room = newest[-1] if newest else ID_MAX, UNREAD_MAX + 1 - len(unread)
        older = partial(self._inbox.page, user, before=below, after=marks.read_up_to, limit=room)
        return unread + await reads.of(older)


class _RowChecks:
    """What one reader may see of their rows. Each row is checked once."""

    def __init__(
        self,
        graph: Graph,
        notices: Notices,
        rules: NoticeRules,
        user: NodeId,
        preferences: Preferences,
        reads: RecordedReads,
    ) -> None:
        self._store, self._notices, self._rules = graph.store, notices, rules
        self._user, self._preferences, self._reads = user, preferences, reads
        self._checked: dict[int, Notice | None] = {}
        self.posts: dict[int, Post] = {}
        self.comments: dict[int, Comment] = {}
        self.boards: dict[int, Board] = {}

    async def check(self, ids: Sequence[int]) -> None:
        """Check these rows, except those that are known."""
        new_ids = list(dict.fromkeys(id_ for id_ in ids if id_ not in self._checked))
        stored = await self._notices.read(new_ids)
        wanted = [notice for notice in stored if notice is not None and self._wants(notice)]
        self._reads.complete &= None not in stored  # a stored notice never changes
        questions, content = Questions(), await self._rules.content(wanted, self._reads)
        ask = self._rules.ask(questions, self._user, wanted, content)
        shown = ask(await self._reads.answers(self._store, questions)) if wanted else None
        self._checked.update(dict.fromkeys(new_ids))
        if shown is not None:
            self._checked.update(
                (notice.id, notice) for notice, show in zip(wanted, shown.notices, strict=True) if show
            )
            self.posts.update(shown.content.posts)
            self.comments.update(shown.content.comments)
            self.boards.update(shown.content.boards)

    def shown(self, ids: Sequence[int]) -> list[Notice]:
        """The notices of these rows that the reader may see, and wants."""
        return [notice for id_ in ids if (notice := self._checked[id_]) is not None]

    def _wants(self, notice: Notice) -> bool:
        return self._preferences.allow(notice.type, notice.actor, notice.recipient, self._user)


def _count(rows: Sequence[int], marks: Marks, checks: _RowChecks) -> UnreadCount:
    return UnreadCount(len(checks.shown(_unread_of(rows, marks))), len(rows) > UNREAD_MAX)


def _unread_of(rows: Sequence[int], marks: Marks) -> list[int]:
    return [row for row in rows[:UNREAD_MAX] if not marks.is_read(row)]


def _as_far_as_filled(unread: UnreadCount, *, are_filled: bool) -> UnreadCount:
    return unread if are_filled else UnreadCount(unread.number, partial=True)


def _entry(notices: list[Notice], marks: Marks, *, partial: bool) -> NoticeGroup:
    unread = [notice.id for notice in notices if not marks.is_read(notice.id)]
    return NoticeGroup(notices, not unread, not unread or all(map(marks.is_seen, unread)), partial)


def _is_first(window: Window) -> bool:
    return window.after is None and window.before is None


def _page_of(window: Window, rows: Sequence[int], *, more: bool) -> Page:
    """The page that covers these rows, the nearest first. `more`: whether rows follow beyond them."""
    backward = window.before is not None
    ends = sorted((rows[0], rows[-1]), reverse=True) if rows else []
    covers = (Mark(ends[0], ends[0]), Mark(ends[1], ends[1])) if ends else None
    return Page([], backward or more, more if backward else window.after is not None, covers)
