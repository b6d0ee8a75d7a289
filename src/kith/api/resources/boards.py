"""/boards: boards, their followers and their pins (article 002)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kith.access.policy import ReadPolicy, check_own_read
from kith.api.answers import CountAnswer, ListAnswer, Pagination, Time
from kith.api.call import Call
from kith.api.operations import delete, get, patch, post, post_query
from kith.api.parameters import Cursor, Id, IdempotencyKey, Limit, ObjectLimit
from kith.api.presenter import AuthorAnswer, PostsAnswer, Presenter, UsersAnswer, time_of
from kith.boards.board import Board
from kith.boards.boards import Boards
from kith.boards.collaborators import Collaborators
from kith.boards.following import BoardFollowing, FollowKind
from kith.boards.pins import Pins
from kith.core.ids import parse_id
from kith.core.paging import Page, Window


class BoardRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A new board. `secret`: only its owner and collaborators can see it."""

    name: str
    secret: bool = False


class BoardChange(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a board to change. Fields that are left out keep their value."""

    name: str | None = None
    secret: bool | None = None


class BoardMove(msgspec.Struct, forbid_unknown_fields=True):
    """The new owner of the board: one of its collaborators."""

    owner: int | str


class BoardMerge(msgspec.Struct, forbid_unknown_fields=True):
    """The board of the same owner that receives the pins and followers."""

    into: int | str


class PinRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The post to pin."""

    post: int | str


class BoardsCheckRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Users and boards, 25 at most in all."""

    users: list[int | str] = []
    boards: list[int | str] = []


class BoardAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A board. Both counts are exact. `pinCount` counts every pin, also of posts that the acting user may not see."""

    id: str
    owner: AuthorAnswer
    name: str
    secret: bool
    follower_count: int
    pin_count: int
    created_at: Time


class BoardsAnswer(msgspec.Struct, frozen=True):
    """A page of boards, newest first. A page of a very long list may be short although more follow."""

    items: list[BoardAnswer]
    pagination: Pagination


class BoardFollowedAnswer(msgspec.Struct, frozen=True):
    """Whether the acting user now follows the board, and whether this request changed that."""

    following: bool
    changed: bool
    token: str | None


class PinnedAnswer(msgspec.Struct, frozen=True):
    """Whether the post is now on the board, and whether this request changed that."""

    pinned: bool
    changed: bool
    token: str | None


class InvitedAnswer(msgspec.Struct, frozen=True):
    """Whether the user is now a collaborator of the board."""

    member: bool
    token: str | None


class FollowedKind(msgspec.Struct, frozen=True):
    """How the acting user follows a user or board. A user is followed `explicit`, or `implicit` if the acting user
    follows only single boards of theirs. A board is followed `explicit` by a follow of its own, or `implicit` through
    its owner.
    """

    id: str
    following: bool
    kind: FollowKind


class BoardsChecked(msgspec.Struct, frozen=True):
    """One row per user and one per board, in the order of the request."""

    users: list[FollowedKind]
    boards: list[FollowedKind]


class InterestsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Exact counts: the user's public boards; boards that the user follows with a follow of their own; users of whom
    the user follows single boards; users who follow single boards of this user. `boardsUnfollowed` is null for everyone
    but the user.
    """

    board_count: int
    boards_followed: int
    boards_unfollowed: int | None
    implicit_following: int
    implicit_followers: int


class BoardsResource:
    """Boards, their followers and their pins."""

    def __init__(
        self, boards: Boards, following: BoardFollowing, pins: Pins, access: ReadPolicy, present: Presenter
    ) -> None:
        self._boards, self._following, self._pins = boards, following, pins
        self._collaborators = Collaborators(boards)
        self._access, self._present = access, present

    @post("/boards", "Create a board", status=201, callers="acting", quota="posts")
    async def create_board(self, call: Call, body: BoardRequest, idempotency_key: IdempotencyKey = None) -> BoardAnswer:
        """Users who follow the owner follow the new board at once, unless it is secret."""
        making = self._boards.create(call.acting_user, body.name, secret=body.secret, key=idempotency_key)
        return (await self._answers([await call.perform_write(making)]))[0]

    @get("/boards/{board_id}", "A board")
    async def get_board(self, call: Call, board_id: Id) -> BoardAnswer:
        """404 if the board does not exist, is deleted, or is hidden from the acting user."""
        return (await self._answers([await self._boards.get(call.viewer, board_id)]))[0]

    @patch("/boards/{board_id}", "Change a board", callers="acting")
    async def edit_board(self, call: Call, board_id: Id, body: BoardChange) -> BoardAnswer:
        """Only its owner may change a board. A board that becomes secret loses its followers."""
        changing = self._boards.change(call.acting_user, board_id, name=body.name, secret=body.secret)
        return (await self._answers([await call.perform_write(changing)]))[0]

    @delete("/boards/{board_id}", "Delete a board", status=204, callers="acting")
    async def delete_board(self, call: Call, board_id: Id) -> None:
        """Permanent. Its pins are deleted, the pinned posts are not. Only its owner may delete a board."""
        call.note_write(await self._boards.delete(call.acting_user, board_id))

    @post("/boards/{board_id}/move", "Give a board to a collaborator", callers="acting")
    async def move_board(self, call: Call, board_id: Id, body: BoardMove) -> BoardAnswer:
        """Users who follow the board itself keep following it. Users who followed it through the old owner do not. Only
        its owner may give it away.
        """
        moving = self._boards.move(call.acting_user, board_id, parse_id(body.owner, "owner"))
        return (await self._answers([await call.perform_write(moving)]))[0]

    @post("/boards/{board_id}/merge", "Merge a board into another", callers="acting")
    async def merge_board(self, call: Call, board_id: Id, body: BoardMerge) -> BoardAnswer:
        """Moves pins and followers to another board of the same owner, then deletes this board. When there are very
        many, some are moved after the answer.
        """
        into = parse_id(body.into, "into")
        call.note_write(await self._boards.merge(call.acting_user, board_id, into))
        return (await self._answers([await self._boards.get(call.viewer, into)]))[0]

    @get("/users/{user_id}/boards", "The boards of a user")
    async def user_boards(
        self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> BoardsAnswer:
        """Newest first. Secret boards are listed only for their owner and collaborators."""
        await self._access.check_may_see_lists(call.caller, user_id)
        list_key = f"boards {user_id}"
        return await self._page(
            call,
            list_key,
            await self._boards.of_owner(call.viewer, user_id, self._window(call, list_key, limit, cursor)),
        )

    # --- collaborators ---------------------------------------------------------------------------------

    @post("/boards/{board_id}/collaborators/{user_id}", "Invite a collaborator", callers="acting", quota="engagement")
    async def invite_collaborator(self, call: Call, board_id: Id, user_id: Id) -> InvitedAnswer:
        """The collaborator sees the board, even if it is secret, and may pin on it. Only the owner may invite."""
        return InvitedAnswer(
            True, call.note_write(await self._collaborators.invite(call.acting_user, board_id, user_id))
        )

    @delete("/boards/{board_id}/collaborators/{user_id}", "Dismiss a collaborator", callers="acting")
    async def dismiss_collaborator(self, call: Call, board_id: Id, user_id: Id) -> InvitedAnswer:
        """The owner may dismiss any collaborator; a collaborator may leave. Their pins stay."""
        return InvitedAnswer(
            False, call.note_write(await self._collaborators.dismiss(call.acting_user, board_id, user_id))
        )

    @get("/boards/{board_id}/collaborators", "The collaborators of a board")
    async def board_collaborators(
        self, call: Call, board_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> UsersAnswer:
        """Newest first. Only the owner and the collaborators may read this list."""
        list_key = f"collaborators {board_id}"
        page = await self._collaborators.of(call.viewer, board_id, self._window(call, list_key, limit, cursor))
        visible = await self._access.without_invisible(call.caller, page)
        return UsersAnswer(await self._present.users(visible), call.pagination(list_key, visible))

    @get("/users/{user_id}/collaborations", "Boards that a user collaborates on")
    async def collaborations(
        self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> BoardsAnswer:
        """Only the user may read this list. The newest invitation comes first."""
        check_own_read(call.caller, user_id)
        list_key = f"collaborations {user_id}"
        return await self._page(
            call, list_key, await self._collaborators.joined(user_id, self._window(call, list_key, limit, cursor))
        )

    # --- following -------------------------------------------------------------------------------------

    @post("/boards/{board_id}/follow", "Follow a board", callers="acting")
    async def follow_board(self, call: Call, board_id: Id) -> BoardFollowedAnswer:
        """If the acting user follows the owner and has unfollowed this board, this undoes the unfollow. Repeating it
        changes nothing.
        """
        following, changed, mark = await self._following.follow(call.acting_user, board_id)
        return BoardFollowedAnswer(following, changed, call.note_write(mark))

    @delete("/boards/{board_id}/follow", "Unfollow a board", callers="acting")
    async def unfollow_board(self, call: Call, board_id: Id) -> BoardFollowedAnswer:
        """Also works for a board that is followed through its owner. 409 `NOT_FOLLOWING` for a board that they never
        followed.
        """
        following, changed, mark = await self._following.unfollow(call.acting_user, board_id)
        return BoardFollowedAnswer(following, changed, call.note_write(mark))

    @get("/boards/{board_id}/follow", "Whether I follow a board", callers="acting")
    async def follows_board(self, call: Call, board_id: Id) -> FollowedKind:
        """`kind` says how the acting user follows the board. It is `none` too if the board is hidden from them."""
        checked = await self._following.check(call.acting_user, (), (board_id,))
        return _kinds((board_id,), checked.boards)[0]

    @post_query("/boards/check", "Which users and boards I follow", callers="acting")
    async def check_boards(self, call: Call, body: BoardsCheckRequest) -> BoardsChecked:
        """At most 25 users and boards together. `kind` is `none` too for a user or board that is hidden from the acting
        user.
        """
        users = [parse_id(user, "users") for user in body.users]
        boards = [parse_id(board, "boards") for board in body.boards]
        checked = await self._following.check(call.acting_user, users, boards)
        return BoardsChecked(_kinds(users, checked.users), _kinds(boards, checked.boards))

    @get("/boards/{board_id}/followers", "Who follows a board")
    async def board_followers(self, call: Call, board_id: Id, limit: Limit = None, cursor: Cursor = None) -> ListAnswer:
        """Users who follow the board itself, or follow its owner and have not unfollowed the board. Newest follow
        first. A page costs the same at any depth. 403 for a collaborator who does not follow the private owner.
        """
        list_key = f"board followers {board_id}"
        page = await self._following.followers(call.viewer, board_id, call.window(list_key, limit, cursor))
        return await self._people(call, list_key, page)

    @get("/boards/{board_id}/followers/count", "How many follow a board")
    async def count_board_followers(self, call: Call, board_id: Id) -> CountAnswer:
        """The count is exact."""
        return CountAnswer(await self._following.follower_count(call.viewer, board_id))

    @get("/users/{user_id}/boards-followed", "The boards that a user follows directly")
    async def boards_followed(
        self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> BoardsAnswer:
        """Newest follow first. Boards that the user follows only through their owner are left out."""
        await self._access.check_may_see_lists(call.caller, user_id)
        list_key = f"boards-followed {user_id}"
        return await self._page(
            call,
            list_key,
            await self._following.followed(call.viewer, user_id, self._window(call, list_key, limit, cursor)),
        )

    @get("/users/{user_id}/boards-unfollowed", "The boards that a user unfollowed")
    async def boards_unfollowed(
        self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> BoardsAnswer:
        """Boards that the user unfollowed although they follow the owner, newest first. Only the user may read this
        list.
        """
        check_own_read(call.caller, user_id)
        list_key = f"boards-unfollowed {user_id}"
        return await self._page(
            call, list_key, await self._following.unfollowed(user_id, self._window(call, list_key, limit, cursor))
        )

    @get("/users/{user_id}/implicit-following", "Users of whom a user follows only single boards")
    async def implicit_following(
        self, call: Call, user_id: Id, limit: Limit = None, cursor: Cursor = None
    ) -> ListAnswer:
        """Newest first. Users whom the user follows as a whole are left out."""
        list_key = f"implicit-following {user_id}"
        reading = self._following.implicit_following(user_id, call.window(list_key, limit, cursor))
        return await self._people(call, list_key, await self._access.if_lists_visible(call.caller, [user_id], reading))

    @get("/users/{user_id}/implicit-followers", "Users who follow only single boards of a user")
    async def implicit_followers(
        self, call: Call, user_id: Id, limit: Limit = None, cursor: Cursor = None
    ) -> ListAnswer:
        """Newest first. Users who follow this user as a whole are left out."""
        list_key = f"implicit-followers {user_id}"
        reading = self._following.implicit_followers(user_id, call.window(list_key, limit, cursor))
        return await self._people(call, list_key, await self._access.if_lists_visible(call.caller, [user_id], reading))

    @get("/users/{user_id}/interests", "Counts of a user's boards and board follows")
    async def interests(self, call: Call, user_id: Id) -> InterestsAnswer:
        """All counts are exact."""
        reading = self._following.interests(user_id)
        counts = await self._access.if_lists_visible(call.caller, [user_id], reading)
        own = call.caller.system or call.caller.user == user_id
        unfollowed = counts.boards_unfollowed if own else None
        return InterestsAnswer(
            counts.boards, counts.boards_followed, unfollowed, counts.implicit_following, counts.implicit_followers
        )

    # --- pins ------------------------------------------------------------------------------------------

    @post("/boards/{board_id}/pins", "Pin a post", callers="acting", quota="engagement")
    async def pin_post(self, call: Call, board_id: Id, body: PinRequest) -> PinnedAnswer:
        """The owner and collaborators may pin a post, if they may see it. Repeating it changes nothing."""
        changed, mark = await self._pins.add(call.acting_user, board_id, parse_id(body.post, "post"))
        return PinnedAnswer(True, changed, call.note_write(mark))

    @delete("/boards/{board_id}/pins/{post_id}", "Unpin a post", callers="acting")
    async def unpin_post(self, call: Call, board_id: Id, post_id: Id) -> PinnedAnswer:
        """The owner and collaborators may unpin. Repeating it changes nothing."""
        changed, mark = await self._pins.remove(call.acting_user, board_id, post_id)
        return PinnedAnswer(False, changed, call.note_write(mark))

    @get("/boards/{board_id}/pins", "The pins of a board")
    async def board_pins(
        self, call: Call, board_id: Id, limit: ObjectLimit = None, cursor: Cursor = None
    ) -> PostsAnswer:
        """Newest pin first. Posts that the acting user may not see are left out."""
        list_key = f"pins {board_id}"
        window, (details, prefetch) = (
            self._window(call, list_key, limit, cursor),
            self._present.prefetch_details(call.viewer),
        )
        posts, page = await self._pins.of_board(call.viewer, board_id, window, prefetch)
        return PostsAnswer(
            await self._present.posts(call.viewer, posts, known=details), call.pagination(list_key, page)
        )

    # --- answers ---------------------------------------------------------------------------------------

    def _window(self, call: Call, list_key: str, limit: int | None, cursor: str | None) -> Window:
        return call.window_of_objects(list_key, limit, cursor)

    async def _people(self, call: Call, list_key: str, page: Page) -> ListAnswer:
        return call.answer(list_key, await self._access.without_invisible(call.caller, page))

    async def _page(self, call: Call, list_key: str, boards_page: tuple[list[Board], Page]) -> BoardsAnswer:
        boards, page = boards_page
        return BoardsAnswer(await self._answers(boards), call.pagination(list_key, page))

    async def _answers(self, boards: Sequence[Board]) -> list[BoardAnswer]:
        """Boards that the viewer may see, as answers."""
        owners = await self._present.authors([board.owner for board in boards])
        followers = await self._following.follower_counts(boards)
        pins = await self._pins.counts([board.id for board in boards])
        return [
            BoardAnswer(
                str(board.id),
                owners[board.owner],
                board.name,
                board.secret,
                following,
                pinned,
                time_of(board.created_at),
            )
            for board, following, pinned in zip(boards, followers, pins, strict=True)
        ]


def _kinds(ids: Sequence[int], kinds: Sequence[FollowKind]) -> list[FollowedKind]:
    return [FollowedKind(str(id_), kind != "none", kind) for id_, kind in zip(ids, kinds, strict=True)]
