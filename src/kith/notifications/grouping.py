"""Groups notices of one type about one thing into one entry: "Ann and 12 others liked your post". Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from kith.notifications.notice import Notice

_NEVER_GROUPED = frozenset({"mention", "comment", "reply", "follow_request", "board_invite"})
"""Types that are never grouped: each such notice says something of its own, or asks for an answer."""


def actors_of(group: Sequence[Notice]) -> list[int]:
    """The actors of a group, each once, the latest first."""
    if len(group) == 1:  # the common case
        return [group[0].actor]
    return list(dict.fromkeys([notice.actor for notice in group]))


def is_groupable(notice: Notice) -> bool:
    """Whether a notice is grouped with others of its type."""
    return notice.type not in _NEVER_GROUPED and not notice.event


def key_of(notice: Notice, *, grouped: bool) -> tuple[object, ...]:
    """The key that the notices of one group share."""
    return (notice.type, notice.subject) if grouped and is_groupable(notice) else (notice.id,)


def groups_of(notices: Iterable[Notice], limit: int, *, grouped: bool) -> tuple[list[list[Notice]], Notice | None]:
    """The notices in at most `limit` groups, and the first notice that would begin one more."""
    if not grouped:
        rest = iter(notices)
        return [[notice] for notice in islice(rest, limit)], next(rest, None)
    groups: dict[tuple[object, ...], list[Notice]] = {}
    for notice in notices:
        key = key_of(notice, grouped=grouped)
        if key not in groups and len(groups) == limit:
            return list(groups.values()), notice
        groups.setdefault(key, []).append(notice)
    return list(groups.values()), None


def newest_first(groups: Sequence[Sequence[Notice]]) -> list[list[Notice]]:
    """Groups of notices that were read oldest first, in the order in which they are shown."""
    return sorted((list(reversed(group)) for group in groups), key=lambda group: -group[0].id)
