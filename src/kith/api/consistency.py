"""Read your own writes: the token that a write answers with, and reads that see what it stands for."""

from __future__ import annotations

from collections.abc import Callable

from kith.core.tokens import WriteMark, WriteTokens, lost_write

TOKEN_HEADER = "kith-token"  # noqa: S105 - a header's name


class Consistency:
    """Issues and honours tokens. `sequence`: how far the log has come here."""

    def __init__(self, tokens: WriteTokens, sequence: Callable[[], int]) -> None:
        self._tokens, self._sequence = tokens, sequence

    def token(self, mark: WriteMark) -> str | None:
        """The token of a write; None if it changed nothing."""
        return self._tokens.issue(mark) if mark.sequence else None

    def place_of(self, token: str | None) -> int:
        """The place in the log that a reader with this token must see; 0 without one."""
        return 0 if token is None else self._tokens.read(token).sequence

    def catch_up(self, token: str) -> None:
        """Make sure this process sees the write that `token` stands for.

        The embedded engine's reads see every acknowledged write of any process, so there is nothing to wait for; what
        can be is a token from before a restore, whose write this store does not have.
        """
        if self.place_of(token) > self._sequence():
            raise lost_write()
