"""The planner's arithmetic, and the article's recomputed. The document shows the figures of both."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from kith.commands.capacity import (
    ARTICLE_DEMAND,
    ArticleRow,
    Assumptions,
    CapacityPlan,
    ClaimVerdict,
    Demand,
    article_000,
    in_words,
    per_second,
    plan,
)
from kith.commands.capacity import article as article_module
from kith.core.errors import BadRequest

DOCUMENT = (Path(__file__).parents[3] / "docs" / "capacity.md").read_text()
TOWN = Demand(users=1_000_000, degree_mean=100, degree_max=200_000, checks_per_s=6_000, writes_per_s=200)


def row(quantity: str) -> ArticleRow:
    (found,) = [row for row in article_000() if row.quantity == quantity]
    return found


def with_(demand: Demand, **changes: float) -> CapacityPlan:
    return plan(msgspec.structs.replace(demand, **changes))


def test_a_day_divides_by_86_400_and_the_peak_is_twice_the_average() -> None:
    assert per_second(50e9, peak_factor=1) == pytest.approx(578_703.7, abs=0.1)
    assert per_second(50e9) == pytest.approx(1_157_407.4, abs=0.1)


def test_a_filter_takes_14_4_bits_per_key_for_one_false_positive_in_a_thousand() -> None:
    assert pytest.approx(14.378, abs=0.001) == article_module.FILTER_BITS
    keys, bits, hashes = 1e6, 1e6 * article_module.FILTER_BITS, 10  # the usual estimate: (1 - e^(-kn/m))^k
    assert (1 - math.exp(-hashes * keys / bits)) ** hashes == pytest.approx(0.001, rel=0.01)


def test_a_small_community_fits_one_machine_and_its_figures_multiply_out() -> None:
    embedded = with_(TOWN, pages_per_s=700, batched_share=0.5).embedded
    assert embedded.storage.edges == 1e8
    assert embedded.storage.ids_bytes == 1.6e9
    assert embedded.storage.edges_bytes == 8e9
    assert embedded.storage.log_bytes == 100 * 86_400 * 7 * 100  # half the peak of 200
    assert embedded.storage.disk_bytes == pytest.approx((8e9 + 6.048e9) / 0.7)
    assert embedded.memory.hot_bytes == 1.6e9
    assert embedded.memory.filter_bytes == 0
    assert embedded.memory.total_bytes == pytest.approx(3.6e9 / 0.8)
    assert embedded.cores == pytest.approx((3_000 / 30_000 + 3_000 / 400_000 + 200 / 5_000 + 700 / 2_000) / 0.7)
    assert embedded.network.in_bytes_per_s == 3_900 * 200 + 3_000 * 40
    assert embedded.network.out_bytes_per_s == 3_200 * 200 + 3_000 * 6 + 700 * 2_000
    assert embedded.fits
    assert embedded.verdict == "fits one machine"
    assert embedded.cost_usd_month == pytest.approx(26 + 4.5 * 2.5 + 0.0200686 * 80, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"log_days": 36_500.0}, "disk"),
        ({"users": 500_000_000}, "memory"),
        ({"checks_per_s": 2e6}, "cores"),
        ({"writes_per_s": 20_000.0}, "write rate"),
    ],
)
def test_a_plan_beyond_one_machine_names_the_exceeded_bound(changes: dict, broken: str) -> None:
    embedded = with_(TOWN, **changes).embedded
    assert [bound.name for bound in embedded.bounds if bound.broken] == [broken]
    assert not embedded.fits
    assert embedded.verdict.startswith(f"too small: {broken} ")
    assert embedded.cost_usd_month is None


def test_a_cluster_is_sized_by_the_scarcest_need_of_each_role() -> None:
    cluster = plan(ARTICLE_DEMAND).cluster
    assert cluster.storage.edges_bytes == 2e11 * 2 * 80 * 3
    assert cluster.storage.log_bytes == pytest.approx(10.5e12)
    assert cluster.memory.hot_bytes == pytest.approx(2e11 * 0.2 * 68 * 2)
    assert cluster.memory.filter_bytes == 0, "330 GB a process"
    assert cluster.storage.largest_list_partitions == 160
    checks, writes = 1_157_407.4, 115_740.74
    api = (checks / 16_000 + writes / 870) / 0.7
    store = (checks * 0.3 / 10_000 + writes * 3 / 1_600) / 0.7
    log = writes * 3 / 5_000 / 0.7
    roles = {role.name: role for role in cluster.roles}
    assert roles["api"].cores == pytest.approx(api)
    assert roles["store"].cores == pytest.approx(store)
    assert roles["log"].cores == pytest.approx(log)
    assert {name: (role.nodes, role.decided_by) for name, role in roles.items()} == {
        "api": (math.ceil(api / 16), "cores"),
        "cache": (math.ceil(5.44e12 / 100.4e9), "memory"),
        "store": (math.ceil(96e12 / 0.5 / 3.75e12), "disk"),
        "log": (math.ceil(log / 16), "cores"),
    }
    assert cluster.machines == sum(role.nodes for role in cluster.roles)
    written, read = writes * 3 * (100 + 160), checks * (68 + 0.3 * 80)
    assert cluster.network.internal_bytes_per_s == pytest.approx(written + read)
    assert cluster.traffic_usd_month == pytest.approx((written + read) / 2 * 730 * 3600 / 1e9 * 0.01)
    hardware = cluster.machines * (16 * 26 + 128 * 2.5) + (roles["store"].nodes + roles["log"].nodes) * 3.75 * 80
    assert cluster.cost_usd_month == pytest.approx(hardware + cluster.traffic_usd_month)


def test_homes_posts_timelines_and_inboxes_are_priced_each() -> None:
    plain = plan(TOWN)
    feed = with_(TOWN, homes_per_s=230.0, posts_per_s=32.0, active_share=0.1, notices_per_s=100.0)
    embedded, cluster = feed.embedded, feed.cluster
    deliveries = 32 * 100 * 0.1
    added = embedded.cores - plain.embedded.cores
    assert added == pytest.approx((230 / 1_150 + 32 / 3_200 + deliveries / 2.9e6) / 0.7)
    assert embedded.memory.timelines_bytes == 1e5 * 5_000
    assert cluster.memory.timelines_bytes == 2 * 1e5 * 5_000
    notices = 50 * 86_400 * 90 * 370
    assert embedded.storage.notices_bytes == pytest.approx(notices)
    assert cluster.storage.notices_bytes == pytest.approx(3 * notices)
    posts = 16 * 86_400 * 365 * 350
    assert embedded.storage.posts_bytes == pytest.approx(posts)
    assert cluster.storage.posts_bytes == pytest.approx(3 * posts)
    log = 16 * 1.5 * 86_400 * 7 * 100
    disk = embedded.storage.disk_bytes - plain.embedded.storage.disk_bytes
    assert disk == pytest.approx((notices + posts + log) / 0.7)
    roles, before = ({role.name: role.cores for role in one.cluster.roles} for one in (feed, plain))
    assert roles["api"] - before["api"] == pytest.approx((32 * 1.5 / 870 + 230 / 400 + deliveries / 2.5e6) / 0.7)
    assert roles["cache"] - before["cache"] == pytest.approx(deliveries * 2 / 600_000 / 0.7)
    assert roles["store"] - before["store"] == pytest.approx((32 * 1.5 * 3 / 1_600 + 230 / 600) / 0.7)
    assert roles["log"] - before["log"] == pytest.approx(32 * 1.5 * 3 / 5_000 / 0.7)


def test_the_filter_is_planned_only_where_each_process_has_room_for_it() -> None:
    few, many = with_(TOWN, users=15_000_000).cluster, with_(TOWN, users=20_000_000).cluster
    assert few.memory.filter_bytes == pytest.approx(few.roles[0].nodes * 16 * 2 * 1.5e9 * 1.65)
    assert many.memory.filter_bytes == 0
    assert many.network.internal_bytes_per_s > few.network.internal_bytes_per_s


def test_a_small_cluster_still_has_a_machine_for_each_copy() -> None:
    cluster = plan(TOWN).cluster
    assert {role.name: role.nodes for role in cluster.roles} == {"api": 2, "cache": 2, "store": 3, "log": 3}
    assert {role.decided_by for role in cluster.roles} == {"copies"}
    assert with_(TOWN, replicas=5).cluster.machines == 14


@pytest.mark.parametrize(
    "need",
    [
        "users", "degree_mean", "checks_per_s", "writes_per_s", "pages_per_s", "log_days", "homes_per_s", "posts_per_s",
        "active_share", "notices_per_s",
    ],
)  # fmt: skip
def test_asking_for_more_never_costs_less(need: str) -> None:
    feed = {"homes_per_s": 10.0, "posts_per_s": 10.0, "active_share": 0.1, "notices_per_s": 1.0}
    demand = msgspec.structs.replace(TOWN, pages_per_s=100.0, **feed)
    less = plan(demand)
    more = with_(demand, **{need: getattr(demand, need) * 10})
    assert less.embedded.cost_usd_month is not None
    assert more.embedded.cost_usd_month is not None
    assert more.embedded.cost_usd_month >= less.embedded.cost_usd_month
    assert more.cluster.cost_usd_month >= less.cluster.cost_usd_month
    assert more.cluster.storage.total_bytes + more.cluster.cores > less.cluster.storage.total_bytes + less.cluster.cores


def test_assumptions_in_words_follow_the_numbers() -> None:
    changed = plan(TOWN, Assumptions(edge_bytes=111, core_usd=7, filter_edge_bytes=1.5)).assumptions
    text = "\n".join(changed)
    assert "an edge takes 111 B embedded" in text
    assert "a month costs 7 USD a core" in text
    assert "each process has a filter of 1.5 B an edge" in text
    assert "60% of checks end at the filter" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"users": 0},
        {"checks_per_s": -1.0},
        {"writes_per_s": math.nan},
        {"pages_per_s": math.inf},
        {"batched_share": 1.5},
        {"active_share": 1.1},
        {"homes_per_s": -1.0},
        {"degree_max": 1_000_001},
        {"degree_mean": 1_000_001.0},
        {"replicas": 0},
    ],
)
def test_an_impossible_demand_is_refused(changes: dict) -> None:
    with pytest.raises(BadRequest):
        with_(TOWN, **changes)


@pytest.mark.parametrize(
    "changes",
    [{"edge_bytes": 0}, {"core_use_max": 1.2}, {"core_usd": -1}, {"base_memory_bytes": 2e11}, {"hot_share": math.nan}],
)
def test_an_impossible_assumption_is_refused(changes: dict) -> None:
    with pytest.raises(BadRequest):
        Assumptions(**changes)


@pytest.mark.parametrize(
    ("quantity", "ours", "verdict"),
    [
        ("follow checks at peak", "1.16 M/s", ClaimVerdict.WRONG),
        ("follows and unfollows at peak", "116 K/s", ClaimVerdict.WRONG),
        ("reads for each write", "10", ClaimVerdict.WRONG),
        ("ids of one direction", "1.6 TB", ClaimVerdict.RIGHT),
        ("row of 10,000 ids", "80 KB", ClaimVerdict.INCONSISTENT),
        ("row of the average user", "3.2 KB", ClaimVerdict.WRONG),
        ("average shard", "6.25 GB", ClaimVerdict.WRONG),
        ("lists of 1 M users with 1 M followers", "8 TB", ClaimVerdict.WRONG),
        ("log of 7 days at 100 B an event", "3.5 TB", ClaimVerdict.MISSING),
        ("Bloom filter at 0.1% false positives", "359 GB", ClaimVerdict.WRONG),
        ("false positives of that filter as coded", "100%", ClaimVerdict.WRONG),
        ("Redis nodes of 16 GB with 3 copies", "60", ClaimVerdict.WRONG),
        ("answers to checks", "116 MB/s", ClaimVerdict.INCONSISTENT),
        ("events in 3 copies", "17.4 MB/s", ClaimVerdict.RIGHT),
        ("cores for checks at 0.5 ms", "289", ClaimVerdict.RIGHT),
        ("cores for writes at 2 ms", "116", ClaimVerdict.RIGHT),
        ("bitmap of a user's follows", "62.5 MB", ClaimVerdict.WRONG),
        ("two hops for each follow check", "145 bn/s", ClaimVerdict.INCONSISTENT),
    ],
)
def test_the_article_is_recomputed(quantity: str, ours: str, verdict: ClaimVerdict) -> None:
    found = row(quantity)
    assert (found.ours, found.verdict) == (ours, verdict)


def test_a_verdict_of_right_means_within_two_percent_of_the_articles_figure() -> None:
    printed = {
        "downtime a year at 99.99%": 52,
        "ids of one direction": 1.6e12,
        "follower row of 200 M ids": 1.6e9,
        "users a shard": 2e6,
        "largest possible shard": 160e9,
        "follow events": 5.8e6,
        "events in 3 copies": 17.4e6,
        "headroom of 2 s over 200 ms of lag": 10,
        "cores for checks at 0.5 ms": 290,
        "cores for writes at 2 ms": 116,
        "comparisons in a list of 10,000": 14,
        "bit set over all users": 62e6,
    }
    right = {row.quantity: row.value for row in article_000() if row.verdict is ClaimVerdict.RIGHT}
    assert right.keys() == printed.keys()
    for quantity, value in right.items():
        assert value == pytest.approx(printed[quantity], rel=0.025), quantity


def test_the_article_and_the_plan_share_a_price_and_a_measured_set_member() -> None:
    assert Assumptions().memory_gb_usd == article_module.RAM_USD
    assert Assumptions().cached_member_bytes == article_module.REDIS_MEMBER


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (999.6, "B", "1 KB"),
        (62.5e6, "B", "62.5 MB"),
        (31.25e15, "B", "31.2 PB"),
        (1.157e6, "/s", "1.16 M/s"),
        (50, "/s", "50/s"),
        (2e11, "", "200 bn"),
        (2.857, "x", "2.86x"),
        (102_000, "USD", "102 K USD"),
        (40, "days", "40 days"),
        (88.18, "", "88.2"),
    ],
)
def test_numbers_in_words_have_three_digits_and_a_prefix(value: float, unit: str, words: str) -> None:
    assert in_words(value, unit) == words


@pytest.mark.parametrize("found", article_000(), ids=lambda found: found.quantity)
def test_the_document_has_each_verdict_row(found: ArticleRow) -> None:
    line = f"| {found.quantity} | {found.article} | {found.ours} | {found.verdict} | {found.why} |\n"
    assert DOCUMENT.count(line) == 1


def test_the_document_has_no_row_that_the_code_lacks() -> None:
    counts = {verdict: DOCUMENT.count(f" | {verdict} | ") for verdict in ClaimVerdict}
    rows = article_000()
    assert counts == {verdict: sum(row.verdict is verdict for row in rows) for verdict in ClaimVerdict}
    sentence = (
        f"Of {len(rows)} lines {counts[ClaimVerdict.RIGHT]} are right, {counts[ClaimVerdict.WRONG]} wrong, "
        f"{counts[ClaimVerdict.INCONSISTENT]} inconsistent and {counts[ClaimVerdict.MISSING]} missing."
    )
    assert sentence in " ".join(DOCUMENT.split())


def test_the_document_shows_the_plan_and_its_assumptions() -> None:
    made = plan(ARTICLE_DEMAND)
    cluster = made.cluster
    for line in made.assumptions:
        assert f"- {line}\n" in DOCUMENT
    assert f"- One machine: {made.embedded.verdict}.\n" in DOCUMENT
    assert f"- Cluster: {cluster.machines} nodes, {in_words(cluster.cost_usd_month, 'USD')} a month." in DOCUMENT
    for role in cluster.roles:
        assert f"| {role.name} | {role.nodes} | {role.decided_by} |\n" in DOCUMENT
    stored = sum(role.cost_usd_month for role in cluster.roles if role.name != "api")
    assert stored * 12 > 2 * 500_000  # "more than twice the article's storage budget"
