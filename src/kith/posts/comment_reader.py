"""Reads the comments that a viewer may see, page by page, with their counts and the first replies to each.

A page takes a fixed number of store calls, however many comments it has: the lists, the records, the lists of the first
replies, their records, and one batch for everything that decides visibility (`CommentReader.visible_page`). A single
comment takes one batch for each level above it (`with_ancestors`), because a viewer may see a comment only if they may
see all above it.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kith.core.errors import CommentNotFound
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Page, Window
from kith.graph.edge import Direction, State
from kith.graph.graphs import COMMENT_LIKES, COMMENTED
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing
from kith.people.privacy import Privacy, Viewer
from kith.posts.comment import DEPTH_MAX, Comment, has_visible_ancestry, read_comment
from kith.posts.post import Post
from kith.posts.posts import Posts
from kith.posts.threads import ThreadOrder, ThreadPage, Threads
from kith.posts.visibility import visible_comments
from kith.records.store import Record, RecordKind

REPLIES_SHOWN = 2
"""Replies that a page of comments shows under each comment."""

STUB_REPLIES = 20
"""Replies to a stub that are searched for one that the viewer sees. A stub with more replies is shown anyway."""
STUB_REPLIES_SCANNED_MAX = 500
"""Replies, about, that are searched on all levels below the stubs of a page. Stubs undecided by then are shown."""


class CommentCounts(NamedTuple):
    """The exact numbers of likes and replies of a comment, and whether the viewer likes it."""

    likes: int
    replies: int
    liked: bool
    answered: bool  # see `Threads.answered`


NO_COUNTS = CommentCounts(likes=0, replies=0, liked=False, answered=False)
"""The counts of a new comment."""


class StoredComments(NamedTuple):
    """A page of comments as stored, with the first replies to each, before visibility is checked."""

    comments: list[Comment]
    counts: list[CommentCounts]
    replies: list[list[Comment]]
    thread: ThreadPage

    @property
    def authors(self) -> list[int]:
        """The authors of all comments and replies on the page."""
        return [comment.author for comment in (*self.comments, *itertools.chain.from_iterable(self.replies))]


class CommentPage(NamedTuple):
    """The comments of a page that the viewer may see, each with its counts and the first replies, and the page.

    `total`: the number of comments in the whole list that count. `partial`: there are more comments than were ranked.
    """

    comments: list[Comment]
    counts: list[CommentCounts]
    replies: list[list[tuple[Comment, CommentCounts]]]
    page: Page
    total: int
    partial: bool


class CommentReader:
    """Reads the comments that a viewer may see."""

    def __init__(self, posts: Posts) -> None:
        self._posts, self._store, self._graph = posts, posts.store, posts.graph
        self.immediate = self._store.immediate
        self._privacy, self._threads = Privacy(self._graph), Threads(self._graph)
        self._likes, self._commented = (
            self._graph.graphs.number(COMMENT_LIKES), self._graph.graphs.number(COMMENTED)
        )  # fmt: skip

    async def get(self, viewer: Viewer, id_: int) -> Comment:
        """A comment. CommentNotFound unless `viewer` may see it, its post, and all comments above it."""
        comment = await self._visible(viewer, id_)
        if comment is None:
            raise no_comment(id_)
        return comment

    async def _visible(self, viewer: Viewer, id_: int, *, or_stub: bool = False) -> Comment | None:
        """The comment if `viewer` may see it, otherwise None. `or_stub`: also a stub that is shown for its replies."""
        (comment,) = await self.read([id_])
        if comment is None:
            return None
        posts, ancestry = await gather(
            self._store.immediate, self._posts.read([comment.post]), with_ancestors([comment], self.read)
        )
        questions = Questions()
        visible = self._posts.ask_visible(questions, viewer, posts)
        thread = self.ask_visible(questions, viewer, ancestry)
        answers = await self._graph.store.answer(questions)
        visible_by_id = by_id(thread(answers))
        if not has_visible_ancestry(id_, visible_by_id) or visible(answers) == [None]:
            return None
        if visible_by_id[id_].deleted and not (or_stub and await self._with_visible_replies(viewer, [id_])):
            return None
        return visible_by_id[id_]

    async def visible(self, viewer: Viewer, ids: Sequence[int], *, deleted_too: bool = False) -> list[Comment | None]:
        """The comment of each id, or None if `viewer` may not see it (as in `get`). Three batches, and one for a level.

        `deleted_too`: treat deleted comments as if they were not.
        """
        comments = await self.read(ids)
        post_ids = list(dict.fromkeys(comment.post for comment in comments if comment is not None))
        posts, ancestry = await gather(
            self._store.immediate, self._posts.read(post_ids), with_ancestors(comments, self.read)
        )
        if deleted_too:
            comments = [
                None if comment is None else msgspec.structs.replace(comment, deleted=False) for comment in comments
            ]
        questions = Questions()
        visible = self._posts.ask_visible(questions, viewer, posts)
        thread = self.ask_visible(questions, viewer, [*comments, *ancestry])
        answers = await self._graph.store.answer(questions)
        visible_post_ids = {
            post_id for post_id, post in zip(post_ids, visible(answers), strict=True) if post is not None
        }
        checked = thread(answers)
        ancestors_by_id = by_id(checked[len(ids) :])

        def is_shown(comment: Comment) -> bool:
            return (
                not comment.deleted
                and comment.post in visible_post_ids
                and (comment.reply_to is None or has_visible_ancestry(comment.reply_to, ancestors_by_id))
            )

        return [comment if comment is not None and is_shown(comment) else None for comment in checked[: len(ids)]]

    async def of_post(self, viewer: Viewer, post: NodeId, order: ThreadOrder, window: Window) -> StoredComments:
        """A page of the comments on a post, as input for `visible_page`. PostNotFound if `viewer` may not see
        the post.
        """
        posts, thread = await gather(
            self._store.immediate,
            self._posts.read([post]),
            self._threads.page(self._threads.of_post(post), order, window),
        )
        return await self._stored_page(viewer, thread, {post: posts[0]})

    async def of_comment(self, viewer: Viewer, comment: NodeId, order: ThreadOrder, window: Window) -> StoredComments:
        """A page of the replies to a comment, as input for `visible_page`.

        CommentNotFound if `viewer` may see neither the comment nor its stub.
        """
        parent, thread = await gather(
            self._store.immediate,
            self._visible(viewer, comment, or_stub=True),
            self._threads.page(self._threads.of_comment(comment), order, window),
        )
        if parent is None:
            raise no_comment(comment)
        return await self._stored_page(viewer, thread, {})

    async def visible_page(self, viewer: Viewer, stored: StoredComments) -> CommentPage:
        """What `viewer`, who may see the post, sees of a page. A stub is included only if they see a reply below it."""
        questions, replies = Questions(), list(itertools.chain.from_iterable(stored.replies))
        visible = self.ask_visible(questions, viewer, [*stored.comments, *replies])
        counted = self._ask_counts(questions, viewer, [reply.id for reply in replies])
        answers = await self._graph.store.answer(questions)
        entries = (
            None if comment is None or (comment.deleted and not counts.answered) else (comment, counts)
            for comment, counts in zip(visible(answers), [*stored.counts, *counted(answers)], strict=True)
        )
        listed = list(itertools.islice(entries, len(stored.comments)))
        reply_rows = [[entry for _ in replies if (entry := next(entries)) is not None] for replies in stored.replies]
        stubs = [
            entry[0].id
            for entry, replied in zip(listed, reply_rows, strict=True)
            if entry is not None and entry[0].deleted and all(reply.deleted for reply, _ in replied)
        ]
        stubs += [reply.id for replied in reply_rows for reply, _ in replied if reply.deleted]
        bare = set(stubs).difference(await self._with_visible_replies(viewer, stubs)) if stubs else ()
        rows = [
            (*entry, [reply for reply in replied if reply[0].id not in bare])
            for entry, replied in zip(listed, reply_rows, strict=True)
            if entry is not None and entry[0].id not in bare
        ]
        return CommentPage(
            [comment for comment, _, _ in rows],
            [counts for _, counts, _ in rows],
            [replied for _, _, replied in rows],
            *stored.thread,
        )

    async def _with_visible_replies(self, viewer: Viewer, stubs: Sequence[int]) -> set[int]:
        """The stubs that lead on to a comment below them that `viewer`, who may see the post, sees.

        Includes the stubs that are still undecided after STUB_REPLIES_SCANNED_MAX replies.
        """
        above, leading, budget = (
            {id_: id_ for id_ in stubs},
            set[int](),
            STUB_REPLIES_SCANNED_MAX,
        )  # comment -> stub of the page
        while above and budget > 0:
            pages = await self._threads.previews(list(above), STUB_REPLIES)
            replies, questions = await self.read([mark.id for page in pages for mark in page.items]), Questions()
            visible = self.ask_visible(questions, viewer, replies)
            visible_replies = iter(visible(await self._graph.store.answer(questions)))
            further: dict[int, int] = {}
            for stub, page in zip(above.values(), pages, strict=True):
                page_replies = [
                    reply for reply in itertools.islice(visible_replies, len(page.items)) if reply is not None
                ]
                if page.more_after or not all(reply.deleted for reply in page_replies):
                    leading.add(stub)
                further |= {reply.id: stub for reply in page_replies}
            above = {id_: stub for id_, stub in further.items() if stub not in leading}
            budget -= len(replies)
        return leading | set(above.values())

    async def posts_of(self, ids: Sequence[int]) -> list[int | None]:
        """The post of each comment, or None if there is no such comment. Visibility is not checked."""
        return [None if comment is None else comment.post for comment in await self.read(ids)]

    async def counts(self, viewer: Viewer, ids: Sequence[int]) -> list[CommentCounts]:
        """The counts of each comment, in one batch."""
        questions = Questions()
        counted = self._ask_counts(questions, viewer, ids)
        return counted(await self._graph.store.answer(questions))

    def _ask_counts(
        self, questions: Questions, viewer: Viewer, ids: Sequence[int]
    ) -> Callable[[Answers], list[CommentCounts]]:
        likes = questions.counts(Listing(self._likes, id_, Direction.IN) for id_ in ids)
        replies = self._threads.ask_replies(questions, ids)
        own = questions.states([(self._likes, viewer, id_) for id_ in ids] if isinstance(viewer, int) else [])

        def counted(answers: Answers) -> list[CommentCounts]:
            liked = [state is State.NORMAL for state in answers.states[own]] or [False] * len(ids)
            columns = zip(answers.counts[likes], replies(answers), liked, strict=True)
            return [CommentCounts(liking, live, own_like, answered) for liking, (live, answered), own_like in columns]

        return counted

    async def _stored_page(
        self, viewer: Viewer, thread: ThreadPage, posts: Mapping[int, Post | None]
    ) -> StoredComments:
        """The comments of a page, and the first replies to each. PostNotFound unless `viewer` may see `posts`."""
        ids, questions = [mark.id for mark in thread.page.items], Questions()
        visible = self._posts.ask_visible(questions, viewer, list(posts.values()))
        counted = self._ask_counts(questions, viewer, ids)
        comments, answers = await gather(self._store.immediate, self.read(ids), self._graph.store.answer(questions))
        for post, visible_post in zip(posts, visible(answers), strict=True):
            if visible_post is None:
                raise self._posts.missing(post)
        rows = [
            (comment, counts) for comment, counts in zip(comments, counted(answers), strict=True) if comment is not None
        ]
        answered = [comment.id for comment, counts in rows if counts.answered]
        pages = await self._threads.previews(answered, REPLIES_SHOWN) if answered else []
        replies = iter(await self.read([mark.id for page in pages for mark in page.items]))
        replies_by_id = {
            id_: [reply for _ in page.items if (reply := next(replies)) is not None]
            for id_, page in zip(answered, pages, strict=True)
        }
        return StoredComments(
            [comment for comment, _ in rows],
            [counts for _, counts in rows],
            [replies_by_id.get(comment.id, []) for comment, _ in rows],
            thread,
        )

    async def _records(self, ids: Sequence[int]) -> list[Record | None]:
        return await self._store.get_many(RecordKind.COMMENT, ids) if ids else []

    async def read(self, ids: Sequence[int]) -> list[Comment | None]:
        return [None if record is None else read_comment(record) for record in await self._records(ids)]

    def ask_visible(
        self, questions: Questions, viewer: Viewer, comments: Sequence[Comment | None]
    ) -> Callable[[Answers], list[Comment | None]]:
        """Ask which of these comments `viewer`, who may see the post, sees (`visible_comments`)."""
        author_ids = [comment.author for comment in comments if comment is not None]
        standings = self._privacy.ask_standings(questions, viewer, author_ids)
        return lambda answers: visible_comments(comments, viewer, standings(answers))


async def with_ancestors(
    comments: Iterable[Comment | None], read: Callable[[list[int]], Awaitable[Iterable[Comment | None]]]
) -> list[Comment]:
    """These comments, then all comments above them, each once. `read` is called once for each level."""
    level = comments_by_id = by_id(comments)
    for _ in range(DEPTH_MAX):
        above = {comment.reply_to: None for comment in level.values() if comment.reply_to is not None}
        if not (unread := [id_ for id_ in above if id_ not in comments_by_id]):
            break
        level = by_id(await read(unread))
        comments_by_id = comments_by_id | level
    return list(comments_by_id.values())


def by_id(comments: Iterable[Comment | None]) -> dict[int, Comment]:
    """The comments that are not None, by id."""
    return {comment.id: comment for comment in comments if comment is not None}


def no_comment(id_: int) -> CommentNotFound:
    """The error for a comment that does not exist, or that the viewer must not see."""
    return CommentNotFound("there is no such comment, or it is hidden from you", id=str(id_))
