"""Which recipients may be notified, by the rules and by their preferences. Checked before a notice is written.

A mention is written even if its recipient muted the actor, hid the post, wants no mentions or is away. The recipient's
followers are notified by the same notice, and would miss it otherwise. Reading an inbox checks all of that again.
"""

from __future__ import annotations

from collections.abc import Sequence

from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.graph.edge import State
from kith.graph.graph import Graph
from kith.graph.questions import Questions
from kith.notifications.notice import NoticeDraft
from kith.notifications.preferences import PreferenceStore
from kith.notifications.rules import NoticeRules, NoticeVisibility


class Recipients:
    """Queries the rules and the preferences."""

    def __init__(self, graph: Graph, rules: NoticeRules, preferences: PreferenceStore) -> None:
        self._store, self._rules, self._preferences = graph.store, rules, preferences

    async def allowed(self, drafts: Sequence[NoticeDraft]) -> list[NoticeDraft]:
        """The drafts that their recipients may see, want, and did not cause themselves.

        Of several reasons for one notice, the first that is allowed.
        """
        return _first_reasons((await self._partition(drafts))[0])

    async def worth_storing(self, drafts: Sequence[NoticeDraft]) -> list[NoticeDraft]:
        """As `allowed`, and also mentions that only their recipients themselves do not see or want."""
        allowed, for_others = await self._partition(drafts)
        return _first_reasons([*allowed, *for_others])

    async def _partition(self, drafts: Sequence[NoticeDraft]) -> tuple[list[NoticeDraft], list[NoticeDraft]]:
        """The allowed drafts; and the mentions that are not allowed for reasons that concern only their recipients."""
        allowed, for_others = list[NoticeDraft](), list[NoticeDraft]()
        drafts = [draft for draft in dict.fromkeys(drafts) if draft.actor != draft.recipient]
        if not drafts:
            return allowed, for_others
        recipients = [draft.recipient for draft in drafts]
        content, preferences = await gather(
            self._store.immediate, self._rules.content(drafts), self._preferences.cached(recipients)
        )
        questions = Questions()
        shown = self._rules.ask_each(questions, [(NodeId(draft.recipient), draft) for draft in drafts], content)
        nodes = questions.nodes(recipients)
        answers = await self._store.answer(questions)
        for draft, showing, node in zip(drafts, shown(answers), answers.nodes[nodes], strict=True):
            user = draft.recipient
            if showing is NoticeVisibility.NO or node.state is State.REMOVED:
                continue
            if showing is NoticeVisibility.YES and preferences[user].allow(draft.type, draft.actor, user, user):
                allowed.append(draft)
            elif draft.type == "mention":
                for_others.append(draft)
        return allowed, for_others


def _first_reasons(drafts: Sequence[NoticeDraft]) -> list[NoticeDraft]:
    drafts_by_notice: dict[NoticeDraft, NoticeDraft] = {}
    for draft in drafts:
        drafts_by_notice.setdefault(draft.first, draft)
    return list(drafts_by_notice.values())
