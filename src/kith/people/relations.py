"""Relations between users: follow, follow requests, block, mute; and the lists of followers, followees and friends.

On an engine without transactions across keys, `block_conflicts` makes sure that no follow outlives a block.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import reduce
from typing import Any, Protocol

import msgspec

from kith.core.errors import BatchTooLarge, FollowLimitReached, Forbidden, RequesterLimitReached, SelfEdge, UserNotFound
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Page, Window
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import Direction, Edge, EdgeChange, EdgeLimit, EdgeWrite, Outcome, State
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FEWER, FOLLOW_REQUESTS, FOLLOWS, MUTES
from kith.graph.shapes import Listing
from kith.people.accounts import check_active, check_not_removed
from kith.people.block_conflicts import drop_blocked, forbidden_edges, undo_blocked
from kith.people.privacy import Privacy
from kith.people.relationships import Relationship, relationships

_APPLIED = Outcome.APPLIED


class RelationLimits(msgspec.Struct, frozen=True):
    """The limits of relations; each is a setting with the same name."""

    follows_max: int = 10_000  # per user, as on Twitter and others (article 000); followers are unlimited
    batch_max: int = 1_000


class RelationWritten(msgspec.Struct, frozen=True):
    """The answer to a write: whether the relation holds now, whether that changed, and the write's place in the log.

    `requested`: the account is private, so a follow request was written; if the relation holds, for another expiry.
    """

    holds: bool
    changed: bool
    mark: WriteMark
    requested: bool = False


class FollowDependents(Protocol):
    """Rows of a room above that depend on a follow or block between two users, such as follows of boards. That room
    settles them from the log, too; `Relations` settles them at once, so that the next read sees it.
    """

    def lists_of(self, user: NodeId, /) -> tuple[Listing, ...]:
        """Lists of `user`. While all of them are empty, nothing depends on the user's follows and blocks."""
        ...

    def on_change(self, user: NodeId, other: NodeId, /, *, ended: bool) -> Coroutine[Any, Any, WriteMark]:
        """Settle what depends on the pair; returns its mark. `ended`: `user` follows nothing of `other` any more."""
        ...


class Relations:
    """The rules of following, blocking and muting. All ids are user ids."""

    def __init__(
        self, graph: Graph, privacy: Privacy, limits: RelationLimits, *, dependents: FollowDependents | None = None
    ) -> None:
        self._graph, self._store, self._privacy, self._limits = graph, graph.store, privacy, limits
        self._limit = EdgeLimit(limits.follows_max)
        number = graph.graphs.number
        self._follows, self._blocks, self._mutes = number(FOLLOWS), number(BLOCKS), number(MUTES)
        self._requests, self._fewer = number(FOLLOW_REQUESTS), number(FEWER)
        self._dependents = dependents

    # --- following -------------------------------------------------------------------------------------

    async def follow(self, actor: NodeId, target: NodeId, expires_ms: int = 0) -> RelationWritten:
        """Make `actor` follow `target`, or request it if `target` is private.

        `expires_ms`: when the follow ends, in ms since the epoch; 0: never. The last call wins. An accepted request
        passes its expiry on to the follow.

        Repeating it changes nothing and keeps the place in both lists. Errors: SelfEdge; UserNotFound if `target` is
        deactivated or removed; Forbidden if `actor` is, or one blocks the other; FollowLimitReached; InvalidContent.
        """
        _check_not_self(actor, target)
        self._graph.check_expiry(expires_ms)
        follow = await self._follow(actor, target, expires_ms=expires_ms)
        return follow or await self._request_follow(actor, target, expires_ms)

    async def unfollow(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Undo `follow`. Also withdraws a follow request, and ends `actor`'s follows of single boards of `target`."""
        _check_not_self(actor, target)
        unfollow, withdrawn = (
            self._graph.remove_write(graph, actor, target) for graph in (self._follows, self._requests)
        )
        changes, mark = await self._graph.write([self._with_dependent_lists(unfollow, actor), withdrawn])
        after = await self._update_dependents(changes[0], (actor, target), ended=True)
        changed = after is not NO_MARK or any(change.outcome is _APPLIED for change in changes)
        return RelationWritten(False, changed, self._graph.later_mark(mark, after))

    async def remove_follower(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Make `target` no longer follow `actor`."""
        return await self.unfollow(target, actor)

    async def accept(self, actor: NodeId, requester: NodeId) -> RelationWritten:
        """Accept the follow request of `requester`. Repeating it changes nothing.

        Errors: UserNotFound if there is no request, or if the requester is deactivated or hidden by the app (the
        request then waits until they are back); Forbidden if `actor` is deactivated; RequesterLimitReached.
        """
        _check_not_self(actor, requester)
        (request,) = await self._store.get_many(self._requests, [(requester, actor)])
        is_requested = request is not None and request.state is State.NORMAL
        if not is_requested and await self._graph.exists(self._follows, requester, actor):
            return RelationWritten(True, False, NO_MARK)
        if request is None or not is_requested or await self._privacy.hidden([requester]) == [True]:
            raise _no_request(requester)
        try:
            result = await self._follow(requester, actor, accepted=True, expires_ms=request.expires_ms)
        except FollowLimitReached:
            limit = self._limits.follows_max
            raise RequesterLimitReached(
                f"this user follows {limit} others, as many as one may; accept again when they have unfollowed someone",
                id=str(requester),
                max=limit,
            ) from None
        return result or RelationWritten(True, False, NO_MARK)

    async def accept_all(self, actor: NodeId, requesters: Sequence[NodeId]) -> None:
        """Accept the follow requests of `requesters` to `actor`, whose account is public, in one write.

        The request of a requester who may not follow stays. Repeating it changes nothing.
        """
        requests = await self._store.get_many(self._requests, [(requester, actor) for requester in requesters])
        writes = [
            write
            for requester, request in zip(requesters, requests, strict=True)
            for write in (
                self._conditional_write(
                    self._follows,
                    requester,
                    actor,
                    if_public=True,
                    expires_ms=request.expires_ms if request else 0,
                    while_edge=(self._requests, requester, actor, True),
                ),
                self._graph.remove_write(self._requests, requester, actor, chained=True),
            )
        ]
        changes = await self._store.apply(writes) if writes else []
        await undo_blocked(self._graph, self._privacy, writes[::2], changes[::2])

    async def decline(self, actor: NodeId, requester: NodeId) -> RelationWritten:
        """Decline a request to follow `actor`. The requester may send another."""
        _check_not_self(actor, requester)
        return await self._write_one(self._graph.remove_write(self._requests, requester, actor), holds=False)

    # --- blocking and muting ---------------------------------------------------------------------------

    async def block(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Forbid follows between the two; drop their follows and requests, both ways. Errors as of `mute`."""
        _check_not_self(actor, target)
        await check_not_removed(self._store, actor, target)
        block = self._with_dependent_lists(self._graph.add_write(self._blocks, actor, target), actor, target)
        drops = [self._graph.remove_write(*edge) for edge in forbidden_edges(self._graph, actor, target)]
        changes, mark = await self._graph.write([block, *drops])
        marks = await gather(
            self._store.immediate,
            drop_blocked(self._graph, [(actor, target)]),
            self._update_dependents(changes[0], (actor, target), (target, actor)),
        )
        return RelationWritten(True, changes[0].outcome is _APPLIED, reduce(self._graph.later_mark, marks, mark))

    async def unblock(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Undo `block`. Follows are allowed again; the dropped ones stay dropped."""
        _check_not_self(actor, target)
        return await self._write_one(self._graph.remove_write(self._blocks, actor, target), holds=False)

    async def mute(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Hide what `target` does from `actor`; nobody is notified. Errors: SelfEdge; Forbidden if `actor` was removed,
        UserNotFound if `target` was.
        """
        _check_not_self(actor, target)
        await check_not_removed(self._store, actor, target)
        return await self._write_one(self._graph.add_write(self._mutes, actor, target))

    async def unmute(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Undo `mute`."""
        _check_not_self(actor, target)
        return await self._write_one(self._graph.remove_write(self._mutes, actor, target), holds=False)

    async def see_fewer(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Rank posts of `target` lower for `actor`; this fades, and a repetition renews it. Errors as of `mute`."""
        _check_not_self(actor, target)
        await check_not_removed(self._store, actor, target)
        edge = self._graph.edge_now(self._fewer, actor, target, State.NORMAL)
        return await self._write_one(EdgeWrite(edge, supersede=True))

    async def undo_see_fewer(self, actor: NodeId, target: NodeId) -> RelationWritten:
        """Undo `see_fewer`."""
        _check_not_self(actor, target)
        return await self._write_one(self._graph.remove_write(self._fewer, actor, target), holds=False)

    async def relationships(self, actor: NodeId, targets: Sequence[NodeId]) -> list[Relationship]:
        """See `relationships.relationships`. BatchTooLarge for more than `batch_max` targets."""
        if len(targets) > self._limits.batch_max:
            raise BatchTooLarge(f"at most {self._limits.batch_max} targets a request", max=self._limits.batch_max)
        return await relationships(self._graph, self._privacy, actor, targets)

    # --- lists -----------------------------------------------------------------------------------------

    async def following(self, user: NodeId, window: Window) -> Page:
        """The users that `user` follows, newest follow first."""
        return await self._store.page(self._following_of(user), window)

    async def followers(self, user: NodeId, window: Window) -> Page:
        """The followers of `user`, newest follow first."""
        return await self._store.page(self._followers_of(user), window)

    async def requests(self, user: NodeId, window: Window) -> Page:
        """The users with a pending request to follow `user`, newest request first."""
        return await self._store.page(Listing(self._requests, user, Direction.IN), window)

    async def blocked(self, user: NodeId, window: Window) -> Page:
        """The users whom `user` blocks, newest block first."""
        return await self._store.page(Listing(self._blocks, user, Direction.OUT), window)

    async def muted(self, user: NodeId, window: Window) -> Page:
        """The users whom `user` mutes, newest mute first."""
        return await self._store.page(Listing(self._mutes, user, Direction.OUT), window)

    async def friends(self, user: NodeId, window: Window) -> Page:
        """The users who follow `user` and are followed back, in the order of `following`."""
        return await self._graph.intersection(self._following_of(user), self._followers_of(user), window)

    async def mutuals(self, user: NodeId, other: NodeId, window: Window) -> Page:
        """The users that both follow, in the order of `following(user)`."""
        return await self._graph.intersection(self._following_of(user), self._following_of(other), window)

    async def followers_you_know(self, viewer: NodeId, user: NodeId, window: Window) -> Page:
        """The followers of `user` that `viewer` follows, in the order of `following(viewer)`."""
        return await self._graph.intersection(self._following_of(viewer), self._followers_of(user), window)

    # --- writing ---------------------------------------------------------------------------------------

    async def _follow(
        self, actor: NodeId, target: NodeId, *, expires_ms: int, accepted: bool = False
    ) -> RelationWritten | None:
        """Write the follow, and drop a pending request for it; None if the account is private.

        `accepted`: the account accepts the request. The follow is written only while the request exists; UserNotFound
        if it was withdrawn. The request is dropped with a later version than the follow's: by that, the intake of
        notifications recognizes a follow that answers a request.
        """
        follow = self._conditional_write(
            self._follows,
            actor,
            target,
            if_public=not accepted,
            expires_ms=expires_ms,
            any_of=self._lists_of_dependents(actor),
            while_edge=(self._requests, actor, target, True) if accepted else None,
        )
        answered = self._graph.remove_write(self._requests, actor, target, chained=True)
        (change, _), mark = await self._graph.write([follow, answered])
        has_lapsed = change.outcome is Outcome.UNCHANGED and not _is_live(change.after)
        if accepted and (has_lapsed or change.outcome is Outcome.INACTIVE):
            await check_active(self._store, target)
            raise _no_request(actor)
        (barred,), after = await gather(
            self._store.immediate,
            undo_blocked(self._graph, self._privacy, [follow], [change]),
            self._update_dependents(change, (actor, target)),
        )
        return await self._answer_or_raise(follow, change, self._graph.later_mark(mark, after), barred=barred)

    def _lists_of_dependents(self, user: NodeId) -> tuple[Listing, ...]:
        """The lists whose emptiness shows that nothing depends on the user's relations (`FollowDependents`)."""
        return self._dependents.lists_of(user) if self._dependents is not None and self._store.transactional else ()

    def _with_dependent_lists(self, write: EdgeWrite, *users: NodeId) -> EdgeWrite:
        """The same write, whose answer (`any_listed`) also tells whether anything depends on these users' relations."""
        lists = tuple(listing for user in users for listing in self._lists_of_dependents(user))
        return msgspec.structs.replace(write, any_of=lists)

    async def _update_dependents(
        self, change: EdgeChange, *pairs: tuple[NodeId, NodeId], ended: bool = False
    ) -> WriteMark:
        """Settle what depends on a write, even if it changed nothing: an earlier try may have stopped before settling.

        `change`: the answer to the write; without transactions it does not tell whether anything depends on it. Returns
        the mark; NO_MARK if nothing changed.
        """
        dependents = self._dependents
        if dependents is None or (self._store.transactional and not change.any_listed):
            return NO_MARK
        marks = await gather(self._store.immediate, *(dependents.on_change(*pair, ended=ended) for pair in pairs))
        return reduce(self._graph.later_mark, marks, NO_MARK)

    async def _request_follow(self, actor: NodeId, target: NodeId, expires_ms: int) -> RelationWritten:
        """Write a request to follow a private account, or the follow if the account became public meanwhile.

        Writes nothing if `actor` follows it by now with the same expiry.
        """
        follows = (self._follows, actor, target, False)
        request = self._conditional_write(self._requests, actor, target, expires_ms=expires_ms, while_edge=follows)
        changes, mark = await self._graph.write([request])
        if changes[0].outcome is Outcome.UNCHANGED and not _is_live(changes[0].after, expires_ms):
            (stored,) = await self._store.get_many(self._follows, [(actor, target)])
            if _is_live(stored, expires_ms):
                return RelationWritten(True, False, mark)
            request = msgspec.structs.replace(request, while_edge=None)
            changes, mark = await self._graph.write([request])
        (barred,), (node,), following = await gather(
            self._store.immediate,
            undo_blocked(self._graph, self._privacy, [request], changes),
            self._store.nodes([target]),
            self._graph.exists(self._follows, actor, target),
        )
        await self._answer_or_raise(request, changes[0], mark, barred=barred)
        if not node.private:
            followed = await self._follow(actor, target, expires_ms=expires_ms)
            if followed is not None:
                return followed
        return RelationWritten(following, changes[0].outcome is _APPLIED, mark, requested=True)

    def _conditional_write(
        self,
        graph: int,
        source: NodeId,
        destination: NodeId,
        *,
        if_public: bool = False,
        expires_ms: int = 0,
        any_of: tuple[Listing, ...] = (),
        while_edge: tuple[int, NodeId, NodeId, bool] | None = None,
    ) -> EdgeWrite:
        """A write of an edge under the conditions of a follow: both active, no block between, within the limit."""
        edge = self._graph.edge_now(graph, source, destination, State.NORMAL)
        return EdgeWrite(
            msgspec.structs.replace(edge, expires_ms=expires_ms) if expires_ms else edge,
            supersede=True,
            keep_live=True,
            limit=self._limit,
            unless=self._privacy.blocks_between(source, [destination]),
            if_active=True,
            if_public=if_public,
            any_of=any_of,
            while_edge=while_edge,
        )

    async def _answer_or_raise(
        self, write: EdgeWrite, change: EdgeChange, mark: WriteMark, *, barred: bool
    ) -> RelationWritten | None:
        """The answer to a write; raises the error of the condition that refused it. None if the account is private."""
        source, destination = write.edge.source, write.edge.destination
        outcome = Outcome.FORBIDDEN if barred else change.outcome
        match outcome:
            case Outcome.PRIVATE:
                return None
            case Outcome.OVER_LIMIT:
                limit = self._limits.follows_max
                raise FollowLimitReached(f"a user may follow {limit} others at most; unfollow someone first", max=limit)
            case Outcome.FORBIDDEN:
                raise Forbidden("one of you has blocked the other", id=str(destination))
            case Outcome.INACTIVE:
                await check_active(self._store, source)
                raise UserNotFound("this account is deactivated or was removed", id=str(destination))
            case _:
                return RelationWritten(True, outcome is _APPLIED, mark)

    async def _write_one(self, write: EdgeWrite, *, holds: bool = True) -> RelationWritten:
        changes, mark = await self._graph.write([write])
        return RelationWritten(holds, changes[0].outcome is _APPLIED, mark)

    def _following_of(self, user: NodeId) -> Listing:
        return Listing(self._follows, user, Direction.OUT)

    def _followers_of(self, user: NodeId) -> Listing:
        return Listing(self._follows, user, Direction.IN)


def _is_live(edge: Edge | None, expires_ms: int | None = None) -> bool:
    """Whether there is such an edge; with `expires_ms`: and it has this expiry."""
    return edge is not None and edge.state == State.NORMAL and expires_ms in (None, edge.expires_ms)


def _no_request(requester: NodeId) -> UserNotFound:
    return UserNotFound(
        "this user has no request that you can accept now; /follow-requests lists those that wait", id=str(requester)
    )


def _check_not_self(actor: NodeId, target: NodeId) -> None:
    if actor == target:
        raise SelfEdge("one cannot do this to oneself; name another user", id=str(actor))
