"""Who may see what: the hard rules, which no ranking and no door may step over (design, section 2, law 8).

`may_see` and `may_see_comment` decide, `standings` asks for what they need: for any number of authors one batch
of node states, one of blocks, and one of follows where a post, an account or a label makes them matter. Labels cost no
read of their own: a post's are in its record, a user's beside their state. `standing_to` asks the same the other way
round: of one author, for any number of viewers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kith.core.ids import NodeId
from kith.core.labels import HIDE, LIMIT
from kith.graph.edge import State
from kith.graph.graphs import FOLLOWS
from kith.people.relations import GraphService
from kith.posts.post import Post

_NO_TIES = (False, False)


class Standing(NamedTuple):
    """How an author stands to the viewer."""

    state: State = State.NORMAL
    private: bool = False
    blocked: bool = False  # either way
    followed: bool = False  # by the viewer
    follows_back: bool = False
    labels: int = 0  # the author's own


def may_see(post: Post, viewer: NodeId | None, author: Standing) -> bool:
    """Whether `viewer` may see the post. None is the app itself: it sees all that is not deleted.

    Authors see their own whatever its labels: what the app hides of them, it does not hide from them.
    """
    if post.deleted or author.state == State.REMOVED:
        return False
    if viewer is None or viewer == post.author:
        return True
    if author.state != State.NORMAL or author.blocked or (author.private and not author.followed):
        return False
    if _kept_back(post.labels | author.labels, author.followed):
        return False
    match post.visibility:
        case "public":
            return True
        case "friends":
            return author.followed and author.follows_back
        case "custom":
            return viewer in post.audience
        case "private":
            return False


def may_see_comment(deleted: bool, by: int, viewer: NodeId | None, author: Standing) -> bool:
    """Whether `viewer`, who may see the post, may see a comment on it."""
    if deleted or author.state == State.REMOVED:
        return False
    if viewer is None or viewer == by:
        return True
    return author.state == State.NORMAL and not author.blocked and not _kept_back(author.labels, author.followed)


def _kept_back(labels: int, followed: bool) -> bool:
    """Whether labels hide from a viewer what somebody else made."""
    return bool(labels & HIDE or (labels & LIMIT and not followed))


async def standings(
    graph: GraphService, viewer: NodeId | None, authors: Iterable[int], ties_of: Collection[int] = ()
) -> Mapping[int, Standing]:
    """The standing of each author. `ties_of`: those for whom it matters who follows whom, beside those of whom it
    always does.
    """
    known = list(dict.fromkeys(authors))
    nodes = dict(zip(known, await graph.store.nodes(known), strict=True))
    if viewer is None:
        return {author: Standing(node.state, node.private, labels=node.labels) for author, node in nodes.items()}
    others = [author for author in known if author != viewer]
    blocked = dict(zip(others, await graph.blocked(viewer, others), strict=True))
    asked = [author for author in others if (node := nodes[author]).private or node.labels & LIMIT or author in ties_of]
    pairs = [pair for author in asked for pair in ((viewer, author), (author, viewer))]
    follows = await graph.store.exists_many(graph.graphs.number(FOLLOWS), pairs) if pairs else []
    ties = {author: (follows[2 * at], follows[2 * at + 1]) for at, author in enumerate(asked)}
    return {
        author: Standing(
            node.state, node.private, blocked.get(author, False), *ties.get(author, _NO_TIES), labels=node.labels
        )
        for author, node in nodes.items()
    }


async def standing_to(
    graph: GraphService, author: int, viewers: Sequence[int], *, ties: bool = False
) -> list[Standing]:
    """How the author stands to each of the viewers. `ties`: it matters who follows whom, even if it else would not."""
    (node,) = await graph.store.nodes([author])
    blocked = await graph.blocked(NodeId(author), viewers)
    follows, count = graph.graphs.number(FOLLOWS), len(viewers)
    followed = [False] * count
    follows_back = [False] * count
    if ties or node.private or node.labels & LIMIT:
        followed = await graph.store.exists_many(follows, [(viewer, author) for viewer in viewers])
    if ties:
        follows_back = await graph.store.exists_many(follows, [(author, viewer) for viewer in viewers])
    return [
        Standing(node.state, node.private, *row, labels=node.labels)
        for row in zip(blocked, followed, follows_back, strict=True)
    ]
