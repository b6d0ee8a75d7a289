"""What the inbox of the reader says about a notification. A pure function, run by Node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from javascript import needs_node, node

from kith.web.site import APP

ASK = """
import { noticeText } from %s;
console.log(noticeText(JSON.parse(process.argv[1]), ({ displayName }) => displayName));
"""


@needs_node
@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"type": "mention", "mentioned": None}, " mentioned you"),
        ({"type": "mention", "mentioned": {"displayName": "Carol follows"}}, " mentioned Carol follows"),
        ({"type": "like", "comment": None}, " liked your post"),
        ({"type": "like", "comment": {"preview": "mine"}}, " liked your comment"),
        ({"type": "comment", "comment": {"preview": "theirs"}}, " commented on your post"),
        ({"type": "like", "comment": None, "actorCount": 2}, " and 1 other liked your post"),
        ({"type": "follow", "actorCount": 3}, " and 2 others follow you"),
        ({"type": "follow_request", "actorCount": 3}, " and 2 others ask to follow you"),
    ],
)
def test_the_inbox_says_what_was_done_and_to_whom(item: dict[str, Any], says: str) -> None:
    script = ASK % json.dumps((APP / "notice-text.js").as_uri())
    asked = json.dumps({"actorCount": 1, **item})
    run = node("--input-type=module", "--eval", script, "--", asked, cwd=Path.cwd())
    assert run.stdout.removesuffix("\n") == says, run.stderr
