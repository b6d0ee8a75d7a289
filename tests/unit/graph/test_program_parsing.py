"""Set programs are parsed from JSON. The error for a malformed or too large program names what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from cast import ALICE
from edges import G, leaf

from kith.core.errors import BadId, BadRequest, ProgramTooComplex, UnknownGraph
from kith.graph.edge import Direction, State
from kith.graph.graphs import Graphs
from kith.graph.programs import (
    DEPTH_MAX,
    PARTS_MAX,
    Difference,
    Intersect,
    Leaf,
    Union,
    parse,
)
from kith.graph.shapes import Listing

NUMBER = Graphs({"follows": G, "likes": 2}).number
LEAF = {"graph": "follows", "node": "1", "direction": "out"}


def test_a_list_is_parsed_with_its_states_deduplicated() -> None:
    assert parse(LEAF, NUMBER) == leaf(1)
    raw = {**LEAF, "node": 9, "direction": "in", "states": ["archived", "normal", "archived"]}
    assert parse(raw, NUMBER) == leaf(9, Direction.IN, State.ARCHIVED, State.NORMAL)
    assert parse({**LEAF, "graph": "likes"}, NUMBER) == Leaf((Listing(2, ALICE, Direction.OUT),))


def test_operators_nest() -> None:
    raw = {"difference": [{"union": [LEAF, LEAF]}, {"intersect": [LEAF]}]}
    program = parse(raw, NUMBER)
    assert isinstance(program, Difference)
    assert [type(part) for part in program.parts] == [Union, Intersect]
    assert program.parts[0].parts == (leaf(1), leaf(1))


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        pytest.param(None, "object", id="null"),
        pytest.param([], "object", id="a list"),
        pytest.param("follows", "object", id="a text"),
        pytest.param(7, "object", id="a number"),
        pytest.param({"union": []}, "at least one", id="a union of nothing"),
        pytest.param({"union": LEAF}, "at least one", id="a union of no list"),
        pytest.param({"intersect": None}, "at least one", id="an intersection of null"),
        pytest.param({"difference": [None]}, "object", id="a difference with null"),
        pytest.param({}, "missing in a program: direction, graph, node", id="an empty object"),
        pytest.param({"graph": "follows"}, "missing in a program: direction, node", id="no direction, no node"),
        pytest.param({**LEAF, "limit": 3}, "unknown in a program: limit", id="an unknown field"),
        pytest.param(
            {"union": [LEAF], "intersect": [LEAF]}, "unknown in a program: intersect, union", id="two operators"
        ),
        pytest.param({"xor": [LEAF]}, "unknown in a program: xor", id="an unknown operator"),
        pytest.param({1: 2}, "unknown in a program: 1", id="a number as a field"),
        pytest.param({**LEAF, "direction": "both"}, "direction", id="no such direction"),
        pytest.param({**LEAF, "direction": ["out"]}, "direction", id="a list as direction"),
        pytest.param({**LEAF, "direction": 0}, "direction", id="a number as direction"),
        pytest.param({**LEAF, "states": []}, "at least one state", id="no states"),
        pytest.param({**LEAF, "states": "normal"}, "at least one state", id="a text as states"),
        pytest.param({**LEAF, "states": ["NORMAL"]}, "normal, negative, archived, removed", id="a state in capitals"),
        pytest.param({**LEAF, "states": ["gone"]}, "normal, negative, archived, removed", id="no such state"),
        pytest.param({**LEAF, "states": [0]}, "normal, negative, archived, removed", id="a number as a state"),
        pytest.param({**LEAF, "states": [["normal"]]}, "normal, negative, archived, removed", id="a list as a state"),
        pytest.param({**LEAF, "states": ["normal", None]}, "normal, negative, archived, removed", id="null as a state"),
    ],
)
def test_the_error_for_a_malformed_program_names_what_is_wrong(raw: Any, named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        parse(raw, NUMBER)


@pytest.mark.parametrize("node", ["", "-1", "x", "1.5", 1.5, -1, 2**63, str(2**63), None, True, "１", [1]], ids=repr)
def test_a_node_must_be_an_id(node: Any) -> None:
    with pytest.raises(BadId):
        parse({**LEAF, "node": node}, NUMBER)


@pytest.mark.parametrize("graph", ["", "nope", None, 1, ["follows"], {}], ids=repr)
def test_a_graph_must_exist(graph: Any) -> None:
    with pytest.raises(UnknownGraph):
        parse({**LEAF, "graph": graph}, NUMBER)


def nested(depth: int, operator: str = "union") -> dict[str, Any]:
    raw: dict[str, Any] = LEAF
    for _ in range(depth - 1):
        raw = {operator: [raw]}
    return raw


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 100, 900])
@pytest.mark.parametrize("operator", ["union", "intersect", "difference"])
def test_too_many_levels_are_refused(depth: int, operator: str) -> None:
    with pytest.raises(ProgramTooComplex) as raised:
        parse(nested(depth, operator), NUMBER)
    assert raised.value.details == {"maxDepth": DEPTH_MAX}


def test_the_greatest_depth_is_accepted() -> None:
    parse(nested(DEPTH_MAX), NUMBER)


def test_too_many_lists_are_refused_wherever_they_stand() -> None:
    parse({"union": [LEAF] * PARTS_MAX}, NUMBER)
    for raw in ({"union": [LEAF] * (PARTS_MAX + 1)}, {"union": [{"intersect": [LEAF] * 33}, {"union": [LEAF] * 32}]}):
        with pytest.raises(ProgramTooComplex) as raised:
            parse(raw, NUMBER)
        assert raised.value.details == {"maxLists": PARTS_MAX}
