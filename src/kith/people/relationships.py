"""Relationships: whether the acting user and others follow, request, block or mute each other."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.graph.graph import Graph
from kith.graph.graphs import FOLLOW_REQUESTS, FOLLOWS, MUTES
from kith.people.privacy import Privacy


class Relationship(msgspec.Struct, frozen=True):
    """How the acting user and one target are related."""

    id: NodeId
    following: bool
    followed_by: bool
    requested: bool
    blocking: bool
    blocked_by: bool
    muting: bool


async def relationships(graph: Graph, privacy: Privacy, actor: NodeId, targets: Sequence[NodeId]) -> list[Relationship]:
    """How `actor` and each of `targets` are related. With a target that the app hides, all fields are False."""
    store, number = graph.store, graph.graphs.number
    out, back = [(actor, target) for target in targets], [(target, actor) for target in targets]
    hidden, *columns = await gather(
        store.immediate,
        privacy.hidden(targets),
        store.exists_many(number(FOLLOWS), out),
        store.exists_many(number(FOLLOWS), back),
        store.exists_many(number(FOLLOW_REQUESTS), out),
        privacy.blocks(out),
        privacy.blocks(back),
        store.exists_many(number(MUTES), out),
    )
    return [
        Relationship(target, *(holds and not hide for holds in row))
        for target, hide, *row in zip(targets, hidden, *columns, strict=True)
    ]
