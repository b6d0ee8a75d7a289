"""The folded form of names, and the index that finds people by the beginning of a name.

The index is the graph `names`. Each of its lists holds, in the order of names, the users with a name that begins with
the same character:

    names   LIST_IDS_MIN + kind << 32 + the first character -> user, at a position that holds the next 8 bytes (UTF-8);
            a removed entry is at 0

`kind`: 0 is the username, 1 the display name, 2 and 3 the display name from its second and third word on. An entry has
the version of the profile that it comes from. So by the merge law the newest profile wins, in whatever order entries
are written. Readers of the index check the profile as well, because an entry may come from an older profile and holds
at most 9 characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from kith.core.clock import Hlc
from kith.core.ids import NodeId
from kith.graph.edge import POSITION_MAX, Direction, Edge, EdgeWrite, State
from kith.graph.shapes import Listing

LIST_IDS_MIN = 1 << 62
"""The lowest id of a list. User ids are expected to be lower."""
WORDS_MAX = 3
"""Words of a display name at which a search may begin."""
KINDS = range(1 + WORDS_MAX)
_BYTES = 8
_NO_LETTERS = 0
"""The position of a removed entry. What remains of it must not spell a name that its user gave up."""
_USERNAME = 0


class NameEntry(NamedTuple):
    """A name in the index: its list and its position there."""

    list_id: int
    position: int


class NameRange(NamedTuple):
    """The positions of the names with a prefix, in their list: from `since` to below `until`; None: to the end."""

    list_id: int
    since: int
    until: int | None

    def listing(self, graph: int) -> Listing:
        """The list, in the graph of names."""
        return Listing(graph, self.list_id, Direction.OUT)


def fold_name(name: str) -> str:
    """The form that all spellings of a name share: case, compatible characters and spaces are normalized."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(folded.split())


def searchable_names(username: str, display_name: str) -> Iterator[tuple[int, str]]:
    """The names by which a user is found, as (kind, folded name)."""
    if username:
        yield _USERNAME, fold_name(username)
    words = fold_name(display_name).split()
    for index in range(min(len(words), WORDS_MAX)):
        yield 1 + index, " ".join(words[index:])


def index_entry(kind: int, name: str) -> NameEntry:
    """The entry of a folded name."""
    return NameEntry(_list_id(kind, name), _position(name[1:].encode()[:_BYTES].ljust(_BYTES, b"\0")))


def index_range(kind: int, prefix: str) -> NameRange:
    """The span of the names with this folded prefix. It may contain others if the prefix is longer than an entry."""
    start = prefix[1:].encode()[:_BYTES]
    low, high = _position(start.ljust(_BYTES, b"\0")), _position(start.ljust(_BYTES, b"\xff"))
    return NameRange(_list_id(kind, prefix), high, None if low == POSITION_MAX else low + 1)


def index_writes(
    graph: int, user: NodeId, before: tuple[str, str], after: tuple[str, str], version: Hlc, *, atomic: bool
) -> list[EdgeWrite]:
    """The writes that update the index when a user's (username, display name) changes from `before` to `after`.

    `atomic`: they are written in one transaction with the profile, so unchanged entries are there already. Otherwise
    unchanged entries are written again, because an earlier call may have stopped between the profile and its entries.
    """
    if atomic and before == after:
        return []
    old, new = (dict(index_entry(*name) for name in searchable_names(*names)) for names in (before, after))
    removed = [NameEntry(list_id, _NO_LETTERS) for list_id in old if list_id not in new]
    writes = [_write(graph, user, entry, version, State.REMOVED) for entry in removed]
    for list_id, position in new.items():
        stays = atomic and old.get(list_id) == position
        writes.append(_write(graph, user, NameEntry(list_id, position), version, State.NORMAL, stays=stays))
    return writes


def _write(graph: int, user: NodeId, entry: NameEntry, version: Hlc, state: State, *, stays: bool = False) -> EdgeWrite:
    return EdgeWrite(Edge(graph, NodeId(entry.list_id), user, state, entry.position, version), keep_live=stays)


def _list_id(kind: int, name: str) -> int:
    return LIST_IDS_MIN + (kind << 32) + ord(name[0])


def _position(name: bytes) -> int:
    """Lists are greatest first, so the least name has the greatest position."""
    return POSITION_MAX - int.from_bytes(name, "big")
