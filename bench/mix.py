"""LinkBench's mix of requests (Armstrong et al. 2013), on a town: links are follows, nodes are profiles and posts.

It draws uniformly: a user for lists and counts of followers; a profile or a post, half each, to read or change a node;
a follow of the graph to read or change a link; two users for a new link. Follows and posts to delete are set apart, and
each post is deleted once. So every request can succeed, and any other answer is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import httpx
import numpy as np

from bench.figures import KEY
from bench.load import request
from bench.routes import API, PAGE, check_counts, check_edges, check_lists, check_posts, check_users
from bench.town import Ids, Town

MIX = {
    "list links": 50.7, "get node": 12.9, "add link": 9.0, "update link": 8.0, "update node": 7.4, "count links": 4.9,
    "delete link": 3.0, "add node": 2.6, "delete node": 1.0, "get link": 0.5,
}  # fmt: skip
"""Shares in percent, as published."""
READS = {name: MIX[name] for name in ("list links", "get node", "count links", "get link")}
WRITES = {name: share for name, share in MIX.items() if name not in READS}
DELETED_POSTS_SHARE, DELETED_FOLLOWS_SHARE = 0.5, 0.1
_SAMPLE = 50


def drawn(mix: Mapping[str, float], count: int, seed: int) -> list[str]:
    """About `count` names of requests in random order, each as often as its share says."""
    whole = sum(mix.values())
    counts = [round(count * share / whole) for share in mix.values()]
    names = np.repeat(np.arange(len(mix)), counts)
    known = list(mix)
    return [known[number] for number in np.random.default_rng(seed).permutation(names).tolist()]


class Cast(NamedTuple):
    """Users, follows, and posts as (post, author). `kept` ones are read and changed, `dropped` ones deleted."""

    users: int
    profiles: Ids
    kept_posts: Ids
    dropped_posts: Ids
    kept_follows: Ids
    dropped_follows: Ids

    def part(self, number: int, of: int) -> Cast:
        """The cast of one of several runs on one store; each run has its own posts to delete."""
        return self._replace(dropped_posts=np.array_split(self.dropped_posts, of)[number])


def cast_of(at: Town) -> Cast:
    """The cast of a town; always the same."""
    chosen = np.random.default_rng(17)
    posts, follows = chosen.permutation(at.posts), chosen.permutation(at.edges)
    post, follow = int(len(posts) * DELETED_POSTS_SHARE), int(len(follows) * DELETED_FOLLOWS_SHARE)
    return Cast(at.users, at.profiles, posts[post:], posts[:post], follows[follow:], follows[:follow])


class TooFewPosts(Exception):
    """The mix has more deletions than posts set apart for them."""


def requests(cast: Cast, mix: Mapping[str, float], count: int, seed: int) -> list[bytes]:
    """The bytes of about `count` requests. Errors: TooFewPosts."""
    writer = _Writer(cast, seed)
    by_name: dict[str, Callable[[], bytes]] = {
        "list links": writer.list_links, "count links": writer.count_links, "get link": writer.get_link,
        "get node": writer.get_node, "update node": writer.update_node, "add node": writer.add_node,
        "delete node": writer.delete_node, "add link": writer.add_link, "update link": writer.update_link,
        "delete link": writer.delete_link,
    }  # fmt: skip
    return [by_name[name]() for name in drawn(mix, count, seed)]


class _Writer:
    """Encodes one request after another."""

    def __init__(self, cast: Cast, seed: int) -> None:
        self._chosen, self._cast = np.random.default_rng(seed + 1_000), cast
        self._users = self._rows(np.arange(cast.users)[:, None])
        self._profiles = self._rows(cast.profiles[:, None])
        self._posts, self._follows = self._rows(cast.kept_posts), self._rows(cast.kept_follows)
        self._dropped_follows = self._rows(cast.dropped_follows)
        self._dropped_posts = iter(cast.dropped_posts.tolist())
        self._made = 0

    def _rows(self, of: Ids) -> Iterator[list[int]]:
        """Rows drawn at random, endlessly."""
        while True:
            yield from of[self._chosen.integers(0, len(of), 10_000)].tolist()

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _send(self, method: str, path: str, body: str = "", user: int | None = None) -> bytes:
        acting = next(self._users)[0] if user is None else user
        return request(method, API + path, KEY, body.encode(), acting)

    def list_links(self) -> bytes:
        return self._send("GET", f"/users/{next(self._users)[0]}/followers?limit={PAGE}")

    def count_links(self) -> bytes:
        return self._send("GET", f"/graph/follows/{next(self._users)[0]}/in/count")

    def get_link(self) -> bytes:
        source, destination = next(self._follows)
        return self._send("GET", f"/graph/follows/{source}/{destination}/edge")

    def get_node(self) -> bytes:
        if self._number() % 2:
            return self._send("GET", f"/users/{next(self._profiles)[0]}")
        return self._send("GET", f"/posts/{next(self._posts)[0]}")

    def update_node(self) -> bytes:
        number = self._number()
        if number % 2:
            (user,) = next(self._profiles)
            return self._send("PATCH", f"/users/{user}", f'{{"bio":"tea before talk, cup {number}"}}', user)
        post, author = next(self._posts)
        return self._send("PATCH", f"/posts/{post}", f'{{"content":{{"text":"the tide, again: {number}"}}}}', author)

    def add_node(self) -> bytes:
        (author,) = next(self._profiles)
        return self._send("POST", "/posts", f'{{"content":{{"text":"a red boat: {self._number()}"}}}}', author)

    def delete_node(self) -> bytes:
        row = next(self._dropped_posts, None)
        if row is None:
            raise TooFewPosts
        return self._send("DELETE", f"/posts/{row[0]}", user=row[1])

    def add_link(self) -> bytes:
        (source,), (destination,) = next(self._users), next(self._users)
        if source == destination:
            return self.add_link()
        return self._send("POST", f"/users/{destination}/follow", user=source)

    def update_link(self) -> bytes:
        source, destination = next(self._follows)
        position = 1_700_000_000_000 + self._number()
        edge = f'{{"op":"add","source":"{source}","destination":"{destination}","position":"{position}"}}'
        return self._send("POST", "/graph/follows/edges", f'{{"edges":[{edge}]}}')

    def delete_link(self) -> bytes:
        source, destination = next(self._dropped_follows)
        return self._send("DELETE", f"/users/{destination}/follow", user=source)


def check_reads(http: httpx.Client, at: Town) -> None:
    """Check, before anything is written, that every kind of read answers what is in the town."""
    chosen = np.random.default_rng(18)
    users, profiles = chosen.integers(1, at.users, _SAMPLE).tolist(), chosen.choice(at.profiles, _SAMPLE).tolist()
    posts, follows = chosen.permutation(at.posts[:, 0])[:_SAMPLE].tolist(), at.edges[:_SAMPLE].tolist()
    check_lists(http, at, [f"/users/{user}/followers?limit={PAGE}" for user in users])
    check_counts(http, at, [f"/graph/follows/{user}/in/count" for user in users])
    check_users(http, at, [f"/users/{user}" for user in profiles])
    check_posts(http, at, [f"/posts/{post}" for post in posts])
    check_edges(http, at, [f"/graph/follows/{source}/{destination}/edge" for source, destination in follows])
