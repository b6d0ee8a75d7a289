"""Calls about boards, their followers and their pins. As in `graphs`, nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from kith.client.answers import Id, ListedEdge, Page
from kith.client.asking import BASE, PAGE_SIZE, checked_id, checked_ids, given, listed, nothing, once, reader, user_path
from kith.client.objects import (
    Board,
    BoardFollow,
    BoardsChecked,
    Collaborator,
    FollowedKind,
    Interests,
    ListedUser,
    Pinned,
    Post,
)
from kith.client.wire import Call


class _Count(msgspec.Struct):
    count: int


_board = reader(Board)
_boards = reader(Page[Board])
_checked = reader(BoardsChecked)
_count = reader(_Count)
_edges = reader(Page[ListedEdge])
_followed = reader(BoardFollow)
_interests = reader(Interests)
_kind = reader(FollowedKind)
_member = reader(Collaborator)
_pinned = reader(Pinned)
_posts = reader(Page[Post])
_users = reader(Page[ListedUser])


def create_board(name: str, *, secret: bool = False, key: str | None = None) -> Call[Board]:
    """Create a board of the acting user. `secret`: only its owner and collaborators see it.

    `key`: the idempotency key; random by default. Within 24 h the same key creates one board, however often it is sent.
    """
    return Call("POST", f"{BASE}/boards", _board, body={"name": name, "secret": secret}, headers=once(key))


def board(board: Id) -> Call[Board]:
    """A board; ApiError 404 if there is none that the acting user may see."""
    return Call("GET", _path(board), _board)


def edit_board(board: Id, *, name: str | UnsetType = UNSET, secret: bool | UnsetType = UNSET) -> Call[Board]:
    """Rename a board of the acting user, or make it secret or public. One that becomes secret loses its followers."""
    return Call("PATCH", _path(board), _board, body=given(name=name, secret=secret))


def delete_board(board: Id) -> Call[None]:
    """Delete a board of the acting user, for good. The pinned posts stay."""
    return Call("DELETE", _path(board), nothing, deletes=True)


def move_board(board: Id, owner: Id) -> Call[Board]:
    """Give a board of the acting user to `owner`, one of its collaborators."""
    return Call("POST", f"{_path(board)}/move", _board, body={"owner": checked_id(owner, "owner")})


def merge_board(board: Id, into: Id) -> Call[Board]:
    """Merge `board` into the board `into`, which takes its pins and followers, and delete `board`. Returns `into`.

    Both must be boards of the acting user.
    """
    return Call("POST", f"{_path(board)}/merge", _board, body={"into": checked_id(into, "into")})


def user_boards(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Board]]:
    """The boards of `user` that the acting user may see, newest first."""
    return listed(f"{user_path(user)}/boards", _boards, page_size, cursor)


def invite_collaborator(board: Id, user: Id) -> Call[Collaborator]:
    """Make `user` a collaborator of a board of the acting user. Collaborators see the board and may pin on it."""
    return Call("POST", _member_path(board, user), _member)


def dismiss_collaborator(board: Id, user: Id) -> Call[Collaborator]:
    """Remove a collaborator from a board. Collaborators use it to leave, too. Their pins stay."""
    return Call("DELETE", _member_path(board, user), _member)


def board_collaborators(board: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """The collaborators of a board, newest first. Only its owner and collaborators may read them."""
    return listed(f"{_path(board)}/collaborators", _users, page_size, cursor)


def collaborations(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Board]]:
    """The boards of others of which `user` is a collaborator, newest invitation first. Only `user` may read them."""
    return listed(f"{user_path(user)}/collaborations", _boards, page_size, cursor)


def follow_board(board: Id) -> Call[BoardFollow]:
    """Follow a board. If the acting user follows its owner and had unfollowed the board, this undoes the unfollow."""
    return Call("POST", f"{_path(board)}/follow", _followed)


def unfollow_board(board: Id) -> Call[BoardFollow]:
    """Unfollow a board, even if the acting user follows its owner. ApiError 409 if they never followed the board."""
    return Call("DELETE", f"{_path(board)}/follow", _followed)


def follows_board(board: Id) -> Call[FollowedKind]:
    """Whether and how the acting user follows a board. `none` also for a board that they must not see."""
    return Call("GET", f"{_path(board)}/follow", _kind)


def check_boards(users: Iterable[Id], boards: Iterable[Id]) -> Call[BoardsChecked]:
    """Whether and how the acting user follows each of these users and boards; at most 25 in all."""
    body = {"users": checked_ids(users, "users"), "boards": checked_ids(boards, "boards")}
    return Call("POST", f"{BASE}/boards/check", _checked, body=body)


def board_followers(board: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """The followers of a board, through its owner or directly, newest follow first."""
    return listed(f"{_path(board)}/followers", _edges, page_size, cursor)


def count_board_followers(board: Id) -> Call[int]:
    """The exact number of followers of a board."""
    return Call("GET", f"{_path(board)}/followers/count", _counted)


def boards_followed(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Board]]:
    """The boards that `user` follows directly, newest follow first."""
    return listed(f"{user_path(user)}/boards-followed", _boards, page_size, cursor)


def boards_unfollowed(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Board]]:
    """The boards that `user` unfollowed though they follow the owner, newest first. Only `user` may read them."""
    return listed(f"{user_path(user)}/boards-unfollowed", _boards, page_size, cursor)


def implicit_following(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """The users whom `user` does not follow but of whom `user` follows boards, newest first."""
    return listed(f"{user_path(user)}/implicit-following", _edges, page_size, cursor)


def implicit_followers(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """The users who follow boards of `user` but not `user`, newest first."""
    return listed(f"{user_path(user)}/implicit-followers", _edges, page_size, cursor)


def interests(user: Id) -> Call[Interests]:
    """Exact counts of the boards that `user` has and follows, and of implicit following and followers."""
    return Call("GET", f"{user_path(user)}/interests", _interests)


def pin_post(board: Id, post: Id) -> Call[Pinned]:
    """Pin a post on a board; repeating it changes nothing."""
    return Call("POST", f"{_path(board)}/pins", _pinned, body={"post": checked_id(post, "post")})


def unpin_post(board: Id, post: Id) -> Call[Pinned]:
    """Remove a post from a board; repeating it changes nothing."""
    return Call("DELETE", f"{_path(board)}/pins/{checked_id(post, 'post')}", _pinned)


def board_pins(board: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Post]]:
    """The posts on a board that the acting user may see, newest pin first."""
    return listed(f"{_path(board)}/pins", _posts, page_size, cursor)


def _counted(content: bytes) -> int:
    return _count(content).count


def _path(board: Id) -> str:
    return f"{BASE}/boards/{checked_id(board, 'board')}"


def _member_path(board: Id, user: Id) -> str:
    return f"{_path(board)}/collaborators/{checked_id(user, 'user')}"
