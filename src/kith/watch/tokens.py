"""The tokens that watchers resume from: a log position, and a mark (MAC) that proves it was issued here.

The length of the log is no secret from server keys, so their tokens are only marked, not encrypted. Reading the past
takes 2 to 3 us per change, and sealing each token like a cursor would take half of that. Tokens of users are sealed.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from kith.core.events import LogPosition
from kith.core.signing import Signer

_MARK_BYTES, _BLOCK_BYTES = 8, 16
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_BEGINNING = b"\0"
"""Precedes every sealed position, because an empty position cannot be sealed."""


class WatchTokens:
    """Issues and reads the tokens of a store with this secret.

    A mark is the first 8 bytes of the position encrypted as one AES block. Each length of positions has its own key, so
    that padded positions never collide. A position longer than a block is hashed first.
    """

    def __init__(self, secret: bytes) -> None:
        self._ciphers = [
            Cipher(AES(hashlib.blake2b(b"watch token %d" % length, key=secret[:64], digest_size=32).digest()), ECB())  # noqa: S305
            for length in range(_BLOCK_BYTES + 2)
        ]

    def issue(self, position: LogPosition) -> str:
        """The token of a position."""
        return self.issue_all((position,))[0]

    def issue_all(self, positions: Sequence[LogPosition]) -> list[str]:
        """The tokens of positions. Positions of equal length are encrypted in one call."""
        if len(set(map(len, positions))) != 1:
            return [self.issue(position) for position in positions]
        length = len(positions[0])
        cipher = self._ciphers[min(length, _BLOCK_BYTES + 1)].encryptor()
        packed = _rows_of(positions, length)
        if length > _BLOCK_BYTES:
            blocks = _rows_of(
                [hashlib.blake2b(position, digest_size=_BLOCK_BYTES).digest() for position in positions], _BLOCK_BYTES
            )
        else:
            blocks = np.zeros((len(positions), _BLOCK_BYTES), np.uint8)
            blocks[:, :length] = packed
        marks = np.frombuffer(cipher.update(blocks.tobytes()), np.uint8).reshape(blocks.shape)[:, :_MARK_BYTES]
        padding = np.zeros((len(positions), -(_MARK_BYTES + length) % 3), np.uint8)  # tokens end at a whole character
        raw = np.hstack((marks, packed, padding))
        text = b2a_base64(raw.tobytes(), newline=False).translate(_URL_SAFE).decode()
        width, used = 4 * raw.shape[1] // 3, (8 * (_MARK_BYTES + length) + 5) // 6
        return [text[start : start + used] for start in range(0, len(text), width)]

    def read(self, token: str) -> LogPosition | None:
        """The position of a token; None if it was not issued here."""
        try:
            raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError):
            return None
        position = LogPosition(raw[_MARK_BYTES:])
        return position if hmac.compare_digest(self.issue(position), token) else None


def _rows_of(parts: Sequence[bytes], width: int) -> npt.NDArray[np.uint8]:
    """Parts of equal length, as rows of bytes."""
    return np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), width)


class UserWatchTokens:
    """Like `WatchTokens`, for users: encrypted, so that they do not reveal how much is written here."""

    def __init__(self, secret: bytes) -> None:
        self._signer = Signer(secret, "watch-token")

    def issue(self, position: LogPosition) -> str:
        """The token of a position."""
        return self._signer.seal(_BEGINNING + position)

    def read(self, token: str) -> LogPosition | None:
        """The position of a token; None if it was not issued here to a user."""
        payload = self._signer.open(token)
        return None if payload is None else LogPosition(payload.removeprefix(_BEGINNING))
