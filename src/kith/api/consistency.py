"""Read your own writes: the token that a write answers with, and reads that see what it stands for."""

from __future__ import annotations

from kith.core.events import NOWHERE, LogPosition
from kith.core.tokens import WriteMark, WriteTokens, lost_write
from kith.log.store import LogStore

TOKEN_HEADER = "kith-token"  # noqa: S105 - a header's name


class Consistency:
    """Issues and honours tokens."""

    def __init__(self, tokens: WriteTokens, log: LogStore) -> None:
        self._tokens, self._log = tokens, log

    def token(self, mark: WriteMark) -> str | None:
        """The token of a write; None if it changed nothing."""
        return None if mark.at == NOWHERE else self._tokens.issue(mark)

    def both(self, one: WriteMark, other: WriteMark) -> WriteMark:
        """The mark of two writes."""
        return WriteMark(self._log.joined(one.at, other.at), max(one.updated_at, other.updated_at))

    def place_of(self, token: str | None) -> LogPosition:
        """The place in the log that a reader with this token must see."""
        return NOWHERE if token is None else self._tokens.read(token).at

    async def catch_up(self, token: str) -> None:
        """Wait until the log shows the write that `token` stands for. Conflict if this store does not have it, because
        it was restored from a backup.
        """
        if not await self._log.reached(self.place_of(token)):
            raise lost_write()
