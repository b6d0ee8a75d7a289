"""Set programs: union, intersection and difference of any lists, nested.

    {"intersect": [{"graph": "follows", "node": "1", "direction": "out"},
                   {"graph": "follows", "node": "2", "direction": "in"}]}

Members come by id, descending, so a page is stable while lists change, and its cursor is an id. Of an intersection only
the smallest part is read; its members are looked up in the larger ones. So intersecting 10,000 ids with a million costs
as much as the 10,000. If the part to read is longer than WHOLE_LIST_MAX, a page reads only what lies beyond its cursor
(`sorted_ids`), so pages cost the same at any depth. A page ends after checking CHECKED_IDS_MAX ids, and says how far it
got. Limits: PARTS_MAX lists, DEPTH_MAX levels, `ids_max` ids read (for a count, whole lists); READ_MAX and LOOKUPS_MAX
per call. Source: FlockDB's compound queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kith.core.errors import BadRequest, ProgramTooComplex
from kith.core.ids import parse_id
from kith.graph.edge import Direction, State
from kith.graph.ordered_lists import OrderedIds, OrderedLists, after, sorted_ids, up_to
from kith.graph.shapes import Ids, Listing
from kith.graph.store import Edges
from kith.graph.walk import READ_MAX

DEPTH_MAX = 16
PARTS_MAX = 64
IDS_MAX_DEFAULT = 5_000_000
LOOKUPS_MAX = 50_000
"""How many ids one call looks up in a list."""
_PROBE_FACTOR = 8  # reading a list at most this many times longer is cheaper than looking up each id
WHOLE_LIST_MAX = 50_000
"""A longer list is not read whole for a page."""
CHECKED_IDS_MAX = 200_000
"""How many ids of the part that is read one page may check."""
_FIRST_CHUNK, _CHUNK_MAX = 256, 16_384
_ON_LOOP_MAX = 100_000
"""How many ids are sorted or searched without yielding to other requests: a few ms."""
Found = TypeVar("Found")


class Leaf(NamedTuple):
    """The other ends of one node's edges in one direction, in any of these listings' states."""

    listings: tuple[Listing, ...]


class GivenIds(NamedTuple):
    """Ids from the caller, descending and distinct; see `given`."""

    ids: Ids


class Union(NamedTuple):
    """Ids that are in any part."""

    parts: tuple[Program, ...]


class Intersect(NamedTuple):
    """Ids that are in every part."""

    parts: tuple[Program, ...]


class Difference(NamedTuple):
    """Ids that are in the first part and in none of the others."""

    parts: tuple[Program, ...]


Program = Leaf | GivenIds | Union | Intersect | Difference
_OPERATORS: dict[str, Callable[[tuple[Program, ...]], Program]] = {
    "union": Union,
    "intersect": Intersect,
    "difference": Difference,
}


def given(ids: Ids) -> GivenIds:
    """A program of these ids."""
    return GivenIds(sorted_ids(ids, down=True))


def parse(raw: Any, graph_number: Callable[[str], int]) -> Program:
    """Read a program from a decoded JSON value.

    Errors: BadRequest, which says what is wrong with which part; ProgramTooComplex; UnknownGraph.
    """
    parts_left = [PARTS_MAX]

    def part(value: Any, depth: int) -> Program:
        if depth > DEPTH_MAX:
            raise ProgramTooComplex(f"a program may be nested {DEPTH_MAX} levels deep at most", maxDepth=DEPTH_MAX)
        if not isinstance(value, Mapping):
            raise BadRequest("each part of a program is an object: an operator with its parts, or a list")
        if len(value) == 1 and (name := next(iter(value))) in _OPERATORS:
            if not isinstance(value[name], list) or not value[name]:
                raise BadRequest(f"{name!r} takes a list of at least one part")
            return _OPERATORS[name](tuple(part(inner, depth + 1) for inner in value[name]))
        parts_left[0] -= 1
        if parts_left[0] < 0:
            raise ProgramTooComplex(f"a program may name {PARTS_MAX} lists at most", maxLists=PARTS_MAX)
        return _leaf(value, graph_number)

    return part(raw, 1)


def _leaf(value: Mapping[str, Any], graph_number: Callable[[str], int]) -> Leaf:
    unknown = set(value) - {"graph", "node", "direction", "states"}
    missing = {"graph", "node", "direction"} - set(value)
    if unknown or missing:
        named = ", ".join(sorted(map(str, unknown or missing)))
        raise BadRequest(
            f"{'unknown' if unknown else 'missing'} in a program: {named}; "
            "a list is {graph, node, direction, states?}, an operator is union, intersect or difference"
        )
    if value["direction"] not in ("out", "in"):
        raise BadRequest("direction must be 'out' or 'in'", direction=value["direction"])
    states = value.get("states", ["normal"])
    if not isinstance(states, list) or not states:
        raise BadRequest("states must be a list of at least one state")
    graph, node = graph_number(str(value["graph"])), parse_id(value["node"], "node")
    direction = Direction[value["direction"].upper()]
    return Leaf(tuple(Listing(graph, node, direction, state) for state in dict.fromkeys(map(parse_state, states))))


def parse_state(raw: Any) -> State:
    """The state with this name. BadRequest lists the names."""
    try:
        return State[raw.upper()] if isinstance(raw, str) and raw.islower() else State(-1)
    except (KeyError, ValueError):
        names = ", ".join(state.name.lower() for state in State)
        raise BadRequest(f"state must be one of {names}", state=str(raw)) from None


class MembersPage(NamedTuple):
    """Members in order. `checked_to`: the last id checked, if the page stopped after CHECKED_IDS_MAX ids; there may
    be more.
    """

    ids: Ids
    checked_to: int | None


class Evaluator:
    """Runs one program over a store. `ids_max`: how many ids it may read into memory; ProgramTooComplex above that."""

    def __init__(self, store: Edges, lists: OrderedLists, ids_max: int = IDS_MAX_DEFAULT) -> None:
        self._store, self._lists, self._ids_left, self._ids_max = store, lists, ids_max, ids_max
        self._counts: dict[Leaf, int] = {}
        self._whole: dict[Leaf, Ids] = {}

    async def page(self, program: Program, beyond: int | None, need: int, *, down: bool = True) -> MembersPage:
        """Up to `need` members that come after `beyond` (None: the first). `down`: greatest first; else least first."""
        await self._count_leaves(program)
        found, count, checked, chunk = list[Ids](), 0, 0, max(need, _FIRST_CHUNK)
        while True:
            part = await self._part(program, beyond, chunk, down)
            found.append(part.ids)
            count, checked, beyond = count + len(part.ids), checked + chunk, part.reached
            if count >= need or beyond is None or checked >= CHECKED_IDS_MAX:
                break
            await asyncio.sleep(0)  # let other requests run
            chunk = min(4 * chunk, _CHUNK_MAX)
        return MembersPage(np.concatenate(found)[:need], beyond if count < need else None)

    async def count(self, program: Program) -> int:
        """How many members the program has."""
        await self._count_leaves(program)
        if isinstance(program, Leaf) and len(program.listings) == 1:
            return self._counts[program]
        return len(await self._all(program))

    async def _part(self, program: Program, beyond: int | None, limit: int, down: bool) -> OrderedIds:
        """The members after `beyond`, from about `limit` ids of the part that is read."""
        match program:
            case GivenIds(ids):
                return _cut(ids if down else ids[::-1], beyond, limit, down)
            case Leaf(listings):
                if self._counts[program] <= min(WHOLE_LIST_MAX, self._ids_left) or program in self._whole:
                    ids = await self._all(program)
                    return _cut(ids if down else ids[::-1], beyond, limit, down)
                return _union([await self._lists.part(listing, beyond, limit, down=down) for listing in listings], down)
            case Union(parts):
                return _union([await self._part(part, beyond, limit, down) for part in parts], down)
            case Intersect() | Difference():
                base, others, wanted = self._choose_driver(program)
                ids, reached = await self._part(base, beyond, limit, down)
                return OrderedIds(ids[await self._passing(ids, others, wanted)], reached)

    async def _all(self, program: Program) -> Ids:
        """Every member, descending."""
        match program:
            case GivenIds(ids):
                return ids
            case Leaf(listings):
                if program not in self._whole:
                    self._check_left(self._counts[program])
                    read = [await self._read(listing) for listing in listings]
                    # an id comes twice if its edge moved meanwhile, or if in lagging lists it is between two states
                    self._whole[program] = await _distinct(read)
                return self._whole[program]
            case Union(parts):
                return await _distinct([await self._all(part) for part in parts])
            case Intersect() | Difference():
                base, others, wanted = self._choose_driver(program)
                ids = await self._all(base)
                return ids[await self._passing(ids, others, wanted)]

    async def contains(self, program: Program, ids: Ids) -> NDArray[np.bool_]:
        """For each of `ids`: whether it is a member."""
        match program:
            case GivenIds(members):
                return np.isin(ids, members)
            case Leaf(listings):
                if self._counts[program] <= min(_PROBE_FACTOR * len(ids), self._ids_left) or program in self._whole:
                    whole = await self._all(program)
                    return await _yielding(np.isin, ids, whole, size=len(ids) + len(whole))
                return _any([await self._look_up(listing, ids) for listing in listings])
            case Union(parts):
                return _any([await self.contains(part, ids) for part in parts])
            case Intersect(parts):
                return await self._passing(ids, parts, True)
            case Difference(parts):
                kept = await self.contains(parts[0], ids)
                kept[kept] = await self._passing(ids[kept], parts[1:], False)
                return kept

    def _choose_driver(self, program: Intersect | Difference) -> tuple[Program, tuple[Program, ...], bool]:
        """The part to read, the parts to test its members against, and the test result that keeps a member."""
        if isinstance(program, Difference):
            return program.parts[0], program.parts[1:], False
        sizes = [self._size_max(part) for part in program.parts]
        least = sizes.index(min(sizes))
        return program.parts[least], program.parts[:least] + program.parts[least + 1 :], True

    async def _passing(self, ids: Ids, others: tuple[Program, ...], wanted: bool) -> NDArray[np.bool_]:
        """For each of `ids`: whether all `others` give the answer `wanted`."""
        kept = np.ones(len(ids), np.bool_)
        for other in others:
            if kept.any():
                kept[kept] = (await self.contains(other, ids[kept])) == wanted
        return kept

    def _size_max(self, program: Program) -> int:
        """The greatest number of members that the program can have."""
        match program:
            case Leaf():
                return self._counts[program]
            case GivenIds(ids):
                return len(ids)
            case Union(parts):
                return sum(map(self._size_max, parts))
            case Intersect(parts):
                return min(map(self._size_max, parts))
            case Difference(parts):
                return self._size_max(parts[0])

    async def _count_leaves(self, program: Program) -> None:
        parts = list(leaves(program))
        counts = iter(await self._store.count_many([listing for leaf in parts for listing in leaf.listings]))
        for leaf in parts:
            self._counts[leaf] = sum(next(counts) for _ in leaf.listings)

    async def _read(self, listing: Listing) -> Ids:
        """All ids of a list, in any order."""
        ids, after = await self._store.chunk(listing, None, READ_MAX)
        found = [ids]
        self._ids_left -= len(ids)
        while after is not None:
            self._check_left(1)  # the list may have grown, or its count may lag
            await asyncio.sleep(0)  # let other requests run
            ids, after = await self._store.chunk(listing, after, READ_MAX)
            found.append(ids)
            self._ids_left -= len(ids)
        return np.concatenate(found)

    async def _look_up(self, listing: Listing, ids: Ids) -> NDArray[np.bool_]:
        """For each of `ids`: whether it is in the list."""
        parts = [ids[at : at + LOOKUPS_MAX] for at in range(0, max(1, len(ids)), LOOKUPS_MAX)]
        return np.concatenate([await self._store.contains(listing, part) for part in parts])

    def _check_left(self, ids: int) -> None:
        if self._ids_left < ids:
            raise ProgramTooComplex(
                f"this program would read more than {self._ids_max} ids; "
                "intersect the large lists with a smaller one, or raise `select_ids_max`",
                maxIds=self._ids_max,
            )


def leaves(program: Program) -> list[Leaf]:
    """Every leaf of the program."""
    if isinstance(program, Leaf):
        return [program]
    if isinstance(program, GivenIds):
        return []
    return [leaf for part in program.parts for leaf in leaves(part)]


def _cut(ids: Ids, beyond: int | None, limit: int, down: bool) -> OrderedIds:
    """The next `limit` of all ids, in order."""
    left = after(ids, beyond, down)
    return OrderedIds(left[:limit], int(left[limit - 1]) if len(left) > limit else None)


def _union(parts: list[OrderedIds], down: bool) -> OrderedIds:
    """The members of all parts, up to where each of them was read."""
    ends = [part.reached for part in parts if part.reached is not None]
    reached = (max(ends) if down else min(ends)) if ends else None
    ids = parts[0].ids if len(parts) == 1 else sorted_ids(np.concatenate([part.ids for part in parts]), down)
    return OrderedIds(up_to(ids, reached, down), reached)


async def _distinct(parts: list[Ids]) -> Ids:
    """The ids that are in any part, descending."""
    joined = np.concatenate(parts)
    return await _yielding(partial(sorted_ids, down=True), joined, size=len(joined))


async def _yielding(step: Callable[..., Found], *ids: Ids, size: int) -> Found:
    """The result of a NumPy step over this many ids; with many ids it runs in a thread."""
    return step(*ids) if size <= _ON_LOOP_MAX else await asyncio.to_thread(step, *ids)


def _any(masks: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    found = masks[0]
    for mask in masks[1:]:
        found = found | mask
    return found
