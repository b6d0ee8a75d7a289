"""An unknown word in a body is refused, and the error lists the allowed words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from calls import code
from servers import API

pytestmark = pytest.mark.usefixtures("nothing_changes")


@pytest.mark.parametrize(
    ("method", "path", "body", "choices"),
    [
        ("POST", "/posts", {"content": {"text": "x"}, "visibility": "followers"}, "public, friends, private, custom"),
        ("PUT", "/preferences", {"mentions": "all"}, "me, none, these, followed"),
        ("PUT", "/labels/post/1", {"labels": ["nsfw"]}, "hide, limit, sensitive"),
        (
            "POST",
            "/graph/follows/edges",
            {"edges": [{"op": "ad", "source": 1, "destination": 2}]},
            "add, move, remove, archive, negate",
        ),
    ],
)
def test_an_unknown_word_is_refused_with_the_allowed_words(
    http: httpx.Client,
    acting: Callable[[int], httpx.Client],
    method: str,
    path: str,
    body: dict[str, Any],
    choices: str,
) -> None:
    answer = (acting(1) if path in ("/posts", "/preferences") else http).request(method, API + path, json=body)
    assert code(answer, 400) == "INVALID_REQUEST"
    said = answer.json()["error"]["message"].partition("it must be one of ")[2].partition(";")[0]
    assert sorted(said.split(", ")) == sorted(choices.split(", "))
