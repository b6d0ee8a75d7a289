"""How a long list is divided: each part holds positions from where it begins to where the next one begins.

Most lists have one part, and no row that says so. A list gets another while it is written and read:

1. the owner of its node notes where the new part begins, and that entries move there;
2. from their next batch on owners write entries to it, and readers look in the part before, then in it;
3. owners copy to it what the part before still holds, and then delete that there;
4. the owner of the node notes that all have moved; who reads looks in one part again.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kith.core.paging import Mark
from kith.engines.cassandra.reading import Key, Values
from kith.engines.cassandra.rows import of_node
from kith.graph.edge import POSITION_MAX, POSITION_MIN
from kith.graph.shapes import Listing

LOWEST, HIGHEST = Mark(POSITION_MIN, -1), Mark(POSITION_MAX, 2**63 - 1)


class Span(NamedTuple):
    """A part of a list: what is greater than `above`, and not greater than `top`."""

    above: Mark
    top: Mark


class ListParts(NamedTuple):
    """Where parts begin, ascending. `moving`: the part whose entries may still be in the part before."""

    begins: tuple[int, ...] = (POSITION_MIN,)
    moving: int | None = None

    def of(self, position: int) -> int:
        """The part of a position, by where it begins."""
        return max(begin for begin in self.begins if begin <= position)

    def before(self, begin: int) -> int:
        """The part before one."""
        return self.begins[self.begins.index(begin) - 1]

    def places(self, position: int) -> list[int]:
        """The parts in which an entry may be; the first is its own, to be read last."""
        part = self.of(position)
        return [part, self.before(part)] if part == self.moving else [part]

    def within(self, span: Span) -> list[tuple[list[int], Span]]:
        """What to look at for a span, newest first: the parts to look in, and what of the span they may hold."""
        found: list[tuple[list[int], Span]] = []
        top = span.top
        for begin in reversed(self.begins):
            above = max(span.above, Mark(begin, -1)) if begin > POSITION_MIN else span.above
            if above < top:
                found.append((self.places(begin), Span(above, top)))
                top = above
            if above == span.above:
                break
        return found


WHOLE = ListParts()


def parts_row(listing: Listing) -> Key:
    """The row of a list that is divided."""
    return Key("divisions", of_node(listing))


def read_parts(values: Values | None) -> ListParts:
    """How a list is divided."""
    return WHOLE if values is None else msgspec.msgpack.decode(values[0], type=ListParts)


def parts_values(parts: ListParts) -> Values:
    """The row's values."""
    return (msgspec.msgpack.encode(parts),)
