"""Decides purely what the cast does: posts, pictures, comments, likes, stories. A seed always gives the same script.

A few posts get most of the likes and comments, and the reader likes some authors more than others. So a ranked home has
something to rank.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from kith.commands.demo.people import Cast
from kith.commands.demo.words import Person, Words

POSTS_EACH_MAX, STAR_POSTS = 4, 6
PICTURES_MAX, STORIES_MAX = 14, 8
LIKES_MAX, COMMENTS_MAX = 15, 6
"""Most likes and comments of one post."""
_FAVOURITES = 3
_LINK = "https://example.org/notes/"


class ScriptedPost(NamedTuple):
    """A post to create. `picture`: the seed of its picture."""

    author: Person
    text: str
    mentions: tuple[Person, ...] = ()
    link: str | None = None
    picture: int | None = None


class ScriptedReply(NamedTuple):
    """A comment, and who likes it."""

    author: Person
    text: str
    liked_by: tuple[Person, ...]


class Thread(NamedTuple):
    """A post with its likes and comments."""

    post: ScriptedPost
    liked_by: tuple[Person, ...]
    comments: tuple[ScriptedReply, ...]


class DemoScript(NamedTuple):
    """Everything to create, in order."""

    posts: list[Thread]
    stories: list[tuple[Person, str]]


class DemoWriter:
    """Draws posts, replies and stories from a seed."""

    def __init__(self, cast: Cast, seed: int) -> None:
        self._cast, self._words, self._random = cast, Words(seed), random.Random(seed)

    def post(self, author: Person, *, picture: bool = False) -> ScriptedPost:
        """A post; some posts mention somebody, some have a link."""
        rng = self._random
        other_people = [person for person in self._cast.all if person != author]
        mentions = tuple(rng.sample(other_people, 1)) if other_people and rng.random() < 0.3 else ()
        text = self._words.post([person.username for person in mentions])
        link = f"{_LINK}{rng.randrange(10**9)}" if not picture and rng.random() < 0.2 else None
        return ScriptedPost(author, text, mentions, link, rng.randrange(1 << 31) if picture else None)

    def reply(self, author: Person, liked_by: Sequence[Person] = ()) -> ScriptedReply:
        """A comment."""
        return ScriptedReply(author, self._words.comment(), tuple(liked_by))

    def story(self, author: Person) -> tuple[Person, str]:
        """A story."""
        return author, self._words.story()


def write(cast: Cast, seed: int) -> DemoScript:
    """Write the script: people who have not posted yet post; everybody comments and likes."""
    rng, writer, people = random.Random(seed), DemoWriter(cast, seed), cast.all
    authors = [
        author
        for author in cast.new
        for _ in range(STAR_POSTS if author == cast.star else rng.randint(1, POSTS_EACH_MAX))
    ]
    rng.shuffle(authors)
    with_picture = set(rng.sample(range(len(authors)), min(PICTURES_MAX, len(authors) // 3)))
    favourites = set(cast.followed[1 : 1 + _FAVOURITES]) or {cast.star}
    posts = []
    for number, author in enumerate(authors):
        post = writer.post(author, picture=number in with_picture)
        liked_by = _few(rng, people, author, LIKES_MAX)
        if author in favourites and cast.reader != author:
            liked_by = tuple(dict.fromkeys((*liked_by, cast.reader)))
        commenters = _few(rng, people, author, COMMENTS_MAX)
        posts.append(
            Thread(
                post,
                liked_by,
                tuple(writer.reply(person, _few(rng, people, person, LIKES_MAX)) for person in commenters),
            )
        )
    tellers = [person for person in cast.followed if person in cast.new][:STORIES_MAX]
    return DemoScript(posts, [writer.story(person) for person in tellers for _ in range(rng.randint(1, 2))])


def _few(rng: random.Random, people: Sequence[Person], not_: Person, count_max: int) -> tuple[Person, ...]:
    """A few people other than `not_`; rarely many, at most `count_max`."""
    candidates = [person for person in people if person != not_]
    return tuple(rng.sample(candidates, min(count_max, len(candidates), int(rng.paretovariate(1.0)) - 1)))
