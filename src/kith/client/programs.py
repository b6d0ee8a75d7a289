"""Set programs over lists of edges: `&` is the intersection, `|` the union, `-` the difference.

    out("follows", 1) & in_("follows", 2)      # users whom 1 follows and who follow 2

They are built here and computed by the service, which limits their depth and width (`PROGRAM_TOO_COMPLEX`). A chain of
one operator is sent as one flat list, so it adds no depth.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from kith.client.answers import Direction, Id, State
from kith.core.errors import BadRequest
from kith.core.ids import NodeId, parse_id

Operator: TypeAlias = Literal["intersect", "union", "difference"]


class Program(msgspec.Struct, frozen=True):
    """A list of nodes to compute. Python's operator precedence applies: `-` before `&` before `|`."""

    def __and__(self, other: Program) -> Program:
        return Combined("intersect", (*_parts("intersect", self), *_parts("intersect", other)))

    def __or__(self, other: Program) -> Program:
        return Combined("union", (*_parts("union", self), *_parts("union", other)))

    def __sub__(self, other: Program) -> Program:
        # The right side is not flattened: a - (b - c) is not a - b - c.
        return Combined("difference", (*_parts("difference", self), _checked(other)))

    def wire(self) -> dict[str, Any]:
        """The program as requests carry it."""
        raise NotImplementedError


class Listing(Program, frozen=True):
    """One list: the edges of `node` in one direction."""

    graph: str
    node: NodeId
    direction: Direction
    states: tuple[State, ...] = ()

    def wire(self) -> dict[str, Any]:
        listing: dict[str, Any] = {"graph": self.graph, "node": str(self.node), "direction": self.direction}
        return listing | {"states": list(self.states)} if self.states else listing


class Combined(Program, frozen=True):
    """Two or more programs under one operator. A difference removes all later parts from the first."""

    operator: Operator
    parts: tuple[Program, ...]

    def wire(self) -> dict[str, Any]:
        return {self.operator: [part.wire() for part in self.parts]}


def out(graph: str, node: Id, *states: State) -> Listing:
    """The list of nodes that `node` has edges to, in these states (default: normal)."""
    return Listing(graph, parse_id(node, "node"), "out", states)


def in_(graph: str, node: Id, *states: State) -> Listing:
    """The list of nodes that have edges to `node`, in these states (default: normal)."""
    return Listing(graph, parse_id(node, "node"), "in", states)


def _parts(operator: Operator, program: Program) -> tuple[Program, ...]:
    if isinstance(program, Combined) and program.operator == operator:
        return program.parts
    return (_checked(program),)


def _checked(program: Program) -> Program:
    if not isinstance(program, Program):
        raise BadRequest(f"a set program cannot hold a {type(program).__name__}; use out() and in_()")
    return program
