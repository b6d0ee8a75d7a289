"""Claims of Idempotency-Keys: for 24 h a key stands for one request, and for the id and version of what it made."""

from __future__ import annotations

import hashlib

from kith.core.clock import Hlc, ms_of
from kith.core.errors import BadRequest, IdempotencyKeyReused
from kith.core.ids import NodeId
from kith.records.store import Claim

KEY_CHARS_MAX = 200
KEY_KEPT_MS = 24 * 3_600_000
_DIGEST_BYTES = 16


def check_key(key: str) -> None:
    """BadRequest for an Idempotency-Key with a forbidden length or character."""
    if not (0 < len(key) <= KEY_CHARS_MAX and key.isascii() and key.isprintable()):
        raise BadRequest(f"Idempotency-Key must have 1 to {KEY_CHARS_MAX} printable ASCII characters")


def claim_of(
    noun: str, actor: NodeId, key: str, asked: bytes, id_: int, version: Hlc, keep_ms: int = KEY_KEPT_MS
) -> Claim:
    """The claim of a key by `actor`. `noun`: the kind of thing to make. `asked`: the request as bytes. `id_` and
    `version`: those of the thing that the request makes.

    BadRequest for a key with a forbidden length or character. Equal keys of different actors or nouns do not collide.
    """
    check_key(key)
    name = _digest(noun.encode() + actor.to_bytes(8, "big") + key.encode())
    value = (_digest(asked) if asked else _NOTHING_ASKED) + id_.to_bytes(8, "big") + version.to_bytes(8, "big")
    return Claim(name, value, ms_of(version), keep_ms)


def first_of(value: bytes, claim: Claim) -> tuple[NodeId, Hlc]:
    """The id and version from the first claim of this key. `value` is that claim's value.

    IdempotencyKeyReused if that claim was for another request.
    """
    if not is_same_request(value, claim):
        raise IdempotencyKeyReused(
            "this Idempotency-Key was used with other content before; use a new key for something new"
        )
    made = value[_DIGEST_BYTES:]
    return NodeId(int.from_bytes(made[:8], "big")), Hlc(int.from_bytes(made[8:], "big"))


def is_same_request(value: bytes, claim: Claim) -> bool:
    """Whether `value`, the value of another claim of this key, is for the same request."""
    return value[:_DIGEST_BYTES] == claim.value[:_DIGEST_BYTES]


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


_NOTHING_ASKED = _digest(b"")
