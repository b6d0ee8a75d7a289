"""The errors of calls. Calls also raise `kith.core.errors.BadRequest` for an argument that is no id, graph or program.

    ClientError
    ├── ApiError       the service answered with an error, or something that is no answer of Kith
    └── Unreachable    no try was answered

No error contains the key. All can be pickled, so they can be passed between processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INVALID_ANSWER = "INVALID_ANSWER"


class ClientError(Exception):
    """Base class of both errors."""


class ApiError(ClientError):
    """The service answered with an error, after the retries that its status allows.

    Switch on `code`: one of `kith.core.errors`; `HTTP_<status>` if the answer came from something in front of the
    service, such as a proxy; `INVALID_ANSWER` if a successful answer could not be read. `retry_after_s`: what the
    service's `Retry-After` says; None if it sent none.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(status, code, message, details, retry_after_s)
        self.status = status
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.message}"


class Unreachable(ClientError):
    """No answer from `url` in `tries` tries. A write may still have happened.

    Repeating the call is safe, with two exceptions: uploads, and calls that take an idempotency `key` and got none.
    Before you repeat these, check whether they took effect.
    """

    def __init__(self, url: str, tries: int, reason: str) -> None:
        super().__init__(url, tries, reason)
        self.url = url
        self.tries = tries
        self.reason = reason

    def __str__(self) -> str:
        tries = "1 try" if self.tries == 1 else f"{self.tries} tries"
        return f"no answer from {self.url} in {tries} ({self.reason}); is the server running?"
