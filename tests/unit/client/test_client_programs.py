"""Set programs are written with `&`, `|` and `-`, and sent as the contract says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kith.client import Program, in_, out
from kith.core.errors import BadId, BadRequest

ALICE, BOB, CAROL, DANA = 1, 2, 3, 2**63 - 1
A, B, C = out("follows", ALICE), in_("follows", BOB), out("likes", CAROL)


def test_a_list_is_sent_with_its_node_as_a_string() -> None:
    assert out("follows", DANA).wire() == {"graph": "follows", "node": str(DANA), "direction": "out"}
    assert in_("follows", "2").wire() == {"graph": "follows", "node": "2", "direction": "in"}


def test_states_are_sent_where_named() -> None:
    assert out("follows", ALICE, "normal", "archived").wire()["states"] == ["normal", "archived"]


@pytest.mark.parametrize(("program", "operator"), [(A & B, "intersect"), (A | B, "union"), (A - B, "difference")])
def test_each_operator_has_its_name(program: Program, operator: str) -> None:
    assert program.wire() == {operator: [A.wire(), B.wire()]}


def test_a_chain_of_one_operator_stays_flat() -> None:
    parts = [A.wire(), B.wire(), C.wire()]
    assert (A & B & C).wire() == (A & (B & C)).wire() == {"intersect": parts}
    assert (A | B | C).wire() == (A | (B | C)).wire() == {"union": parts}
    assert (A - B - C).wire() == {"difference": parts}


def test_a_parenthesised_subtrahend_stays_together() -> None:
    assert (A - (B - C)).wire() == {"difference": [A.wire(), {"difference": [B.wire(), C.wire()]}]}
    assert (A & (B | C)).wire() == {"intersect": [A.wire(), {"union": [B.wire(), C.wire()]}]}


def test_an_operand_that_is_no_program_is_refused() -> None:
    with pytest.raises(BadRequest, match="cannot hold a int"):
        A & 7  # type: ignore[operator]
    with pytest.raises(BadRequest, match="cannot hold a int"):
        A - 7  # type: ignore[operator]
    with pytest.raises(BadId):
        out("follows", "alice")


NODES = range(6)


def members(wire: dict[str, Any], lists: dict[str, set[int]]) -> set[int]:
    """The result of a program by the contract, where the list of node n is `lists[n]`."""
    if "graph" in wire:
        return lists[wire["node"]]
    ((operator, parts),) = wire.items()
    first, *others = (members(part, lists) for part in parts)
    for other in others:
        first = {"intersect": first & other, "union": first | other, "difference": first - other}[operator]
    return first


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> str:
    """A Python expression over n0, n1, ... that is valid for sets and for programs."""
    if depth == 0 or draw(st.booleans()):
        return f"n{draw(st.sampled_from(NODES))}"
    left, right = draw(expressions(depth=depth - 1)), draw(expressions(depth=depth - 1))
    return f"({left} {draw(st.sampled_from('&|-'))} {right})"


@given(expressions(), st.lists(st.sets(st.integers(0, 9)), min_size=len(NODES), max_size=len(NODES)))
def test_a_program_gives_what_the_same_expression_gives_on_sets(expression: str, sets: list[set[int]]) -> None:
    program = eval(expression, {f"n{node}": out("follows", node) for node in NODES})
    expected = eval(expression, {f"n{node}": sets[node] for node in NODES})
    assert members(program.wire(), {str(node): sets[node] for node in NODES}) == expected
