"""The tokens that watchers keep: a position of the log, and a mark by which we know it again.

How far the log is is no secret from server keys, so a keyed digest is enough for theirs: a history is read at a few
microseconds a change, of which sealing a token as cursors are would be the half. Those of users are sealed.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import urlsafe_b64decode
from binascii import b2a_base64

from kith.core.events import LogPosition
from kith.core.signing import Signer

_MARK_BYTES = 8
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_BEGINNING = b"\0"
"""Before every position, since none that is empty can be sealed."""


class WatchTokens:
    """Makes and reads the tokens of a store with this secret."""

    def __init__(self, secret: bytes) -> None:
        self._keyed = hashlib.blake2b(key=secret[:64], digest_size=_MARK_BYTES, person=b"kith watch token")

    def issue(self, at: LogPosition) -> str:
        """The token of a position."""
        keyed = self._keyed.copy()
        keyed.update(at)
        return b2a_base64(keyed.digest() + at, newline=False).translate(_URL_SAFE, b"=").decode()

    def read(self, token: str) -> LogPosition | None:
        """The position of a token; None if it was not issued here."""
        try:
            raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError):
            return None
        at = LogPosition(raw[_MARK_BYTES:])
        return at if hmac.compare_digest(self.issue(at), token) else None


class UserWatchTokens:
    """As `WatchTokens`, for users: they tell nobody how much is written here."""

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret, "watch-token")

    def issue(self, at: LogPosition) -> str:
        """The token of a position."""
        return self._signer.seal(_BEGINNING + at)

    def read(self, token: str) -> LogPosition | None:
        """The position of a token; None if it was not issued here to a user."""
        payload = self._signer.open(token)
        return None if payload is None else LogPosition(payload.removeprefix(_BEGINNING))
