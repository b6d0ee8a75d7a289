"""The `kith` command: parses, calls, prints. What it does stands in `serving`, `chores`, `demo`, `capacity`.

Exit status: 0 done, 1 refused or failed (with a line that says what to do), 2 wrong usage.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from kith import __version__
from kith.commands import backups, capacity, chores, demo, generate, progress, replay
from kith.commands.transfer.formats import Writer
from kith.core.errors import BadRequest, KithError
from kith.core.ids import parse_id
from kith.log.runner import RELOADED_S
from kith.run import config, processes, supervisor, wiring

_HELP = "Kith: the follow graph, posts and home feeds of your app, as a service."
cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=_HELP)
importing = typer.Typer(no_args_is_help=True, help="Bring edges in.")
exporting = typer.Typer(no_args_is_help=True, help="Take edges out.")
dying = typer.Typer(no_args_is_help=True, help="Events that no worker could handle.")
cli.add_typer(importing, name="import")
cli.add_typer(dying, name="dead")
cli.add_typer(exporting, name="export")
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)

Data = Annotated[str | None, typer.Option("--data", help="Data folder; default: the setting `data`.")]
Port = Annotated[int | None, typer.Option("--port", help="Port to listen on.")]
Workers = Annotated[int | None, typer.Option("--workers", help="API processes.")]
Graph = Annotated[str, typer.Option("--graph", help="Name of the graph.")]
_NICE = 10  # of long work beside a server
ApiKey = Annotated[str | None, typer.Option("--api-key", help="A server key to let in, beside those stored.")]


def main() -> None:
    """Run a command; an error of ours becomes one line and status 1."""
    try:
        cli()
    except KithError as error:
        _fail(error.message)
    except OSError as error:
        _fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> NoReturn:
    err.print(f"kith: {message}", style="red", markup=False)
    sys.exit(1)


def _say(line: str) -> None:
    """Print a line that holds names given by the user, as they are."""
    out.print(line, markup=False)


@cli.command()
def serve(data: Data = None, port: Port = None, workers: Workers = None, api_key: ApiKey = None) -> None:
    """Serve the API until stopped. The first start of a folder makes a server key and prints it once."""
    keys = [api_key] if api_key else None
    settings = config.load({"data": data, "port": port, "workers": workers, "api_keys": keys})
    supervisor.check_port(settings)
    made = supervisor.prepare(settings)
    if made:
        out.print(f"server key, shown this once: [bold]{made}[/bold]")
    _say(f"Kith {__version__} at {supervisor.base_url(settings)} (data in {settings.data}); docs at /docs")
    supervisor.run(settings)


@cli.command("worker")
def run_worker(
    name: Annotated[Literal["fanout"], typer.Argument(help="Which worker.")],
    data: Data = None,
) -> None:
    """Run one background worker alone; `kith serve` runs them beside the API."""
    asyncio.run(processes.work(processes.settings_of_process(data)))


@importing.command("edges")
def import_edges(
    file: Annotated[Path, typer.Argument(help="CSV, TSV, NDJSON or Parquet; .gz and .zst too.")],
    graph: Graph = "follows",
    data: Data = None,
    mutual: Annotated[bool, typer.Option("--mutual", help="Each row is an edge both ways.")] = False,
    report: Annotated[Path | None, typer.Option("--report", help="Where refused lines go.")] = None,
) -> None:
    """Import a file of edges. Killed at any point, the same command goes on where it was."""
    settings = config.load({"data": data})
    with progress.importing(err, file.stat().st_size if file.is_file() else 1) as bars:
        done = chores.import_edges(settings, graph, file, bars, report=report, mutual=mutual)
    if done.resumed_at_line:
        out.print(f"went on after line {done.resumed_at_line:,}")
    out.print(f"{done.applied:,} edges of {graph} written ({done.way})")
    if done.refused:
        where = report or Path(settings.data) / "imports" / f"{file.name}.refused.tsv"
        _say(f"{done.refused:,} lines refused; line numbers and reasons in {where}")


@dying.command("list")
def dead_list(data: Data = None) -> None:
    """Name every dead event with what went wrong."""
    table = Table("event", "tries", "failed at", "error")
    for name, failure in chores.dead_events(config.load({"data": data})).items():
        at = datetime.fromtimestamp(failure.failed_at_ms / 1000, UTC).isoformat(timespec="seconds")
        table.add_row(name, str(failure.tries), at, escape(failure.error))
    out.print(table)


DeadEvent = Annotated[str, typer.Argument(help="GROUP/NUMBER, as `kith dead list` names it; or: all.")]


@dying.command("show")
def dead_show(event: DeadEvent, data: Data = None) -> None:
    """Print dead events as JSON, a line each."""
    for failure in chores.named_dead(config.load({"data": data}), event).values():
        print(msgspec.json.encode(failure).decode())


@dying.command("replay")
def dead_replay(event: DeadEvent, data: Data = None) -> None:
    """Send dead events back through their worker."""
    count = chores.settle_dead(config.load({"data": data}), event, again=True)
    out.print(f"{count} sent back; a running worker takes them up within {RELOADED_S:.0f} s")


@dying.command("drop")
def dead_drop(event: DeadEvent, data: Data = None) -> None:
    """Forget dead events for good."""
    out.print(f"{chores.settle_dead(config.load({'data': data}), event, again=False)} dropped")


@exporting.command("edges")
def export_edges(
    file: Annotated[Path, typer.Argument(help="What to write; its name says the format.")],
    graph: Graph = "follows",
    data: Data = None,
) -> None:
    """Export every live edge of a graph, with its position."""
    with _status("exported") as progress:
        count = chores.export_edges(config.load({"data": data}), graph, file, progress)
    _say(f"{count:,} edges of {graph} in {file}")


@cli.command("suggest")
def run_suggest(data: Data = None) -> None:
    """Compute suggestions for everyone, at low priority. Killed at any point, the same command goes on there."""
    os.nice(_NICE)
    with progress.users(err) as report:
        done = chores.suggest_all(config.load({"data": data}), report)
    if done.before:
        out.print(f"went on after {done.before:,} users")
    out.print(f"suggestions of {done.ranked:,} users kept")


@cli.command("audit")
def run_audit(
    data: Data = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what differs.")] = False,
    sample: Annotated[float, typer.Option("--sample", min=0.0, max=1.0, help="Share of the edges looked at.")] = 1.0,
) -> None:
    """Prove that both ends of every edge and every count agree. Status 1 if they do not."""
    with _status("edges audited") as progress:
        audits = chores.audit_all(config.load({"data": data}), repair=repair, sample=sample, progress=progress)
    table = Table("graph", "edges", "consistent", "disagreeing", "strays", "wrong counts", "repaired")
    for found in audits:
        numbers = (found.disagreeing, found.strays, found.wrong_counts, found.repaired)
        table.add_row(found.graph, f"{found.edges:,}", f"{found.consistent_share:.6%}", *map(str, numbers))
    out.print(table)
    for found in audits:
        for example in found.examples:
            out.print(f"{found.graph}: {example}")
    if not all(found.clean for found in audits) and not repair:
        raise typer.Exit(1)


@cli.command()
def backup(target: Annotated[Path, typer.Argument(help="An empty folder.")], data: Data = None) -> None:
    """Copy the store, compacted and consistent, and the files of media, while servers run. Done again, it goes on."""
    with _status("files of media copied") as progress:
        made = backups.backup(config.load({"data": data}), target, progress)
    if made.elsewhere:
        _say(f"pictures and videos are not in it: back up {made.elsewhere} too")
    _say(
        f"store of {made.store_bytes / 1e6:,.1f} MB and {made.files:,} files of media in {target}; "
        f"bring it back with: kith restore {target} --data NEW_FOLDER"
    )


@cli.command()
def restore(source: Annotated[Path, typer.Argument(help="A backup.")], data: Data = None) -> None:
    """Put a backup into a data folder that has no store yet."""
    settings = config.load({"data": data})
    with _status("files of media copied") as progress:
        backups.restore(settings, source, progress)
    _say(f"restored into {settings.data}; `kith audit --data {settings.data}` proves it whole")


@cli.command()
def sweep(data: Data = None, dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False) -> None:
    """Remove files of pictures and videos that no record names, once they are an hour old. Servers may run."""
    files, gone, size = chores.sweep(config.load({"data": data}), remove=not dry_run)
    _say(f"{gone:,} of {files:,} files {'would go' if dry_run else 'removed'}, {size / 1e6:,.1f} MB")


@cli.command()
def doctor(data: Data = None) -> None:
    """Look the data folder and the settings over. Status 1 if something needs attention."""
    findings = chores.doctor(config.load({"data": data}))
    for finding in findings:
        mark = "[green]ok  [/green]" if finding.ok else "[yellow]look[/yellow]"
        out.print(f"{mark} {finding.what}: {escape(finding.detail)}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


@cli.command()
def token(
    user: Annotated[str | None, typer.Option("--user", help="The user the token acts for.")] = None,
    server: Annotated[bool, typer.Option("--server", help="Make a server key instead.")] = False,
    hours: Annotated[int, typer.Option("--hours", min=1, max=24 * 365, help="How long a user token holds.")] = 24,
    data: Data = None,
) -> None:
    """Sign a user token as your app would, or make a server key (in force from the next start)."""
    if (user is None) == (not server):
        raise BadRequest("say either --user ID or --server")
    settings = config.load({"data": data})
    with wiring.open_environment(settings, create=server) as environment:
        if user is None:
            made = supervisor.new_key()
            wiring.add_server_key(environment, made)
        else:
            made = wiring.user_tokens(environment, settings).issue(parse_id(user, "--user"), hours * 3600)
    print(made)


@cli.command()
def settings(data: Data = None) -> None:
    """Every setting with its value, default and meaning."""
    table = Table(Column("setting", no_wrap=True), "value", "default", "meaning")
    for row in config.table(config.load({"data": data})):
        table.add_row(row.name, row.value, row.default, row.meaning)
    Console().print(table)


@cli.command()
def plan(
    users: Annotated[int, typer.Option(help="Users.")] = 500_000_000,
    degree: Annotated[float, typer.Option(help="Average number of follows of a user.")] = 400,
    largest: Annotated[int, typer.Option(help="Followers of the most followed account.")] = 200_000_000,
    checks: Annotated[float, typer.Option(help="Checks a second, at the busiest.")] = 580_000,
    writes: Annotated[float, typer.Option(help="Writes a second, at the busiest.")] = 60_000,
    article: Annotated[bool, typer.Option("--article", help="Recompute the numbers of the article instead.")] = False,
) -> None:
    """What a graph of this size needs, on one machine and on a cluster."""
    if article:
        table = Table("quantity", "article", "ours", "verdict", "why")
        for row in capacity.article_000():
            table.add_row(row.quantity, row.article, row.ours, row.verdict.value, row.why)
        Console().print(table)
        return
    demand = capacity.Demand(
        users=users, degree_mean=degree, degree_max=largest, checks_per_s=checks, writes_per_s=writes
    )
    _print_plan(capacity.plan(demand))


@cli.command("generate")
def generate_edges(
    file: Annotated[Path, typer.Argument(help="What to write; its name says the format.")],
    users: Annotated[int, typer.Option(min=2, help="Users.")] = 100_000,
    edges: Annotated[int, typer.Option(min=1, help="Follows.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same graph.")] = 1,
    celebrity: Annotated[list[str] | None, typer.Option(help="NAME=FOLLOWERS; may be repeated.")] = None,
) -> None:
    """Make a follow graph with heavy tails, of any size, in flat memory."""
    named = dict(_celebrity(text) for text in celebrity or [])
    community = generate.Community(users, edges, seed, named)
    with _status("edges written") as progress, Writer(file) as writer:
        written = 0
        for chunk in generate.stream(community):
            writer.write(chunk)
            written += len(chunk)
            progress(written)
    names = "".join(f"; {name} is {id_}" for name, id_ in community.celebrity_ids.items())
    _say(f"{written:,} edges in {file}{names}")


@cli.command("demo")
def run_demo(
    file: Annotated[Path | None, typer.Argument(help="Edges to load; default: a made-up community.")] = None,
    port: Port = None,
    data: Annotated[str, typer.Option("--data", help="Data folder of the demo.")] = "kith-data/demo",
    once: Annotated[bool, typer.Option("--once", help="Stop after the ten questions.")] = False,
) -> None:
    """Load a community, serve it, let people post, answer ten questions; then life goes on until Ctrl-C."""
    demo.run(config.load({"port": port, "data": data}), file, out, stay=not once)


@cli.command("replay")
def run_replay(
    file: Annotated[Path, typer.Argument(help="Lines `actor target unix_seconds MT|RT|RE`, plain, .gz or .zst.")],
    key: Annotated[str, typer.Option("--key", envvar="KITH_REPLAY_KEY", help="A server key of the server.")],
    url: Annotated[str, typer.Option(help="Where the server is.")] = "http://127.0.0.1:7400",
    speed: Annotated[float, typer.Option(min=0.001, help="Seconds of the file a second.")] = 60.0,
    count: Annotated[int | None, typer.Option(min=1, help="Actions to play; default: all.")] = None,
    watch: Annotated[float, typer.Option(min=0, max=1, help="Share of posts whose way home is timed.")] = 0.05,
) -> None:
    """Play real activity (who mentioned, shared, answered whom, and when) against a running server."""
    with _status("actions played") as progress:
        report = asyncio.run(
            replay.replay(
                file, url, key, speed=speed, watch_share=watch, count=count, progress=lambda done, _: progress(done)
            )
        )
    table = Table("what", "a second", "p50 ms", "p99 ms", "longest ms")
    for row in replay.rows(report):
        table.add_row(*row)
    out.print(table)
    _say(f"{report.actions:,} actions in {report.seconds:,.1f} s; {report.behind_s:,.1f} s behind at most")
    for what, times in report.errors.items():
        _say(f"{times:,} x {what}")
    if report.errors:
        raise typer.Exit(1)


@cli.command("bench", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def bench(context: typer.Context) -> None:
    """Measure, from a checkout of the project: the figures that are named, or all. A wrong name lists them."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "bench" / "__main__.py").exists():
        raise BadRequest("the measurements are in the project's folder `bench`; run this from a checkout")
    sys.path.insert(0, str(root))
    importlib.import_module("bench.__main__").main(context.args)


def _celebrity(text: str) -> tuple[str, int]:
    name, _, followers = text.partition("=")
    if not name or not followers.isdigit():
        raise BadRequest(f"--celebrity takes NAME=FOLLOWERS, not {text!r}")
    return name, int(followers)


def _print_plan(made: capacity.Plan) -> None:
    """Both ways beside each other, the machines of each, and what was assumed."""
    table = Table("", "one machine", "cluster")
    for name, unit, one, many in (
        ("edges", "", made.embedded.storage.edges, made.cluster.storage.edges),
        ("disk", "B", made.embedded.storage.disk_bytes, made.cluster.storage.disk_bytes),
        ("  of it the log", "B", made.embedded.storage.log_bytes, made.cluster.storage.log_bytes),
        ("memory", "B", made.embedded.memory.total_bytes, made.cluster.memory.total_bytes),
        ("  of it the filter", "B", made.embedded.memory.filter_bytes, made.cluster.memory.filter_bytes),
        ("cores", "", made.embedded.cores, made.cluster.cores),
        ("network in", "B/s", made.embedded.network.in_bytes_per_s, made.cluster.network.in_bytes_per_s),
        ("network out", "B/s", made.embedded.network.out_bytes_per_s, made.cluster.network.out_bytes_per_s),
        ("machines", "", 1, made.cluster.machines),
        ("USD a month", "", made.embedded.cost_usd_month, made.cluster.cost_usd_month),
    ):
        table.add_row(name, "-" if one is None else capacity.in_words(one, unit), capacity.in_words(many, unit))
    out.print(table)
    out.print(f"one machine: {made.embedded.verdict}")
    for bound in made.embedded.bounds:
        needed, there = capacity.in_words(bound.needed, bound.unit), capacity.in_words(bound.available, bound.unit)
        out.print(f"  {bound.name}: needs {needed} of {there}")
    roles = Table("cluster", "nodes", "decided by", "cores", "memory", "disk", "USD a month")
    for role in made.cluster.roles:
        memory, disk = capacity.in_words(role.memory_bytes, "B"), capacity.in_words(role.disk_bytes, "B")
        cost = capacity.in_words(role.cost_usd_month, "")
        roles.add_row(role.name, str(role.nodes), role.decided_by, f"{role.cores:.1f}", memory, disk, cost)
    out.print(roles)
    out.print("assumed:")
    for line in made.assumptions:
        out.print(f"- {line}")


@contextmanager
def _status(what: str) -> Iterator[Any]:
    with err.status(f"0 {what}") as status:
        yield lambda count: status.update(f"{count:,} {what}")
