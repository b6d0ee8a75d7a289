"""What a call can raise, beside `kith.core.errors.BadRequest` for an argument that is no id, graph or program.

    ClientError
    ├── ApiError       the service answered, and the answer is no (or is not Kith's)
    └── Unreachable    no answer came, in all tries

None of them holds the key. All can be pickled, so they cross process borders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INVALID_ANSWER = "INVALID_ANSWER"


class ClientError(Exception):
    """Base of both."""


class ApiError(ClientError):
    """An answer that is no success, after the retries that its status allows.

    `code` is what to switch on: one of `kith.core.errors`, `HTTP_<status>` if the answer came from something
    in front of the service, or `INVALID_ANSWER` if a success could not be read. `retry_after_s` is what the
    service asked for, where it did.
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
    """No answer from `url` in `tries` tries. A write may still have happened; repeating it is safe, but for an upload,
    and for what takes a `key` where none was given: look first.
    """

    def __init__(self, url: str, tries: int, reason: str) -> None:
        super().__init__(url, tries, reason)
        self.url = url
        self.tries = tries
        self.reason = reason

    def __str__(self) -> str:
        tries = "1 try" if self.tries == 1 else f"{self.tries} tries"
        return f"no answer from {self.url} in {tries} ({self.reason}); is the server running?"
