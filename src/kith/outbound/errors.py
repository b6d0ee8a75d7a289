"""The error of a request to a foreign address that got no answer. An answer of any status is no error."""

from __future__ import annotations

import enum


class SendFault(enum.Enum):
    """What went wrong."""

    URL = "url"  # the URL cannot be called at all
    REFUSED = "refused"  # the host has an address that must not be called
    UNRESOLVED = "unresolved"
    UNREACHED = "unreached"
    TLS = "tls"
    TIMEOUT = "timeout"
    BROKEN = "broken"  # the connection ended before the whole answer, or the answer is not HTTP
    RESTING = "resting"  # not tried: the circuit of the host is open


class SendFailed(Exception):
    """A request got no answer. The message names the host, never the rest of the URL, which may hold a secret.

    `retry_after_s`: how long the host still rests; 0 for other faults.
    """

    def __init__(self, fault: SendFault, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.fault, self.message, self.retry_after_s = fault, message, retry_after_s
