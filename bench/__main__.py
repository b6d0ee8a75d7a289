"""`kith bench [NAME...] [--json]`: measure, print a table, write bench/results/latest.json.

With --json, print one line per figure. Cloud machines are shared, so compare ratios, and run twice.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench import (
    boards,
    checks,
    cluster,
    commands,
    console,
    flockdb,
    home,
    http,
    inboxes,
    linkbench,
    lists,
    local,
    log,
    media,
    mention_storm,
    mentions,
    moderation,
    moving,
    notifications,
    on_cluster,
    policies,
    processes,
    publish,
    push,
    ranges,
    reader,
    regions,
    routes,
    scaling,
    standby,
    streams,
    suggestions,
    timelines,
)
from bench.figures import Figure, machine, scratch

MEASURES: dict[str, Callable[[Path], list[Figure]]] = {
    "check-http": http.check_http,
    "check-batch": http.check_batch,
    "check-local": local.check_local,
    "follow-http": http.follow_http,
    "edges-http": http.edges_http,
    "list-http": routes.list_http,
    "count-http": routes.count_http,
    "edge-http": routes.edge_http,
    "user-http": routes.user_http,
    "post-http": routes.post_http,
    "likes-list-http": lists.likes_list_http,
    "saved-list-http": lists.saved_list_http,
    "mentions-list-http": lists.mentions_list_http,
    "blocked-list-http": lists.blocked_list_http,
    "comments-page-http": lists.comments_page_http,
    "comments-top-http": lists.comments_top_http,
    "opening-http": lists.opening_http,
    "like-http": routes.like_http,
    "post-create-http": routes.post_create_http,
    "flockdb": flockdb.flockdb,
    "import": local.import_file,
    "store-size": local.store_size,
    "page": local.page,
    "intersect": local.intersect,
    "program-pages": local.program_pages,
    "growth": local.growth,
    "time-range": ranges.time_range,
    "strip": ranges.strip,
    "suggest": suggestions.suggest,
    "suggest-all": suggestions.suggest_all,
    "media": media.media,
    "fanout": timelines.fanout,
    "fanout-celebrity": timelines.fanout_celebrity,
    "fanout-policies": policies.fanout_policies,
    "home": home.home,
    "linkbench": linkbench.linkbench,
    "by-hand": linkbench.by_hand,
    "two-processes": linkbench.two_processes,
    "startup": processes.startup,
    "idle": processes.idle,
    "publish": publish.publish,
    "streams": streams.streams,
    "inbox-open": notifications.inbox_open,
    "notify": notifications.notify,
    "push": push.push,
    "watch": log.watch,
    "rebuild": log.rebuild,
    "increment": log.increment,
    "standby": standby.standby,
    "moderation": moderation.moderation,
    "boards-check": boards.boards_check,
    "boards-check-http": boards.boards_check_http,
    "board-followers": boards.board_followers,
    "inbox": inboxes.inbox,
    "checks": checks.checks,
    "cluster-inbox": cluster.inbox,
    "cluster-follow": on_cluster.follow,
    "cluster-check": on_cluster.check,
    "cluster-page": on_cluster.page,
    "cluster-home": on_cluster.home,
    "cluster-fanout": on_cluster.fanout,
    "cluster-move": moving.move,
    "cluster-regions": regions.regions,
    "cluster-scaling": scaling.scaling,
    "mention": mentions.mention,
    "console": console.console,
    "commands-kafka": commands.kafka,
    "reader": reader.reader,
    "mention-storm": mention_storm.mention_storm,
    "import-pins": boards.import_file,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named measures, or all. Status 1 if one failed, or if a named one lacks its engines; the figures of the
    others are still printed.
    """
    parser = argparse.ArgumentParser(prog="kith bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASURES))
    parser.add_argument("--json", action="store_true", help="one JSON line a figure")
    asked = parser.parse_args(arguments)
    unknown = sorted(set(asked.names) - set(MEASURES))
    if unknown:
        parser.error(f"no measure is called {', '.join(unknown)}; there are: {', '.join(MEASURES)}")
    figures, without = list[Figure](), list[str]()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that child processes end with this one
    with scratch() as folder:
        for name in asked.names or MEASURES:
            print(f"measuring {name}", file=sys.stderr)
            found = _measured(name, folder)
            if found is None or (asked.names and not found):
                without.append(name)
            figures += (measured := found or [])
            if asked.json:
                for figure in measured:
                    print(msgspec.json.encode(figure).decode(), flush=True)
    if not asked.json:
        _print(figures)
    if not asked.names:
        results = Path(__file__).parent / "results"
        results.mkdir(exist_ok=True)
        whole = {"machine": machine(), "figures": figures}
        (results / "latest.json").write_bytes(msgspec.json.format(msgspec.json.encode(whole)))
    if without:
        sys.exit(f"no figure of {', '.join(without)}; what was printed above says why")


def _measured(name: str, folder: Path) -> list[Figure] | None:
    """The figures of a measure: an empty list if its engines are missing, None if it fails. Prints the reason."""
    try:
        measured = MEASURES[name](folder)
    except Exception:
        traceback.print_exc()
        return None
    if not measured:
        print(f"{name}: the engines that it runs on are not there; docs/measured.md says which", file=sys.stderr)
    return [
        msgspec.structs.replace(figure, command=f"kith bench {name}", value=_short(figure.value)) for figure in measured
    ]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _print(figures: list[Figure]) -> None:
    table = Table("name", "value", "unit", "asked", "peer", "peer's", "ratio", title=machine())
    for column in table.columns[:4]:
        column.no_wrap = True
    for figure in figures:
        peer_value = "" if figure.peer_value is None else f"{figure.peer_value:,.4g}"
        ratio = "" if figure.ratio is None else f"{figure.ratio}x"
        table.add_row(
            figure.name, f"{figure.value:,.10g}", figure.unit, figure.budget, figure.peer or "", peer_value, ratio
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
