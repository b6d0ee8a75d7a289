"""Posts and notices over an open data folder, as processes of several kinds have them (the API, workers, commands)."""

from __future__ import annotations

from typing import NamedTuple

from kith.core.clock import hlc_of, ms_of
from kith.core.ids import Snowflakes
from kith.leases.numbers import NodeNumber
from kith.notifications.notices import Notices
from kith.notifications.notifications import Notifications
from kith.notifications.outside import OutsideMentions
from kith.notifications.preferences import PreferencesKept
from kith.notifications.recent import RecentMentions
from kith.notifications.recipients import Recipients
from kith.notifications.rules import NoticeRules
from kith.posts.posts import Posts
from kith.run.config import Settings
from kith.run.opening.stores import OpenStores


def posts_over(stores: OpenStores, number: NodeNumber) -> Posts:
    """Posts of this process. Ids take their time from a clock that was set past all that is stored, and start after it;
    where they run ahead, they take the clock along: so a process that had our node number before cannot have used a
    later millisecond. Once the number is lost, no more ids are made.
    """
    clock = stores.graph.clock
    snowflakes = Snowflakes(
        number.number, lambda: ms_of(clock.next()), number.held.check, lambda ms: clock.restore(hlc_of(ms))
    )
    snowflakes.restore(ms_of(clock.next()))
    return Posts(stores.records, stores.graph, snowflakes)


class NoticeServices(NamedTuple):
    """What a process needs to tell users things, or to show them what they were told."""

    notices: Notices
    recipients: Recipients
    recent: RecentMentions
    notifications: Notifications
    outside: OutsideMentions


def telling(settings: Settings, stores: OpenStores, posts: Posts) -> NoticeServices:
    """Notices and the rules of whom they are told, over an open folder."""
    graph, rules = stores.graph, NoticeRules(stores.graph, stores.records)
    preferences = PreferencesKept(stores.records, graph.clock)
    notices = Notices(stores.records, stores.inboxes, graph, posts.snowflakes)
    recent = RecentMentions(stores.records, graph, settings.celebrity_followers_min)
    recipients = Recipients(graph, rules, preferences)
    shown = Notifications(graph, notices, rules, preferences, recent)
    return NoticeServices(notices, recipients, recent, shown, OutsideMentions(notices, recipients, recent, graph.clock))
