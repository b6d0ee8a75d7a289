"""Follows and blocks that were written at the same time, where these are not one transaction.

A block stands between two users, or their follows and requests do, never both. So each looks for the other once it is
written, and whichever looks last takes the follow away. The consumer `boards` (`boards/upkeep.py`) calls `drop_barred`
again after each block in the log.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kith.core.ids import NodeId
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import EdgeChange, EdgeWrite, Outcome
from kith.graph.graph import PRESENT, Graph
from kith.graph.graphs import BLOCKS, FOLLOW_REQUESTS, FOLLOWS
from kith.graph.questions import Questions
from kith.people.privacy import Privacy


async def undo_barred(
    graph: Graph, privacy: Privacy, writes: Sequence[EdgeWrite], changes: Sequence[EdgeChange]
) -> list[bool]:
    """After follows or requests were written: which of them stand beside a block by now. These are undone."""
    barred = [False] * len(writes)
    made = [at for at, change in enumerate(changes) if change.outcome is Outcome.APPLIED]
    if graph.store.transactional or not made:
        return barred
    ends = [(writes[at].edge.source, writes[at].edge.destination) for at in made]
    blocked = await privacy.blocks([pair for one, other in ends for pair in ((one, other), (other, one))])
    for at, *by in zip(made, blocked[::2], blocked[1::2], strict=True):
        barred[at] = any(by)
    edges = [write.edge for write, undo in zip(writes, barred, strict=True) if undo]
    if edges:
        await graph.write([graph.remove_write(edge.graph, edge.source, edge.destination) for edge in edges])
    return barred


def barred_by(graph: Graph, one: NodeId, other: NodeId) -> list[tuple[int, NodeId, NodeId]]:
    """What does not stand beside a block between two users: their follows and requests, in both directions."""
    numbers = (graph.graphs.number(FOLLOWS), graph.graphs.number(FOLLOW_REQUESTS))
    return [(number, *pair) for number in numbers for pair in ((one, other), (other, one))]


async def drop_barred(graph: Graph, blocks: Sequence[tuple[NodeId, NodeId]]) -> WriteMark:
    """After blocks were written, and what they bar was dropped with them: drop what somebody wrote before they stood,
    and what was not dropped, as when a process ended before it was. Nothing is dropped by a block that is gone by now.
    """
    if graph.store.transactional or not blocks:
        return NO_MARK
    barred = [(block, edge) for block in blocks for edge in barred_by(graph, *block)]
    questions, number = Questions(), graph.graphs.number(BLOCKS)
    questions.states(edge for _, edge in barred)
    states = (await graph.store.answer(questions)).states
    left = [
        msgspec.structs.replace(graph.remove_write(*edge), while_edge=(number, *block, True))
        for (block, edge), state in zip(barred, states, strict=True)
        if state in PRESENT
    ]
    return (await graph.write(left))[1] if left else NO_MARK
