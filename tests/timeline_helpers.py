"""Short helpers to read and fill timelines."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from blocking_timelines import BlockingTimelines

from kith.graph.shapes import Ids


def ids(*values: int) -> Ids:
    return np.array(values, np.int64)


def shown(store: BlockingTimelines, user: int) -> list[int] | None:
    """A timeline as a list."""
    found = store.read(user)
    assert found is None or found.ids.dtype == np.int64
    return None if found is None else found.ids.tolist()


def push_all(store: BlockingTimelines, posts: Iterable[int], user: int) -> None:
    """Push each post to one user."""
    for post in posts:
        store.push(post, ids(user))


def floor(store: BlockingTimelines, user: int) -> int | None:
    """The id above which a timeline is complete; None if there is no timeline."""
    found = store.read(user)
    return None if found is None else found.floor


def withheld_rate_min(store: BlockingTimelines, user: int) -> int:
    """The lowest rate that was withheld from a timeline; 0 if there is no timeline."""
    found = store.read(user)
    return 0 if found is None else found.withheld_rate_min
