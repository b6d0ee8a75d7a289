"""`kith plan`: shows what a graph of a given size needs; `capacity` does the arithmetic."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kith.commands import capacity
from kith.commands.console import out

commands = typer.Typer()
_USERS, _DEGREE, _LARGEST, _CHECKS, _WRITES = 500_000_000, 400, 200_000_000, 580_000, 60_000
_MENTION = capacity.MentionDemand()
"""Defaults: the figures of article 000, and the peak of article 003. Options that are not given scale with users."""


class PlanTarget(enum.StrEnum):
    """What is planned."""

    GRAPH = "graph"
    NOTIFICATIONS = "notifications"


@commands.command("plan")
def run_plan(
    what: Annotated[
        PlanTarget, typer.Argument(help="A graph, or mentions of accounts with many followers.")
    ] = PlanTarget.GRAPH,
    users: Annotated[int, typer.Option(help="Number of users.")] = _USERS,
    degree: Annotated[float | None, typer.Option(help="Average number of follows per user. Default: 400.")] = None,
    largest: Annotated[
        int | None, typer.Option(help="Followers of the most followed account. Default: two fifths of the users.")
    ] = None,
    checks: Annotated[
        float | None, typer.Option(help="Checks a second, at the busiest. Default: 580,000 for 500 million users.")
    ] = None,
    writes: Annotated[
        float | None, typer.Option(help="Writes a second, at the busiest. Default: 60,000 for 500 million users.")
    ] = None,
    homes: Annotated[float, typer.Option(help="First pages of home a second, at the busiest.")] = 0,
    posts: Annotated[float, typer.Option(help="New posts a second, at the busiest.")] = 0,
    timelines: Annotated[float, typer.Option(help="Share of the users who have a home timeline.")] = 0,
    notices: Annotated[float, typer.Option(help="Notifications a second, at the busiest.")] = 0,
    followers: Annotated[int, typer.Option(help="Notifications: followers of the account.")] = _MENTION.followers,
    active: Annotated[
        float, typer.Option(help="Notifications: share of them active in a day.")
    ] = _MENTION.active_share,
    asking: Annotated[float, typer.Option(help="Notifications: share that asked for it.")] = _MENTION.asking_share,
    mentions: Annotated[float, typer.Option(help="Notifications: mentions a second.")] = _MENTION.mentions_per_s,
    opens: Annotated[float, typer.Option(help="Notifications: inboxes opened a second.")] = _MENTION.opens_per_s,
    article: Annotated[bool, typer.Option("--article", help="Recompute the article's numbers instead.")] = False,
) -> None:
    """Show what a graph of this size needs, on one machine and on a cluster; or what mentions cost by each way."""
    if article:
        _print_article(capacity.article_003() if what is PlanTarget.NOTIFICATIONS else capacity.article_000())
        return
    if what is PlanTarget.NOTIFICATIONS:
        _print_mentions(
            capacity.MentionDemand(
                followers=followers,
                active_share=active,
                asking_share=asking,
                mentions_per_s=mentions,
                opens_per_s=opens,
            )
        )
        return
    share = users / _USERS
    demand = capacity.Demand(
        users=users,
        degree_mean=min(_DEGREE, users) if degree is None else degree,
        degree_max=round(_LARGEST * share) if largest is None else largest,
        checks_per_s=_CHECKS * share if checks is None else checks,
        writes_per_s=_WRITES * share if writes is None else writes,
        homes_per_s=homes,
        posts_per_s=posts,
        active_share=timelines,
        notices_per_s=notices,
    )
    _print_plan(capacity.plan(demand))


def _print_article(rows: Sequence[capacity.ArticleRow]) -> None:
    table = Table("quantity", "article", "ours", "verdict", "why")
    for row in rows:
        table.add_row(row.quantity, row.article, row.ours, row.verdict.value, row.why)
    Console().print(table)


def _print_mentions(demand: capacity.MentionDemand) -> None:
    """Print the costs of push, pull and hybrid side by side."""
    costs = capacity.mention_costs(demand)
    table = Table("", *(cost.way for cost in costs))
    for name, field, unit in capacity.MENTION_LINES:
        table.add_row(name, *(capacity.in_words(getattr(cost, field), unit) for cost in costs))
    out.print(table)
    out.print("docs/capacity-of-mentions.md lists the assumptions")


def _print_plan(plan: capacity.CapacityPlan) -> None:
    """Print one machine and cluster side by side, the cluster's nodes, and the assumptions."""
    table = Table("", "one machine", "cluster")
    for name, unit, machine, cluster in (
        ("edges", "", plan.embedded.storage.edges, plan.cluster.storage.edges),
        ("disk", "B", plan.embedded.storage.disk_bytes, plan.cluster.storage.disk_bytes),
        ("  of it the log", "B", plan.embedded.storage.log_bytes, plan.cluster.storage.log_bytes),
        ("  of it posts", "B", plan.embedded.storage.posts_bytes, plan.cluster.storage.posts_bytes),
        ("  of it notifications", "B", plan.embedded.storage.notices_bytes, plan.cluster.storage.notices_bytes),
        ("memory", "B", plan.embedded.memory.total_bytes, plan.cluster.memory.total_bytes),
        ("  of it timelines", "B", plan.embedded.memory.timelines_bytes, plan.cluster.memory.timelines_bytes),
        ("  of it the filter", "B", plan.embedded.memory.filter_bytes, plan.cluster.memory.filter_bytes),
        ("cores", "", plan.embedded.cores, plan.cluster.cores),
        ("network in", "B/s", plan.embedded.network.in_bytes_per_s, plan.cluster.network.in_bytes_per_s),
        ("network out", "B/s", plan.embedded.network.out_bytes_per_s, plan.cluster.network.out_bytes_per_s),
        ("machines", "", 1, plan.cluster.machines),
        ("USD a month", "", plan.embedded.cost_usd_month, plan.cluster.cost_usd_month),
    ):
        table.add_row(
            name, "-" if machine is None else capacity.in_words(machine, unit), capacity.in_words(cluster, unit)
        )
    out.print(table)
    out.print(f"one machine: {plan.embedded.verdict}")
    for bound in plan.embedded.bounds:
        needed, available = capacity.in_words(bound.needed, bound.unit), capacity.in_words(bound.available, bound.unit)
        out.print(f"  {bound.name}: needs {needed} of {available}")
    roles = Table("cluster", "nodes", "decided by", "cores", "memory", "disk", "USD a month")
    for role in plan.cluster.roles:
        memory, disk = capacity.in_words(role.memory_bytes, "B"), capacity.in_words(role.disk_bytes, "B")
        cost = capacity.in_words(role.cost_usd_month, "")
        roles.add_row(role.name, str(role.nodes), role.decided_by, f"{role.cores:.1f}", memory, disk, cost)
    out.print(roles)
    out.print("assumed:")
    for line in plan.assumptions:
        out.print(f"- {line}")
