"""Every error that a caller can get, in one small tree.

    KithError
    ├── BadRequest          the request cannot be served as written
    │   ├── SelfEdge · BadId · BadCursor · BadToken · BatchTooLarge · BodyTooLarge · ProgramTooComplex
    │   └── ClockTooFarAhead · InvalidContent · RangeNotSatisfiable
    ├── Unauthorized        no credentials, or invalid ones
    ├── Forbidden           the caller is known, but may not do this
    ├── NotFound            it does not exist, or the caller may not see it
    │   └── UnknownGraph · UserNotFound · PostNotFound · CommentNotFound · StoryNotFound · MediaNotFound
    │       · BoardNotFound · WebhookNotFound · DeviceNotFound
    ├── MethodNotAllowed    the path exists, for another method
    ├── Conflict            allowed in general, but not in the current state
    │   ├── FollowLimitReached · RequesterLimitReached · IdempotencyKeyReused · UsernameTaken · WebhookLimitReached
    │   └── TokenTooOld · BoardLimitReached · NotFollowing · DeviceLimitReached
    ├── RateLimited         too many requests in a window of time; `retry_after_s` says when to retry
    ├── TooManyStreams      too many streams open at once
    ├── Unavailable         the service cannot do it now; a write that was started may still be done
    │   ├── StoreFull · StoreUnavailable · Overloaded · TimedOut · LeaseLost · FeedUnavailable
    │   └── ReadOnlyStandby · NotPrimary · StandbyBehind · NotConfirmed · StoreMoved
    └── StoreMismatch       the data folder cannot be opened as asked

`code` is part of the contract: clients switch on it. `message` says what to do next. `details` has the fields that a
program can use. Only `api/errors.py` knows HTTP status numbers.
"""

from __future__ import annotations

from typing import Any, ClassVar


class KithError(Exception):
    """Base of the tree. `details` must be JSON-serialisable and free of secrets."""

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = self.for_clients = message
        self.details = details


class BadRequest(KithError):
    code = "INVALID_REQUEST"


class SelfEdge(BadRequest):
    code = "SELF_EDGE"


class BadId(BadRequest):
    code = "INVALID_ID"


class BadCursor(BadRequest):
    code = "CURSOR_INVALID"


class BadToken(BadRequest):
    """A read-your-writes token that this service did not sign."""

    code = "TOKEN_INVALID"


class BatchTooLarge(BadRequest):
    code = "BATCH_TOO_LARGE"


class BodyTooLarge(BadRequest):
    code = "BODY_TOO_LARGE"


class ProgramTooComplex(BadRequest):
    code = "PROGRAM_TOO_COMPLEX"


class ClockTooFarAhead(BadRequest):
    code = "UPDATED_AT_IN_FUTURE"


class InvalidContent(BadRequest):
    """A post, comment, profile, image or video breaks a rule about its content."""

    code = "INVALID_CONTENT"


class RangeNotSatisfiable(BadRequest):
    """The requested range of bytes begins after the end of the file."""

    code = "RANGE_NOT_SATISFIABLE"


class Unauthorized(KithError):
    code = "UNAUTHORIZED"


class Forbidden(KithError):
    code = "FORBIDDEN"


class NotFound(KithError):
    code = "NOT_FOUND"


class UnknownGraph(NotFound):
    code = "GRAPH_NOT_FOUND"


class UserNotFound(NotFound):
    code = "USER_NOT_FOUND"


class PostNotFound(NotFound):
    """No such post, a deleted one, or one that the viewer may not see; the answer does not say which."""

    code = "POST_NOT_FOUND"


class CommentNotFound(NotFound):
    """Like PostNotFound, for a comment."""

    code = "COMMENT_NOT_FOUND"


class StoryNotFound(NotFound):
    """Like PostNotFound, for a story; also for an expired one."""

    code = "STORY_NOT_FOUND"


class MediaNotFound(NotFound):
    """Like PostNotFound, for a picture or video, or one of their files."""

    code = "MEDIA_NOT_FOUND"


class WebhookNotFound(NotFound):
    code = "WEBHOOK_NOT_FOUND"


class BoardNotFound(NotFound):
    """Like PostNotFound, for a board; also for a secret one, to everyone but its owner and collaborators."""

    code = "BOARD_NOT_FOUND"


class DeviceNotFound(NotFound):
    code = "DEVICE_NOT_FOUND"


class MethodNotAllowed(KithError):
    code = "METHOD_NOT_ALLOWED"


class Conflict(KithError):
    code = "CONFLICT"


class FollowLimitReached(Conflict):
    code = "FOLLOW_LIMIT_REACHED"


class RequesterLimitReached(Conflict):
    """The requester already follows as many as allowed; their request stays."""

    code = "REQUESTER_LIMIT_REACHED"


class IdempotencyKeyReused(Conflict):
    """The user has already sent this key with another request."""

    code = "IDEMPOTENCY_KEY_REUSED"


class UsernameTaken(Conflict):
    """Another user has this name, in this or another spelling."""

    code = "USERNAME_TAKEN"


class WebhookLimitReached(Conflict):
    code = "WEBHOOK_LIMIT_REACHED"


class DeviceLimitReached(Conflict):
    code = "DEVICE_LIMIT_REACHED"


class TokenTooOld(Conflict):
    """The events after a /watch token have been deleted from the log."""

    code = "TOKEN_TOO_OLD"


class BoardLimitReached(Conflict):
    """The user owns as many boards as allowed, or the board has as many collaborators."""

    code = "BOARD_LIMIT_REACHED"


class NotFollowing(Conflict):
    """The user never followed the board that they want to unfollow."""

    code = "NOT_FOLLOWING"


class RateLimited(KithError):
    code = "RATE_LIMITED"

    def __init__(self, message: str, *, retry_after_s: float, limit: int, window_s: float) -> None:
        super().__init__(message, retryAfterSeconds=round(retry_after_s, 3), limit=limit, windowSeconds=window_s)
        self.retry_after_s = retry_after_s
        self.limit = limit
        self.window_s = window_s


class TooManyStreams(KithError):
    """The user has as many open streams as allowed: `limit` at once, not per window of time."""

    code = "TOO_MANY_STREAMS"

    def __init__(self, message: str, *, retry_after_s: float, limit: int) -> None:
        super().__init__(message, retryAfterSeconds=retry_after_s, limit=limit)
        self.retry_after_s = retry_after_s


class Unavailable(KithError):
    code = "UNAVAILABLE"


class StoreFull(Unavailable):
    """There is no room for the write. Reads work and nothing acknowledged is lost. Writes work again once there is
    room.
    """

    code = "STORE_FULL"


class StoreUnavailable(Unavailable):
    """A store does not answer. `for_clients`: the message for clients, if `message` has details of a driver."""

    code = "STORE_UNAVAILABLE"

    def __init__(self, message: str, *, for_clients: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.for_clients = for_clients or message


class Overloaded(Unavailable):
    """A bounded queue is full; the request was not started."""

    code = "OVERLOADED"


class TimedOut(Unavailable):
    """The deadline passed. A write may still complete: repeat it, with an Idempotency-Key if the operation
    takes one.
    """

    code = "TIMEOUT"


class LeaseLost(Unavailable):
    """This process lost the lease for work that only one process may do."""

    code = "LEASE_LOST"


class FeedUnavailable(Unavailable):
    """No feed can be made now, not even by the slower way. `details.cause` is the code of the underlying error."""

    code = "FEED_UNAVAILABLE"


class ReadOnlyStandby(Unavailable):
    """A standby refuses writes. `details.primary`: where to send them."""

    code = "READ_ONLY_STANDBY"


class NotPrimary(Unavailable):
    """Another machine became the primary; this one refuses writes. `details.primary`: where to send them."""

    code = "NOT_PRIMARY"


class StoreMoved(Unavailable):
    """This store was moved elsewhere and refuses writes. `details.to`: where it is now."""

    code = "STORE_MOVED"


class StandbyBehind(Unavailable):
    """This standby does not have the token's write yet. Retry, or ask the primary."""

    code = "STANDBY_BEHIND"


class NotConfirmed(Unavailable):
    """No standby has confirmed the write yet, as `standby_mode` requires; or no owner in a cluster answered.

    The write may still be done: repeat it.
    """

    code = "OUTCOME_UNKNOWN"


class StoreMismatch(KithError):
    """The data folder cannot be opened as asked: another format, other settings, damage, or no data folder at all."""

    code = "STORE_MISMATCH"
