"""Finds whom a text mentions by `@username`, in a text of any script.

Names are resolved when the text is written, so a mention stays with the user who was meant, even if somebody else takes
the name later. A name counts as nobody's if the author may not see its user, because a mention would reveal that the
user exists. An address (`ann@example.org`), a link (`/@ann`) and a name on another server (`@ann@example.org`) mention
nobody.
"""

from __future__ import annotations

import re
import unicodedata

from kith.core.clock import Hlc
from kith.core.errors import InvalidContent
from kith.core.ids import NodeId
from kith.graph.edge import Edge, EdgeWrite, State
from kith.graph.graph import Graph
from kith.people.privacy import Privacy
from kith.people.usernames import fold, holders_of
from kith.posts.post import Post, has_same_audience
from kith.records.store import RecordStore

NAMES_MENTIONED_MAX = 50
"""Different `@names` in a text."""
_LATIN = "\u00c0-\u024f\u0300-\u036f"
"""Letters and accents that would continue a word, so they may not touch a mention. Scripts without spaces may."""
_MENTION = re.compile(rf"(?<![A-Za-z0-9_.@/{_LATIN}])@([A-Za-z0-9_.]++)(?![@{_LATIN}])")


def mentioned_names(text: str) -> list[str]:
    """The usernames that a text mentions, folded, each once, in their order. They need not belong to anybody."""
    if "@" not in text and "＠" not in text:
        return []
    mentions = _MENTION.findall(unicodedata.normalize("NFKC", text))
    return list(dict.fromkeys(fold(name.rstrip(".")) for name in mentions))


async def mentioned_users(store: RecordStore, privacy: Privacy, author: NodeId, text: str) -> tuple[int, ...]:
    """The users whom a text of `author` mentions. InvalidContent for more than NAMES_MENTIONED_MAX names."""
    names = mentioned_names(text)
    if len(names) > NAMES_MENTIONED_MAX:
        raise InvalidContent(
            f"text mentions more than {NAMES_MENTIONED_MAX} names with @", field="text", max=NAMES_MENTIONED_MAX
        )
    holders = await holders_of(store, names) if names else []
    users = list(dict.fromkeys(holder for holder in holders if holder is not None))
    visible = await privacy.are_visible(author, users) if users else []
    return tuple(user for user, is_visible in zip(users, visible, strict=True) if is_visible)


class MentionLists:
    """The lists of the posts that mention a user. `graph_name`: their graph; None: mentions are not listed.

    An edge has the version of the post that it comes from. So the newest version of a post wins, in whatever order the
    edges of its versions are written.
    """

    def __init__(self, graph: Graph, graph_name: str | None) -> None:
        self._number = None if graph_name is None else graph.graphs.number(graph_name)

    def writes(self, old: Post | None, post: Post, version: Hlc) -> list[EdgeWrite]:
        """The writes that list a post with the users it mentions, and unlist it with others that `old` mentions.

        `old`: its previous version, if any. A deleted post mentions nobody. If visibility or audience changed, every
        mention is logged again, because somebody may see it only now.
        """
        if self._number is None:
            return []
        before = () if old is None else old.mentioned
        kept = frozenset(before) if old is not None and has_same_audience(old, post) else frozenset()
        states = dict.fromkeys(before, State.REMOVED) | dict.fromkeys(post.mentioned, State.NORMAL)
        return [
            EdgeWrite(
                Edge(self._number, NodeId(user), NodeId(post.id), state, post.created_at, version),
                chained=True,
                keep_live=user in kept and state == State.NORMAL,  # most edits do not change the mentions
            )
            for user, state in states.items()
        ]
