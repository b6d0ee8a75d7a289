"""Follows and blocks that were written at the same time, where these are not one transaction.

A block stands between two users, or their follows and requests do, never both. So each looks for the other once it is
written, and whichever looks last takes the follow away.
"""

from __future__ import annotations

from collections.abc import Sequence

from kith.core.ids import NodeId
from kith.core.tokens import NO_MARK, WriteMark
from kith.graph.edge import EdgeChange, EdgeWrite, Outcome
from kith.graph.graph import PRESENT, Graph
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
        await graph.write([graph.dropping(edge.graph, edge.source, edge.destination) for edge in edges])
    return barred


async def drop_barred(graph: Graph, edges: Sequence[tuple[int, NodeId, NodeId]]) -> WriteMark:
    """After a block was written, and these edges dropped with it: drop those that somebody made before it stood."""
    if graph.store.transactional:
        return NO_MARK
    questions = Questions()
    questions.states(edges)
    states = (await graph.store.answer(questions)).states
    left = [graph.dropping(*edge) for edge, state in zip(edges, states, strict=True) if state in PRESENT]
    return (await graph.write(left))[1] if left else NO_MARK
