"""`kith backup`, `kith restore`: back up a store and its media files to a folder or bucket; `run.backups` does it."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
import typer

from kith.commands import console
from kith.commands.console import Data, say
from kith.core.clock import wall_ms
from kith.core.errors import BadRequest, KithError, StoreMismatch, StoreUnavailable
from kith.engines.blobs.archives import open_archive
from kith.graph.audit import Audit
from kith.run import config
from kith.run.audits import audit_edges
from kith.run.backups import drills, restoring, schedule
from kith.run.backups.backup_maker import BackupResult
from kith.run.backups.chain import in_utc
from kith.run.backups.drills import Drill
from kith.run.backups.restoring import Restored
from kith.run.config import Settings
from kith.run.opening.folders import open_environment

commands = typer.Typer()
_SHOWN = 3
ArchiveName = Annotated[str, typer.Argument(help="A folder, or s3://bucket/prefix.")]


@commands.command("backup")
def run_backup(
    to: ArchiveName,
    data: Data = None,
    increment: Annotated[
        bool, typer.Option("--increment", help="Back up only what is new since the last backup there.")
    ] = False,
) -> None:
    """Back up the store and its media files while servers run. With --increment, copy only what is new.

    The first backup in a place copies the whole store, and so does one that cannot continue the last.
    """
    settings = config.load({"data": data})
    with console.counting("files of media copied") as progress:
        result = backup(settings, to, whole=not increment, progress=progress)
    if result.because:
        say(f"the whole store is backed up, because {result.because}")
    if settings.media_url:
        say(f"pictures and videos are not in it: back up {settings.media_url} too")
    if not result.parts:
        say(f"nothing is new; {to} has all of it")
    for part in result.parts:
        size = sum(file.bytes for file in part.files.values())
        events = f"events {part.after + 1:,} to {part.until:,}" if part.after else f"a store of {part.until:,} events"
        say(f"{part.id}: {events}, {size / 1e6:,.1f} MB, in {to}")
    say(f"{result.files:,} files of media copied; bring it back with: kith restore {to} --data NEW_FOLDER")


def backup(
    settings: Settings, to: str, *, whole: bool, progress: Callable[[int], None] = lambda _: None
) -> BackupResult:
    """Back up a data folder. Errors: Conflict while another backup runs; and those of `BackupMaker.make`."""
    with open_environment(settings, create=False) as store:
        return asyncio.run(schedule.make_now(schedule.open_maker(settings, store, to, progress), store, whole=whole))


@commands.command("restore")
def run_restore(
    source: ArchiveName,
    data: Data = None,
    at: Annotated[
        str | None, typer.Option("--at", help="A time (2026-03-01T09:30, UTC), or the token of a write or of a watch.")
    ] = None,
    drill: Annotated[
        bool,
        typer.Option("--drill", help="Test the backup: restore it into a temporary folder, audit that, remove it."),
    ] = False,
) -> None:
    """Restore a backup into a data folder that has no store yet: its newest moment, or an earlier one (--at)."""
    settings = config.load({"data": data})
    with console.counting("files of media") as progress:
        if drill:
            restored = _drilled(settings, source, at, progress)
        else:
            restored = restoring.restore(settings, open_archive(source), at, progress)
            _tell(restored)
            say(f"restored into {settings.data}; `kith audit --data {settings.data}` proves it whole")
    if restored.lost:
        raise typer.Exit(1)


def _drilled(settings: Settings, source: str, at: str | None, progress: Callable[[int], None]) -> Restored:
    """Restore into a temporary folder, audit it, and note beside the backup whether the backup is good.

    Nothing is noted where the drill fails for another reason, such as a full disk here.
    """
    started = time.monotonic()
    try:
        with _temporary(settings) as drill_settings:
            restored = restoring.restore(drill_settings, open_archive(source), at, progress)
            _tell(restored)
            audits = _audited(drill_settings)
    except StoreMismatch:
        _note(source, good=False)
        raise
    bad = [audit.graph for audit in audits if not audit.clean]
    _note(source, good=not bad and not restored.lost)
    say(f"{sum(audit.edges for audit in audits):,} edges audited; {time.monotonic() - started:,.1f} s in all")
    if bad:
        raise BadRequest(f"the backup is not good: both ends do not agree in {', '.join(bad)}")
    say(f"the backup in {source} is good" if not restored.lost else "the backup is not good: files are lost")
    return restored


def _audited(settings: Settings) -> list[Audit]:
    """Audit a store that was just restored. Errors: StoreMismatch where it cannot be read."""
    try:
        return audit_edges(settings, repair=False, sample=1.0, progress=lambda _: None)
    except StoreUnavailable as error:
        raise StoreMismatch(f"the backup is not good: {error.message}") from error


def _note(source: str, *, good: bool) -> None:
    """Note the drill beside the backup, for the console of the servers that are backed up there."""
    try:
        drills.note(open_archive(source), Drill(wall_ms(), good))
    except KithError as error:
        say(f"servers are not told of this drill, as nothing can be written into the place: {error.message}")


def _tell(restored: Restored) -> None:
    """Print which moment was restored, and which media files are lost."""
    when = f", logged at {in_utc(restored.logged_ms)}" if restored.logged_ms else ""
    say(f"the store is as it was after event {restored.event:,}{when}; {restored.files:,} files of media")
    if restored.ends_ms:
        say(f"the backup ends at {in_utc(restored.ends_ms)}: if anything was written after that, it is not here")
    if restored.lost:
        shown = ", ".join(restored.lost[:_SHOWN])
        say(f"{len(restored.lost):,} files of media are damaged or missing in the backup: {shown}...")


@contextmanager
def _temporary(settings: Settings) -> Iterator[Settings]:
    """The settings with a temporary data folder, which is removed at the end, also after SIGTERM and SIGHUP."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as under nohup
            signal.signal(number, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="kith-drill-") as folder:
            yield msgspec.structs.replace(settings, data=folder)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
