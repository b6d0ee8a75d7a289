"""Twelve questions that show what Kith is for. Each is asked of the running server, and prints the server's answer.

Each question is a function: it sends requests, and returns a title and one or two lines. Times are of whole requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from kith.commands.demo.demo_client import DemoClient, Timing
from kith.commands.demo.people import Cast
from kith.commands.demo.script import ScriptedPost
from kith.commands.demo.words import Words
from kith.core.errors import KithError

VISIBLE_S = 10.0
"""Seconds after which the demo fails if a post is not in a follower's home."""
TOLD_S = 60.0
"""Seconds after which the demo fails if followers are not notified of a mention."""
LATEST = "/feed?type=latest&limit=50"
_POLL_S = 0.002
_TEXT_CHARS = 60
_SHOWN = 3
_TIERS = {"online": "online", "day": "here within a day", "month": "within a month", "all": "alike, as there are few"}
_TOLD_POLL_S = 0.02


class AnsweredQuestion(NamedTuple):
    """A question and its answer."""

    title: str
    lines: list[str]


class TimedAnswer(NamedTuple):
    """A question and its answer, with the requests that were sent for it."""

    answer: AnsweredQuestion
    timings: list[Timing]


class Scene:
    """What the questions share: the server, the people, and a new user without follows."""

    def __init__(
        self, client: DemoClient, cast: Cast, newcomer: int, seed: int, mention_followers: frozenset[int]
    ) -> None:
        """`mention_followers`: followers of the star who want notifications of mentions, and were active within a
        month.
        """
        self.ask, self.cast, self.newcomer, self.words = client.ask, cast, newcomer, Words(seed)
        self.mention_followers = mention_followers
        self.star, self.reader, self._url = cast.star, cast.reader, client.url
        self.page: list[Any] = []  # the reader's ranked home

    def console(self, path: str) -> str:
        """The URL of a route of the operator's console."""
        return str(self._url.join(f"/console{path}"))

    def names(self, ids: list[Any]) -> str:
        """The users' names, separated by commas."""
        return ", ".join(map(self.cast.name, ids))


async def follow_check(scene: Scene) -> AnsweredQuestion:
    """One lookup, one exact count."""
    reader, star = scene.reader, scene.star
    holds = await scene.ask("GET", f"/graph/follows/{reader.id}/{star.id}")
    count = await scene.ask("GET", f"/graph/follows/{star.id}/in/count")
    answer = "Yes" if holds["exists"] else "No"
    return AnsweredQuestion(
        f"Does {reader.name} follow {star.name}, and how many do?",
        [f"{answer}; {star.name} has {count['count']:,} followers, counted exactly."],
    )


async def intersection(scene: Scene) -> AnsweredQuestion:
    """A set program over two lists."""
    reader_follows = {"graph": "follows", "node": str(scene.reader.id), "direction": "out"}
    star_followers = {"graph": "follows", "node": str(scene.star.id), "direction": "in"}
    program = {"intersect": [reader_follows, star_followers]}
    count = await scene.ask("POST", "/graph/select/count", {"program": program})
    selected = await scene.ask("POST", "/graph/select", {"program": program, "limit": _SHOWN})
    names = scene.names([item["id"] for item in selected["items"]])
    return AnsweredQuestion(
        f"Which of {scene.star.name}'s followers does {scene.reader.name} follow?",
        [f"{count['count']:,}" + (f": {names}{' ...' if count['count'] > _SHOWN else ''}" if names else "")],
    )


async def newcomer(scene: Scene) -> AnsweredQuestion:
    """A follow fills a home at once."""
    star, new = scene.star, scene.newcomer
    before = (await scene.ask("GET", LATEST, user=new))["posts"]
    await scene.ask("POST", f"/users/{star.id}/follow", user=new)
    (first,) = (await scene.ask("GET", f"/users/{star.id}/followers?limit=1", user=new))["items"]
    after = (await scene.ask("GET", LATEST, user=new))["posts"]
    top = "is" if int(first["id"]) == new else "is not"
    return AnsweredQuestion(
        f"A newcomer follows {star.name}: what changes at once?",
        [
            f"The newcomer {top} first in the list of followers; at their home: {len(before)} posts before, "
            f"{len(after)} after."
        ],
    )


async def publish(scene: Scene) -> AnsweredQuestion:
    """Time from the request of a post until it is in another user's home and inbox."""
    star, reader = scene.star, scene.reader
    await scene.ask("GET", LATEST, user=reader.id)
    new = ScriptedPost(star, scene.words.post([reader.username]))
    body = {"content": {"text": new.text}, "mentions": [str(reader.id)]}
    started = time.perf_counter()
    post = (await scene.ask("POST", "/posts", body, user=star.id))["id"]
    stored_ms = (time.perf_counter() - started) * 1000
    while post not in [shown["id"] for shown in (await scene.ask("GET", LATEST, user=reader.id))["posts"]]:
        if time.perf_counter() - started > VISIBLE_S:
            raise KithError(f"the demo stopped: post {post} is not in a follower's home after {VISIBLE_S:.0f} s")
        await asyncio.sleep(_POLL_S)
    seen_ms = (time.perf_counter() - started) * 1000
    while not (mentions := [item for item in (await _inbox(scene))["items"] if (item["post"] or {}).get("id") == post]):
        if time.perf_counter() - started > VISIBLE_S:
            raise KithError(f"the demo stopped: nobody told {reader.name} of post {post} within {VISIBLE_S:.0f} s")
        await asyncio.sleep(_POLL_S)
    unread = (await _inbox(scene))["unread"]
    return AnsweredQuestion(
        f"{star.name} posts, and mentions {reader.name}: when do they see it?",
        [
            f"Stored {stored_ms:.1f} ms after it was sent, in {reader.name}'s home after {seen_ms:.1f} ms:",
            quoted(new.text),
            f"In {reader.name}'s inbox, with {counted(unread, 'unread notification')}: "
            f"{mentions[0]['type']} by {mentions[0]['actors'][0]['displayName']}",
        ],
    )


async def mention_of_many(scene: Scene) -> AnsweredQuestion:
    """A mention of an account with many followers: followers who asked for it are notified tier by tier."""
    star, reader = scene.star, scene.reader
    body = {"content": {"text": scene.words.post([star.username])}, "mentions": [str(star.id)]}
    started = time.perf_counter()
    post = (await scene.ask("POST", "/posts", body, user=reader.id))["id"]
    expected = len(scene.mention_followers - {reader.id})  # nobody is notified of their own mention
    while sum((tiers := await _notified(scene, post)).values()) < expected:
        if time.perf_counter() - started > TOLD_S:
            raise KithError(f"the demo stopped: followers are not told of post {post} within {TOLD_S:.0f} s")
        await asyncio.sleep(_TOLD_POLL_S)
    took_ms = (time.perf_counter() - started) * 1000
    by_tier = ", ".join(f"{tiers[tier]:,} {who}" for tier, who in _TIERS.items() if tier in tiers)
    return AnsweredQuestion(
        f"{reader.name} mentions {star.name}: who of the followers hears of it?",
        [
            f"All who asked for it and were here within a month, within {took_ms:,.0f} ms. By tier: {by_tier}.",
            "Others who ask find it when they look; nothing is written for them.",
        ],
    )


async def _notified(scene: Scene, post: str) -> dict[str, int]:
    """Number of followers that each finished tier notified."""
    mentions = (await scene.ask("GET", scene.console(f"/spread/{post}")))["mentions"]
    return {row["tier"]: row["told"] for row in mentions[0]["tiers"] if row["state"] == "ended"}


async def _inbox(scene: Scene) -> Any:
    """The reader's inbox."""
    return await scene.ask("GET", "/notifications?limit=20", user=scene.reader.id)


async def ranked_home(scene: Scene) -> AnsweredQuestion:
    """The ranked home: best posts first, each with a reason."""
    scene.page = (await scene.ask("GET", "/feed?limit=20", user=scene.reader.id))["posts"]
    rows = [
        f"{post['ranking']['score']:.2f} {post['ranking']['reason']:<18} {post_in_a_line(scene.cast, post)}"
        if "ranking" in post else post_in_a_line(scene.cast, post)
        for post in scene.page[:2]
    ]  # fmt: skip
    return AnsweredQuestion(f"What is best for {scene.reader.name} now? The first of {len(scene.page)}:", rows)


async def why(scene: Scene) -> AnsweredQuestion:
    """The parts of a score."""
    answer = await scene.ask("GET", f"/posts/{scene.page[0]['id']}/why", user=scene.reader.id)
    parts = " + ".join(f"{part['name']} {part['adds']:.2f}" for part in answer["parts"])
    damped = f", damped by {answer['damping']:.2f}" if answer["damping"] < 1 else ""
    return AnsweredQuestion("Why is the first one there?", [f"{answer['score']:.2f} = {parts}{damped}"])


async def top_comments(scene: Scene) -> AnsweredQuestion:
    """The top comments of the most commented post on the page."""
    post = max(scene.page, key=lambda shown: int(shown["engagement"]["commentCount"]))
    comments = await scene.ask("GET", f"/posts/{post['id']}/comments?sort=top&limit=2", user=scene.reader.id)
    rows = [
        f"{counted(row['likeCount'], 'like')}: {row['author']['displayName']}: {quoted(row['text'])}"
        for row in comments["items"]
    ]
    return AnsweredQuestion(
        f"What do people say to {scene.cast.name(post['author']['id'])}? The best of "
        f"{counted(comments['totalCount'], 'comment')}:",
        rows or ["Nobody has said anything yet."],
    )


async def stories(scene: Scene) -> AnsweredQuestion:
    """The strip of stories above the feed."""
    strip = (await scene.ask("GET", "/stories?limit=50", user=scene.reader.id))["items"]
    shown = ", ".join(f"{scene.cast.name(row['id'])} ({row['unseenCount']} new)" for row in strip[:4])
    return AnsweredQuestion(f"Whose stories has {scene.reader.name} not seen?", [shown or "Nobody tells one now."])


async def suggestions(scene: Scene) -> AnsweredQuestion:
    """People to follow, each with mutual friends as the reason."""
    answer = await scene.ask("GET", f"/users/{scene.reader.id}/suggestions?limit=2", user=scene.reader.id)
    rows = [
        f"{scene.cast.name(row['id'])}: followed by {row['mutualCount']} whom {scene.reader.name} follows, "
        f"such as {scene.names(row['mutuals'])}"
        for row in answer["items"]
    ]
    return AnsweredQuestion(f"Whom might {scene.reader.name} know?", rows or ["Nobody else within two hops."])


async def boards(scene: Scene) -> AnsweredQuestion:
    """Following a user follows all their boards, except boards that one unfollows."""
    star, new = scene.star, scene.newcomer
    star_boards = (await scene.ask("GET", f"/users/{star.id}/boards?limit=1", user=star.id))["items"]
    board = star_boards[0] if star_boards else await scene.ask("POST", "/boards", {"name": "Favourites"}, user=star.id)
    for post in (await scene.ask("GET", f"/users/{star.id}/posts?limit={_SHOWN}", user=star.id))["items"]:
        await scene.ask("POST", f"/boards/{board['id']}/pins", {"post": post["id"]}, user=star.id)
    board = await scene.ask("GET", f"/boards/{board['id']}", user=new)
    await scene.ask("DELETE", f"/boards/{board['id']}/follow", user=new)
    remaining = await scene.ask("GET", f"/boards/{board['id']}/followers/count", user=new)
    targets = {"users": [str(star.id)], "boards": [board["id"]]}
    checked = await scene.ask("POST", "/boards/check", targets, user=new)
    follows = {True: "follows", False: "does not follow"}
    return AnsweredQuestion(
        f"Who follows {star.name}'s board “{board['name']}”?",
        [
            f"{board['followerCount']:,}, through {star.name}, for {counted(board['pinCount'], 'pin')}. The newcomer "
            f"unfollows it: {remaining['count']:,} are left.",
            f"The newcomer {follows[checked['users'][0]['following']]} {star.name}, and "
            f"{follows[checked['boards'][0]['following']]} this board.",
        ],
    )


async def hide_and_block(scene: Scene) -> AnsweredQuestion:
    """Hide, see-fewer and block work at once. The reader undoes the first two; the newcomer's block stays."""
    reader, star, new = scene.reader.id, scene.star, scene.newcomer
    post = next((shown for shown in scene.page if int(shown["author"]["id"]) != reader), scene.page[0])
    id_, author = post["id"], post["author"]["id"]
    await scene.ask("POST", f"/posts/{id_}/hide", user=reader)
    shown = {item["id"] for item in (await scene.ask("GET", LATEST, user=reader))["posts"]}
    await scene.ask("DELETE", f"/posts/{id_}/hide", user=reader)
    full = (await scene.ask("GET", f"/posts/{id_}/why", user=reader))["score"]
    await scene.ask("POST", f"/users/{author}/see-fewer", user=reader)
    fewer = (await scene.ask("GET", f"/posts/{id_}/why", user=reader))["score"]
    await scene.ask("DELETE", f"/users/{author}/see-fewer", user=reader)
    before = len((await scene.ask("GET", LATEST, user=new))["posts"])
    await scene.ask("POST", f"/users/{star.id}/block", user=new)
    after = len((await scene.ask("GET", LATEST, user=new))["posts"])
    return AnsweredQuestion(
        "What does one do who has seen enough?",
        [
            f"Hide a post: {'still there' if id_ in shown else 'gone from home'}. See fewer of "
            f"{scene.cast.name(author)}: its score {full:.2f} -> {fewer:.2f}.",
            f"Block {star.name}: the newcomer's home had {counted(before, 'post')}, and has {after} at once.",
        ],
    )


QUESTIONS: list[Callable[[Scene], Awaitable[AnsweredQuestion]]] = [
    follow_check, intersection, newcomer, publish, mention_of_many, ranked_home, why, top_comments, stories,
    suggestions, boards, hide_and_block,
]  # fmt: skip


async def ask_all(client: DemoClient, scene: Scene) -> AsyncIterator[TimedAnswer]:
    """Ask each question in turn."""
    for question in QUESTIONS:
        client.timings.clear()
        answer = await question(scene)
        yield TimedAnswer(answer, list(client.timings))


def post_in_a_line(cast: Cast, post: Any) -> str:
    """A post as one line: author, text, likes and comments."""
    kind, engagement = post["content"]["type"], post["engagement"]
    shown = "" if kind == "text" else f" [{kind}]"
    return (
        f"{cast.name(post['author']['id'])}: {quoted(post['content']['text'])}{shown} "
        f"{counted(engagement['likeCount'], 'like')}, {counted(engagement['commentCount'], 'comment')}"
    )


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 like`, `2 likes`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def quoted(text: str) -> str:
    """A text in quotes, truncated."""
    return f"“{text}”" if len(text) <= _TEXT_CHARS else f"“{text[:_TEXT_CHARS].rstrip()}…”"
