"""Opens the two sides of a move: a data folder that servers may use, and the cluster that the settings name."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from kith.core.errors import StoreMismatch
from kith.engines.blobs.blob_store import FolderBlobs, open_blobs
from kith.engines.embedded.file_leases import FileLeases
from kith.leases.holding import Leases
from kith.media.blobs import BlobStore
from kith.moving.store_writer import StoreSide
from kith.run.config import Settings
from kith.run.moves import progress
from kith.run.moves.progress import MoveProgress
from kith.run.opening import one_machine, wiring
from kith.run.opening.folders import media_folder
from kith.run.opening.stores import OpenStores, WriteDecisions


class Sides(NamedTuple):
    """Both sides, open. `folder_side`, `cluster_side`: folder and cluster as the sides that a move reads and writes."""

    folder: OpenStores
    cluster: OpenStores
    folder_side: StoreSide
    cluster_side: StoreSide

    @property
    def write_decisions(self) -> WriteDecisions:
        """Decides writes to the cluster."""
        if self.cluster.write_decisions is None:
            raise StoreMismatch("these settings name no cluster")
        return self.cluster.write_decisions


def folder_settings(settings: Settings, folder: Path) -> Settings:
    """The settings for the folder, where `settings` name the cluster."""
    return msgspec.structs.replace(settings, engine="folder", data=str(folder), redis="", standby_mode="async")


def name_of(settings: Settings) -> str:
    """Name of the cluster in messages. Clients see it too, so it has no address."""
    return f"keyspace {settings.cassandra_keyspace} of the cluster"


@contextlib.asynccontextmanager
async def hold_move_lease(folder: Path) -> AsyncIterator[MoveProgress | None]:
    """Hold the lease of moving this folder; yields the noted progress of its move.

    Errors: Conflict where another process moves it; StoreMismatch where there is no such folder.
    """
    with contextlib.closing(_leases(folder)) as leases:
        async with Leases(leases).hold_or_conflict("move"):
            yield progress.read(folder)


@contextlib.asynccontextmanager
async def open_sides(settings: Settings, folder: Path, permit: int = 0, *, back: bool = False) -> AsyncIterator[Sides]:
    """Open both sides. `permit`: lets this process write to the closed cluster. `back`: write to the closed folder.

    Errors: StoreUnavailable; StoreMismatch where there is no such folder, or the settings do not match the cluster.
    """
    files = _files(settings, folder)
    async with contextlib.AsyncExitStack() as stack:
        folder_stores = await stack.enter_async_context(
            one_machine.open_stores(
                folder_settings(settings, folder), "move", create=False, on_fatal=lambda: None, follows=back
            )
        )
        metrics_folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="kith-move-")
        )  # for metrics that nobody reads
        cluster_stores = await stack.enter_async_context(
            wiring.cluster_of(settings).open_stores(
                msgspec.structs.replace(settings, data=metrics_folder), "move", permit
            )
        )
        yield Sides(folder_stores, cluster_stores, _side(folder_stores, files[0]), _side(cluster_stores, files[1]))


def _leases(folder: Path) -> FileLeases:
    if not folder.is_dir():
        raise StoreMismatch(f"there is no data folder {folder}")
    return FileLeases(folder)


def _side(stores: OpenStores, blobs: BlobStore | None) -> StoreSide:
    return StoreSide(stores.store, stores.records, stores.log, stores.inboxes, stores.contents, blobs)


def _files(settings: Settings, folder: Path) -> tuple[BlobStore | None, BlobStore | None]:
    """The media files of both sides; None where the folder has no files, or the cluster will use the same folder."""
    source, target = media_folder(folder_settings(settings, folder)), media_folder(settings)
    if not source.is_dir() or (not settings.media_url and source.resolve() == target.resolve()):
        return None, None
    if not settings.media_url:
        target.parent.mkdir(parents=True, exist_ok=True)
    return FolderBlobs(source, sync=True), open_blobs(settings.media_url, target, sync=True)
