"""/users/{id}/follow, block and mute, with the product's rules, and the lists of people."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from kith.access.policy import ReadPolicy, check_own_read
from kith.api.answers import ListAnswer, Pagination, Time, items_of, ms_of_time
from kith.api.call import Call
from kith.api.operations import delete, get, post, post_query
from kith.api.parameters import Cursor, Id, Limit, NamePrefix, ObjectLimit, Sort
from kith.api.presenter import Presenter, UsersAnswer
from kith.core.ids import NodeId, parse_id
from kith.core.paging import LIMIT_DEFAULT, Page, Window, check_limit
from kith.graph.edge import Direction
from kith.people.name_sorter import SORTED_MAX, NamePosition, NameSorter, check_prefix
from kith.people.relations import Relations, RelationWritten
from kith.people.search import PeopleSearch


class FollowRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`expiresAt`: when the follow ends; without it, when they are unfollowed."""

    expires_at: Time | None = None


class Followed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the acting user now follows the target, and whether this request changed that."""

    following: bool
    changed: bool
    token: str | None
    requested: bool = False


class Blocked(msgspec.Struct, frozen=True):
    """Whether the acting user now blocks the target, and whether this request changed that."""

    blocking: bool
    changed: bool
    token: str | None


class Muted(msgspec.Struct, frozen=True):
    """Whether the acting user now mutes the target, and whether this request changed that."""

    muting: bool
    changed: bool
    token: str | None


class RelationshipsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The users whose relationship to the acting user is asked for."""

    targets: list[int | str]


class RelationshipAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The relationship between the acting user and a target, in both directions."""

    id: str
    following: bool
    followed_by: bool
    requested: bool
    blocking: bool
    blocked_by: bool
    muting: bool


class RelationshipsAnswer(msgspec.Struct, frozen=True):
    """One row per target, in the order of the request."""

    relationships: list[RelationshipAnswer]


class FewerAnswer(msgspec.Struct, frozen=True):
    """Whether the acting user sees fewer posts of an author for some months. Nobody else can see it."""

    fewer: bool


_UNTIL_UNDONE = FollowRequest()
_encode_place = msgspec.msgpack.Encoder().encode
_decode_place = msgspec.msgpack.Decoder(NamePosition).decode


class RelationsResource:
    """Follows, blocks and mutes, and the lists of people."""

    def __init__(
        self,
        relations: Relations,
        access: ReadPolicy,
        present: Presenter,
        name_sorter: NameSorter,
        search: PeopleSearch,
    ) -> None:
        self._relations, self._access, self._present = relations, access, present
        self._name_sorter, self._search = name_sorter, search

    @post("/users/{user_id}/follow", "Follow a user", callers="acting")
    async def follow(self, call: Call, user_id: Id, body: FollowRequest = _UNTIL_UNDONE) -> Followed:
        """A private account gets a request instead, and the answer says `requested`. `expiresAt` ends the follow at
        that time, in every list and count. The last request wins: following again without `expiresAt` makes the follow
        permanent. Otherwise repeating it changes nothing.
        """
        expires_ms = 0 if body.expires_at is None else max(1, ms_of_time(body.expires_at))
        return _followed(call, await self._relations.follow(call.acting_user, user_id, expires_ms))

    @delete("/users/{user_id}/follow", "Unfollow a user", callers="acting")
    async def unfollow(self, call: Call, user_id: Id) -> Followed:
        """Also withdraws a follow request."""
        return _followed(call, await self._relations.unfollow(call.acting_user, user_id))

    @post("/users/{user_id}/remove-follower", "Remove a follower", callers="acting")
    async def remove_follower(self, call: Call, user_id: Id) -> Followed:
        """The user stops following the acting user. They may follow again."""
        return _followed(call, await self._relations.remove_follower(call.acting_user, user_id))

    @post("/users/{user_id}/block", "Block a user", callers="acting")
    async def block(self, call: Call, user_id: Id) -> Blocked:
        """Removes follows in both directions and prevents new ones."""
        return _blocked(call, await self._relations.block(call.acting_user, user_id))

    @delete("/users/{user_id}/block", "Unblock a user", callers="acting")
    async def unblock(self, call: Call, user_id: Id) -> Blocked:
        """Does not restore the follows that the block removed."""
        return _blocked(call, await self._relations.unblock(call.acting_user, user_id))

    @post("/users/{user_id}/mute", "Mute a user", callers="acting")
    async def mute(self, call: Call, user_id: Id) -> Muted:
        """Hides the user from the acting user only."""
        return _muted(call, await self._relations.mute(call.acting_user, user_id))

    @delete("/users/{user_id}/mute", "Unmute a user", callers="acting")
    async def unmute(self, call: Call, user_id: Id) -> Muted:
        """Undo mute."""
        return _muted(call, await self._relations.unmute(call.acting_user, user_id))

    @post("/users/{user_id}/see-fewer", "See fewer posts of a user", callers="acting")
    async def see_fewer(self, call: Call, user_id: Id) -> FewerAnswer:
        """Ranks their posts lower in the acting user's feed. The effect fades over some months; repeating it starts it
        again at full strength.
        """
        return _fewer(call, await self._relations.see_fewer(call.acting_user, user_id))

    @delete("/users/{user_id}/see-fewer", "Undo seeing fewer posts of a user", callers="acting")
    async def see_as_before(self, call: Call, user_id: Id) -> FewerAnswer:
        """Repeating it changes nothing."""
        return _fewer(call, await self._relations.undo_see_fewer(call.acting_user, user_id))

    @get("/follow-requests", "Follow requests to the acting user", callers="acting")
    async def follow_requests(self, call: Call, limit: Limit = None, cursor: Cursor = None) -> ListAnswer:
        """Newest first. Accounts that the app hides are left out; their requests wait until the app shows them
        again.
        """
        list_key = f"requests {call.acting_user}"
        page = await self._relations.requests(call.acting_user, call.window(list_key, limit, cursor))
        return await self._people(call, list_key, page)

    @post("/follow-requests/{user_id}/accept", "Accept a request", callers="acting")
    async def accept(self, call: Call, user_id: Id) -> Followed:
        """The user follows the acting user from now on. 409 `REQUESTER_LIMIT_REACHED` if they already follow the
        maximum; their request is kept.
        """
        return _followed(call, await self._relations.accept(call.acting_user, user_id))

    @post("/follow-requests/{user_id}/decline", "Decline a request", callers="acting")
    async def decline(self, call: Call, user_id: Id) -> Followed:
        """The user may ask again."""
        return _followed(call, await self._relations.decline(call.acting_user, user_id))

    @post_query("/relationships", "The acting user's relationship to many targets", callers="acting")
    async def relationships(self, call: Call, body: RelationshipsRequest) -> RelationshipsAnswer:
        """One call returns all that the buttons in a list of profiles need."""
        targets = [parse_id(target, "targets") for target in body.targets]
        rows = await self._relations.relationships(call.acting_user, targets)
        return RelationshipsAnswer(
            [
                RelationshipAnswer(
                    str(row.id), row.following, row.followed_by, row.requested, row.blocking, row.blocked_by, row.muting
                )
                for row in rows
            ]
        )

    @get("/users/{user_id}/following", "Whom a user follows")
    async def following(
        self,
        call: Call,
        user_id: Id,
        limit: Limit = None,
        cursor: Cursor = None,
        sort: Sort = None,
        q: NamePrefix = None,
    ) -> ListAnswer:
        """Newest first, or sorted by name with `sort` or `q`."""
        list_key = f"following {user_id}"
        if sort or q is not None:
            return await self._sorted(call, list_key, user_id, self._relations.following, limit, cursor, q)
        window = call.window(list_key, limit, cursor)
        return call.answer(list_key, await self._access.people(call.caller, user_id, Direction.OUT, window))

    @get("/users/{user_id}/followers", "Who follows a user")
    async def followers(
        self,
        call: Call,
        user_id: Id,
        limit: Limit = None,
        cursor: Cursor = None,
        sort: Sort = None,
        q: NamePrefix = None,
    ) -> ListAnswer:
        """Newest first, or sorted by name with `sort` or `q`. A page costs the same at any depth."""
        list_key = f"followers {user_id}"
        if sort or q is not None:
            return await self._sorted(call, list_key, user_id, self._relations.followers, limit, cursor, q)
        window = call.window(list_key, limit, cursor)
        return call.answer(list_key, await self._access.people(call.caller, user_id, Direction.IN, window))

    @get("/users/{user_id}/blocked", "Whom a user blocks")
    async def blocked(self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None) -> UsersAnswer:
        """Only the user may read this list. Newest block first. Deactivated accounts are left out until they are
        reactivated.
        """
        check_own_read(call.caller, user_id)
        list_key = f"blocked {user_id}"
        page = await self._relations.blocked(user_id, call.window_of_objects(list_key, limit, cursor))
        return await self._chosen(call, list_key, page)

    @get("/users/{user_id}/muted", "Whom a user mutes")
    async def muted(self, call: Call, user_id: Id, limit: ObjectLimit = None, cursor: Cursor = None) -> UsersAnswer:
        """Only the user may read this list. Newest mute first. Deactivated accounts are left out until they are
        reactivated.
        """
        check_own_read(call.caller, user_id)
        list_key = f"muted {user_id}"
        page = await self._relations.muted(user_id, call.window_of_objects(list_key, limit, cursor))
        return await self._chosen(call, list_key, page)

    @get("/users/{user_id}/friends", "Who follows and is followed back")
    async def friends(
        self,
        call: Call,
        user_id: Id,
        limit: Limit = None,
        cursor: Cursor = None,
        sort: Sort = None,
        q: NamePrefix = None,
    ) -> ListAnswer:
        """Sorted by when the user followed them, newest first, or by name with `sort` or `q`."""
        list_key = f"friends {user_id}"
        if sort or q is not None:
            return await self._sorted(call, list_key, user_id, self._relations.friends, limit, cursor, q)
        reading = self._relations.friends(user_id, call.window(list_key, limit, cursor))
        page = await self._access.if_lists_visible(call.caller, [user_id], reading)
        return await self._people(call, list_key, page)

    @get("/users/{user_id}/mutuals/{other_id}", "Whom both follow")
    async def mutuals(
        self, call: Call, user_id: Id, other_id: Id, limit: Limit = None, cursor: Cursor = None
    ) -> ListAnswer:
        """Sorted by when the first user followed them, newest first."""
        list_key = f"mutuals {user_id} {other_id}"
        reading = self._relations.mutuals(user_id, other_id, call.window(list_key, limit, cursor))
        page = await self._access.if_lists_visible(call.caller, [user_id, other_id], reading)
        return await self._people(call, list_key, page)

    @get("/users/{user_id}/followers-you-know", "Followers of a user whom I follow", callers="acting")
    async def followers_you_know(
        self, call: Call, user_id: Id, limit: Limit = None, cursor: Cursor = None
    ) -> ListAnswer:
        """Sorted by when the acting user followed them, newest first."""
        list_key = f"followers-you-know {call.acting_user} {user_id}"
        reading = self._relations.followers_you_know(call.acting_user, user_id, call.window(list_key, limit, cursor))
        page = await self._access.if_lists_visible(call.caller, [user_id], reading)
        return await self._people(call, list_key, page)

    async def _chosen(self, call: Call, list_key: str, page: Page) -> UsersAnswer:
        visible = await self._access.without_hidden_users(call.caller, page)
        return UsersAnswer(await self._present.users(visible), call.pagination(list_key, visible))

    @get("/search/users", "Search people by the beginning of a name")
    async def search_users(
        self, call: Call, q: NamePrefix = "", limit: ObjectLimit = None, cursor: Cursor = None
    ) -> UsersAnswer:
        """Searches all people whom the caller may see. `q` matches the beginning of the username, of the display name,
        or of its second or third word, ignoring case. Sorted by name. A page may be short although more follow.
        """
        prefix = check_prefix(q or "")
        list_key = f"search users {prefix}"
        visible_only = partial(self._access.without_invisible, call.caller)
        page = await self._search.page(prefix, call.window_of_objects(list_key, limit, cursor), visible_only)
        return UsersAnswer(await self._present.users(page), call.pagination(list_key, page))

    async def _sorted(
        self,
        call: Call,
        list_key: str,
        user: NodeId,
        listed: Callable[[NodeId, Window], Coroutine[Any, Any, Page]],
        limit: int | None,
        cursor: str | None,
        q: str | None,
    ) -> ListAnswer:
        """A page of a list, sorted by name."""
        prefix = "" if q is None else check_prefix(q)
        limit, list_key = check_limit(LIMIT_DEFAULT if limit is None else limit), f"{list_key} by name {prefix}"
        after = _decode_place(call.unseal(list_key, cursor)) if cursor else None
        people = await self._access.if_lists_visible(call.caller, [user], listed(user, Window(SORTED_MAX)))
        visible_only = partial(self._access.without_invisible, call.caller)
        sorted_page = await self._name_sorter.page(people, prefix, after, limit, visible_only)
        items = items_of(sorted_page.page.items)
        following = call.seal(list_key, _encode_place(sorted_page.end)) if sorted_page.end else None
        return ListAnswer(items, Pagination(following, None, following is not None), sorted_page.partial)

    async def _people(self, call: Call, list_key: str, page: Page) -> ListAnswer:
        return call.answer(list_key, await self._access.without_invisible(call.caller, page))


def _followed(call: Call, written: RelationWritten) -> Followed:
    return Followed(written.holds, written.changed, call.note_write(written.mark), written.requested)


def _blocked(call: Call, written: RelationWritten) -> Blocked:
    return Blocked(written.holds, written.changed, call.note_write(written.mark))


def _muted(call: Call, written: RelationWritten) -> Muted:
    return Muted(written.holds, written.changed, call.note_write(written.mark))


def _fewer(call: Call, written: RelationWritten) -> FewerAnswer:
    call.note_write(written.mark)
    return FewerAnswer(written.holds)
