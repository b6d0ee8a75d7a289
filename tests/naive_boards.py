"""A naive model of boards and their followers, by the rules of article 002."""

from __future__ import annotations

from typing import NamedTuple

from kith.core.ids import NodeId

PEOPLE = [NodeId(user) for user in range(1, 6)]
Pair = tuple[int, int]


class Owned(NamedTuple):
    """A board as the model knows it."""

    owner: int
    secret: bool


class NaiveBoards:
    """Follows of users and of boards as sets, changed by the article's rules one by one."""

    def __init__(self) -> None:
        self.follows: dict[Pair, int] = {}  # until when, in ms; 0: no end
        self.blocks: set[Pair] = set()
        self.private: set[int] = set()
        self.inactive: set[int] = set()
        self.requests: set[Pair] = set()
        self.boards: dict[int, Owned] = {}
        self.board_follows: set[Pair] = set()  # (user, board) followed directly; see `active_follows`
        self.board_unfollows: set[Pair] = set()
        self.members: set[Pair] = set()  # (user, board) on which they may pin, also while they are deactivated
        self.removed: set[int] = set()  # these are inactive, too
        self.posts: dict[int, int] = {}  # with the author of each
        self.pins: set[Pair] = set()  # (board, post)

    @property
    def active_follows(self) -> set[Pair]:
        """(user, board) followed directly, and in effect: the owner is public, and both users are active."""
        closed = {board for board, owned in self.boards.items() if owned.owner in self.private | self.inactive}
        return {
            (user, board) for user, board in self.board_follows if board not in closed and user not in self.inactive
        }

    @property
    def active_unfollows(self) -> set[Pair]:
        """(user, board) unfollowed although the owner is followed, and in effect."""
        return {
            (user, board)
            for user, board in self.board_unfollows
            if not {user, self.boards[board].owner} & self.inactive
        }

    @property
    def following(self) -> set[Pair]:
        """(user, owner) whose boards are all followed, unless unfollowed one by one."""
        return {pair for pair in self.follows if not {*pair} & self.inactive}

    def blocked(self, one: int, other: int) -> bool:
        return (one, other) in self.blocks or (other, one) in self.blocks

    def forget(self, user: int, owner: int) -> None:
        """Drop a user's follows and unfollows of single boards of an owner."""
        theirs = {(user, board) for board, owned in self.boards.items() if owned.owner == owner}
        self.board_follows -= theirs
        self.board_unfollows -= theirs

    def follow(self, user: int, owner: int, expires_ms: int) -> None:
        if self.blocked(user, owner) or owner in self.inactive:
            return
        if owner not in self.private:
            self.let_in(user, owner, expires_ms)
        elif (user, owner) not in self.follows:
            self.requests.add((user, owner))

    def let_in(self, user: int, owner: int, expires_ms: int) -> None:
        if (user, owner) not in self.follows:
            self.forget(user, owner)
        self.follows[user, owner] = expires_ms
        self.requests.discard((user, owner))

    def unfollow(self, user: int, owner: int) -> None:
        self.follows.pop((user, owner), None)
        self.requests.discard((user, owner))
        self.forget(user, owner)

    def expire(self, now_ms: int) -> None:
        for user, owner in [pair for pair, until in self.follows.items() if until and until <= now_ms]:
            del self.follows[user, owner]
            self.forget(user, owner)

    def block(self, one: int, other: int) -> None:
        self.blocks.add((one, other))
        self.unfollow(one, other)
        self.unfollow(other, one)
        for user, owner in ((one, other), (other, one)):
            self.members -= {(user, board) for board, owned in self.boards.items() if owned.owner == owner}

    def remove(self, user: int) -> None:
        """Remove an account, with what it did and made."""
        self.removed.add(user)
        self.inactive.add(user)
        self.follows = {pair: until for pair, until in self.follows.items() if user not in pair}
        self.requests = {pair for pair in self.requests if user not in pair}
        for pairs in (self.board_follows, self.board_unfollows, self.members):
            pairs -= {pair for pair in pairs if pair[0] == user}
        for board in [board for board, owned in self.boards.items() if owned.owner == user]:
            self.delete(board)
        for post in [post for post, author in self.posts.items() if author == user]:
            self.delete_post(post)

    def delete_post(self, post: int) -> None:
        del self.posts[post]
        self.pins = {pin for pin in self.pins if pin[1] != post}

    def pin(self, user: int, board: int, post: int) -> None:
        author = self.posts[post]
        may_pin = self.sees(user, board) and (self.boards[board].owner == user or (user, board) in self.members)
        is_open = author not in self.private or (user, author) in self.follows
        if may_pin and (author == user or (is_open and author not in self.inactive and not self.blocked(user, author))):
            self.pins.add((board, post))

    def sees(self, user: int, board: int) -> bool:
        owned = self.boards.get(board)
        if owned is None or (owned.owner != user and self.blocked(user, owned.owner)):
            return False
        if user == owned.owner or (user, board) in self.members:
            return True
        return not owned.secret and (owned.owner not in self.private or (user, owned.owner) in self.follows)

    def follow_board(self, user: int, board: int) -> None:
        owned = self.boards.get(board)
        if owned is None or owned.secret or owned.owner == user or not self.sees(user, board):
            return
        if (user, owned.owner) in self.follows:
            self.board_unfollows.discard((user, board))
        elif owned.owner not in self.private:
            self.board_follows.add((user, board))

    def unfollow_board(self, user: int, board: int) -> None:
        owned = self.boards.get(board)
        if owned is None or owned.secret or owned.owner == user:
            return
        if (user, owned.owner) in self.follows:
            self.board_unfollows.add((user, board))
        self.board_follows.discard((user, board))

    def members_of(self, board: int) -> set[int]:
        return {user for user, joined in self.members if joined == board}

    def close(self, board: int) -> None:
        """Drop all follows and unfollows of a board."""
        self.board_follows = {pair for pair in self.board_follows if pair[1] != board}
        self.board_unfollows = {pair for pair in self.board_unfollows if pair[1] != board}

    def hide(self, board: int, secret: bool) -> None:
        self.boards[board] = self.boards[board]._replace(secret=secret)
        if secret:
            self.close(board)

    def delete(self, board: int) -> None:
        self.close(board)
        del self.boards[board]
        self.pins = {pin for pin in self.pins if pin[0] != board}
        self.members = {pair for pair in self.members if pair[1] != board}

    def move(self, board: int, to: int) -> None:
        self.boards[board] = self.boards[board]._replace(owner=to)
        self.members = {
            pair for pair in self.members if pair[1] != board or not (pair[0] == to or self.blocked(pair[0], to))
        }
        for user in map(int, PEOPLE):
            pair = (user, board)
            if user == to or (user, to) in self.follows or self.blocked(user, to):
                self.board_follows.discard(pair)
            if user == to or (user, to) not in self.follows:
                self.board_unfollows.discard(pair)

    def merge(self, board: int, into: int) -> None:
        owner = self.boards[into].owner
        carried = {(user, into) for user, followed in self.board_follows if followed == board}
        self.board_follows |= {pair for pair in carried if (pair[0], owner) not in self.follows}
        self.pins |= {(into, post) for pinned, post in self.pins if pinned == board}
        self.delete(board)

    def followers(self, board: int) -> set[int]:
        owned = self.boards[board]
        if owned.secret:
            return set()
        through = {
            user
            for user, owner in self.following
            if owner == owned.owner and (user, board) not in self.active_unfollows
        }
        return through | {user for user, followed in self.active_follows if followed == board}

    def kind(self, user: int, owner: int) -> str:
        if (user, owner) in self.following:
            return "explicit"
        return (
            "implicit"
            if any(self.boards[board].owner == owner for one, board in self.active_follows if one == user)
            else "none"
        )

    def board_kind(self, user: int, board: int) -> str:
        if board not in self.boards or user not in self.followers(board):
            return "none"
        return "explicit" if (user, board) in self.active_follows else "implicit"
