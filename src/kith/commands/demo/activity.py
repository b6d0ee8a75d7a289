"""Activity after the questions: every PACE_S somebody posts, comments or likes, and one reader's stream shows it.

It prints only what `GET /feed/stream` sends to that reader. It runs until it is cancelled (Ctrl-C) or a request fails.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from kith.client import (
    AsyncKith,
    ClientError,
    EngagementUpdate,
    FeedEvent,
    FeedReset,
    NewPost,
    NotificationMade,
    PostUpdated,
    UnreadChanged,
)
from kith.commands.demo.demo_client import DemoClient, RequestRefused
from kith.commands.demo.filler import Filler, MadePost
from kith.commands.demo.people import Cast
from kith.commands.demo.questions import LATEST, counted, quoted
from kith.commands.demo.script import DemoWriter
from kith.core.errors import Unavailable

PACE_S = 0.5
RECENT_MAX = 50
"""Number of the newest posts that get comments and likes."""
POSTS_SHARE, COMMENTS_SHARE, PICTURES_SHARE = 0.25, 0.3, 0.2
"""Shares of the steps that are posts and comments; the rest are likes. PICTURES_SHARE is of the posts."""
_NOT_FOUND = 404


class CommunityActivity:
    """Acts for the cast, step by step."""

    def __init__(self, client: DemoClient, cast: Cast, seed: int) -> None:
        self._client, self._filler, self._cast = client, Filler(client), cast
        self._random, self._writer = random.Random(seed), DemoWriter(cast, seed)
        self._recent: deque[MadePost] = deque(maxlen=RECENT_MAX)

    async def load_recent(self) -> None:
        """Load the posts that the reader sees now as the recent ones."""
        people = {person.id: person for person in self._cast.all}
        for post in reversed((await self._client.ask("GET", LATEST, user=self._cast.reader.id))["posts"]):
            if int(post["author"]["id"]) in people:
                self._recent.append(MadePost(post["id"], people[int(post["author"]["id"])]))

    async def run(self) -> None:
        """Do a step every PACE_S, without end; a step that takes longer delays the next."""
        while True:
            await asyncio.gather(self.step(), asyncio.sleep(PACE_S))
            self._client.timings.clear()

    async def step(self) -> None:
        """Create one post, comment or like. A post that was deleted meanwhile leaves the recent ones."""
        chance = self._random.random()
        if chance < POSTS_SHARE or not self._recent:
            picture = self._random.random() < PICTURES_SHARE
            author = self._random.choice(self._cast.followed)
            self._recent.append(await self._filler.post(self._writer.post(author, picture=picture)))
            return
        post, somebody = self._random.choice(self._recent), self._random.choice(self._cast.all)
        try:
            if chance < POSTS_SHARE + COMMENTS_SHARE:
                await self._filler.comment(post.id, self._writer.reply(somebody))
            else:
                await self._filler.like(post.id, somebody)
        except RequestRefused as refused:
            if refused.status != _NOT_FOUND:
                raise
            self._recent.remove(post)

    def author_of(self, post: int) -> str:
        """A post as text, such as `Dana Brook's post`; with its id if it is not a recent one."""
        return next(
            (f"{recent.author.name}'s post" for recent in self._recent if int(recent.id) == post), f"post {post}"
        )


async def live(client: DemoClient, cast: Cast, url: str, key: str, seed: int, say: Callable[[str], Any]) -> None:
    """Act and print events until cancelled; `say` gets a line for each event. Errors: RequestRefused, Unavailable."""
    activity = CommunityActivity(client, cast, seed)
    await activity.load_recent()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_listen(activity, cast, url, key, say))
            group.create_task(activity.run())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _listen(activity: CommunityActivity, cast: Cast, url: str, key: str, say: Callable[[str], Any]) -> None:
    async with AsyncKith(url, key, user=cast.reader.id) as kith:
        try:
            async for event in kith.feed_stream():
                say(in_words(event, cast.name, activity.author_of))
        except ClientError as error:
            raise Unavailable(f"the demo's stream ended: {error}") from error


def in_words(event: FeedEvent, name: Callable[[int], str], author_of: Callable[[int], str]) -> str:
    """An event of a stream as one line of text."""
    match event:
        case NewPost():
            return f"new_post           {name(event.author_id)}: {quoted(event.preview)}"
        case PostUpdated():
            return f"post_updated       {name(event.author_id)}: {quoted(event.preview)}"
        case EngagementUpdate():
            counts = f"{counted(event.like_count, 'like')}, {counted(event.comment_count, 'comment')}"
            return f"engagement_update  {author_of(event.post_id)}: {counts}"
        case NotificationMade():
            about = "" if event.post_id is None else f" ({author_of(event.post_id)})"
            return f"notification       {event.kind} by {name(event.actor_id)}{about}"
        case UnreadChanged():
            return f"unread             {counted(event.count, 'notification')}"
        case FeedReset():
            return f"reset              {event.reason}: load the feed anew"
        case _:
            return f"post_removed       {author_of(event.post_id)}: {event.reason}"
