"""`Kith-Signature`: proves to a receiver that a delivery is ours and complete, and when it was sent.

t=<seconds since the epoch>,v1=<HMAC-SHA256 in hex, with the webhook's secret, over "<t>." and the body>
"""

from __future__ import annotations

import hashlib
import hmac


def sign(secret: str, body: bytes, now_s: int) -> str:
    """The value of the header for a body that is sent at `now_s`."""
    digest = hmac.new(secret.encode(), b"%d." % now_s + body, hashlib.sha256).hexdigest()
    return f"t={now_s},v1={digest}"
