"""Which recipients may be told, by the rules and by their preferences; asked before a notice is written."""

from __future__ import annotations

from collections.abc import Sequence

from kith.core.ids import NodeId
from kith.graph.edge import State
from kith.graph.graph import Graph
from kith.graph.questions import Questions
from kith.graph.together import together
from kith.notifications.notice import NoticeDraft
from kith.notifications.preferences import PreferencesKept
from kith.notifications.rules import NoticeRules


class Recipients:
    """Asks the rules and the preferences."""

    def __init__(self, graph: Graph, rules: NoticeRules, preferences: PreferencesKept) -> None:
        self._store, self._rules, self._preferences = graph.store, rules, preferences

    async def allowed(self, drafts: Sequence[NoticeDraft]) -> list[NoticeDraft]:
        """The drafts that their recipients may see and want to be told of, and did not cause themselves.

        Of several reasons for one notice, the first that is allowed.
        """
        drafts = [draft for draft in dict.fromkeys(drafts) if draft.actor != draft.recipient]
        if not drafts:
            return []
        recipients = [draft.recipient for draft in drafts]
        content, preferences = await together(
            self._store.immediate, self._rules.content(drafts), self._preferences.lately(recipients)
        )
        questions = Questions()
        shown = self._rules.ask_each(questions, [(NodeId(one.recipient), one) for one in drafts], content)
        nodes = questions.nodes(recipients)
        answers = await self._store.answer(questions)
        allowed = [
            draft
            for draft, visible, node in zip(drafts, shown(answers), answers.nodes[nodes], strict=True)
            if visible
            and node.state is not State.REMOVED
            and preferences[draft.recipient].allow(draft.type, draft.actor, draft.recipient, draft.recipient)
        ]
        told: dict[NoticeDraft, NoticeDraft] = {}
        for draft in allowed:
            told.setdefault(draft.first, draft)
        return list(told.values())
