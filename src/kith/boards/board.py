"""The stored record of a board, and the rules for its fields. Pure."""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from kith.core.clock import Hlc
from kith.core.errors import BoardNotFound, Forbidden
from kith.graph.edge import State
from kith.records.fields import check_text
from kith.records.store import Record, RecordKind

NAME_CHARS_MAX = 100
BOARDS_MAX = 10_000
"""Boards that a user may own. A set program over all of them reads this many ids."""
MEMBERS_MAX = 1_000
"""Collaborators that a board may have."""
PAST_OWNERS_MAX = 8
"""Past owners that a board remembers, the latest."""
LISTED = (State.NORMAL, State.NEGATIVE)
"""The states of the edges from an owner to their boards: NORMAL for public boards, NEGATIVE for secret ones."""


class Board(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A board, as stored: an array in this order. New fields come last and have a default.

    `since`: follows and unfollows of the board with versions up to this one are void. `owned_since`: the version with
    which it came to its owner. `merged_into`: the board that took its pins and followers when it was deleted, with the
    version `merged_at`; 0: none. `past_owners`: the last PAST_OWNERS_MAX owners, latest first. They are kept because a
    user may be their implicit follower by this board alone. `given_at`: for each of them, the version with which they
    gave the board away.
    """

    owner: int
    id: int
    created_at: int  # ms since the epoch; its place in its owner's list
    name: str
    secret: bool = False
    deleted: bool = False
    since: int = 0
    owned_since: int = 0
    merged_into: int = 0
    merged_at: int = 0
    past_owners: tuple[int, ...] = ()
    given_at: tuple[int, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it can be followed: it is neither deleted nor secret."""
        return not (self.deleted or self.secret)

    @property
    def listed_as(self) -> State:
        """The state of the edge from its owner, which lists it among the owner's boards."""
        return State.REMOVED if self.deleted else State.NEGATIVE if self.secret else State.NORMAL


def owned_by(board: Board, owner: int, version: Hlc) -> Board:
    """The board after it was given to `owner`, with this version."""
    past = [(board.owner, int(version)), *zip_longest(board.past_owners, board.given_at, fillvalue=0)]
    entries = [entry for entry in past if entry[0] != owner][:PAST_OWNERS_MAX]
    owners, given_at = tuple(owner_id for owner_id, _ in entries), tuple(moved_at for _, moved_at in entries)
    return msgspec.structs.replace(board, owner=owner, owned_since=version, past_owners=owners, given_at=given_at)


def given_away_version(board: Board, user: int) -> int:
    """The version with which a user gave the board away; 0: the board remembers no such user."""
    return dict(zip(board.past_owners, board.given_at, strict=False)).get(user, 0)


_encode = msgspec.msgpack.Encoder().encode
decode_board = msgspec.msgpack.Decoder(Board).decode
"""The board of a record's data."""


def board_record(board: Board, version: Hlc) -> Record:
    """The record of a board."""
    return Record(RecordKind.BOARD, board.id, version, _encode(board))


def read_board(record: Record) -> Board:
    """The board of a record."""
    return decode_board(record.data)


def check_name(name: str) -> None:
    """InvalidContent unless a board may have this name."""
    check_text(name, needed=True, chars_max=NAME_CHARS_MAX, field="name")


def canonical_board(name: str, secret: bool) -> bytes:
    """Bytes that are equal only for equal requests to create a board."""
    return _encode((name, secret))


def missing(id_: int) -> BoardNotFound:
    """The error for a board that does not exist, or that the viewer must not see."""
    return BoardNotFound("there is no such board, or it is hidden from you", id=str(id_))


def not_owner(id_: int) -> Forbidden:
    """The error for what only the owner of a board may do."""
    return Forbidden("only its owner may do this with a board", id=str(id_))
