"""Accounts as the graph keeps them: active, deactivated, removed; and who may still act."""

from __future__ import annotations

from kith.core.errors import Forbidden
from kith.core.ids import NodeId
from kith.graph.edge import State
from kith.graph.store import EdgeStore


async def check_active(store: EdgeStore, actor: NodeId) -> None:
    """Forbidden where the actor's account is deactivated or removed."""
    (node,) = await store.nodes([actor])
    if node.state != State.NORMAL:
        raise _away(actor, node.state)


async def check_not_removed(store: EdgeStore, actor: NodeId) -> None:
    """Forbidden where the actor's account was removed. What a deactivated one does shows when they are back."""
    (node,) = await store.nodes([actor])
    if node.state == State.REMOVED:
        raise _away(actor, node.state)


async def is_removed(store: EdgeStore, user: NodeId) -> bool:
    """Whether an account was removed for good."""
    (node,) = await store.nodes([user])
    return node.state == State.REMOVED


def _away(actor: NodeId, state: State) -> Forbidden:
    """The error for what an account in this state cannot do."""
    if state == State.REMOVED:
        return Forbidden("this account was removed for good", id=str(actor))
    return Forbidden("your account is deactivated; reactivate it first", id=str(actor))
