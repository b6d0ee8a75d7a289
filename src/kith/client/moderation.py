"""Calls about labels, which the app's moderation puts on posts and users. All need a server key.

As in `graphs`, nothing is sent here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kith.client.answers import Id
from kith.client.asking import BASE, checked_id, checked_word, reader, several
from kith.client.objects import Labels
from kith.client.wire import Call

_labels = reader(Labels)


def labels(kind: Literal["post", "user"], id: Id) -> Call[Labels]:
    """The labels of a post or a user. This and the next two calls need a server key."""
    return Call("GET", _labelled(kind, id), _labels)


def put_labels(
    kind: Literal["post", "user"],
    id: Id,
    labels: Iterable[Literal["hide", "limit", "sensitive"]],
    *,
    reason: str = "",
) -> Call[Labels]:
    """Replace the labels of a post or a user. They apply when the call returns. `reason`: users never see it."""
    return Call("PUT", _labelled(kind, id), _labels, body={"labels": [*several(labels, "labels")], "reason": reason})


def delete_labels(kind: Literal["post", "user"], id: Id) -> Call[Labels]:
    """Remove all labels of a post or a user."""
    return Call("DELETE", _labelled(kind, id), _labels)


def _labelled(kind: str, id_: Id) -> str:
    return f"{BASE}/labels/{checked_word(kind, 'kind')}/{checked_id(id_, kind)}"
