"""A naive model of follows, blocks, mutes and requests: the rules of `people` without an engine."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from cast import ALICE, BOB, DANA
from services import GRAPHS

from kith.core.errors import FollowLimitReached, Forbidden, RequesterLimitReached, UserNotFound
from kith.core.ids import NodeId
from kith.core.paging import Mark
from kith.graph.edge import Direction, State
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS, MUTES
from kith.graph.node_jobs import NodeOperation
from kith.people.relationships import Relationship

NORMAL, NEGATIVE, ARCHIVED, REMOVED = State
ADDED = {"follow": FOLLOWS, "accept": FOLLOWS, "block": BLOCKS, "mute": MUTES}
Pair = tuple[int, int]
USERS = (ALICE, BOB, NodeId(0), DANA)


class WriteAnswer(NamedTuple):
    """The answer of a write."""

    holds: bool
    changed: bool
    requested: bool = False


class NaiveRules:
    """The rules over a dict of edges: (state, position) by graph and pair."""

    def __init__(self, follows_max: int) -> None:
        self.follows_max = follows_max
        self.edges: dict[str, dict[Pair, tuple[State, int]]] = {name: {} for name in GRAPHS}
        self.users = dict.fromkeys(USERS, NORMAL)
        self.private: set[int] = set()

    def live(self, graph: str, a: int, b: int) -> bool:
        return self.state(graph, a, b) == NORMAL

    def state(self, graph: str, a: int, b: int) -> State:
        return self.edges[graph].get((a, b), (REMOVED, 0))[0]

    def live_edges(self) -> list[tuple[str, Pair]]:
        return sorted((graph, pair) for graph, edges in self.edges.items() for pair in edges if self.live(graph, *pair))

    def add(self, graph: str, a: int, b: int, position: int) -> bool:
        if self.live(graph, a, b):
            return False
        self.edges[graph][a, b] = (NORMAL, position)
        return True

    def drop(self, graph: str, a: int, b: int) -> bool:
        if self.state(graph, a, b) == REMOVED:
            return False
        self.edges[graph][a, b] = (REMOVED, self.edges[graph][a, b][1])
        return True

    def blocked(self, a: int, b: int) -> bool:
        return self.bars(a, b) or self.bars(b, a)

    def bars(self, a: int, b: int) -> bool:
        """A block holds while either end is away, and until it is restored."""
        return self.state(BLOCKS, a, b) in (NORMAL, ARCHIVED)

    def refusal(self, a: int, b: int) -> type[Exception] | None:
        if self.users[a] != NORMAL:
            return Forbidden
        if self.users[b] != NORMAL:
            return UserNotFound
        return Forbidden if self.blocked(a, b) else None

    def full(self, graph: str, a: int, b: int) -> bool:
        standing = sum(pair[0] == a and state == NORMAL for pair, (state, _) in self.edges[graph].items())
        return not self.live(graph, a, b) and standing >= self.follows_max

    def _follow(self, a: int, b: int, position: int) -> WriteAnswer | type[Exception]:
        if self.full(FOLLOWS, a, b):
            return FollowLimitReached
        changed = self.add(FOLLOWS, a, b, position)
        self.drop(FOLLOW_REQUESTS, a, b)  # a follower needs no request
        return WriteAnswer(True, changed)

    def follow(self, a: int, b: int, position: int) -> WriteAnswer | type[Exception]:
        if refused := self.refusal(a, b):
            return refused
        if b in self.private and not self.live(FOLLOWS, a, b):
            if self.full(FOLLOW_REQUESTS, a, b):
                return FollowLimitReached
            return WriteAnswer(False, self.add(FOLLOW_REQUESTS, a, b, position), requested=True)
        return self._follow(a, b, position)

    def unfollow(self, a: int, b: int, _: int) -> WriteAnswer:
        return WriteAnswer(False, any([self.drop(FOLLOWS, a, b), self.drop(FOLLOW_REQUESTS, a, b)]))

    def remove_follower(self, a: int, b: int, _: int) -> WriteAnswer:
        return self.unfollow(b, a, _)

    def accept(self, a: int, b: int, position: int) -> WriteAnswer | type[Exception]:
        if not self.live(FOLLOW_REQUESTS, b, a):
            return WriteAnswer(True, False) if self.live(FOLLOWS, b, a) else UserNotFound
        answer = self.refusal(b, a) or self._follow(b, a, position)
        return RequesterLimitReached if answer is FollowLimitReached else answer

    def decline(self, a: int, b: int, _: int) -> WriteAnswer:
        return WriteAnswer(False, self.drop(FOLLOW_REQUESTS, b, a))

    def block(self, a: int, b: int, position: int) -> WriteAnswer:
        changed = self.add(BLOCKS, a, b, position)
        for graph, pair in product((FOLLOWS, FOLLOW_REQUESTS), ((a, b), (b, a))):
            self.drop(graph, *pair)
        return WriteAnswer(True, changed)

    def unblock(self, a: int, b: int, _: int) -> WriteAnswer:
        return WriteAnswer(False, self.drop(BLOCKS, a, b))

    def mute(self, a: int, b: int, position: int) -> WriteAnswer:
        return WriteAnswer(True, self.add(MUTES, a, b, position))

    def unmute(self, a: int, b: int, _: int) -> WriteAnswer:
        return WriteAnswer(False, self.drop(MUTES, a, b))

    def operate(self, operation: NodeOperation, user: int) -> int | type[Exception]:
        """Deactivate, reactivate or remove a user; returns the number of edges that change."""
        if self.users[user] == REMOVED and operation is not NodeOperation.REMOVE:
            return UserNotFound
        after = {NodeOperation.ARCHIVE: ARCHIVED, NodeOperation.RESTORE: NORMAL, NodeOperation.REMOVE: REMOVED}
        self.users[user] = after[operation]
        rewritten = 0
        for edges in self.edges.values():
            for (a, b), (state, position) in edges.items():
                touched = {
                    NodeOperation.ARCHIVE: state == NORMAL,
                    NodeOperation.RESTORE: state == ARCHIVED and self.users[a] == self.users[b] == NORMAL,
                    NodeOperation.REMOVE: state != REMOVED,
                }
                if user in (a, b) and touched[operation]:
                    edges[a, b] = (after[operation], position)
                    rewritten += 1
        return rewritten

    def relationship(self, a: int, b: int) -> Relationship:
        asked = [(FOLLOWS, a, b), (FOLLOWS, b, a), (FOLLOW_REQUESTS, a, b)]
        blocked_by = self.bars(b, a) and self.users[b] == NORMAL
        held = self.bars(a, b), blocked_by, self.live(MUTES, a, b)
        return Relationship(NodeId(b), *(self.live(*edge) for edge in asked), *held)

    def may_see(self, viewer: int, user: int) -> bool:
        hidden = user in self.private and not self.live(FOLLOWS, viewer, user)
        return viewer == user or not (self.bars(user, viewer) or hidden)

    def marks(self, graph: str, node: int, end: Direction, state: State = NORMAL) -> list[Mark]:
        edges = self.edges[graph].items()
        found = [Mark(at, pair[1 - end]) for pair, (its, at) in edges if pair[end] == node and its == state]
        return sorted(found, reverse=True)

    def both(self, node: int, other: int, other_end: Direction) -> list[Mark]:
        kept = {mark.id for mark in self.marks(FOLLOWS, other, other_end)}
        return [mark for mark in self.marks(FOLLOWS, node, Direction.OUT) if mark.id in kept]
