"""Sends requests to a server and reads its answers."""

from __future__ import annotations

from typing import Any

import httpx
from servers import API, eventually

from kith.core.clock import wall_ms

NO_PROFILE = {
    "username": None, "displayName": "", "bio": "", "avatar": None, "avatarUrl": None, "isVerified": False,
    "attributes": {}, "labels": [],
}  # fmt: skip
"""The profile fields of a user who never set any."""
PAGINATION = {"nextCursor", "prevCursor", "hasMore"}


def ok(response: httpx.Response, status: int = 200) -> Any:
    """The body of an answer. Fails if it has another status."""
    assert response.status_code == status, response.text
    return response.json()


def code(response: httpx.Response, status: int) -> str:
    """The error code of an answer. Fails if it has another status, or is no well-formed error."""
    body = ok(response, status)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "details"}
    assert len(body["error"]["message"]) > 10
    assert isinstance(body["error"]["details"], dict)
    assert response.headers["content-type"] == "application/json"
    return str(body["error"]["code"])


def upload(http: httpx.Client, data: bytes, **text: str) -> Any:
    """Upload a file; returns the answer."""
    return ok(http.post(f"{API}/media", files={"file": ("x", data)}, data=text), 201)


def ids(body: Any) -> list[int]:
    """The ids of a page."""
    return [int(item["id"]) for item in body["items"]]


def add_edges(http: httpx.Client, graph: str, *edges: tuple[int, int], **fields: Any) -> Any:
    """Add edges through the bulk route."""
    rows = [{"op": "add", "source": str(a), "destination": str(b), **fields} for a, b in edges]
    return ok(http.post(f"{API}/graph/{graph}/edges", json={"edges": rows}))


def check(http: httpx.Client, graph: str, source: int, destination: int) -> bool:
    """Whether the edge exists, by the check route."""
    return bool(ok(http.get(f"{API}/graph/{graph}/{source}/{destination}"))["exists"])


def wait_next_ms() -> None:
    """Wait until the next millisecond. Of two edges with the same time, the one with the greater id is listed first."""
    now = wall_ms()
    while wall_ms() == now:
        pass


def finish(http: httpx.Client, started: httpx.Response) -> Any:
    """Wait for the job that an answer started; returns the finished job."""
    job = ok(started, 202)["job"]
    assert set(job) == {"id", "operation", "user", "edges", "done"}
    return eventually(lambda: (found := ok(http.get(f"{API}/jobs/{job['id']}")))["done"] and found)


def tell(http: httpx.Client, text: str = "look", **fields: Any) -> str:
    """Create a story; returns its id."""
    return str(ok(http.post(f"{API}/stories", json={"content": {"text": text}, **fields}), 201)["id"])


def walk(http: httpx.Client, path: str, limit: int) -> tuple[list[list[int]], list[Any]]:
    """All pages of a list, newest first: the ids of each page, and the answers."""
    pages, bodies, cursor = [], [], None
    for _ in range(1_000):
        body = ok(http.get(path, params={"limit": limit, **({"cursor": cursor} if cursor else {})}))
        assert set(body["pagination"]) == PAGINATION
        pages.append(ids(body))
        bodies.append(body)
        cursor = body["pagination"]["nextCursor"]
        assert body["pagination"]["hasMore"] == (cursor is not None)
        if cursor is None:
            return pages, bodies
    raise AssertionError("this list does not end")


def make(http: httpx.Client, text: str = "hello", **fields: Any) -> str:
    """Create a post; returns its id."""
    return str(ok(http.post(f"{API}/posts", json={"content": {"text": text}, **fields}), 201)["id"])


def home(http: httpx.Client) -> list[int]:
    """The ids of the posts at the reader's home, newest first."""
    return [int(post["id"]) for post in ok(http.get(f"{API}/feed?type=latest"))["posts"]]


def say(http: httpx.Client, post: str, text: str, **fields: Any) -> str:
    """Create a comment; returns its id."""
    return str(ok(http.post(f"{API}/posts/{post}/comments", json={"text": text, **fields}), 201)["id"])


def texts(http: httpx.Client, path: str, **params: Any) -> list[str]:
    """The texts of all pages of a list."""
    found, cursor = [], None
    for _ in range(100):
        body = ok(http.get(API + path, params={**params, **({"cursor": cursor} if cursor else {})}))
        assert set(body["pagination"]) == PAGINATION
        found += [item["text"] if "text" in item else item["content"]["text"] for item in body["items"]]
        cursor = body["pagination"]["nextCursor"]
        if cursor is None:
            return found
    raise AssertionError("this list does not end")
