"""Deactivating, reactivating and removing accounts: bulk jobs over their edges, in an order that exposes nothing.

Blocks, mutes and hides are restored first and removed last, so nothing that they hide shows in between. Follows are
restored last and removed first: a consumer that sees a restored follow may rely on the posts being restored.
"""

from __future__ import annotations

from kith.core.errors import KithError, UserNotFound
from kith.core.ids import NodeId
from kith.graph.graph import Graph
from kith.graph.graphs import BLOCKS, FOLLOWS, HIDES, MUTES
from kith.graph.node_jobs import CompanionEdges, Erase, NodeJobs, WhenDone
from kith.leases.holding import Leases

_HIDING = frozenset((BLOCKS, MUTES, HIDES))


def account_jobs(
    graph: Graph,
    leases: Leases,
    *erase: Erase,
    forget: WhenDone | None = None,
    restored: WhenDone | None = None,
    beside: CompanionEdges | None = None,
) -> NodeJobs:
    """The bulk jobs of accounts. The arguments are those of `NodeJobs`."""
    return NodeJobs(
        graph, leases, *erase, forget=forget, restored=restored, beside=beside, order=restore_order, removed=_removed
    )


def restore_order(graph: str) -> int:
    """The rank of a graph when an account is restored: 0 comes first, 2 last."""
    return 0 if graph in _HIDING else 2 if graph == FOLLOWS else 1


def _removed(user: NodeId) -> KithError:
    return UserNotFound("this account was removed for good", id=str(user))
