"""Read your own writes: a write answers with a token, and reads that carry the token see the write."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from kith.core.events import NOWHERE
from kith.core.tokens import WriteMark, WriteTokens, lost_write_error
from kith.log.store import LogStore

TOKEN_HEADER = "kith-token"  # noqa: S105 - a header's name
TOKENS_MAX = 16
"""Most tokens in one request, separated by dots: a client that sends several writes at once joins their tokens."""


class Consistency:
    """Issues tokens and makes reads wait for them.

    `observe` is called with the version in each token (see `HybridClock.observe`), so that a user's next write is newer
    than the one that they made on another host.
    """

    def __init__(self, tokens: WriteTokens, log: LogStore, observe: Callable[[int], None]) -> None:
        self._tokens, self._log, self._observe = tokens, log, observe

    def token(self, mark: WriteMark) -> str | None:
        """The token of a write; None if the write changed nothing."""
        return None if mark.at == NOWHERE else self._tokens.issue(mark)

    def both(self, first: WriteMark, second: WriteMark) -> WriteMark:
        """A mark that covers two writes."""
        return WriteMark(self._log.joined(first.at, second.at), max(first.updated_at, second.updated_at))

    async def catch_up(self, token: str) -> WriteMark:
        """Wait until the log shows every write in `token`, which may join several tokens; returns their common mark.
        Conflict if this store does not have the writes, because it was restored from a backup.
        """
        marks = [self._tokens.read(part) for part in token.split(".", TOKENS_MAX)]
        for mark in marks:
            if not await self._log.reached(mark.at):
                raise lost_write_error()
            self._observe(mark.updated_at)
        return reduce(self.both, marks)
