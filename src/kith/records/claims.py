"""What an Idempotency-Key stands for, for 24 h: what was asked with it, and the id and version of what was made."""

from __future__ import annotations

import hashlib

from kith.core.clock import Hlc, ms_of
from kith.core.errors import BadRequest, IdempotencyKeyReused
from kith.core.ids import NodeId
from kith.records.store import Claim

KEY_CHARS_MAX = 200
KEY_KEPT_MS = 24 * 3_600_000
_DIGEST_BYTES = 16


def claim_of(noun: str, actor: NodeId, key: str, asked: bytes, id_: int, version: Hlc) -> Claim:
    """The claim of `actor`'s key to make the `noun` that these bytes ask for, under this id and version.

    BadRequest for a key that cannot be kept. Keys of different actors and nouns have nothing to do with each other.
    """
    if not (0 < len(key) <= KEY_CHARS_MAX and key.isascii() and key.isprintable()):
        raise BadRequest(f"Idempotency-Key must have 1 to {KEY_CHARS_MAX} printable ASCII characters")
    name = _digest(noun.encode() + actor.to_bytes(8, "big") + key.encode())
    value = _digest(asked) + id_.to_bytes(8, "big") + version.to_bytes(8, "big")
    return Claim(name, value, ms_of(version), KEY_KEPT_MS)


def first_of(value: bytes, claim: Claim) -> tuple[NodeId, Hlc]:
    """The id and version that the first claim of the same key stands for. IdempotencyKeyReused where it asked for
    something else.
    """
    asked, made = value[:_DIGEST_BYTES], value[_DIGEST_BYTES:]
    if asked != claim.value[:_DIGEST_BYTES]:
        raise IdempotencyKeyReused(
            "this Idempotency-Key came with other content before; use a new key for something new"
        )
    return NodeId(int.from_bytes(made[:8], "big")), Hlc(int.from_bytes(made[8:], "big"))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
