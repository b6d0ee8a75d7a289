"""Every kind of change that readers are told of: what each one means while they are connected, and when they resume.

`interpreter` reads events of the log as changes. Each kind of change says whom it concerns and what they are sent:
`live` tells the open streams, `missed` tells one reader who resumes. What a message says stands in `messages`.

The two differ for one reason. An open stream knows which posts are on its reader's screen. Of a reader who resumes only
the posts are known that their client names, and the past is kept nowhere: which posts they could see, whom they
followed. So a change that may take many posts away is sent post by post to open streams, and as one `reset` on a
resume; that costs a few batched questions, however much was missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import msgspec

from kith.core.events import LogPosition
from kith.core.ids import NodeId
from kith.streams.missed import ResumingReader
from kith.streams.places import Step, StreamPosition
from kith.streams.telling import Telling


class FeedChange(msgspec.Struct, frozen=True, gc=False):
    """One change, and where it is in the log.

    `with_numbers`: it is told with the next round of numbers. A resume then compares it with `StreamPosition.counts`,
    otherwise with `StreamPosition.posts`.
    """

    step: Step
    with_numbers: ClassVar[bool] = False

    async def live(self, telling: Telling) -> None:
        """Tell the open streams that it concerns. May be repeated after an error: no stream is told twice."""
        raise NotImplementedError

    def missed(self, reader: ResumingReader) -> None:
        """Note what a reader who resumes must be told."""
        raise NotImplementedError


class PostMade(FeedChange, frozen=True, gc=False):
    """An author made a post: `new_post` for the author and their followers, who watch it from then on.

    It goes to those who may see it and did not mute the author. A post that comes back with its author's account is
    not new.
    On a resume: also for a reader whose client names the post, whoever made it.
    """

    author: int
    post: int

    async def live(self, telling: Telling) -> None:
        await telling.new_post(self.step, self.author, self.post)

    def missed(self, reader: ResumingReader) -> None:
        reader.new_post(self.step, self.author, self.post)


class PostDeleted(FeedChange, frozen=True, gc=False):
    """An author deleted a post: `post_removed` for readers who watch it, and for those who would have got `new_post`.

    The reason is `author_deleted` for readers who could see the post until then. Others who watch it, because they lost
    sight of it a moment ago, get `unavailable`, as for a post that was never there.
    On a resume: nothing if the post was also made while the reader was away.
    """

    author: int
    post: int

    async def live(self, telling: Telling) -> None:
        await telling.post_deleted(self.step, self.author, self.post)

    def missed(self, reader: ResumingReader) -> None:
        reader.post_deleted(self.step, self.author, self.post)


class PostEdited(FeedChange, frozen=True, gc=False):
    """A post was edited or labelled, or put away with its author's account: perhaps fewer readers may see it.

    Who may see the post is asked when it is told, not which edit it was. Who may see it only now is told on a resume.
    Live: `post_updated` for those who watch the post; `post_removed` if they may not see it any more.
    On a resume: `post_updated` if the reader follows the author, or watches the post; `reset` if they may not see it.
    Whether they could see it before is kept nowhere, and `post_removed` would tell them of a post that was perhaps
    never theirs to see. Nothing if its visibility leaves them out, and did so before they left: drafts tell nobody.
    """

    author: int
    post: int
    at_ms: int  # since the epoch
    with_numbers: ClassVar[bool] = True

    async def live(self, telling: Telling) -> None:
        telling.look_again(self.step, self.post, content=True)

    def missed(self, reader: ResumingReader) -> None:
        reader.post_edited(self.step, self.author, self.post, self.at_ms)


class NumbersChanged(FeedChange, frozen=True, gc=False):
    """A post has more or fewer likes, shares or comments: `engagement_update` for those who watch it.

    Many changes of one post are one message. A view alone sends nothing; the number of views comes with the others.
    Live: those who may not see the post any more get `post_removed` instead. On a resume: only posts that the reader
    may see are watched, which was asked before.
    """

    post: int
    with_numbers: ClassVar[bool] = True

    async def live(self, telling: Telling) -> None:
        telling.look_again(self.step, self.post, numbers=True)

    def missed(self, reader: ResumingReader) -> None:
        reader.numbers_changed(self.step, self.post)


class UserBlocked(FeedChange, frozen=True, gc=False):
    """One user blocked another: each loses the posts of the other.

    Live: `post_removed` for those of these posts that they watch. The blocked one is told `unavailable`: a block is
    not disclosed.
    On a resume: `reset` for both.
    """

    blocker: int
    blocked: int

    async def live(self, telling: Telling) -> None:
        telling.take_away_author(self.step, self.blocker, self.blocked, "blocked")
        telling.take_away_author(self.step, self.blocked, self.blocker, "unavailable")

    def missed(self, reader: ResumingReader) -> None:
        if reader.user in (self.blocker, self.blocked):
            reader.reset()


class AuthorMuted(FeedChange, frozen=True, gc=False):
    """A reader muted an author.

    Live: `post_removed` for the author's posts that the reader watches.
    On a resume: `reset` for the reader.
    """

    reader: int
    author: int

    async def live(self, telling: Telling) -> None:
        telling.take_away_author(self.step, self.reader, self.author, "muted")

    def missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.reset()


class PostHidden(FeedChange, frozen=True, gc=False):
    """A reader hid a post: `post_removed` for the reader's streams.

    Live: for those streams that watch it.
    On a resume: in any case; the client may show it and not have named it.
    """

    reader: int
    post: int

    async def live(self, telling: Telling) -> None:
        telling.take_away_post(self.step, self.reader, self.post, "hidden")

    def missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.post_hidden(self.step, self.post)


class AuthorUnfollowed(FeedChange, frozen=True, gc=False):
    """A reader does not follow an author any more, because one of the two ended it.

    Live: with the next round of numbers `post_removed` for the author's posts that the reader watches and may not see
    any more; public ones stay. The same for the author, of what the reader made for friends.
    On a resume: `reset` for the reader. Not for the author, whom it would tell of the unfollow.
    """

    reader: int
    author: int
    with_numbers: ClassVar[bool] = True

    async def live(self, telling: Telling) -> None:
        telling.look_again_at_author(self.step, self.author, self.reader)
        telling.look_again_at_author(self.step, self.reader, self.author)

    def missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.reset()


class FollowReturned(FeedChange, frozen=True, gc=False):
    """A reader follows an author again, because the account of one of the two came back: so do the author's posts.

    Live and on a resume: `reset` for the reader. The posts are there by then (`people.removal`).
    """

    reader: int
    author: int

    async def live(self, telling: Telling) -> None:
        telling.reset_reader(self.step, self.reader)

    def missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.reset()


class RequestEnded(FeedChange, frozen=True, gc=False):
    """A reader asks no more to follow an author. If the author accepted, their posts come to the reader's home.

    Live and on a resume: `reset` for the reader, if they follow the author now. Nothing tells of a request declined.
    """

    reader: int
    author: int

    async def live(self, telling: Telling) -> None:
        await telling.reset_follower(self.step, self.reader, self.author)

    def missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.reset_if_shown(self.author)


class AccountChanged(FeedChange, frozen=True, gc=False):
    """A user was labelled, made private or made public: other readers than before may see their posts. `shown`: the app
    hides them no more.

    Live: `post_updated` for the user's posts, on every stream that watches them, as labels of users are labels of their
    posts; `post_removed` if the reader may not see them any more. Where they are `shown`, `reset` for followers.
    On a resume: `reset` for the user, followers and others who watch one of the user's posts.
    """

    user: int
    shown: bool = False
    with_numbers: ClassVar[bool] = True

    async def live(self, telling: Telling) -> None:
        telling.look_again_at_author(self.step, self.user, reader=None, content=True)
        if self.shown:
            await telling.reset_followers(self.step, self.user)

    def missed(self, reader: ResumingReader) -> None:
        reader.reset_if_shown(self.user)


class NoticeMade(FeedChange, frozen=True, gc=False):
    """A user is told what others did: `notification`, unless the rules hide it from them by now.

    Live and on a resume: the same.
    """

    user: int
    notice: int

    async def live(self, telling: Telling) -> None:
        await telling.notice(self.step, self.user, self.notice)

    def missed(self, reader: ResumingReader) -> None:
        if reader.user == self.user:
            reader.notices[self.notice] = self.step


class UnreadChanged(FeedChange, frozen=True, gc=False):
    """A user was told something, or read something: `unread`, with the next round of numbers.

    On a resume: once, with the number as it is then.
    """

    user: int
    with_numbers: ClassVar[bool] = True

    async def live(self, telling: Telling) -> None:
        telling.unread(self.step, self.user)

    def missed(self, reader: ResumingReader) -> None:
        if reader.user == self.user:
            reader.unread = self.step


class FollowersTold(FeedChange, frozen=True, gc=False):
    """Followers of an account, some or all who asked, were told of a mention of it: `notification`, as of any notice.

    Which of them is not in the log: it is asked whose inbox has it. Live: once a stream, however many such changes a
    mention makes, and `unread` with the next round. On a resume: the same.
    """

    notice: int

    async def live(self, telling: Telling) -> None:
        await telling.mention(self.step, self.notice)

    def missed(self, reader: ResumingReader) -> None:
        reader.mentions[self.notice] = self.step


class FollowersCount(FeedChange, frozen=True, gc=False):
    """`FollowersTold` on a resume, as far as it comes with the numbers: `unread`."""

    notice: int
    with_numbers: ClassVar[bool] = True

    async def live(self, telling: Telling) -> None:
        """Nothing: `FollowersTold` sends the number to those who get the notification."""

    def missed(self, reader: ResumingReader) -> None:
        reader.counted[self.notice] = self.step


class GraphLoaded(FeedChange, frozen=True, gc=False):
    """All follows or all posts were loaded at once: everything may have changed. `reset` for everybody.

    Live: its reason is `loaded`.
    On a resume: its reason is `changed`, as for all that a resume does not tell post by post.
    """

    async def live(self, telling: Telling) -> None:
        telling.reset_all("loaded")

    def missed(self, reader: ResumingReader) -> None:
        reader.reset()


def missed_since(
    place: StreamPosition,
    changes: Iterable[FeedChange],
    user: NodeId,
    covers: Callable[[LogPosition, LogPosition], bool],
) -> ResumingReader:
    """What to tell a reader who was told up to `place`. `changes`: all beyond `place.counts`; `covers`: that of the
    log.
    """
    reader = ResumingReader(user)
    for change in changes:
        if change.with_numbers or not covers(place.posts, change.step.log_position):
            change.missed(reader)
    return reader
