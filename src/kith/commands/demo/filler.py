"""Plays the script over the public API: many requests at a time, a post before its comments and likes, profiles last.

A profile marks that its owner has posted. So an interrupted demo plays the remaining parts the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from kith.commands.demo import pictures
from kith.commands.demo.demo_client import CONNECTIONS_MAX, DemoClient
from kith.commands.demo.people import MARK, Cast
from kith.commands.demo.script import DemoScript, ScriptedPost, ScriptedReply, Thread
from kith.commands.demo.words import Person, Words

T = TypeVar("T")
UPLOADS_MAX = 4
"""Most uploads in flight; a server takes twice as many."""


class MadePost(NamedTuple):
    """A post that was created."""

    id: str
    author: Person


class FillResult(NamedTuple):
    """How much was created."""

    people: int
    posts: list[MadePost]
    pictures: int
    comments: int
    likes: int
    stories: int


class Filler:
    """Plays a script."""

    def __init__(self, client: DemoClient) -> None:
        self._client = client
        self._sending, self._uploading = asyncio.Semaphore(CONNECTIONS_MAX), asyncio.Semaphore(UPLOADS_MAX)

    async def fill(self, cast: Cast, script: DemoScript, seed: int) -> FillResult:
        """Play the whole script: posts, then stories, then profiles."""
        posts = await _run_all(self._publish(thread) for thread in script.posts)
        await _run_all(self.story(author, text) for author, text in script.stories)
        words = Words(seed)
        await _run_all(self._introduce(person, words.bio()) for person in cast.new)
        replies = [reply for thread in script.posts for reply in thread.comments]
        return FillResult(
            len(cast.new),
            posts,
            sum(thread.post.picture is not None for thread in script.posts),
            len(replies),
            sum(len(thread.liked_by) for thread in script.posts) + sum(len(reply.liked_by) for reply in replies),
            len(script.stories),
        )

    async def post(self, new: ScriptedPost) -> MadePost:
        """Create a post; its picture is uploaded first."""
        content: dict[str, object] = {"text": new.text}
        if new.link is not None:
            content["link"] = new.link
        if new.picture is not None:
            async with self._uploading:
                picture = await asyncio.to_thread(pictures.landscape, new.picture)
                media = await self._client.ask(
                    "POST", "/media", user=new.author.id, picture=picture, alt_text=pictures.ALT_TEXT
                )
            content["mediaIds"] = [media["id"]]
        body = {"content": content, "mentions": [str(person.id) for person in new.mentions]}
        answer = await self._client.ask("POST", "/posts", body, user=new.author.id)
        return MadePost(answer["id"], new.author)

    async def comment(self, post: str, reply: ScriptedReply) -> None:
        """Create a comment and its likes."""
        answer = await self._client.ask("POST", f"/posts/{post}/comments", {"text": reply.text}, user=reply.author.id)
        for person in reply.liked_by:
            await self._client.ask("POST", f"/comments/{answer['id']}/like", user=person.id)

    async def like(self, post: str, person: Person) -> None:
        """Like a post."""
        await self._client.ask("POST", f"/posts/{post}/like", user=person.id)

    async def story(self, author: Person, text: str) -> None:
        """Create a story."""
        async with self._sending:
            await self._client.ask("POST", "/stories", {"content": {"text": text}}, user=author.id)

    async def _publish(self, thread: Thread) -> MadePost:
        async with self._sending:
            post = await self.post(thread.post)
            for person in thread.liked_by:
                await self.like(post.id, person)
            for reply in thread.comments:
                await self.comment(post.id, reply)
            return post

    async def _introduce(self, person: Person, bio: str) -> None:
        async with self._sending:
            profile = {"username": person.username, "displayName": person.name, "bio": bio, "attributes": MARK}
            await self._client.ask("PATCH", f"/users/{person.id}", profile)


async def _run_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all of it concurrently; the first failure cancels the rest."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(action) for action in work]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
