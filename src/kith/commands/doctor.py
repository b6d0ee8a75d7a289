"""`kith doctor`: checks a data folder and its settings, and reports what needs attention."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import typer
from rich.markup import escape

from kith.commands.console import Data, out
from kith.commands.dead import dead_events
from kith.core.clock import wall_ms
from kith.core.errors import BadRequest, KithError
from kith.engines.embedded import store_role
from kith.engines.embedded.credential_store import EmbeddedCredentials
from kith.engines.embedded.environment import Environment
from kith.log.store import LogLease
from kith.run import config
from kith.run.backups.schedule import check_place, is_good, read_status
from kith.run.config import Settings
from kith.run.opening import wiring
from kith.run.opening.folders import open_environment, refuse_unfinished
from kith.run.opening.keys import server_keys

commands = typer.Typer()


class Finding(NamedTuple):
    """One line of `kith doctor`."""

    what: str
    ok: bool
    detail: str


@commands.command("doctor")
def run_doctor(data: Data = None) -> None:
    """Check the data folder and the settings. Exit status 1 if something needs attention."""
    settings = config.load({"data": data})
    if settings.engine == "cluster":
        raise BadRequest("`kith doctor` checks a data folder; for a cluster see /readyz, /metrics and the log")
    findings = examine(settings)
    for finding in findings:
        mark = "[green]ok  [/green]" if finding.ok else "[yellow]look[/yellow]"
        out.print(f"{mark} {finding.what}: {escape(finding.detail)}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def examine(settings: Settings) -> list[Finding]:
    """Check a data folder and its settings; no data is changed."""
    folder = Path(settings.data)
    free = shutil.disk_usage(folder if folder.exists() else Path()).free
    findings = [Finding("disk", free > 1 << 30, f"{free / 1e9:.1f} GB free")]
    try:
        for finding in _of_store(settings):
            findings.append(finding)  # one by one, so findings before an error are reported too
        if findings[-1].ok:  # with an unfinished import, the log cannot be opened
            findings.append(_of_dead_events(settings))
            findings.append(_of_leases(settings))
    except KithError as error:
        findings.append(Finding("store", False, error.message))
    findings.append(_of_backups(settings))
    public = settings.host not in ("127.0.0.1", "::1", "localhost")
    findings.append(
        Finding("network", not public, "open to the network: put TLS in front" if public else settings.host)
    )
    return findings


def _of_store(settings: Settings) -> Iterator[Finding]:
    """Findings about the store; the last one is whether an import is unfinished."""
    with open_environment(settings, create=False) as environment:
        used = environment.bytes_used()
        roomy = used < 0.9 * settings.store_bytes_max
        yield Finding("store", roomy, f"{used / 1e6:.1f} MB of {settings.store_bytes_max / 1e9:.0f} GB")
        yield _of_role(environment)
        yield Finding("readers", True, f"{environment.lmdb.reader_check()} stale slots cleared")
        keys = len(asyncio.run(server_keys(EmbeddedCredentials(environment), settings)))
        hint = "" if keys else "; `kith serve` makes one at its first start"
        yield Finding("server keys", keys > 0, f"{keys} known{hint}")
        try:
            refuse_unfinished(environment)
            yield Finding("imports", True, "none unfinished")
        except KithError as error:
            yield Finding("imports", False, error.message)


def _of_role(environment: Environment) -> Finding:
    """Whether this machine takes writes or is a standby; if it is neither, or not the only primary, what to do."""
    closed, rival = store_role.read_closed_note(environment), store_role.rival(environment)
    if rival:
        return Finding("role", False, store_role.rival_message(rival))
    if closed is None:
        return Finding("role", True, "takes writes")
    hint = f"; make it a standby: `kith standby --of {closed.primary}`" if closed.why == "fenced" else ""
    return Finding("role", closed.why == "standby", closed.refusal().message + hint)


def _of_dead_events(settings: Settings) -> Finding:
    dead = dead_events(settings)
    hint = "; `kith dead list` says why" if dead else ""
    return Finding("dead events", not dead, f"{len(dead)}{hint}")


def _of_leases(settings: Settings) -> Finding:
    async def run() -> Sequence[LogLease]:
        async with wiring.open_stores(settings, "chore", create=False) as stores:
            return await stores.log.leases()

    leases = asyncio.run(run())
    lost = [lease.name for lease in leases if lease.lost]
    lost_note = f"; lost by {', '.join(lost)}: let it start over, or release it with `kith log release`" if lost else ""
    return Finding("leases of the log", not lost, f"{len(leases) - len(lost)} held{lost_note}")


def _of_backups(settings: Settings) -> Finding:
    if not settings.backup_to:
        return Finding("backups", True, "none are scheduled; set `backup_to`")
    try:
        check_place(settings, settings.backup_to)
    except BadRequest as error:
        return Finding("backups", False, error.message)
    status, now_ms = read_status(settings), wall_ms()
    age = f"{status.age_s(now_ms) / 60:,.0f} minutes old"
    last = f"the last one is {age}" if status.good_ms else "`kith serve` has made none yet"
    failed = "".join(f"; {why}" for why in (status.error, status.tidying) if why)
    return Finding("backups", is_good(status, settings, now_ms), f"{last}, in {settings.backup_to}{failed}")
