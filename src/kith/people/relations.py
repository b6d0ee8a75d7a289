"""What people do to each other: follow, block, mute, and the lists that follow from it.

Written for an engine without transactions across keys. Two writes that must not both hold are ordered
instead: a block is written first and follows are dropped after; a follow is written first and, where the
engine could not do both at once, the block is looked for again after. Whichever came first, no follow
outlives a block (design, section 2, law 8).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from kith.core.clock import HybridClock, ms_of
from kith.core.errors import BatchTooLarge, FollowLimitReached, Forbidden, SelfEdge, UserNotFound
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.core.paging import Mark, Page, Window, cut
from kith.core.tokens import WriteMark
from kith.graph.edge import BARRING, Direction, Edge, EdgeChange, EdgeWrite, Outcome, State
from kith.graph.graphs import BLOCKS, FEWER, FOLLOW_REQUESTS, FOLLOWS, MUTES, Graphs
from kith.graph.store import EdgeStore, Listing
from kith.graph.walk import walk

_PRESENT = frozenset({State.NORMAL, State.NEGATIVE, State.ARCHIVED})
_SORTED_MAX = 100_000
_NO_MARK = WriteMark(0, 0)


class Limits(msgspec.Struct, frozen=True):
    """The bounds of the service; each is a setting of the same name."""

    follows_max: int = 10_000  # article 000: the cap of Twitter and others; none on followers
    batch_max: int = 1_000
    walk_max: int = 10_000  # entries one page may look at to find its items


class Written(msgspec.Struct, frozen=True):
    """The answer to a write: how it now stands, whether that is new, and its place for read-your-writes."""

    holds: bool
    changed: bool
    mark: WriteMark
    requested: bool = False


class Relationship(msgspec.Struct, frozen=True, rename="camel"):
    """How the acting user and one target stand to each other."""

    id: NodeId
    following: bool
    followed_by: bool
    requested: bool
    blocking: bool
    blocked_by: bool
    muting: bool


class GraphService:
    """The rules of the product over an EdgeStore. All ids are user ids unless a graph says otherwise."""

    def __init__(self, store: EdgeStore, graphs: Graphs, clock: HybridClock, limits: Limits) -> None:
        self.store, self.graphs, self.clock, self.limits = store, graphs, clock, limits
        self._follows, self._blocks = graphs.number(FOLLOWS), graphs.number(BLOCKS)
        self._mutes, self._requests = graphs.number(MUTES), graphs.number(FOLLOW_REQUESTS)
        self._fewer = graphs.number(FEWER)

    # --- following -------------------------------------------------------------------------------------

    async def follow(self, actor: NodeId, target: NodeId) -> Written:
        """`actor` follows `target`, or asks to, where the account is private.

        Errors: SelfEdge; UserNotFound where either is deactivated; Forbidden where either blocks the other;
        FollowLimitReached. Repeating it changes nothing and keeps the place in both lists.
        """
        _check_two(actor, target)
        written = await self._follow(actor, target, if_public=True)
        return await self._request(actor, target) if written is None else written

    async def unfollow(self, actor: NodeId, target: NodeId) -> Written:
        """The opposite; also takes back a request."""
        _check_two(actor, target)
        return await self._drop([(self._follows, actor, target), (self._requests, actor, target)])

    async def remove_follower(self, actor: NodeId, target: NodeId) -> Written:
        """`target` no longer follows `actor`."""
        return await self.unfollow(target, actor)

    async def accept(self, actor: NodeId, requester: NodeId) -> Written:
        """`actor` lets `requester` follow, or did; UserNotFound if they did not ask."""
        _check_two(actor, requester)
        if not await self._exists(self._requests, requester, actor):
            if await self._exists(self._follows, requester, actor):
                return Written(True, False, _NO_MARK)
            raise UserNotFound("this user has not asked to follow you, or has taken it back", id=str(requester))
        written = await self._follow(requester, actor, if_public=False)
        return Written(True, False, _NO_MARK) if written is None else written

    async def decline(self, actor: NodeId, requester: NodeId) -> Written:
        """`actor` refuses; asking again is allowed."""
        _check_two(actor, requester)
        return await self._drop([(self._requests, requester, actor)])

    # --- blocking and muting ---------------------------------------------------------------------------

    async def block(self, actor: NodeId, target: NodeId) -> Written:
        """Forbids follows both ways and drops those there are, requests too."""
        _check_two(actor, target)
        await self.check_there(actor)
        writes = [self.adding(self._blocks, actor, target)]
        for graph in (self._follows, self._requests):
            writes += [self.dropping(graph, actor, target), self.dropping(graph, target, actor)]
        changes, mark = await self.write(writes)
        return Written(True, changes[0].outcome is Outcome.APPLIED, mark)

    async def unblock(self, actor: NodeId, target: NodeId) -> Written:
        """Allows follows again; the dropped ones stay dropped."""
        _check_two(actor, target)
        return await self._drop([(self._blocks, actor, target)])

    async def mute(self, actor: NodeId, target: NodeId) -> Written:
        """`actor` no longer wants to see `target`; nobody else notices."""
        _check_two(actor, target)
        await self.check_there(actor)
        return await self._add(self._mutes, actor, target)

    async def unmute(self, actor: NodeId, target: NodeId) -> Written:
        """The opposite."""
        _check_two(actor, target)
        return await self._drop([(self._mutes, actor, target)])

    async def see_fewer(self, actor: NodeId, target: NodeId) -> Written:
        """`actor` wants to see less of `target`, from now on and fading; saying it again begins anew."""
        _check_two(actor, target)
        await self.check_there(actor)
        wish = EdgeWrite(self.now(self._fewer, actor, target, State.NORMAL), supersede=True)
        changes, mark = await self.write([wish])
        return Written(True, changes[0].outcome is Outcome.APPLIED, mark)

    async def see_as_before(self, actor: NodeId, target: NodeId) -> Written:
        """The opposite."""
        _check_two(actor, target)
        return await self._drop([(self._fewer, actor, target)])

    async def check_active(self, actor: NodeId) -> None:
        """Forbidden where the actor's account is deactivated or removed."""
        (node,) = await self.store.nodes([actor])
        if node.state != State.NORMAL:
            raise _away(actor, node.state)

    async def check_there(self, actor: NodeId) -> None:
        """Forbidden where the actor's account was removed. What a deactivated one does shows when they are back."""
        (node,) = await self.store.nodes([actor])
        if node.state == State.REMOVED:
            raise _away(actor, node.state)

    async def relationships(self, actor: NodeId, targets: Sequence[NodeId]) -> list[Relationship]:
        """How `actor` stands to each of `targets`, and they to `actor`; to one whom the app hides as to nobody."""
        if len(targets) > self.limits.batch_max:
            raise BatchTooLarge(f"at most {self.limits.batch_max} targets a request", max=self.limits.batch_max)
        out, back = [(actor, target) for target in targets], [(target, actor) for target in targets]
        columns = [
            await self.store.exists_many(self._follows, out),
            await self.store.exists_many(self._follows, back),
            await self.store.exists_many(self._requests, out),
            await self.bars(out),
            await self.bars(back),
            await self.store.exists_many(self._mutes, out),
        ]
        shown = [not hidden for hidden in await self.hidden(targets)]
        return [
            Relationship(target, *(holds and show for holds in row))
            for target, show, *row in zip(targets, shown, *columns, strict=True)
        ]

    # --- lists -----------------------------------------------------------------------------------------

    async def following(self, user: NodeId, window: Window) -> Page:
        """Whom `user` follows, newest first."""
        return await self.store.page(self._out(user), window)

    async def followers(self, user: NodeId, window: Window) -> Page:
        """Who follows `user`, newest first."""
        return await self.store.page(self._in(user), window)

    async def requests(self, user: NodeId, window: Window) -> Page:
        """Who asks to follow `user`, newest first."""
        return await self.store.page(Listing(self._requests, user, Direction.IN), window)

    async def friends(self, user: NodeId, window: Window) -> Page:
        """Who follows `user` and is followed back, in the order of `following`."""
        return await self._both(self._out(user), self._in(user), window)

    async def mutuals(self, user: NodeId, other: NodeId, window: Window) -> Page:
        """Whom both follow, in the order in which `user` followed them."""
        return await self._both(self._out(user), self._out(other), window)

    async def followers_you_know(self, viewer: NodeId, user: NodeId, window: Window) -> Page:
        """Who of those `viewer` follows follows `user`, in the order in which `viewer` followed them."""
        return await self._both(self._out(viewer), self._in(user), window)

    async def check_may_see(self, viewer: NodeId, user: NodeId) -> None:
        """Forbidden if `user` blocks `viewer`, or is private and not followed by them.

        UserNotFound if the app hides the account.
        """
        if viewer == user:
            return
        (node,) = await self.store.nodes([user])
        if node.labels & HIDE:
            raise UserNotFound("there is no such account, or it is not there for you", id=str(user))
        if any(await self.bars([(user, viewer)])):
            raise Forbidden("this account is not available to you", id=str(user))
        if node.private and not await self._exists(self._follows, viewer, user):
            raise Forbidden("this account is private; follow it to see its lists", id=str(user))

    async def blocked(self, user: NodeId, others: Sequence[int]) -> list[bool]:
        """For each of `others`: does a block stand between them and `user`, whoever set it?"""
        ids, barred = np.array(others, np.int64), np.zeros(len(others), np.bool_)
        for direction, state in itertools.product(Direction, BARRING):
            barred |= await self.store.contains(Listing(self._blocks, user, direction, state), ids)
        return barred.tolist()

    async def bars(self, pairs: Sequence[tuple[int, int]]) -> list[bool]:
        """For each (source, destination): does the source's block hold, if only until it is restored?"""
        blocks = await self.store.get_many(self._blocks, pairs)
        return [block is not None and block.state in BARRING for block in blocks]

    def blocks_between(self, one: NodeId, others: Iterable[int]) -> tuple[tuple[int, int, int], ...]:
        """The edges that bar `one` from each of the others (see `EdgeWrite.unless`)."""
        return tuple((self._blocks, *pair) for other in others for pair in ((one, other), (other, one)))

    async def shown_to(self, viewer: NodeId, page: Page) -> Page:
        """The page less those who block `viewer` and those whom the app hides; it may be short, and still says if
        there is more.
        """
        blocked = await self.bars([(mark.id, viewer) for mark in page.items])
        hidden = await self.hidden([mark.id for mark in page.items])
        own = [mark.id == viewer for mark in page.items]
        return _less(page, [not mine and (bar or hide) for mine, bar, hide in zip(own, blocked, hidden, strict=True)])

    async def unhidden(self, page: Page) -> Page:
        """The page less those whom the app hides, as of `shown_to`."""
        return _less(page, await self.hidden([mark.id for mark in page.items]))

    async def hidden(self, users: Sequence[int]) -> list[bool]:
        """For each of `users`: does the app hide the account?"""
        return [bool(node.labels & HIDE) for node in await self.store.nodes(users)]

    async def _both(self, listing: Listing, other: Listing, window: Window) -> Page:
        """Entries of `listing` whose id is in `other` too, in the order of `listing`.

        Walks `listing` and asks `other`; where `other` is much the smaller, reads it and sorts what remains.
        """
        own, others = await self.store.count_many([listing, other])
        if own > 4 * others and others <= _SORTED_MAX:
            return await self._sorted(listing, other, window)

        async def kept(marks: Sequence[Mark]) -> list[bool]:
            ids = np.array([mark.id for mark in marks], np.int64)
            return list(map(bool, await self.store.contains(other, ids)))

        return await walk(self.store, listing, window, kept, entries_max=self.limits.walk_max)

    async def _sorted(self, listing: Listing, other: Listing, window: Window) -> Page:
        ids = (await self.store.ids(other)).tolist()
        out = listing.direction is Direction.OUT
        pairs = [(listing.node, id_) if out else (id_, listing.node) for id_ in ids]
        edges = await self.store.get_many(listing.graph, pairs)
        marks = sorted(
            (
                Mark(edge.position, id_)
                for id_, edge in zip(ids, edges, strict=True)
                if edge is not None and edge.state == listing.state
            ),
            reverse=True,
        )
        return cut(marks, window)

    # --- writing ---------------------------------------------------------------------------------------

    async def write(self, writes: Sequence[EdgeWrite]) -> tuple[list[EdgeChange], WriteMark]:
        """Merge edges as they are; the mark stands for the last of them that changed something."""
        changes = await self.store.apply(writes)
        return changes, mark_of(changes)

    def now(self, graph: int, source: NodeId, destination: NodeId, state: State) -> Edge:
        """An edge as of now."""
        version = self.clock.next()
        return Edge(graph, source, destination, state, ms_of(version), version)

    def adding(self, graph: int, source: NodeId, destination: NodeId) -> EdgeWrite:
        """The write that makes an edge hold from now on; one that holds keeps its place."""
        return EdgeWrite(self.now(graph, source, destination, State.NORMAL), supersede=True, keep_live=True)

    def dropping(self, graph: int, source: NodeId, destination: NodeId, *, chained: bool = False) -> EdgeWrite:
        """The write that takes an edge back, if there is one."""
        edge = self.now(graph, source, destination, State.REMOVED)
        return EdgeWrite(edge, supersede=True, keep_place=True, only_from=_PRESENT, chained=chained)

    async def _follow(self, actor: NodeId, target: NodeId, *, if_public: bool) -> Written | None:
        """Follow, and answer a request that waited; None if the account is private and was not followed."""
        answered = self.dropping(self._requests, actor, target, chained=True)
        return await self._ask(self._asking(self._follows, actor, target, if_public=if_public), answered)

    async def _request(self, actor: NodeId, target: NodeId) -> Written:
        """Ask a private account to be let in."""
        written = await self._ask(self._asking(self._requests, actor, target))
        return Written(False, bool(written and written.changed), written.mark if written else _NO_MARK, requested=True)

    def _asking(self, graph: int, source: NodeId, destination: NodeId, *, if_public: bool = False) -> EdgeWrite:
        return EdgeWrite(
            self.now(graph, source, destination, State.NORMAL),
            supersede=True,
            keep_live=True,
            out_limit=self.limits.follows_max,
            unless=self.blocks_between(source, [destination]),
            if_active=True,
            if_public=if_public,
        )

    async def _ask(self, write: EdgeWrite, *more: EdgeWrite) -> Written | None:
        """Write; what the conditions of the first write refuse becomes an error, or None if it is consent."""
        source, destination = write.edge.source, write.edge.destination
        changes, mark = await self.write([write, *more])
        outcome = changes[0].outcome
        late = outcome is Outcome.APPLIED and not self.store.transactional
        if late and await self._blocked(source, destination):
            await self._drop([(write.edge.graph, source, destination)])
            outcome = Outcome.FORBIDDEN
        match outcome:
            case Outcome.PRIVATE:
                return None
            case Outcome.OVER_LIMIT:
                limit = self.limits.follows_max
                raise FollowLimitReached(f"a user may follow {limit} others at most; unfollow someone first", max=limit)
            case Outcome.FORBIDDEN:
                raise Forbidden("one of you has blocked the other", id=str(destination))
            case Outcome.INACTIVE:
                await self.check_active(source)
                raise UserNotFound("this account is deactivated", id=str(destination))
            case _:
                return Written(True, outcome is Outcome.APPLIED, mark)

    async def _add(self, graph: int, source: NodeId, destination: NodeId) -> Written:
        changes, mark = await self.write([self.adding(graph, source, destination)])
        return Written(True, changes[0].outcome is Outcome.APPLIED, mark)

    async def _drop(self, edges: Sequence[tuple[int, NodeId, NodeId]]) -> Written:
        changes, mark = await self.write([self.dropping(*edge) for edge in edges])
        return Written(False, any(change.outcome is Outcome.APPLIED for change in changes), mark)

    async def _blocked(self, one: NodeId, other: NodeId) -> bool:
        return any(await self.bars([(one, other), (other, one)]))

    async def _exists(self, graph: int, source: NodeId, destination: NodeId) -> bool:
        return (await self.store.exists_many(graph, [(source, destination)]))[0]

    def _out(self, user: NodeId) -> Listing:
        return Listing(self._follows, user, Direction.OUT)

    def _in(self, user: NodeId) -> Listing:
        return Listing(self._follows, user, Direction.IN)


def _away(actor: NodeId, state: State) -> Forbidden:
    """The error for what an account in this state cannot do."""
    if state == State.REMOVED:
        return Forbidden("this account was removed for good", id=str(actor))
    return Forbidden("your account is deactivated; reactivate it first", id=str(actor))


def mark_of(changes: Sequence[EdgeChange]) -> WriteMark:
    """Where the last applied of `changes` stands; zeros if none was."""
    for change in reversed(changes):
        if change.outcome is Outcome.APPLIED and change.after is not None:
            return WriteMark(change.sequence, change.after.updated_at)
    return _NO_MARK


def _less(page: Page, dropped: Sequence[bool]) -> Page:
    """The page without some of its items, over the same stretch of the list."""
    covers = (page.newest, page.oldest) if page.newest and page.oldest else None
    shown = [mark for mark, drop in zip(page.items, dropped, strict=True) if not drop]
    return Page(shown, page.more_after, page.more_before, covers)


def _check_two(actor: NodeId, target: NodeId) -> None:
    if actor == target:
        raise SelfEdge("one cannot do this to oneself; name another user", id=str(actor))
