"""Moves a data folder into a cluster: copies and follows it while servers use it, then switches behind a fence.

An interrupted move resumes where it stopped. Until the switch begins, the folder is the store, and the copy in the
cluster does not count. The switch has these steps: close the folder to writes; bring over the rest of its log, notes,
credentials and consumers' positions; note that this is done; open the cluster to writes.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

from kith.core.clock import wall_ms
from kith.core.errors import Conflict
from kith.core.events import NOWHERE, LogPosition
from kith.engines.embedded import store_role
from kith.engines.embedded.closed_note import ClosedNote
from kith.engines.embedded.environment import Environment
from kith.graph.audit import Audit, audit
from kith.leases.node_numbers import any_held, start_cooldown
from kith.moving.log_replay import BulkLoaded
from kith.moving.store_comparison import ComparisonResult, RowKind, compare, differing, kinds
from kith.moving.table_copy import TABLES, TableCopy
from kith.run.config import Settings
from kith.run.moves import opening, progress, resume_positions
from kith.run.moves.mover import LEASE, Mover, ShowProgress, retry_while_unavailable, sharing_decisions
from kith.run.moves.opening import Sides
from kith.run.moves.progress import MoveProgress, Stage
from kith.run.opening import wiring

NUMBERS_RESTING = 64
"""Node numbers (`leases.numbers`) that the cluster does not assign for two minutes, because the folder's processes had
them.
"""
NUMBERS_LOOKED_AT = 16
"""Node numbers of the cluster that are checked for running servers."""
_STALL_S, _POLL_S = 30.0, 1.0


class MoveResult:
    """What a run of `move` did. `closed_s`: seconds without writes during the switch; None if it did not switch."""

    def __init__(self) -> None:
        self.compared: list[ComparisonResult] = []
        self.audits: list[Audit] = []
        self.closed_s: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether both sides hold the same."""
        return not any(result.differing for result in self.compared) and all(result.clean for result in self.audits)


async def move(settings: Settings, folder: Path, *, switch: bool, audited: bool, tell: ShowProgress) -> MoveResult:
    """Copy a folder, follow it until the cluster is a moment behind, compare both if `audited`, and then `switch`.

    It does not switch if anything differs. Errors: Conflict, which says what to do; Unavailable, after which the same
    call resumes.
    """
    async with opening.hold_move_lease(folder) as unfinished:
        noted = unfinished or MoveProgress(to=opening.name_of(settings))
        if noted.to != opening.name_of(settings):
            raise Conflict(f"{folder} is being moved to {noted.to}; name that one, or delete {folder / progress.FILE}")
        if noted.stage == "returning":
            raise Conflict(f"{folder} is being taken back; finish that first: `kith move {folder} --back`")
        if noted.at == NOWHERE:
            await wiring.cluster_of(settings).make(settings, _graphs_of(folder))
        return await _move(settings, folder, noted, switch=switch, audited=audited, tell=tell)


async def _move(
    settings: Settings, folder: Path, noted: MoveProgress, *, switch: bool, audited: bool, tell: ShowProgress
) -> MoveResult:
    moved = MoveResult()
    async with opening.open_sides(settings, folder, noted.permit) as sides, sharing_decisions(sides.write_decisions):
        moving = _MoveToCluster(sides, folder, noted, tell)
        if noted.stage != "moved":
            await moving.begin()
            await moving.catch_up()
            if audited and noted.stage != "switching":
                await moving.audit(moved)
            if (switch or noted.stage == "switching") and moved.agrees:
                moved.closed_s = await moving.switch()
        if noted.stage == "moved":
            await moving.open()
    return moved


def _graphs_of(folder: Path) -> list[str]:
    """Names of the folder's graphs, ordered by their numbers. Errors: Conflict where the folder takes no writes."""
    with Environment(folder, create=False) as store:
        if store_role.has_moved(store):
            raise Conflict(f"{folder} was moved, and takes no writes itself; move the store that does")
        numbers = store.graph_numbers()
    return sorted(numbers, key=numbers.__getitem__)


class _MoveToCluster(Mover):
    """A move from a folder into the cluster."""

    def __init__(self, sides: Sides, folder: Path, noted: MoveProgress, tell: ShowProgress) -> None:
        super().__init__(sides.folder, sides.folder_side, sides.cluster_side, folder, noted, tell)
        self._sides, self._closing = sides, sides.write_decisions.closing
        self._store = sides.folder.of_folder("a move").environment
        self._changing: list[tuple[RowKind, list[Any]]] = []  # rows that changed while they were compared

    async def begin(self) -> None:
        """Close the cluster, check that it is empty or holds this move's copy, and lease the folder's log."""
        noted, cluster = self.noted, self._sides.cluster
        if store_role.has_moved(self._store) and noted.stage != "switching":
            self._store.reopen()  # giving up a switch was interrupted just before this step
        permit = await self._closing.permit()
        if noted.at == NOWHERE:
            log = await cluster.log.behind(NOWHERE)
            if permit not in (0, noted.permit):
                raise Conflict(f"another store is being moved to {noted.to}, or was moved away; name another keyspace")
            if log.events or log.lost:
                raise Conflict(f"{noted.to} holds a store already; name another keyspace: KITH_CASSANDRA_KEYSPACE")
            self.note()  # store the permit before the cluster knows it
            await retry_while_unavailable(self._closing.close)
            if await any_held(cluster.leases, NUMBERS_LOOKED_AT):
                raise Conflict(f"a server runs on {noted.to}, or did until lately; stop it, and try again in 3 minutes")
            await self._declare()
            await self.copy_credentials(self._sides.folder, cluster)
            noted.at = await self.one.log.end()
            self.note()
        elif permit != noted.permit:
            raise Conflict(
                f"{noted.to} is not what {self.folder} was being moved to; to begin anew, name another keyspace and "
                f"delete {self.folder / progress.FILE}"
            )
        await self._declare()
        await self.lease_log()

    async def _declare(self) -> None:
        """Give the folder's graphs the same numbers in the cluster."""
        folder_numbers = self._store.graph_numbers()
        cluster_numbers = await retry_while_unavailable(
            lambda: self.other.edges.declare(sorted(folder_numbers, key=folder_numbers.__getitem__))
        )
        if any(cluster_numbers[name] != number for name, number in folder_numbers.items()):
            raise Conflict(f"{self.noted.to} numbers graphs otherwise than {self.folder}; name another keyspace")

    async def lease_log(self) -> None:
        if not store_role.has_moved(self._store):
            await super().lease_log()

    async def catch_up(self) -> None:
        """Copy what is left to copy, then follow until the cluster is a moment behind."""
        while True:
            await self._copy()
            try:
                await super().follow()
                return
            except BulkLoaded:
                self._copy_again()

    async def follow(self) -> None:
        try:
            await super().follow()
        except BulkLoaded:
            self._copy_again()
            raise Conflict("edges were imported in bulk meanwhile; run the same command again, to copy them") from None

    def _copy_again(self) -> None:
        self.noted.table, self.noted.after = TABLES[0], None
        self.noted.copied, self.noted.points = NOWHERE, []
        self._give_up("copying")

    def _give_up(self, stage: Stage) -> None:
        """Reopen the folder to writes, if it is closed. To switch, the command must be run again."""
        self.noted.stage = stage
        self.note()  # first: if this run stops before the folder is open, the next run opens it and does not switch
        if store_role.has_moved(self._store):
            self._store.reopen()

    async def _copy(self) -> None:
        noted = self.noted
        if noted.stage != "copying":
            return
        rows = 0
        for table in TABLES[TABLES.index(noted.table) :]:
            copying = TableCopy(self.one, self.writing, table, noted.after if table == noted.table else None)
            while not copying.is_done:
                rows += await retry_while_unavailable(copying.step)
                noted.table, noted.after = table, copying.after
                self.tell("rows copied", rows)
                if not copying.is_done:
                    self.note()
                await self.lease_log()
        noted.stage, noted.copied = "following", await self.one.log.end()
        self.note()

    async def audit(self, moved: MoveResult) -> None:
        """Compare both sides, and audit the cluster's lists and counts against its rows."""
        for kind in kinds(wall_ms, moving=True):
            result = await compare(kind, self.one, self.other, self.follow, partial(self.tell, f"{kind.name} compared"))
            moved.compared.append(result)
            self._changing.append((kind, result.changing))
        for name, number in sorted(self._store.graph_numbers().items()):
            if not (await self.one.edges.degrees(number, None, 1)).nodes:
                continue  # no edges; in Cassandra, a scan of one graph reads the rows of all graphs
            shown = partial(self.tell, f"edges of {name} audited")
            moved.audits.append(
                await audit(self._sides.cluster.store, name, number, recheck_delays_s=(0,), progress=shown)
            )

    async def switch(self) -> float:
        """Switch; returns the seconds during which neither side took writes."""
        noted = self.noted
        if not store_role.has_moved(self._store):
            await self._wait_for_consumers()
        noted.stage = "switching"
        self.note()
        await start_cooldown(self._sides.cluster.leases, NUMBERS_RESTING)
        began_s = time.monotonic()
        if not store_role.has_moved(self._store):
            store_role.close_to_writes(self._store, ClosedNote("moved", noted.to))
        await self.follow()
        await self._declare()
        await self._check_changing()
        await self.copy_inboxes()
        await retry_while_unavailable(self.writing.notes)
        await self.copy_credentials(self._sides.folder, self._sides.cluster)
        for group_position in await resume_positions.positions_in_cluster(self._sides.folder, noted.points):
            await retry_while_unavailable(
                partial(self.other.log.save, group_position.group, group_position.at, group_position.failures)
            )
        noted.back = await self.other.log.end()
        await retry_while_unavailable(lambda: self.other.log.lease(LEASE, LogPosition(noted.back)))
        noted.stage = "moved"
        self.note()
        await self.open()
        return time.monotonic() - began_s

    async def _check_changing(self) -> None:
        """Compare the rows that were changing before. Errors: Conflict where they differ; the folder is open again."""
        for kind, keys in self._changing:
            if differing_keys := await differing(kind, self.one, self.other, keys):
                self._give_up("following")
                raise Conflict(
                    f"{kind.name} differ, such as {differing_keys[0]}, so nothing was switched; run it again, and "
                    "report what differs if it stays"
                )

    async def open(self) -> None:
        """Open the cluster to writes."""
        if await self._closing.permit() == self.noted.permit:
            await retry_while_unavailable(self._closing.open)

    async def _wait_for_consumers(self) -> None:
        """Follow until every consumer has reached the end of the copy; from there on, the two logs hold the same."""
        least, until_s = None, time.monotonic() + _STALL_S
        while late := await resume_positions.lagging_groups(self._sides.folder, self.noted.points):
            behind = max(late.values())
            if least is None or behind < least:
                least, until_s = behind, time.monotonic() + _STALL_S
            elif time.monotonic() > until_s:
                raise Conflict(
                    f"{' and '.join(late)} must come to where the copy ended (still {behind:,} events before it): "
                    "run these workers over the folder, as `kith serve` does, then switch again"
                )
            self.tell("events that a consumer of the folder has to handle first", behind)
            await asyncio.sleep(_POLL_S)
            await self.follow()
