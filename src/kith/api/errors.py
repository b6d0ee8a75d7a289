"""Maps Kith's errors to HTTP. Only this file knows status numbers.

The body is `{"error": {"code", "message", "details"}}`, as in the feed article.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import structlog

from kith.core import errors

_STATUS: dict[type[errors.KithError], int] = {
    errors.BatchTooLarge: 413,
    errors.BodyTooLarge: 413,
    errors.RangeNotSatisfiable: 416,
    errors.BadRequest: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.Conflict: 409,
    errors.RateLimited: 429,
    errors.TooManyStreams: 429,
    errors.Unavailable: 503,
}
_log = structlog.get_logger("kith.api")


def status_of(error: errors.KithError) -> int:
    """The status of the error's nearest class in `_STATUS`; 500 if there is none."""
    return _status(type(error))


def _status(kind: type) -> int:
    return next((_STATUS[one] for one in kind.__mro__ if one in _STATUS), 500)


def codes_of(status: int) -> list[str]:
    """The codes that come with a status."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.KithError)]
    return [kind.code for kind in kinds if _status(kind) == status]


def body_of(code: str, message: str, details: dict[str, Any]) -> bytes:
    """The body of an error."""
    return msgspec.json.encode({"error": {"code": code, "message": message, "details": details}})


def headers_of(error: errors.KithError) -> list[tuple[str, str]]:
    """The headers of an error, content type included."""
    headers = [("content-type", "application/json")]
    if isinstance(error, errors.RateLimited):
        headers.append(("retry-after", str(math.ceil(error.retry_after_s))))
        headers.append(("ratelimit", f'"{error.limit}";r=0;t={math.ceil(error.retry_after_s)}'))
        headers.append(("ratelimit-policy", f'"{error.limit}";q={error.limit};w={math.ceil(error.window_s)}'))
    elif isinstance(error, errors.TooManyStreams):
        headers.append(("retry-after", str(math.ceil(error.retry_after_s))))
    elif isinstance(error, errors.Unavailable):
        headers.append(("retry-after", "1"))
    elif isinstance(error, errors.RangeNotSatisfiable):
        headers.append(("content-range", f"bytes */{error.details['size']}"))
    elif isinstance(error, errors.MethodNotAllowed):
        headers.append(("allow", error.details["allow"]))
    elif isinstance(error, errors.Unauthorized):
        headers.append(("www-authenticate", "Bearer"))
    return headers


def respond(error: errors.KithError) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body of an error. Details that clients must not see go to the log."""
    if error.for_clients != error.message:
        _log.warning("a request could not be answered", code=error.code, error=error.message)
    return status_of(error), headers_of(error), body_of(error.code, error.for_clients, error.details)


def unexpected(error: Exception, where: str) -> errors.KithError:
    """The error for an unexpected exception: the log has the details, the client learns nothing of it."""
    _log.error("unexpected error", where=where, exc_info=error)
    return errors.KithError("something went wrong here; the server's log says what")
