"""What a reader missed while no stream was open, as the messages that an open one would have got.

Where that cannot be told post by post (too many new posts, a block or mute in between, a post that fewer may see now)
the answer ends with a `Reset`: the reader loads the feed anew, and nothing is lost unsaid.
"""

from __future__ import annotations

from collections.abc import Sequence

from kith.core.ids import NodeId
from kith.graph.edge import Direction
from kith.graph.graphs import AUTHORED
from kith.graph.store import Listing
from kith.posts.engagement import Engagement
from kith.posts.posts import Posts
from kith.streams.changes import Change, Kind, Place
from kith.streams.readers import Readers
from kith.streams.telling import Message, PostRemoved, Reset, Stream, engagement_update, new_post, why_gone

POSTS_MAX = 200
"""New, removed or edited posts that are told one by one after a reconnect; beyond, the reader loads the feed anew."""
OWN_WATCHED = 20
"""Of their own posts a reader watches the newest."""
_OF_POSTS = frozenset({Kind.POSTED, Kind.REMOVED})

Missing = list[tuple[int, Message]]
"""Messages with the sequence numbers of what they tell of, in order."""


class Missed:
    """Reads what one stream begins with."""

    def __init__(self, objects: Posts, engagement: Engagement, readers: Readers) -> None:
        self._objects, self._engagement, self._readers = objects, engagement, readers
        self._authored = objects.graph.graphs.number(AUTHORED)

    async def watch(self, stream: Stream, shown: Sequence[int]) -> list[int]:
        """Let the stream watch these posts and the reader's own newest; those that are not there for them."""
        listing = Listing(self._authored, stream.user, Direction.OUT)
        for post in (await self._objects.graph.store.ids(listing, OWN_WATCHED)).tolist():
            stream.watched.add(post, stream.user)
        posts = await self._objects.visible(stream.user, shown)
        for found in posts:
            if found is not None:
                stream.watched.add(found.id, found.author)
        return [post for post, found in zip(shown, posts, strict=True) if found is None]

    async def since(self, stream: Stream, changes: Sequence[Change], place: Place) -> Missing:
        """What of the changes since `place` concerns the reader; numbers of posts last. Updates what they watch."""
        user = stream.user
        if any(_upsets(change, user) for change in changes if change.sequence > place.posts):
            return [(place.posts, Reset("changed"))]
        judged = {change.who for change in changes if change.kind is Kind.STANDING} - {int(user)}
        if await self._readers.followed(user, judged):
            return [(place.posts, Reset("changed"))]
        of_posts = [
            change
            for change in changes  # edits are told with the numbers: who may still see the post is asked then
            if change.kind is Kind.EDITED or (change.kind in _OF_POSTS and change.sequence > place.posts)
        ]
        followed = await self._readers.followed(user, {change.who for change in of_posts})
        mine = [change for change in of_posts if change.who in followed or change.what in stream.watched]
        posted = {change.what: change for change in mine if change.kind is Kind.POSTED}
        removed = {change.what: change for change in mine if change.kind is Kind.REMOVED and change.what not in posted}
        edited = {change.what for change in mine if change.kind is Kind.EDITED} - posted.keys() - removed.keys()
        if max(len(posted), len(removed), len(edited)) > POSTS_MAX:
            return [(place.posts, Reset("too_far"))]
        found = await self._new(user, list(posted.values()))
        found += await self._removed(stream, list(removed.values()))
        if None in await self._objects.visible(user, list(edited)):
            return [(place.posts, Reset("changed"))]
        found += [
            (change.sequence, PostRemoved(str(change.what), "hidden"))
            for change in changes
            if change.kind is Kind.HIDDEN and change.who == user and change.sequence > place.posts
        ]
        found.sort(key=lambda pair: pair[0])
        for _, message in found:
            _note(stream, message, posted)
        return found + await self._counts(stream, changes)

    async def _new(self, user: NodeId, posted: Sequence[Change]) -> Missing:
        found = await self._objects.visible(user, [change.what for change in posted])
        loud = await self._readers.unmuted(user, {post.author for post in found if post is not None})
        return [
            (change.sequence, new_post(post, own=post.author == user))
            for change, post in zip(posted, found, strict=True)
            if post is not None and post.author in loud
        ]

    async def _removed(self, stream: Stream, removed: Sequence[Change]) -> Missing:
        """What the reader watches, and of the rest what they would have been told of."""
        gone: Missing = []
        loud = await self._readers.unmuted(stream.user, {change.who for change in removed})
        for change in removed:
            async for post, could in self._readers.seeing(change.what, [stream.user], deleted=True):
                why = why_gone(post is not None and post.deleted, could[stream.user])
                if change.what in stream.watched or (why == "author_deleted" and change.who in loud):
                    gone.append((change.sequence, PostRemoved(str(change.what), why)))
        return gone

    async def _counts(self, stream: Stream, changes: Sequence[Change]) -> Missing:
        touched = {change.what: change.sequence for change in changes if change.kind is Kind.ENGAGED}
        posts = list(stream.watched.keys() & touched.keys())
        counts = await self._engagement.counts(None, posts)
        return [(touched[post], engagement_update(post, numbers)) for post, numbers in zip(posts, counts, strict=True)]


def _upsets(change: Change, user: NodeId) -> bool:
    """Whether a change may take many posts from the reader at once."""
    match change.kind:
        case Kind.LOADED:
            return True
        case Kind.BLOCKED:
            return user in (change.who, change.what)
        case Kind.MUTED | Kind.UNFOLLOWED:
            return user == change.who
        case _:
            return False


def _note(stream: Stream, message: Message, posted: dict[int, Change]) -> None:
    """Watch what is new, and no longer what is gone."""
    if isinstance(message, PostRemoved):
        stream.watched.pop(int(message.post_id), None)
    elif (change := posted.get(int(getattr(message, "post_id", -1)))) is not None:
        stream.watched.add(change.what, change.who)
