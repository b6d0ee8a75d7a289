"""Decides right before sending which notices ring, by the rules and the user's preferences of that moment.

A notice does not ring if a block, mute, deletion, label or privacy hides it, if it was taken back, if the user has read
it meanwhile, or in the user's quiet hours. It stays in the inbox all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kith.core.gathering import gather
from kith.core.ids import NodeId, made_at_ms
from kith.graph.edge import State
from kith.graph.graph import Graph
from kith.graph.questions import Questions
from kith.notifications.marks import Marks, MarkStore
from kith.notifications.notice import Notice
from kith.notifications.notices import Notices
from kith.notifications.preferences import Preferences, PreferenceStore, is_quiet
from kith.notifications.push.device import Device
from kith.notifications.push.devices import Devices
from kith.notifications.push.message import TTL_MS, PushMessage, message_of
from kith.notifications.rules import NoticeContent, NoticeRules, NoticeVisibility
from kith.people.profiles import Profile, read_profile
from kith.records.store import RecordKind


class AddressedNotice(NamedTuple):
    """This user is notified by this notice."""

    user: int
    notice: Notice


class DuePush(NamedTuple):
    """A message that a user is sent now, and the devices that it goes to."""

    user: int
    message: PushMessage
    devices: Sequence[Device]


class PushSelector:
    """Queries devices, preferences, marks and rules, each for many users at once."""

    def __init__(
        self, graph: Graph, notices: Notices, rules: NoticeRules, preferences: PreferenceStore, devices: Devices
    ) -> None:
        self._graph, self._rules, self._preferences, self._devices = graph, rules, preferences, devices
        self._records, self._marks = notices.records, MarkStore(notices.records, graph.clock)

    async def of(self, told: Sequence[AddressedNotice], now_ms: int) -> list[DuePush]:
        """Which of these notices ring now, with the devices of their users. The order is kept."""
        lasting = [one for one in told if made_at_ms(one.notice.id) + TTL_MS > now_ms]
        devices = await self._devices.of(list({one.user for one in lasting}))
        asked = [one for one in lasting if devices[one.user]]
        if not asked:
            return []
        users = list({one.user for one in asked})
        immediate = self._graph.store.immediate
        preferences, marks = await gather(
            immediate,
            gather(immediate, *(self._preferences.of(NodeId(user)) for user in users)),
            gather(immediate, *(self._marks.of(NodeId(user)) for user in users)),
        )
        wanted = dict(zip(users, zip(preferences, marks, strict=True), strict=True))
        ringing = [one for one in asked if _rings(one, *wanted[one.user], now_ms)]
        return [due._replace(devices=devices[due.user]) for due in await self._shown(ringing)]

    async def _shown(self, told: Sequence[AddressedNotice]) -> list[DuePush]:
        """The notices that their users may see, as messages without devices."""
        if not told:
            return []
        questions, content = Questions(), await self._rules.content([one.notice for one in told])
        asked = self._rules.ask_each(questions, [(NodeId(one.user), one.notice) for one in told], content)
        nodes = questions.nodes([one.user for one in told])
        people = list({id_ for one in told for id_ in (one.notice.actor, one.notice.recipient)})
        answers, profiles = await gather(
            self._graph.store.immediate,
            self._graph.store.answer(questions),
            self._records.get_many(RecordKind.USER, people),
        )
        names = {id_: _name(read_profile(record)) for id_, record in zip(people, profiles, strict=True)}
        return [
            DuePush(user, message_of(one, user, names[one.actor], names[one.recipient], _text(one, content)), ())
            for (user, one), visible, node in zip(told, asked(answers), answers.nodes[nodes], strict=True)
            if visible is NoticeVisibility.YES and node.state is State.NORMAL
        ]


def _rings(one: AddressedNotice, preferences: Preferences, marks: Marks, now_ms: int) -> bool:
    notice = one.notice
    return (
        preferences.allow(notice.type, notice.actor, notice.recipient, one.user)
        and not is_quiet(preferences.quiet, now_ms)
        and not marks.is_read(notice.id)
    )


def _text(notice: Notice, content: NoticeContent) -> str:
    """The text that a notice is about, for a user who may see it."""
    if notice.comment is not None:
        return content.comments[notice.comment].text
    if notice.board is not None:
        return content.boards[notice.board].name
    return "" if notice.post is None else content.posts[notice.post].text


def _name(profile: Profile) -> str:
    return profile.display_name or profile.username
