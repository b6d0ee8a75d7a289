"""What each gauge of `/metrics` says, for its HELP line. Pure.

Gauges of consumers and of tiers of mentions have a name with a common end: the text for the end names the consumer or
tier. A new gauge gets its line here; a test finds one without.
"""

from __future__ import annotations

GAUGES = {
    "timelines": "Home timelines that are kept.",
    "log_events": "Events in the log.",
    "log_sequence": "Number of the newest event.",
    "log_bytes": "Bytes of the log.",
    "log_leases": "Leases that keep events in the log.",
    "log_leases_lost": "Leases whose events were deleted, because their holder was away for too long.",
    "log_leases_lag_events": "Events that the slowest holder of a lease has not read.",
    "store_bytes": "Bytes of the store in use.",
    "disk_free_bytes": "Free bytes on the disk of the data folder.",
    "rival_primary": "1 if another primary writes to a copy of this store.",
    "standby_behind_seconds": "Seconds by which this standby is behind its primary.",
    "backup_age_seconds": "Age of the last scheduled backup.",
    "backup_failing": "1 if the last scheduled backup failed, or expired parts could not be removed.",
    "backup_drill_age_seconds": "Age of the last drill, which restores a backup to try it.",
    "backup_drill_failed": "1 if the last drill failed.",
    "media_bytes": "Bytes of all files of media, measured from time to time.",
    "media_bytes_per_day": "Growth of media_bytes in a day.",
    "fanout_deliveries": "Posts of authors with many followers that are being pushed chunk by chunk.",
    "webhooks": "Registered webhooks.",
    "push_owed": "Devices for which a notice waits.",
    "push_faults": "Push providers that refuse what Kith sends; the worker's log says why.",
    "mentions_pressure": "1 while so many chunks wait that followers in the last tier are left to pull.",
}
_BY_END = {
    "_lag_events": "Events that wait for {}.",
    "_lag_oldest_seconds": "Age of the oldest event that waits for {}.",
    "_failed_events": "Events on which {} failed, and which are retried.",
    "_dead_events": "Events on which {} failed too often; `kith dead` lists them.",
    "_walks": "Mentions whose followers in this tier are being notified: {}.",
    "_chunks": "Chunks of followers that wait in this tier: {}.",
    "_oldest_seconds": "Age of the oldest mention that waits in this tier: {}.",
}


def description_of(name: str) -> str:
    """The description of a gauge, by its name without the prefix `kith_`; the name in words if it has none."""
    if name in GAUGES:
        return GAUGES[name]
    for end, description in _BY_END.items():
        if name.endswith(end):
            return description.format(name.removesuffix(end))
    return in_words(name)


def in_words(name: str) -> str:
    """The name of a gauge as words."""
    return name.replace("_", " ").capitalize() + "."
