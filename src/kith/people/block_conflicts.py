"""Removes follows that were written concurrently with a block, on engines without transactions across keys.

Between two users there is a block, or there are follows and requests, never both. So the writer of each looks for the
other after its own write; whichever looks last finds both and removes the follow. The consumer `boards`
(`boards/consumer.py`) calls `drop_blocked` again after each block in the log.
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


async def undo_blocked(
    graph: Graph, privacy: Privacy, writes: Sequence[EdgeWrite], changes: Sequence[EdgeChange]
) -> list[bool]:
    """Undo those of the follows and requests just written that now stand beside a block; returns which these are."""
    barred = [False] * len(writes)
    applied = [index for index, change in enumerate(changes) if change.outcome is Outcome.APPLIED]
    if graph.store.transactional or not applied:
        return barred
    ends = [(writes[index].edge.source, writes[index].edge.destination) for index in applied]
    blocked = await privacy.blocks(
        [pair for source, destination in ends for pair in ((source, destination), (destination, source))]
    )
    for index, *by in zip(applied, blocked[::2], blocked[1::2], strict=True):
        barred[index] = any(by)
    edges = [write.edge for write, undo in zip(writes, barred, strict=True) if undo]
    if edges:
        await graph.write([graph.remove_write(edge.graph, edge.source, edge.destination) for edge in edges])
    return barred


def forbidden_edges(graph: Graph, user: NodeId, other: NodeId) -> list[tuple[int, NodeId, NodeId]]:
    """The edges that a block between two users forbids: their follows and requests, in both directions."""
    numbers = (graph.graphs.number(FOLLOWS), graph.graphs.number(FOLLOW_REQUESTS))
    return [(number, *pair) for number in numbers for pair in ((user, other), (other, user))]


async def drop_blocked(graph: Graph, blocks: Sequence[tuple[NodeId, NodeId]]) -> WriteMark:
    """Drop the follows and requests that these blocks forbid and that are still there.

    The write of a block drops them too. Left over are those that were written concurrently, and those of a process that
    stopped in between. A block that is gone by now drops nothing.
    """
    if graph.store.transactional or not blocks:
        return NO_MARK
    barred = [(block, edge) for block in blocks for edge in forbidden_edges(graph, *block)]
    questions, number = Questions(), graph.graphs.number(BLOCKS)
    questions.states(edge for _, edge in barred)
    states = (await graph.store.answer(questions)).states
    writes = [
        msgspec.structs.replace(graph.remove_write(*edge), while_edge=(number, *block, True))
        for (block, edge), state in zip(barred, states, strict=True)
        if state in PRESENT
    ]
    return (await graph.write(writes))[1] if writes else NO_MARK
