"""Every kind of change that readers are sent: what each one means for open streams, and for a reader who resumes.

`interpreter` turns events of the log into changes. Each kind of change says whom it concerns and what they are sent:
`live` sends it to open streams, `missed` notes it for one reader who resumes. `messages` says what a message contains.

The two differ for one reason. An open stream knows which posts are on its reader's screen. Of a resuming reader only
the posts that the client names are known. Which posts the reader could see before, and whom they followed, is stored
nowhere. So a change that may remove many posts is sent post by post to open streams, but as one `reset` on a resume. A
resume thus costs a few batched queries, however much was missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import msgspec

from kith.core.events import LogPosition
from kith.core.ids import NodeId
from kith.streams.change_sender import ChangeSender
from kith.streams.missed import ResumingReader
from kith.streams.positions import Step, StreamPosition


class FeedChange(msgspec.Struct, frozen=True, gc=False):
    """One change, and where it is in the log.

    `with_numbers`: the change is sent with the next round of numbers. A resume compares such a change with
    `StreamPosition.counts`, and any other with `StreamPosition.posts`.
    """

    step: Step
    with_numbers: ClassVar[bool] = False

    async def send_live(self, sender: ChangeSender) -> None:
        """Send it to the open streams that it concerns. May be repeated after an error: no stream is sent it twice."""
        raise NotImplementedError

    def add_missed(self, reader: ResumingReader) -> None:
        """Note what a resuming reader must be sent."""
        raise NotImplementedError


class PostMade(FeedChange, frozen=True, gc=False):
    """An author made a post: `new_post` for the author and their followers, who watch it from then on.

    Only those who may see the post and did not mute the author get it. A post that comes back with its author's account
    is not new.
    On a resume: also for a reader whose client names the post, whoever made it.
    """

    author: int
    post: int

    async def send_live(self, sender: ChangeSender) -> None:
        await sender.new_post(self.step, self.author, self.post)

    def add_missed(self, reader: ResumingReader) -> None:
        reader.new_post(self.step, self.author, self.post)


class PostDeleted(FeedChange, frozen=True, gc=False):
    """An author deleted a post: `post_removed` for readers who watch it, and for those who would have got `new_post`.

    The reason is `author_deleted` for readers who could see the post until then. A reader who watches it but lost sight
    of it a moment ago gets `unavailable`, as for a post that never existed.
    On a resume: nothing if the post was also made while the reader was away.
    """

    author: int
    post: int

    async def send_live(self, sender: ChangeSender) -> None:
        await sender.post_deleted(self.step, self.author, self.post)

    def add_missed(self, reader: ResumingReader) -> None:
        reader.post_deleted(self.step, self.author, self.post)


class PostEdited(FeedChange, frozen=True, gc=False):
    """A post was edited or labelled, or `archived` with its author's account: more or fewer readers may see it.

    Who could see it before is not known: visibility is checked when the message is sent. If the edit changed visibility
    or audience, such as to publish a draft, followers of the author who do not watch the post get `new_post`.
    Live: `post_updated` for readers who watch the post; `post_removed` if they may not see it any more.
    On a resume: `post_updated` if the reader follows the author or watches the post; `reset` if they may not see it.
    Whether they could see it before is stored nowhere, and `post_removed` would disclose a post that they perhaps never
    could see. Nothing if the post's visibility excludes the reader and did so before they disconnected, so drafts
    notify nobody.
    """

    author: int
    post: int
    at_ms: int  # since the epoch
    archived: bool = False
    with_numbers: ClassVar[bool] = True

    async def send_live(self, sender: ChangeSender) -> None:
        sender.check_post(self.step, self.post, content=True, edited_ms=0 if self.archived else self.at_ms)

    def add_missed(self, reader: ResumingReader) -> None:
        reader.post_edited(self.step, self.author, self.post, self.at_ms)


class NumbersChanged(FeedChange, frozen=True, gc=False):
    """A post has more or fewer likes, shares or comments: `engagement_update` for those who watch it.

    Many changes of one post make one message. A view alone sends nothing; the number of views comes with the others.
    Live: readers who may not see the post any more get `post_removed` instead. On a resume: a reader watches only posts
    that they may see, which was checked before.
    """

    post: int
    with_numbers: ClassVar[bool] = True

    async def send_live(self, sender: ChangeSender) -> None:
        sender.check_post(self.step, self.post, numbers=True)

    def add_missed(self, reader: ResumingReader) -> None:
        reader.numbers_changed(self.step, self.post)


class UserBlocked(FeedChange, frozen=True, gc=False):
    """One user blocked another: each loses the posts of the other.

    Live: `post_removed` for those of these posts that they watch. The blocked user gets the reason `unavailable`: a
    block is not disclosed.
    On a resume: `reset` for both.
    """

    blocker: int
    blocked: int

    async def send_live(self, sender: ChangeSender) -> None:
        sender.take_away_author(self.step, self.blocker, self.blocked, "blocked")
        sender.take_away_author(self.step, self.blocked, self.blocker, "unavailable")

    def add_missed(self, reader: ResumingReader) -> None:
        if reader.user in (self.blocker, self.blocked):
            reader.reset()


class AuthorMuted(FeedChange, frozen=True, gc=False):
    """A reader muted an author.

    Live: `post_removed` for the author's posts that the reader watches.
    On a resume: `reset` for the reader.
    """

    reader: int
    author: int

    async def send_live(self, sender: ChangeSender) -> None:
        sender.take_away_author(self.step, self.reader, self.author, "muted")

    def add_missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.reset()


class PostHidden(FeedChange, frozen=True, gc=False):
    """A reader hid a post: `post_removed` for the reader's streams.

    Live: for streams that watch the post.
    On a resume: always, because the client may show the post without having named it.
    """

    reader: int
    post: int

    async def send_live(self, sender: ChangeSender) -> None:
        sender.take_away_post(self.step, self.reader, self.post, "hidden")

    def add_missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.post_hidden(self.step, self.post)


class AuthorUnfollowed(FeedChange, frozen=True, gc=False):
    """A reader does not follow an author any more; either of the two ended it.

    Live: with the next round of numbers, `post_removed` for the author's posts that the reader watches and may not see
    any more; public ones stay. Likewise for the author, for the reader's posts to friends.
    On a resume: `reset` for the reader. Nothing for the author, to whom it would disclose the unfollow.
    """

    reader: int
    author: int
    with_numbers: ClassVar[bool] = True

    async def send_live(self, sender: ChangeSender) -> None:
        sender.check_author(self.step, self.author, self.reader)
        sender.check_author(self.step, self.reader, self.author)

    def add_missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.reset()


class FollowReturned(FeedChange, frozen=True, gc=False):
    """A reader follows an author again, because the account of one of the two was restored, and the posts with it.

    Live and on a resume: `reset` for the reader. The posts are restored before the follows (`people.removal`).
    """

    reader: int
    author: int

    async def send_live(self, sender: ChangeSender) -> None:
        sender.reset_reader(self.step, self.reader)

    def add_missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.reset()


class RequestEnded(FeedChange, frozen=True, gc=False):
    """A reader's request to follow an author ended. If the author accepted it, their posts come to the reader's home.

    Live and on a resume: `reset` for the reader, if they follow the author now. A declined request sends nothing.
    """

    reader: int
    author: int

    async def send_live(self, sender: ChangeSender) -> None:
        await sender.reset_follower(self.step, self.reader, self.author)

    def add_missed(self, reader: ResumingReader) -> None:
        if reader.user == self.reader:
            reader.reset_if_shown(self.author)


class AccountChanged(FeedChange, frozen=True, gc=False):
    """A user was labelled, made private or made public: other readers than before may see their posts.

    `shown`: the app hid the user until now.
    Live: `post_updated` for the user's posts, on every stream that watches them, because labels of users are labels of
    their posts; `post_removed` if the reader may not see them any more. If `shown`, `reset` for the followers.
    On a resume: `reset` for the user, their followers, and readers who watch one of the user's posts.
    """

    user: int
    shown: bool = False
    with_numbers: ClassVar[bool] = True

    async def send_live(self, sender: ChangeSender) -> None:
        sender.check_author(self.step, self.user, reader=None, content=True)
        if self.shown:
            await sender.reset_followers(self.step, self.user)

    def add_missed(self, reader: ResumingReader) -> None:
        reader.reset_if_shown(self.user)


class NoticeMade(FeedChange, frozen=True, gc=False):
    """A user got a notice of what others did: `notification`, unless the rules hide the notice by now.

    Live and on a resume: the same.
    """

    user: int
    notice: int

    async def send_live(self, sender: ChangeSender) -> None:
        await sender.notice(self.step, self.user, self.notice)

    def add_missed(self, reader: ResumingReader) -> None:
        if reader.user == self.user:
            reader.notices[self.notice] = self.step


class UnreadChanged(FeedChange, frozen=True, gc=False):
    """A user got or read a notice: `unread`, with the next round of numbers.

    On a resume: once, with the number as it is then.
    """

    user: int
    with_numbers: ClassVar[bool] = True

    async def send_live(self, sender: ChangeSender) -> None:
        sender.unread(self.step, self.user)

    def add_missed(self, reader: ResumingReader) -> None:
        if reader.user == self.user:
            reader.unread = self.step


class FollowersNotified(FeedChange, frozen=True, gc=False):
    """Some or all followers who want mentions of an account got rows of one: `notification`, as for any notice.

    The log does not list these followers, so inboxes are queried for the row. Live: once per stream, however many such
    changes a mention makes, and `unread` with the next round. On a resume: the same.
    """

    notice: int

    async def send_live(self, sender: ChangeSender) -> None:
        await sender.mention(self.step, self.notice)

    def add_missed(self, reader: ResumingReader) -> None:
        reader.mentions[self.notice] = self.step


class FollowersUnread(FeedChange, frozen=True, gc=False):
    """The part of `FollowersNotified` that comes with the numbers on a resume: `unread`."""

    notice: int
    with_numbers: ClassVar[bool] = True

    async def send_live(self, sender: ChangeSender) -> None:
        """Do nothing: `FollowersNotified` has the number sent to those who get the notification."""

    def add_missed(self, reader: ResumingReader) -> None:
        reader.counted[self.notice] = self.step


class GraphLoaded(FeedChange, frozen=True, gc=False):
    """Follows or posts were loaded in bulk, so everything may have changed: `reset` for everybody.

    Live: with the reason `loaded`.
    On a resume: with the reason `changed`, as for all that a resume does not send post by post.
    """

    async def send_live(self, sender: ChangeSender) -> None:
        sender.reset_all("loaded")

    def add_missed(self, reader: ResumingReader) -> None:
        reader.reset()


def missed_since(
    place: StreamPosition,
    changes: Iterable[FeedChange],
    user: NodeId,
    covers: Callable[[LogPosition, LogPosition], bool],
) -> ResumingReader:
    """What a reader who resumes at `place` must be sent.

    `changes`: all that `place.counts` does not cover; `covers`: `LogStore.covers`.
    """
    reader = ResumingReader(user)
    for change in changes:
        if change.with_numbers or not covers(place.posts, change.step.log_position):
            change.add_missed(reader)
    return reader
