"""Read your own writes: the token that a write answers with, and reads that see what it stands for."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from kith.core.events import NOWHERE
from kith.core.tokens import WriteMark, WriteTokens, lost_write
from kith.log.store import LogStore

TOKEN_HEADER = "kith-token"  # noqa: S105 - a header's name
TOKENS_MAX = 16
"""Tokens that a request may carry, with dots between them: of writes that its client sent at the same time."""


class Consistency:
    """Issues and honours tokens.

    `observe`: told of each version that a token carries (see `HybridClock.observe`), so that what a user writes next is
    newer than what they wrote on another host.
    """

    def __init__(self, tokens: WriteTokens, log: LogStore, observe: Callable[[int], None]) -> None:
        self._tokens, self._log, self._observe = tokens, log, observe

    def token(self, mark: WriteMark) -> str | None:
        """The token of a write; None if it changed nothing."""
        return None if mark.at == NOWHERE else self._tokens.issue(mark)

    def both(self, one: WriteMark, other: WriteMark) -> WriteMark:
        """The mark of two writes."""
        return WriteMark(self._log.joined(one.at, other.at), max(one.updated_at, other.updated_at))

    async def catch_up(self, token: str) -> WriteMark:
        """Wait until the log shows the writes that `token` stands for, one or several; their mark. Conflict if this
        store does not have them, because it was restored from a backup.
        """
        marks = [self._tokens.read(one) for one in token.split(".", TOKENS_MAX)]
        for mark in marks:
            if not await self._log.reached(mark.at):
                raise lost_write()
            self._observe(mark.updated_at)
        return reduce(self.both, marks)
