"""The lists of comments on a post and of replies to a comment: their order, their pages, and how many count.

A comment is in the list of its post (graph `comments`). A reply is in the list of the comment that it answers (graph
`replies`) and, to be counted, in that of its post (graph `post_replies`). The state of the edge says what the entry is:
NORMAL counts; NEGATIVE was deleted and stays because it has replies; ARCHIVED has an author who is deactivated. A page
merges all three lists. `top_comments` makes the order `top`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from kith.core.clock import Hlc
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Page, Window
from kith.graph.edge import Direction, Edge, EdgeWrite, Outcome, State
from kith.graph.graph import Graph
from kith.graph.graphs import COMMENT_LIKES, COMMENTS, POST_REPLIES, REPLIES
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing
from kith.graph.walk import LIST_END
from kith.posts.comment import Comment
from kith.posts.top_comments import RANKED_MAX, TopComments

ThreadOrder = Literal["top", "newest", "oldest"]
_LISTED = (State.NORMAL, State.NEGATIVE, State.ARCHIVED)
_EMPTY = Page([], more_after=False, more_before=False)


class ThreadPage(NamedTuple):
    """A page of a list. `total`: comments that count in the whole list. `partial`: only the newest were ranked."""

    page: Page
    total: int
    partial: bool


class Threads:
    """Reads the lists of comments, and builds the writes that change them."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._store, number = graph, graph.store, graph.graphs.number
        self._comments, self._replies = number(COMMENTS), number(REPLIES)
        self._post_replies = number(POST_REPLIES)
        self._top = TopComments(self._store, number(COMMENT_LIKES))

    def of_post(self, post: int) -> Listing:
        """The list of the comments on a post that count."""
        return Listing(self._comments, post, Direction.OUT)

    def of_comment(self, comment: int) -> Listing:
        """The list of the replies to a comment that count."""
        return Listing(self._replies, comment, Direction.OUT)

    async def page(self, listing: Listing, order: ThreadOrder, window: Window) -> ThreadPage:
        """A page of a list, including entries that do not count. `CommentReader.visible_page` drops most of these
        later.
        """
        listings = _all_listed(listing)
        if order == "top":
            counts, page = await gather(
                self._store.immediate, self._store.count_many(listings), self._top.page(listings, window)
            )
            return ThreadPage(page, counts[0], sum(counts) > RANKED_MAX)
        oriented = window if order == "newest" else reversed_window(window)
        questions = Questions()
        counted, rows = questions.counts(listings), [questions.page(part, oriented) for part in listings]
        answers = await self._store.answer(questions)
        page = _merged([answers.pages[row] for row in rows], oriented)
        return ThreadPage(page if order == "newest" else reversed_page(page), answers.counts[counted][0], False)

    async def previews(self, ids: Sequence[int], limit: int) -> list[Page]:
        """The oldest `limit` replies to each of these comments, including those that do not count."""
        questions, window = Questions(), reversed_window(Window(limit))
        row_lists = [[questions.page(part, window) for part in _all_listed(self.of_comment(id_))] for id_ in ids]
        answers = await self._store.answer(questions)
        return [reversed_page(_merged([answers.pages[row] for row in rows], window)) for rows in row_lists]

    async def answered(self, ids: Sequence[int]) -> list[bool]:
        """For each comment, whether it has a reply in any listed state, even one that does not count."""
        questions = Questions()
        answered = self.ask_answered(questions, ids)
        return answered(await self._store.answer(questions))

    def ask_answered(self, questions: Questions, ids: Sequence[int]) -> Callable[[Answers], list[bool]]:
        """Ask `answered`."""
        replied = self.ask_replies(questions, ids)
        return lambda answers: [answered for _, answered in replied(answers)]

    def ask_replies(self, questions: Questions, ids: Sequence[int]) -> Callable[[Answers], list[tuple[int, bool]]]:
        """Ask how many replies to each comment count, and `answered`."""
        counted = questions.counts([part for id_ in ids for part in _all_listed(self.of_comment(id_))])

        def replies(answers: Answers) -> list[tuple[int, bool]]:
            counts = iter(answers.counts[counted])  # three for each
            return [(live, bool(live or kept or away)) for live, kept, away in zip(counts, counts, counts, strict=True)]

        return replies

    def places(self, comment: Comment) -> list[tuple[int, int, int]]:
        """The edges (graph, source, destination) that list and count a comment; the one that lists it comes first."""
        if comment.reply_to is None:
            return [(self._comments, comment.post, comment.id)]
        return [(self._replies, comment.reply_to, comment.id), (self._post_replies, comment.post, comment.id)]

    def add_writes(self, comment: Comment, version: Hlc) -> list[EdgeWrite]:
        """The writes that add a new comment to its lists, unless the write before them is refused."""
        return [
            EdgeWrite(Edge(graph, NodeId(source), NodeId(id_), State.NORMAL, comment.created_at, version), chained=True)
            for graph, source, id_ in self.places(comment)
        ]

    def remove_writes(self, comment: Comment, *, keep: bool = False) -> list[EdgeWrite]:
        """The writes that remove a comment from its lists. `keep`: it stays listed in its thread, but does not count.

        Without transactions the add of a comment may come after them; they win over it by their later version.
        """
        removed = (
            self._graph.edge_now(graph, NodeId(source), NodeId(id_), State.REMOVED)
            for graph, source, id_ in self.places(comment)
        )
        listed, *counted = (EdgeWrite(edge, supersede=True, keep_place=True, keep_live=True) for edge in removed)
        return [self._relist_write(comment, State.NORMAL, State.ARCHIVED) if keep else listed, *counted]

    async def prune(self, deleted: Sequence[Comment]) -> list[int]:
        """List those of the deleted comments that have replies, and unlist the others.

        Returns the comments above those that were unlisted; they may have no replies left now.
        """
        answered = await self.answered([comment.id for comment in deleted])
        writes = [
            self._relist_write(comment, State.REMOVED) if keep else self.remove_writes(comment)[0]
            for comment, keep in zip(deleted, answered, strict=True)
        ]
        changes, _ = await self._graph.write(writes)
        rows = zip(deleted, answered, changes, strict=True)
        return [
            comment.reply_to
            for comment, keep, change in rows
            if comment.reply_to is not None and not keep and change.outcome is Outcome.APPLIED
        ]

    def _relist_write(self, comment: Comment, *was: State) -> EdgeWrite:
        """The write that lists a deleted comment at its place, if its edge is in one of the states `was`."""
        graph, source, id_ = self.places(comment)[0]
        edge = self._graph.edge_now(graph, NodeId(source), NodeId(id_), State.NEGATIVE)
        return EdgeWrite(edge, supersede=True, keep_place=True, only_from=frozenset(was))


def _all_listed(listing: Listing) -> list[Listing]:
    """The list in each of the listed states, NORMAL first."""
    return [listing._replace(state=state) for state in _LISTED]


def _merged(pages: Sequence[Page], window: Window) -> Page:
    """The page in `window` of several lists, as if they were one list."""
    non_empty = [page for page in pages if page != _EMPTY]
    if len(non_empty) < 2:
        return non_empty[0] if non_empty else _EMPTY
    marks = sorted({mark for page in non_empty for mark in page.items}, reverse=True)
    backward, is_cut = window.before is not None, len(marks) > window.limit
    items = marks[-window.limit :] if backward else marks[: window.limit]
    return Page(
        items,
        any(page.more_after for page in non_empty) or (is_cut and not backward),
        any(page.more_before for page in non_empty) or (is_cut and backward),
    )


def reversed_window(window: Window) -> Window:
    """Turn a window of a list that is read oldest first into the window of the same list, newest first."""
    if window.before is not None:
        return window._replace(after=window.before, before=None)
    return window._replace(after=None, before=window.after or LIST_END)


def reversed_page(page: Page) -> Page:
    """The same page in the other order."""
    return Page(page.items[::-1], page.more_before, page.more_after, page.covers and page.covers[::-1])
