"""A TimelineStore with synchronous calls, for tests without concurrency."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from coroutines import run_without_loop

from kith.engines.embedded.timeline_store import RingReader
from kith.graph.shapes import Ids
from kith.home.timelines import Habits, Timeline


class BlockingTimelines:
    """`store`: a TimelineStore, or a TimelineReader if the test only reads. `run`: runs the coroutine of a call.

    `put` begins a build and ends it.
    """

    def __init__(self, store: Any, run: Callable[..., Any] = run_without_loop) -> None:
        self.store, self._run = store, run

    def read(self, user: int) -> Timeline | None:
        return self._run(self.store.read(user))  # type: ignore[no-any-return]

    def touch(self, user: int) -> None:
        """Read the timeline as its user."""
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
        """End a build with `put`. Returns whether the build was still valid."""
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
    """A reader of the embedded engine's timelines. Another process may write them."""
    return BlockingTimelines(RingReader(folder))
