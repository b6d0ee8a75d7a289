"""The common routes over HTTP, one at a time: reads over 16 connections, durable writes over 64, one API process.

The caller has a server key and acts as a user, so that visibility is checked too. Before a route is loaded, some of its
answers are compared with what was written to the store.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench import postgresql
from bench.figures import KEY, SECONDS, Figure, server, with_peer
from bench.load import Load, request, run
from bench.town import Ids, Town, name_of, text_of, town
from kith.run.config import Settings

API = "/api/v1"
PAGE = 20
_READS, _WRITES = 40_000, 200_000
_CONNECTIONS, _WRITE_CONNECTIONS = 16, 64
_SAMPLE = 200
_EMPTY_LIST_BYTES = 80
_POSTGRES = "PostgreSQL, asyncpg, prepared, 16 connections"


def client(settings: Settings, user: int = 1) -> httpx.Client:
    """A client of the API with a server key, acting as `user`."""
    headers = {"authorization": f"Bearer {KEY}", "x-kith-user": str(user)}
    return httpx.Client(base_url=f"http://127.0.0.1:{settings.port}{API}", headers=headers, timeout=20)


def gets(paths: list[str], users: int) -> list[bytes]:
    """A GET of each path, acting as a random user below `users`."""
    viewers = np.random.default_rng(3).integers(1, users, len(paths)).tolist()
    return [request("GET", API + path, KEY, user=viewer) for path, viewer in zip(paths, viewers, strict=True)]


def _read(
    folder: Path, name: str, paths: Callable[[Town], list[str]], check: Callable[[httpx.Client, Town, list[str]], None],
    *, least_bytes: int,
) -> tuple[Load, Town]:  # fmt: skip
    at = town(folder)
    settings = at.copied(name)
    asked = paths(at)
    with server(settings):
        with client(settings) as http:
            check(http, at, asked[:_SAMPLE])
        load = run(
            settings.port, functools.partial(gets, asked, at.users),
            connections=_CONNECTIONS, seconds=SECONDS, least_bytes=least_bytes,
        )  # fmt: skip
    return load, at


def _drawn(of: Ids, seed: int, count: int = _READS) -> Ids:
    return np.random.default_rng(seed).choice(of, count)


def _ask(http: httpx.Client, path: str) -> Any:
    return http.get(path).raise_for_status().json()


def _node(path: str) -> int:
    return next(int(part) for part in path.split("/") if part.isdigit())


def expected(got: object, wanted: object, what: str) -> None:
    """Raise if an answer differs from what is in the store."""
    if got != wanted:
        raise RuntimeError(f"{what} answers {got!r}, not {wanted!r}")


# Lists and counts


def _list_paths(at: Town) -> list[str]:
    followed, following = _drawn(np.unique(at.edges[:, 1]), 1).tolist(), _drawn(np.unique(at.edges[:, 0]), 2).tolist()
    both = [
        path
        for one, other in zip(followed, following, strict=True)
        for path in (f"/users/{one}/followers?limit={PAGE}", f"/users/{other}/following?limit={PAGE}")
    ]
    return both[:_READS]


def check_lists(http: httpx.Client, at: Town, paths: list[str]) -> None:
    """Check that pages have the length that the file gives, and users of the file."""
    for path in paths:
        node, column = _node(path), 1 if "followers" in path else 0
        there = set(at.edges[at.edges[:, column] == node][:, 1 - column].tolist())
        shown = [int(item["id"]) for item in _ask(http, path)["items"]]
        expected(len(shown), min(PAGE, len(there)), f"the length of {path}")
        expected(set(shown) - there, set(), f"strangers in {path}")


def _list_statement(path: str) -> tuple[str, tuple[int, ...]]:
    end, other = ("d", "s") if "followers" in path else ("s", "d")
    return f"select {other}, at from f where {end} = $1 order by at desc limit {PAGE}", (_node(path),)


def list_http(folder: Path) -> list[Figure]:
    """Followers or follows of random users who have any, 20 per page."""
    load, at = _read(folder, "list-http", _list_paths, check_lists, least_bytes=_EMPTY_LIST_BYTES)
    says = f"{at.data.says}; {load.body_bytes / load.requests:.0f} bytes an answer"
    figure = Figure("list-http", load.rate, "pages/s", ">= 15,000", data=says)
    statements = [_list_statement(path) for path in _list_paths(at)]
    return [
        with_peer(figure, _POSTGRES, postgresql.reads(at.data, statements)),
        Figure("list-http-p99", load.p99_ms, "ms", "< 3", data=says),
    ]


def check_counts(http: httpx.Client, at: Town, paths: list[str]) -> None:
    """Check that counts are those of the file."""
    for path in paths:
        column = 1 if path.endswith("/in/count") else 0
        expected(_ask(http, path)["count"], int((at.edges[:, column] == _node(path)).sum()), path)


def _count_paths(at: Town) -> list[str]:
    nodes = _drawn(np.unique(at.edges), 3).tolist()
    return [f"/graph/follows/{node}/{('in', 'out')[number % 2]}/count" for number, node in enumerate(nodes)]


def count_http(folder: Path) -> list[Figure]:
    """Counts of followers and of follows."""
    load, at = _read(folder, "count-http", _count_paths, check_counts, least_bytes=len('{"count":0}'))
    figure, p99 = _figures("count-http", load, "counts/s", ">= 20,000", at.data.says)
    statements = [_count_statement(path) for path in _count_paths(at)]
    return [with_peer(figure, _POSTGRES, postgresql.reads(at.data, statements)), p99]


def _count_statement(path: str) -> tuple[str, tuple[int, ...]]:
    table, end = ("ins", "d") if path.endswith("/in/count") else ("outs", "s")
    return f"select n from {table} where {end} = $1", (_node(path),)


def check_edges(http: httpx.Client, at: Town, paths: list[str]) -> None:
    """Check that stored edges are those of the file, in state normal."""
    for path in paths:
        _, _, _, source, destination, _ = path.split("/")
        answer = _ask(http, path)
        got = (answer["source"], answer["destination"], answer["state"])
        expected(got, (source, destination, "normal"), path)


def _edge_paths(at: Town) -> list[str]:
    rows = np.random.default_rng(4).integers(0, len(at.edges), _READS)
    return [f"/graph/follows/{source}/{destination}/edge" for source, destination in at.edges[rows].tolist()]


def edge_http(folder: Path) -> list[Figure]:
    """The stored edge of a follow."""
    load, at = _read(folder, "edge-http", _edge_paths, check_edges, least_bytes=80)
    figure, p99 = _figures("edge-http", load, "edges/s", ">= 20,000", at.data.says)
    pairs = [tuple(int(part) for part in path.split("/")[3:5]) for path in _edge_paths(at)]
    statements = [("select s, d, at from f where s = $1 and d = $2", pair) for pair in pairs]
    return [with_peer(figure, _POSTGRES, postgresql.reads(at.data, statements)), p99]


# Users and posts


def check_users(http: httpx.Client, at: Town, paths: list[str]) -> None:
    """Check that profiles have their user's name and exact counts."""
    for path in paths:
        answer, user = _ask(http, path), _node(path)
        expected(answer["displayName"], name_of(user), path)
        expected(answer["followersCount"], int((at.edges[:, 1] == user).sum()), path)


def _user_paths(at: Town) -> list[str]:
    return [f"/users/{user}" for user in _drawn(at.profiles, 5).tolist()]


def user_http(folder: Path) -> list[Figure]:
    """A profile, with its counts."""
    load, at = _read(folder, "user-http", _user_paths, check_users, least_bytes=200)
    return _figures("user-http", load, "profiles/s", ">= 15,000", at.says)


def check_posts(http: httpx.Client, at: Town, paths: list[str]) -> None:
    """Check that posts have their text and author."""
    authors = dict(at.posts.tolist())
    for path in paths:
        answer, post = _ask(http, path), _node(path)
        expected(answer["content"]["text"], text_of(post), path)
        expected(answer["author"]["displayName"], name_of(authors[post]), path)


def _post_paths(at: Town) -> list[str]:
    return [f"/posts/{post}" for post in _drawn(at.posts[:, 0], 6).tolist()]


def post_http(folder: Path) -> list[Figure]:
    """A post, with its author and numbers."""
    load, at = _read(folder, "post-http", _post_paths, check_posts, least_bytes=400)
    return _figures("post-http", load, "posts/s", ">= 12,000", at.says)


# Durable writes


def _likes(at: Town) -> list[bytes]:
    chosen = np.random.default_rng(8)
    posts = chosen.choice(at.posts[:, 0], _WRITES).tolist()
    users = chosen.integers(1, at.users, _WRITES).tolist()
    return [
        request("POST", f"{API}/posts/{post}/like", KEY, user=user) for post, user in zip(posts, users, strict=True)
    ]


def like_http(folder: Path) -> list[Figure]:
    """Likes of random posts by random users, no request twice, durable."""
    at = town(folder)
    settings = at.copied("like-http")
    with server(settings):
        with client(settings) as http:
            liked = http.post(f"/posts/{at.posts[0, 0]}/like").raise_for_status().json()
            expected((liked["liked"], liked["likeCount"]), (True, 1), "the first like")
        load = run(
            settings.port, functools.partial(_likes, at),
            connections=_WRITE_CONNECTIONS, seconds=SECONDS, once=True, least_bytes=60,
        )  # fmt: skip
    return _figures("like-http", load, "likes/s", ">= 6,000", at.says)


def _new_posts(at: Town) -> list[bytes]:
    authors = _drawn(at.profiles, 9, _WRITES).tolist()
    return [
        request("POST", f"{API}/posts", KEY, b'{"content":{"text":"%s"}}' % text_of(number).encode(), author)
        for number, author in enumerate(authors)
    ]


def post_create_http(folder: Path) -> list[Figure]:
    """Durable new posts of users who have a profile and followers; the worker fans them out meanwhile."""
    at = town(folder)
    settings = at.copied("post-create-http")
    with server(settings):
        with client(settings) as http:
            made_at = http.post("/posts", json={"content": {"text": "first"}}).raise_for_status().json()["id"]
            expected(_ask(http, f"/posts/{made_at}")["content"]["text"], "first", "the first post")
        load = run(
            settings.port, functools.partial(_new_posts, at),
            connections=_WRITE_CONNECTIONS, seconds=SECONDS, once=True, least_bytes=200,
        )  # fmt: skip
    return _figures("post-create-http", load, "posts/s", ">= 4,000", at.says)


def _figures(name: str, load: Load, unit: str, budget: str, says: str) -> list[Figure]:
    return [
        Figure(name, load.rate, unit, budget, data=says),
        Figure(f"{name}-p99", load.p99_ms, "ms", "", data=says),
    ]
