"""Checks of an account's state: active, deactivated or removed. The graph stores it as the state of the user's node."""

from __future__ import annotations

from collections.abc import Callable

from kith.core.errors import Forbidden, UserNotFound
from kith.core.ids import NodeId
from kith.graph.edge import State
from kith.graph.questions import Answers, Questions
from kith.graph.store import Nodes


async def check_active(store: Nodes, actor: NodeId) -> None:
    """Forbidden if the actor's account is deactivated or removed."""
    (node,) = await store.nodes([actor])
    if node.state != State.NORMAL:
        raise _inactive(actor, node.state)


def ask_active(questions: Questions, actor: NodeId) -> Callable[[Answers], None]:
    """Add the question of `check_active` to a batch. The returned function raises its error from the answers."""
    nodes = questions.nodes([actor])

    def check(answers: Answers) -> None:
        (node,) = answers.nodes[nodes]
        if node.state != State.NORMAL:
            raise _inactive(actor, node.state)

    return check


async def check_not_removed(store: Nodes, actor: NodeId, *others: NodeId) -> None:
    """Forbidden if the actor's account was removed, UserNotFound if one of the others was.

    Deactivated accounts pass: what is done by or to them takes effect when they are reactivated.
    """
    node, *nodes = await store.nodes([actor, *others])
    if node.state == State.REMOVED:
        raise _inactive(actor, node.state)
    for other, other_node in zip(others, nodes, strict=True):
        if other_node.state == State.REMOVED:
            raise UserNotFound("this account was removed for good", id=str(other))


async def is_removed(store: Nodes, user: NodeId) -> bool:
    """Whether an account was removed for good."""
    (node,) = await store.nodes([user])
    return node.state == State.REMOVED


def _inactive(actor: NodeId, state: State) -> Forbidden:
    """The error for an account in this state."""
    if state == State.REMOVED:
        return Forbidden("this account was removed for good", id=str(actor))
    return Forbidden("your account is deactivated; reactivate it first", id=str(actor))
