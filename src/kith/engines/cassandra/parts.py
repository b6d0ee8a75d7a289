"""How a long list is divided: a part holds the positions from its beginning up to the beginning of the next part.

Most lists have one part, and no row in `divisions`. A list gets another part while it is written and read:

1. The owner of the list's node stores where the new part begins, and that entries are moving there.
2. From their next batch on, owners write entries to the new part. Readers read the part before, then the new one.
3. Owners copy the remaining entries from the part before to the new part, and then delete them from the part before.
4. The owner of the node stores that all entries have moved. Readers read one part again.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kith.core.paging import Mark
from kith.engines.cassandra.row_reader import Key, Values
from kith.engines.cassandra.rows import of_node
from kith.graph.edge import POSITION_MAX, POSITION_MIN
from kith.graph.shapes import Listing

LOWEST, HIGHEST = Mark(POSITION_MIN, -1), Mark(POSITION_MAX, 2**63 - 1)


class Span(NamedTuple):
    """A range of a list: the entries greater than `above` and not greater than `top`."""

    above: Mark
    top: Mark


class ListParts(NamedTuple):
    """Where each part of a list begins, ascending. `moving`: the part whose entries may still be in the part before."""

    begins: tuple[int, ...] = (POSITION_MIN,)
    moving: int | None = None

    def of(self, position: int) -> int:
        """The part that a position belongs to, named by where it begins."""
        return max(begin for begin in self.begins if begin <= position)

    def before(self, begin: int) -> int:
        """The part before the one that begins at `begin`."""
        return self.begins[self.begins.index(begin) - 1]

    def places(self, position: int) -> list[int]:
        """The parts in which an entry may be. The first is its own part, which must be read last."""
        part = self.of(position)
        return [part, self.before(part)] if part == self.moving else [part]

    def within(self, span: Span) -> list[tuple[list[int], Span]]:
        """What to read for a span, newest first: some parts, and the piece of the span that they may hold."""
        pieces: list[tuple[list[int], Span]] = []
        top = span.top
        for begin in reversed(self.begins):
            above = max(span.above, Mark(begin, -1)) if begin > POSITION_MIN else span.above
            if above < top:
                pieces.append((self.places(begin), Span(above, top)))
                top = above
            if above == span.above:
                break
        return pieces


UNDIVIDED = ListParts()


def parts_row(listing: Listing) -> Key:
    """The key of the row that says how a list is divided."""
    return Key("divisions", of_node(listing))


def read_parts(values: Values | None) -> ListParts:
    """Decode how a list is divided; undivided where there is no row."""
    return UNDIVIDED if values is None else msgspec.msgpack.decode(values[0], type=ListParts)


def parts_values(parts: ListParts) -> Values:
    """The values of the row that `parts_row` names."""
    return (msgspec.msgpack.encode(parts),)
