"""A store that is written to while it is moved, a move that is killed, and comparisons of both sides."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

from cast import START_MS
from edges import G, all_pages, edge_of

from kith.core.clock import Hlc, hlc_of, wall_ms
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.shapes import Listing
from kith.moving.log_replay import LogReplay
from kith.moving.store_comparison import ComparisonResult, compare, kinds
from kith.moving.store_writer import StoreSide, StoreWriter
from kith.moving.table_copy import TABLES, TableCopy
from kith.notifications.inbox import InboxRow
from kith.notifications.notice import Notice, notice_record
from kith.records.store import AtVersion, Claim, Record, RecordKind, Write

NODES, IDS = range(1, 8), range(1, 13)
KINDS = (RecordKind.POST, RecordKind.COMMENT, RecordKind.STORY)
PAIRS = [pair for pair in product(NODES, repeat=2) if pair[0] != pair[1]]
FIRST_NOTICE = (wall_ms() - EPOCH_MS) << TIME_SHIFT


class MoveWrites:
    """Random writes to a side through its ports. Some have an older version than the writes before them."""

    def __init__(self, side: StoreSide, seed: int) -> None:
        self._side, self._chosen, self._made = side, random.Random(seed), 0

    async def step(self) -> None:
        chosen, edges, records = self._chosen, self._side.edges, self._side.records
        self._made += 1
        version = self._made - (chosen.randrange(30) if chosen.random() < 0.2 else 0)
        kind, id_ = chosen.choice(KINDS), chosen.choice(IDS)
        match chosen.randrange(16):
            case 0 | 1 | 2 | 3 | 4:
                state = chosen.choice((State.NORMAL, State.NORMAL, State.REMOVED, State.ARCHIVED))
                edge = edge_of(*chosen.choice(PAIRS), START_MS + chosen.randrange(50), state, version)
                await edges.apply([EdgeWrite(edge)])
            case 5 | 6 | 7 | 8:
                record = Record(kind, id_, hlc_of(START_MS + version), f"{self._made}".encode())
                (stored,) = await records.get_many(kind, [id_])
                was = AtVersion(kind, id_, 0 if stored is None else stored.updated_at)
                edge = edge_of(*chosen.choice(PAIRS), version=version)
                await records.put([record], [EdgeWrite(edge)], only_if=[was] if chosen.random() < 0.5 else [])
            case 9:
                await records.forget(kind, [id_])
            case 10 | 11:
                state = chosen.choice((State.NORMAL, State.ARCHIVED))
                await edges.change_node(chosen.choice(NODES), state=state, private=chosen.random() < 0.5)
            case 12:
                await edges.put_note(f"some/{chosen.choice(IDS)}", chosen.choice((None, b"%d" % self._made)))
            case 13 | 14:
                await self._tell(FIRST_NOTICE + self._made, chosen.choice(NODES))
            case 15:
                outcome = Record(RecordKind.MENTION_OUTCOME, FIRST_NOTICE + self._made, Hlc(1), b"%d" % self._made)
                await records.put([outcome])
                await records.forget_below(RecordKind.MENTION_OUTCOME, outcome.id - 20, 100)

    async def _tell(self, id_: int, recipient: int) -> None:
        """Write a notice as `notifications.notices` does: the inbox row, then the notice under a claim."""
        notice = Notice(id_, "follow", 1, recipient, START_MS)
        await self._side.inboxes.add([InboxRow(recipient, id_)])
        claim = Claim(id_.to_bytes(16, "big"), b"told", wall_ms(), self._chosen.choice((1, 3_600_000)))
        await self._side.records.put_many([Write([notice_record(notice, hlc_of(START_MS))], claim)])


class KillableMove:
    """A move in small steps. `stop` kills it; it resumes from its last saved checkpoint."""

    def __init__(self, source: StoreSide, target: StoreSide) -> None:
        self._source, self._target = source, target
        self._writing = StoreWriter(source, target, wall_ms)
        self._tables = list(TABLES)
        self._copying = TableCopy(source, self._writing, self._tables[0])
        self._noted: bytes | None = None
        self.log: LogReplay | None = None

    async def begin(self) -> None:
        """Note the end of the log. The move replays the log from here once all rows are copied."""
        self.log = LogReplay(self._source, self._target, self._writing, await self._source.log.end())

    async def step(self) -> bool:
        """Copy or replay the next part. Returns whether there was one."""
        if self._tables:
            await self._copying.step()
            if self._copying.is_done:
                del self._tables[0]
                self._stop_at(None)
            return True
        assert self.log
        return await self.log.step() > 0

    def stop(self, chosen: random.Random) -> None:
        """Kill the process, at random before or after it saved a checkpoint of its last step; resume from it."""
        if chosen.random() < 0.5:
            self._noted = self._copying.after
        self._stop_at(self._noted)
        assert self.log
        self.log = LogReplay(self._source, self._target, self._writing, self.log.at)

    def _stop_at(self, noted: bytes | None) -> None:
        self._noted = noted
        if self._tables:
            self._copying = TableCopy(self._source, self._writing, self._tables[0], noted)

    async def catch_up(self) -> None:
        """Copy and replay all that is written by now."""
        assert self.log
        end = await self._source.log.end()
        while await self.step() or not self._source.log.covers(self.log.at, end):
            pass

    async def finish(self) -> None:
        """Do the last part of the move, as after the source is fenced."""
        settle(self._source)
        await self.catch_up()
        claims = TableCopy(self._source, self._writing, "claims")  # not every log has events of claims
        while not claims.is_done:
            await claims.step()
        await self._writing.notes()

    async def compared(self) -> list[ComparisonResult]:
        """Compare both sides, kind by kind."""
        return [await compare(kind, self._source, self._target, self.catch_up) for kind in kinds(wall_ms)]


def settle(side: StoreSide) -> None:
    """If the side's lists lag: bring them up to date."""
    getattr(side.edges, "settle", lambda: None)()


async def answers(side: StoreSide) -> dict[str, Any]:
    """The lists, counts and accounts of a side, which a comparison of rows does not cover."""
    settle(side)
    lists = [Listing(G, node, end, state) for node in NODES for end in Direction for state in State]
    return {
        "counts": await side.edges.count_many(lists),
        "accounts": await side.edges.nodes(NODES),
        **{f"{one}": await all_pages(lambda window, of=one: side.edges.page(of, window), 3) for one in lists},
    }
