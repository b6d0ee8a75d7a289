"""A TimelineStore whose calls are waited for one by one, for tests in which nobody else does anything meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from coroutines import at_once

from kith.engines.embedded.timeline_store import RingReader
from kith.graph.shapes import Ids
from kith.home.timelines import Habits, Timeline


class BlockingTimelines:
    """`store`: a TimelineStore, or a TimelineReader, of which only reads are asked. `run`: how a call is waited for.

    A build is begun and put in one.
    """

    def __init__(self, store: Any, run: Callable[..., Any] = at_once) -> None:
        self.store, self._run = store, run

    def read(self, user: int) -> Timeline | None:
        return self._run(self.store.read(user))  # type: ignore[no-any-return]

    def touch(self, user: int) -> None:
        """The user reads the timeline."""
        self._run(self.store.read(user, by_user=True))

    def count(self) -> int:
        return self._run(self.store.count())  # type: ignore[no-any-return]

    def name(self) -> int:
        return self._run(self.store.name())  # type: ignore[no-any-return]

    def push(self, post: int, users: Ids) -> int:
        return self._run(self.store.push(post, users))  # type: ignore[no-any-return]

    def habits(self, users: Ids) -> Habits:
        return self._run(self.store.habits(users))  # type: ignore[no-any-return]

    def withhold(self, rate: int, users: Ids) -> None:
        self._run(self.store.withhold(rate, users))

    def begin(self, user: int) -> int:
        return self._run(self.store.begin(user))  # type: ignore[no-any-return]

    def end(self, user: int, ids: Ids, epoch: int) -> bool:
        """The `put` of a build that was begun before."""
        return self._run(self.store.put(user, ids, epoch))  # type: ignore[no-any-return]

    def put(self, user: int, ids: Ids) -> None:
        assert self.end(user, ids, self.begin(user))

    def drop(self, *users: int) -> int:
        return self._run(self.store.drop(np.array(users, np.int64)))  # type: ignore[no-any-return]

    def clear(self) -> None:
        self._run(self.store.clear())

    def rename(self) -> int:
        return self._run(self.store.rename())  # type: ignore[no-any-return]

    def evict(self, before_ms: int) -> int:
        return self._run(self.store.evict(before_ms))  # type: ignore[no-any-return]


def reading(folder: Path) -> BlockingTimelines:
    """A reader of the embedded engine's timelines, which another process may write."""
    return BlockingTimelines(RingReader(folder))
