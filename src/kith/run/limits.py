"""Makes the limits of the API and its services from the settings. Pure; `services` and `api` pass the limits on.

`opening.wiring` makes the limits of relations, such as how many users one may follow.
"""

from __future__ import annotations

from kith.access.guard import RateLimits
from kith.access.quotas import QuotaName
from kith.access.sliding_window import Quota
from kith.api.door import RequestLimits
from kith.api.forms import FORM_BYTES
from kith.api.resources.stream import StreamLimits
from kith.media.library import MediaLimits
from kith.run.config import Settings


def bounds(settings: Settings) -> RequestLimits:
    """Bounds of a request: bytes and seconds, for ordinary requests and for uploads."""
    return RequestLimits(
        settings.body_bytes_max,
        settings.request_timeout_ms / 1000,
        max(settings.media_image_bytes_max, settings.media_video_bytes_max) + FORM_BYTES,
        settings.upload_timeout_ms / 1000,
    )


def rates(settings: Settings) -> RateLimits:
    """Requests a second that one API process allows: its share of the setting, rounded up."""
    totals = (
        settings.rate_user_read, settings.rate_user_write, settings.rate_server_read, settings.rate_server_write
    )  # fmt: skip
    return RateLimits(*(-(-rate // settings.api_processes) for rate in totals))


def quotas(settings: Settings) -> dict[QuotaName, Quota]:
    """Quotas of a user per minute or hour, by kind; a kind that is missing has no quota."""
    by_kind: dict[QuotaName, Quota] = {
        "feed": Quota(settings.rate_feed_per_minute, 60),
        "posts": Quota(settings.rate_posts_per_hour, 3_600),
        "engagement": Quota(settings.rate_engagement_per_minute, 60),
        "media": Quota(settings.rate_media_per_hour, 3_600),
    }
    return {kind: quota for kind, quota in by_kind.items() if quota.limit}


def streams(settings: Settings) -> StreamLimits:
    """Bounds of open streams."""
    return StreamLimits(settings.streams_max, settings.streams_user_max, settings.stream_buffer_bytes)


def media(settings: Settings) -> MediaLimits:
    """Bounds of uploads, and of the images decoded from them."""
    return MediaLimits(
        settings.media_image_bytes_max,
        settings.media_video_bytes_max,
        settings.media_pixels_max,
        settings.media_side_max,
        settings.media_threads,
        settings.uploads_max,
    )
