"""Every error that a caller can get, in one small tree.

    KithError
    ├── BadRequest          the request cannot be served as written
    │   ├── SelfEdge · BadId · BadCursor · BadToken · BatchTooLarge · BodyTooLarge · ProgramTooComplex
    │   └── ClockTooFarAhead · InvalidContent · RangeNotThere
    ├── Unauthorized        no credentials, or invalid ones
    ├── Forbidden           the caller is known, and may not do this
    ├── NotFound            it does not exist, or the caller must not see it
    │   └── UnknownGraph · UserNotFound · PostNotFound · CommentNotFound · StoryNotFound · MediaNotFound
    │       · BoardNotFound · WebhookNotFound · DeviceNotFound
    ├── MethodNotAllowed    the path exists, for another method
    ├── Conflict            allowed in general, but not in the present state
    │   ├── FollowLimitReached · RequesterLimitReached · IdempotencyKeyReused · UsernameTaken · WebhookLimitReached
    │   └── TokenTooOld · BoardLimitReached · NotFollowing · DeviceLimitReached
    ├── RateLimited         too many requests in a window of time; `retry_after_s` says when to try again
    ├── TooManyStreams      too many at once
    ├── Unavailable         the service cannot do it now; a write that had begun may be done all the same
    │   ├── StoreFull · StoreUnavailable · Overloaded · TimedOut · LeaseLost · FeedUnavailable
    │   └── ReadOnlyStandby · NotPrimary · StandbyBehind · NotConfirmed · StoreMoved
    └── StoreMismatch       the data folder cannot be opened as asked

`code` is part of the contract (clients switch on it), `message` says what to do next, `details` holds the fields that a
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


class RangeNotThere(BadRequest):
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
    """No such post, a deleted one, or one that the viewer must not see; the answer does not say which."""

    code = "POST_NOT_FOUND"


class CommentNotFound(NotFound):
    """Like PostNotFound, for a comment."""

    code = "COMMENT_NOT_FOUND"


class StoryNotFound(NotFound):
    """Like PostNotFound, for a story; also where its time is over."""

    code = "STORY_NOT_FOUND"


class MediaNotFound(NotFound):
    """Like PostNotFound, for a picture or video, or one of their files."""

    code = "MEDIA_NOT_FOUND"


class WebhookNotFound(NotFound):
    code = "WEBHOOK_NOT_FOUND"


class BoardNotFound(NotFound):
    """Like PostNotFound, for a board; also a secret one, to all but its members."""

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
    """This user sent the key with another request before."""

    code = "IDEMPOTENCY_KEY_REUSED"


class UsernameTaken(Conflict):
    """Another user has this name, in this spelling or another."""

    code = "USERNAME_TAKEN"


class WebhookLimitReached(Conflict):
    code = "WEBHOOK_LIMIT_REACHED"


class DeviceLimitReached(Conflict):
    code = "DEVICE_LIMIT_REACHED"


class TokenTooOld(Conflict):
    """A token to watch from, behind which events were forgotten."""

    code = "TOKEN_TOO_OLD"


class BoardLimitReached(Conflict):
    """As many boards as a user may own, or members as a board may have."""

    code = "BOARD_LIMIT_REACHED"


class NotFollowing(Conflict):
    """A board to unfollow that the user does not follow, and never did."""

    code = "NOT_FOLLOWING"


class RateLimited(KithError):
    code = "RATE_LIMITED"

    def __init__(self, message: str, *, retry_after_s: float, limit: int, window_s: float) -> None:
        super().__init__(message, retryAfterSeconds=round(retry_after_s, 3), limit=limit, windowSeconds=window_s)
        self.retry_after_s = retry_after_s
        self.limit = limit
        self.window_s = window_s


class TooManyStreams(KithError):
    """The user has the greatest allowed number of open streams: `limit` at once, in no window of time."""

    code = "TOO_MANY_STREAMS"

    def __init__(self, message: str, *, retry_after_s: float, limit: int) -> None:
        super().__init__(message, retryAfterSeconds=retry_after_s, limit=limit)
        self.retry_after_s = retry_after_s


class Unavailable(KithError):
    code = "UNAVAILABLE"


class StoreFull(Unavailable):
    """There is no room for the write. Reads work, nothing acknowledged is lost, and writes work again once there is."""

    code = "STORE_FULL"


class StoreUnavailable(Unavailable):
    """A store does not answer. `for_clients`: what they are told, where `message` says what a driver did."""

    code = "STORE_UNAVAILABLE"

    def __init__(self, message: str, *, for_clients: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.for_clients = for_clients or message


class Overloaded(Unavailable):
    """A bounded queue is full; the request was not started."""

    code = "OVERLOADED"


class TimedOut(Unavailable):
    """The deadline passed. A write may still complete: repeat it, with an Idempotency-Key where one is taken."""

    code = "TIMEOUT"


class LeaseLost(Unavailable):
    """This process lost the lease for work that only one process may do."""

    code = "LEASE_LOST"


class FeedUnavailable(Unavailable):
    """No feed can be made now, not even a slower one. `details.cause` is the code of the error behind it."""

    code = "FEED_UNAVAILABLE"


class ReadOnlyStandby(Unavailable):
    """A standby takes no writes. `details.primary`: where to send them."""

    code = "READ_ONLY_STANDBY"


class NotPrimary(Unavailable):
    """Another machine was made the primary, and this one takes no writes any more. `details.primary`: where to send."""

    code = "NOT_PRIMARY"


class StoreMoved(Unavailable):
    """This store was moved elsewhere, and takes no writes any more. `details.to`: where it is now."""

    code = "STORE_MOVED"


class StandbyBehind(Unavailable):
    """This standby does not have the write of the token yet. Ask again, or ask the primary."""

    code = "STANDBY_BEHIND"


class NotConfirmed(Unavailable):
    """No standby has the write yet, as `standby_mode` requires; or no owner of a cluster answered.

    It may be done all the same: repeat it.
    """

    code = "OUTCOME_UNKNOWN"


class StoreMismatch(KithError):
    """The data folder cannot be opened as asked: another format, other settings, damage, or no data folder at all."""

    code = "STORE_MISMATCH"
