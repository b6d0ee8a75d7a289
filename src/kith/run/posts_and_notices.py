"""Wires posts and notices over open stores, for every kind of process that needs them: the API, workers, commands."""

from __future__ import annotations

from typing import NamedTuple

from kith.core.clock import hlc_of, ms_of
from kith.core.ids import Snowflakes
from kith.leases.node_numbers import NodeNumber
from kith.notifications.external_mentions import ExternalMentions
from kith.notifications.notices import Notices
from kith.notifications.notifications import Notifications
from kith.notifications.preferences import PreferenceStore
from kith.notifications.recent import RecentMentions
from kith.notifications.recipients import Recipients
from kith.notifications.rules import NoticeRules
from kith.posts.posts import Posts
from kith.run.config import Settings
from kith.run.opening.inboxes import FilledInboxes
from kith.run.opening.stores import OpenStores


def posts_over(stores: OpenStores, number: NodeNumber) -> Posts:
    """The posts service of this process.

    Ids take their time from the graph's clock, which was set past every stored time. When ids run ahead of the clock,
    they advance it. So no earlier holder of our node number can have used a later millisecond. After the node number
    is lost, no more ids are made.
    """
    clock = stores.graph.clock
    snowflakes = Snowflakes(
        number.number, lambda: ms_of(clock.next()), number.held.check, lambda ms: clock.restore(hlc_of(ms))
    )
    snowflakes.restore(ms_of(clock.next()))
    return Posts(stores.records, stores.graph, snowflakes)


class NoticeServices(NamedTuple):
    """What a process needs to notify users, or to show them their notices."""

    notices: Notices
    recipients: Recipients
    recent: RecentMentions
    notifications: Notifications
    external_mentions: ExternalMentions


def notice_services(settings: Settings, stores: OpenStores, posts: Posts) -> NoticeServices:
    """Notices, and the rules for who receives them, over open stores."""
    graph, rules = stores.graph, NoticeRules(stores.graph, stores.records)
    preferences = PreferenceStore(stores.records, graph.clock)
    notices = Notices(stores.records, stores.inboxes, graph, posts.snowflakes)
    recent = RecentMentions(stores.records, graph, settings.celebrity_followers_min)
    recipients = Recipients(graph, rules, preferences)
    are_filled = (lambda: True) if stores.folder is None else FilledInboxes(stores.folder.environment)
    shown = Notifications(graph, notices, rules, preferences, recent, are_filled)
    return NoticeServices(
        notices, recipients, recent, shown, ExternalMentions(notices, recipients, recent, graph.clock)
    )
