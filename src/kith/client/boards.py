"""Calls about boards, who follows them, and what is pinned on them. As in `graphs`, nothing is sent."""

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
    """Make a board of the acting user. The same `key` makes it once, however often it is sent; one is made if not
    given. `secret`: it is there for its members only.
    """
    return Call("POST", f"{BASE}/boards", _board, body={"name": name, "secret": secret}, headers=once(key))


def board(board: Id) -> Call[Board]:
    """A board; ApiError 404 when it is not there for the acting user."""
    return Call("GET", _path(board), _board)


def edit_board(board: Id, *, name: str | UnsetType = UNSET, secret: bool | UnsetType = UNSET) -> Call[Board]:
    """Rename a board of the acting user, or make it secret or public; a secret one has no followers."""
    return Call("PATCH", _path(board), _board, body=given(name=name, secret=secret))


def delete_board(board: Id) -> Call[None]:
    """Delete a board of the acting user, for good; the posts on it stay."""
    return Call("DELETE", _path(board), nothing, deletes=True)


def move_board(board: Id, owner: Id) -> Call[Board]:
    """Give a board of the acting user to `owner`, one of its collaborators."""
    return Call("POST", f"{_path(board)}/move", _board, body={"owner": checked_id(owner, "owner")})


def merge_board(board: Id, into: Id) -> Call[Board]:
    """Put the pins and followers of a board on another of the acting user, and delete it; answers the other."""
    return Call("POST", f"{_path(board)}/merge", _board, body={"into": checked_id(into, "into")})


def user_boards(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Board]]:
    """The boards of `user` that are there for the acting user, newest first."""
    return listed(f"{user_path(user)}/boards", _boards, page_size, cursor)


def invite_collaborator(board: Id, user: Id) -> Call[Collaborator]:
    """Let `user` see a board of the acting user, and pin on it."""
    return Call("POST", _member_path(board, user), _member)


def dismiss_collaborator(board: Id, user: Id) -> Call[Collaborator]:
    """Undo `invite_collaborator`; collaborators leave with it, too. Their pins stay."""
    return Call("DELETE", _member_path(board, user), _member)


def board_collaborators(board: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedUser]]:
    """Who pins on a board beside its owner, newest first; for those who do."""
    return listed(f"{_path(board)}/collaborators", _users, page_size, cursor)


def collaborations(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Board]]:
    """The boards of others on which `user` pins, the newest invitation first; the user's own."""
    return listed(f"{user_path(user)}/collaborations", _boards, page_size, cursor)


def follow_board(board: Id) -> Call[BoardFollow]:
    """Follow a board; of a user whom one follows, this takes back that it was unfollowed."""
    return Call("POST", f"{_path(board)}/follow", _followed)


def unfollow_board(board: Id) -> Call[BoardFollow]:
    """No longer follow a board, also one of a user whom one follows. ApiError 409 for one that never was followed."""
    return Call("DELETE", f"{_path(board)}/follow", _followed)


def follows_board(board: Id) -> Call[FollowedKind]:
    """Whether the acting user follows a board, and how; `none` also for one that is not there for them."""
    return Call("GET", f"{_path(board)}/follow", _kind)


def check_boards(users: Iterable[Id], boards: Iterable[Id]) -> Call[BoardsChecked]:
    """Which of these users and boards, 25 at most in all, the acting user follows, and how."""
    body = {"users": checked_ids(users, "users"), "boards": checked_ids(boards, "boards")}
    return Call("POST", f"{BASE}/boards/check", _checked, body=body)


def board_followers(board: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """Who follows a board, through its owner or by itself, the newest follow first."""
    return listed(f"{_path(board)}/followers", _edges, page_size, cursor)


def count_board_followers(board: Id) -> Call[int]:
    """How many follow a board; exact."""
    return Call("GET", f"{_path(board)}/followers/count", _counted)


def boards_followed(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Board]]:
    """The boards that `user` follows by themselves, the newest follow first."""
    return listed(f"{user_path(user)}/boards-followed", _boards, page_size, cursor)


def boards_unfollowed(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Board]]:
    """The boards that `user` unfollowed of users whom they follow, newest first; the user's own."""
    return listed(f"{user_path(user)}/boards-unfollowed", _boards, page_size, cursor)


def implicit_following(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """The users of whom `user` follows single boards, newest first."""
    return listed(f"{user_path(user)}/implicit-following", _edges, page_size, cursor)


def implicit_followers(user: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[ListedEdge]]:
    """Those who follow single boards of `user`, newest first."""
    return listed(f"{user_path(user)}/implicit-followers", _edges, page_size, cursor)


def interests(user: Id) -> Call[Interests]:
    """How many boards `user` has and follows, and how many users by single boards; exact."""
    return Call("GET", f"{user_path(user)}/interests", _interests)


def pin_post(board: Id, post: Id) -> Call[Pinned]:
    """Put a post on a board; repeating it changes nothing."""
    return Call("POST", f"{_path(board)}/pins", _pinned, body={"post": checked_id(post, "post")})


def unpin_post(board: Id, post: Id) -> Call[Pinned]:
    """Take a post off a board."""
    return Call("DELETE", f"{_path(board)}/pins/{checked_id(post, 'post')}", _pinned)


def board_pins(board: Id, *, page_size: int = PAGE_SIZE, cursor: str | None = None) -> Call[Page[Post]]:
    """The posts on a board that the acting user may see, the newest pin first."""
    return listed(f"{_path(board)}/pins", _posts, page_size, cursor)


def _counted(content: bytes) -> int:
    return _count(content).count


def _path(board: Id) -> str:
    return f"{BASE}/boards/{checked_id(board, 'board')}"


def _member_path(board: Id, user: Id) -> str:
    return f"{_path(board)}/collaborators/{checked_id(user, 'user')}"
