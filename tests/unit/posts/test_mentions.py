"""The usernames that a text mentions."""

from __future__ import annotations

import pytest

from kith.posts.mentions import mentioned_names

CASES = {
    "@bob": ["bob"],
    "hi @Bob, @bob. And @ann!": ["bob", "ann"],
    "a@bob.com": [],
    "https://x.example/@bob": [],
    "@bob@host.example": [],
    "@bob\u00e9": [],
    "@jose\u0301": [],
    "caf\u00e9@bob": [],
    "\uff20\uff42\uff4f\uff42": ["bob"],  # full width
    "\u65e5\u672c\u8a9e@bob\u3055\u3093": ["bob"],  # no spaces between words
    "@a.b.c...": ["a.b.c"],
    "(@bob's)": ["bob"],
    "@@bob": [],
    "nobody": [],
}


@pytest.mark.parametrize(("text", "names"), CASES.items())
def test_the_mentioned_names_are_found(text: str, names: list[str]) -> None:
    assert mentioned_names(text) == names
