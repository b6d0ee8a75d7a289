"""Why a request to a foreign address has no answer."""

from __future__ import annotations

import enum


class SendFault(enum.Enum):
    """What went wrong."""

    URL = "url"  # it cannot be called at all
    REFUSED = "refused"  # its host has an address that must not be called
    UNRESOLVED = "unresolved"
    UNREACHED = "unreached"
    TLS = "tls"
    TIMEOUT = "timeout"
    BROKEN = "broken"  # the connection ended before the answer, or the answer is no HTTP
    RESTING = "resting"  # not tried: its host failed lately


class SendFailed(Exception):
    """There is no answer. The message names the host and never the rest of the URL, which may hold a secret.

    `retry_after_s`: where the host rests, for how long; else 0.
    """

    def __init__(self, why: SendFault, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.why, self.message, self.retry_after_s = why, message, retry_after_s
