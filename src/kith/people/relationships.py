"""Relationships: whether the acting user and others follow, request, block or mute each other."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.labels import HIDE
from kith.graph.edge import State
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
    """How `actor` and each of `targets` are related. With a target that the app hides, all fields are False.

    A target that is deactivated still blocks `actor`, but `blocked_by` does not tell: to others it does not exist.
    """
    store, number = graph.store, graph.graphs.number
    out, back = [(actor, target) for target in targets], [(target, actor) for target in targets]
    nodes, blocked_by, columns = await gather(
        store.immediate,
        store.nodes(targets),
        privacy.blocks(back),
        gather(
            store.immediate,
            store.exists_many(number(FOLLOWS), out),
            store.exists_many(number(FOLLOWS), back),
            store.exists_many(number(FOLLOW_REQUESTS), out),
            privacy.blocks(out),
            store.exists_many(number(MUTES), out),
        ),
    )
    return [
        Relationship(target, *(False,) * 6)
        if node.labels & HIDE
        else Relationship(target, follows, followed, asked, blocks, blocked and node.state is State.NORMAL, mutes)
        for target, node, blocked, follows, followed, asked, blocks, mutes in zip(
            targets, nodes, blocked_by, *columns, strict=True
        )
    ]
