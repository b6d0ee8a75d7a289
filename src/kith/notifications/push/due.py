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

    async def of(self, notices: Sequence[AddressedNotice], now_ms: int) -> list[DuePush]:
        """Which of these notices ring now, with the devices of their users. The order is kept."""
        recent = [addressed for addressed in notices if made_at_ms(addressed.notice.id) + TTL_MS > now_ms]
        devices = await self._devices.of(list({addressed.user for addressed in recent}))
        candidates = [addressed for addressed in recent if devices[addressed.user]]
        if not candidates:
            return []
        users = list({addressed.user for addressed in candidates})
        immediate = self._graph.store.immediate
        preferences, marks = await gather(
            immediate,
            gather(immediate, *(self._preferences.of(NodeId(user)) for user in users)),
            gather(immediate, *(self._marks.of(NodeId(user)) for user in users)),
        )
        settings = dict(zip(users, zip(preferences, marks, strict=True), strict=True))
        ringing = [addressed for addressed in candidates if _rings(addressed, *settings[addressed.user], now_ms)]
        return [due._replace(devices=devices[due.user]) for due in await self._shown(ringing)]

    async def _shown(self, notices: Sequence[AddressedNotice]) -> list[DuePush]:
        """The notices that their users may see, as messages without devices."""
        if not notices:
            return []
        questions, content = Questions(), await self._rules.content([addressed.notice for addressed in notices])
        read_visible = self._rules.ask_each(
            questions, [(NodeId(addressed.user), addressed.notice) for addressed in notices], content
        )
        nodes = questions.nodes([addressed.user for addressed in notices])
        people = list({id_ for addressed in notices for id_ in (addressed.notice.actor, addressed.notice.recipient)})
        answers, profiles = await gather(
            self._graph.store.immediate,
            self._graph.store.answer(questions),
            self._records.get_many(RecordKind.USER, people),
        )
        names = {id_: _name(read_profile(record)) for id_, record in zip(people, profiles, strict=True)}
        return [
            DuePush(
                user, message_of(notice, user, names[notice.actor], names[notice.recipient], _text(notice, content)), ()
            )
            for (user, notice), visible, node in zip(notices, read_visible(answers), answers.nodes[nodes], strict=True)
            if visible is NoticeVisibility.YES and node.state is State.NORMAL
        ]


def _rings(addressed: AddressedNotice, preferences: Preferences, marks: Marks, now_ms: int) -> bool:
    notice = addressed.notice
    return (
        preferences.allow(notice.type, notice.actor, notice.recipient, addressed.user)
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
