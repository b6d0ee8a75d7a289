"""Who may see which board: the hard rules, which no list and no route may break. Pure.

The names are those of `posts.visibility`. The standing of an owner to a viewer comes from `people.privacy`, in batches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kith.boards.board import Board
from kith.core.labels import HIDE
from kith.graph.edge import State
from kith.people.privacy import SYSTEM, Standing, Viewer

_NORMAL = State.NORMAL  # looked up once, because a check of many boards uses it often


def may_see_board(board: Board, viewer: Viewer, owner: Standing, *, member: bool) -> bool:
    """Whether `viewer` may see a board that is not deleted. `owner`: its owner's standing to `viewer`."""
    if viewer is SYSTEM or viewer == board.owner:
        return owner.state is not State.REMOVED
    if owner.state is not _NORMAL or owner.blocked or owner.labels & HIDE:
        return False
    return member or not (board.secret or (owner.private and not owner.followed))


def visible_boards(
    boards: Sequence[Board | None], viewer: Viewer, owners: Mapping[int, Standing], joined: Collection[int]
) -> list[Board | None]:
    """Each board, or None if `viewer` must not see it.

    `owners`: the owners' standings to `viewer`. `joined`: ids of the boards of which the viewer is a member.
    """
    return [
        board
        if board is not None
        and not board.deleted
        and may_see_board(board, viewer, owners[board.owner], member=board.id in joined)
        else None
        for board in boards
    ]
