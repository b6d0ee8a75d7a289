"""The inputs of a plan: the caller's demand, and all assumptions."""

from __future__ import annotations

import math

import msgspec

from kith.commands.capacity.article import DAY_S, in_words
from kith.core.errors import BadRequest


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """Assumptions of a plan, with their sources. Decimal units. Replace those that you have measured yourself.

    Sizes in bytes:
    edge_bytes: an edge, both directions, as its share of the data folder after an import; budget `store-size`.
    id_bytes: a 64-bit id. event_bytes: one log event; article 000.
    row_bytes: an edge in Cassandra, one direction, before replication. A list row (16 B of clustering key, 9 B of state
    and version, some 15 B of header, timestamps and index), and an equally large row for the lookup of a pair.
    partition_bytes_max: a Cassandra partition; DataStax's planning guide says 100 MB.
    cached_member_bytes: a member of a Redis set; measured on 6.2.14: 67.7 above 512 members, 8.2 up to 512.
    request_bytes, response_bytes: a check or a write over HTTP; article 000.
    page_bytes: a page of 20 ids with headers. home_bytes: a page of home.
    pair_in_bytes, pair_out_bytes: a pair in a batch, as JSON.
    timeline_bytes: a timeline, in memory or in Redis (operations.md; strings of up to 600 ids).
    notice_bytes: an inbox row, its record, claim and their events, by their lengths (see `MentionFigures`); kept for
    notice_days. post_bytes: a post of 125 characters and its edge, in a data folder (measured over 20,000 posts); kept
    for post_days.

    Rates a second of one core, embedded: 30,000 checks over HTTP, 400,000 in batches, 2,000 pages (budgets
    `check-http`, `check-batch`, `home`); 5,000 writes, half of budget `follow-http` on two cores; 1,150 first pages of
    home, 3,200 posts, 2.9 M deliveries of fan-out (measured: `kith bench home`, `post-create`, `fanout`).

    Rates a second of one core, in the cluster: from the processor time of each process during `kith bench
    cluster-follow`, `cluster-check`, `cluster-home` and `cluster-fanout`, with one copy of everything, on two cores of
    an AMD EPYC; other machines gave half. Instances: 16,000 checks past the filter (62 us each), 870 writes (including
    owners, notices and all readers of the log), 400 homes, 2.5 M deliveries (with the part of two cores that Redis left
    over). Cache: 60,000 lookups, 600,000 deliveries. Store, each copy: 10,000 reads (25,000 at high concurrency, 3,000
    at low), 1,600 writes, 600 homes. Log, each copy: 5,000 writes. post_writes: a post counts as this many writes, by
    its statements (12; a follow has 8).

    Shares: hot_share of the edges gets most reads (article 000). filter_no_share of checks ends at the filter
    (article 000: 60 to 70%), and cache_hit_share of the others in the cache (article 000). Utilization at most:
    core_use_max (article 000: scale out at 70%), memory_use_max, disk_use_max, and store_disk_use_max of a Cassandra
    disk (compaction needs space; DataStax: 50 to 80%). peak_factor: peak over average (article 000).

    Copies: each API process, one a core, has a whole filter of filter_edge_bytes per edge (1% of false positives, a
    quarter of spare room: decision 44), and two while it loads a newer one. A cached list has cache_copies, so that one
    may fail.

    Machines: the single machine is a large server. LMDB allows one writer at a time (measured: 7,460 durable follows a
    second in process, mean of 8 runs on 2 cores; decision 14). base_memory_bytes is for the system and processes. A
    node of the cluster is a common cloud shape (16 cores, 128 GB, 3.75 TB NVMe).

    Prices, USD a month: round figures near on-demand list prices of large clouds in 2025; about half with a term of
    years, less on rented hardware. Traffic: between zones, per GB. Without support, staff or backups.
    """

    edge_bytes: float = 80
    id_bytes: float = 8
    event_bytes: float = 100
    row_bytes: float = 80
    partition_bytes_max: float = 100e6
    cached_member_bytes: float = 68
    request_bytes: float = 200
    response_bytes: float = 200
    page_bytes: float = 2_000
    home_bytes: float = 20_000
    pair_in_bytes: float = 40
    pair_out_bytes: float = 6
    timeline_bytes: float = 5_000
    notice_bytes: float = 370
    notice_days: float = 90
    post_bytes: float = 350
    post_days: float = 365

    core_checks_per_s: float = 30_000
    core_batched_checks_per_s: float = 400_000
    core_writes_per_s: float = 5_000
    core_pages_per_s: float = 2_000
    core_homes_per_s: float = 1_150
    core_posts_per_s: float = 3_200
    core_deliveries_per_s: float = 2_900_000
    instance_checks_per_s: float = 16_000
    instance_writes_per_s: float = 870
    instance_homes_per_s: float = 400
    instance_deliveries_per_s: float = 2_500_000
    cache_lookups_per_s: float = 60_000
    cache_deliveries_per_s: float = 600_000
    store_reads_per_s: float = 10_000
    store_writes_per_s: float = 1_600
    store_homes_per_s: float = 600
    log_writes_per_s: float = 5_000
    post_writes: float = 1.5

    hot_share: float = 0.2
    filter_edge_bytes: float = 1.65
    filter_no_share: float = 0.6
    cache_hit_share: float = 0.7
    cache_copies: int = 2
    peak_factor: float = 2.0
    core_use_max: float = 0.7
    memory_use_max: float = 0.8
    disk_use_max: float = 0.7
    store_disk_use_max: float = 0.5

    machine_cores: int = 64
    machine_memory_bytes: float = 768e9
    machine_disk_bytes: float = 30e12
    machine_writes_per_s: float = 7_500
    base_memory_bytes: float = 2e9
    node_cores: int = 16
    node_memory_bytes: float = 128e9
    node_disk_bytes: float = 3.75e12

    core_usd: float = 26
    memory_gb_usd: float = 2.5
    disk_tb_usd: float = 80
    traffic_gb_usd: float = 0.01

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value, free = getattr(self, name), name.endswith("_usd")
            if not (math.isfinite(value) and (value > 0 or (free and value == 0))):
                raise BadRequest(f"{name} must be above 0", field=name)
            if name.endswith(("_share", "_use_max")) and value >= 1:
                raise BadRequest(f"{name} is a share and must be below 1", field=name)
        if self.base_memory_bytes >= self.node_memory_bytes * self.memory_use_max:
            raise BadRequest("node_memory_bytes leaves nothing beside base_memory_bytes", field="node_memory_bytes")


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The load that the service must carry. Rates are of the busiest second.

    degree_mean: average follows of a user. degree_max: the longest list, usually a celebrity's followers.
    batched_share: share of the checks that come in batches. pages_per_s: pages of lists. homes_per_s: first pages of
    home. posts_per_s: new posts. active_share: share of the users who have a timeline, to which posts are pushed.
    notices_per_s: notifications. log_days: days that the log is kept. replicas: copies in the cluster's store and log.
    Errors: BadRequest for a negative number, a share above 1, or a list longer than there are users.
    """

    users: int
    degree_mean: float
    degree_max: int
    checks_per_s: float
    writes_per_s: float
    pages_per_s: float = 0.0
    homes_per_s: float = 0.0
    posts_per_s: float = 0.0
    active_share: float = 0.0
    notices_per_s: float = 0.0
    batched_share: float = 0.0
    log_days: float = 7.0
    replicas: int = 3

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise BadRequest(f"{_option(name)} must be a number from 0 up", field=name)
        for name, whole in (("batched_share", "checks"), ("active_share", "users")):
            if getattr(self, name) > 1:
                raise BadRequest(f"{_option(name)} is a share of the {whole}, 0 to 1", field=name)
        if self.users < 1 or self.replicas < 1:
            raise BadRequest("users and replicas must be 1 or more")
        if max(self.degree_mean, self.degree_max) > self.users:
            raise BadRequest("no list can be longer than there are users", field="degree_max")

    @property
    def edges(self) -> float:
        """Number of follows."""
        return self.users * self.degree_mean

    @property
    def timelines(self) -> float:
        """Number of users who have a timeline."""
        return self.users * self.active_share

    @property
    def deliveries_per_s(self) -> float:
        """Posts written to timelines a second. An author has as many followers, on average, as a user follows."""
        return self.posts_per_s * self.degree_mean * self.active_share


def _option(name: str) -> str:
    """The command's option for a field of the demand."""
    options = {"degree_mean": "degree", "degree_max": "largest", "active_share": "timelines"}
    return options.get(name, name.removesuffix("_per_s"))


def per_second(count_per_day: float, peak_factor: float = 2.0) -> float:
    """The busiest second of a day with `count_per_day` events: the average times `peak_factor`."""
    return count_per_day / DAY_S * peak_factor


def filter_of_node(demand: Demand, given: Assumptions) -> float:
    """Bytes of the filters of a node's processes; 0 where they do not fit, because then there are none."""
    filters = 2 * demand.edges * given.filter_edge_bytes * given.node_cores
    return filters if filters <= given.node_memory_bytes * given.memory_use_max - given.base_memory_bytes else 0.0


ARTICLE_DEMAND = Demand(
    users=500_000_000,
    degree_mean=400,
    degree_max=200_000_000,
    checks_per_s=per_second(50e9),
    writes_per_s=per_second(5e9),
)
"""The demand of article 000, with its stated peak (twice the average) applied, which the article forgets."""


def describe_assumptions(demand: Demand, given: Assumptions) -> tuple[str, ...]:
    """The assumptions behind a plan of `demand`, one per line."""
    has_filter = bool(filter_of_node(demand, given))
    return (
        f"rates are of the busiest second, {given.peak_factor:g} times the average; log and traffic use the average",
        f"an edge takes {given.edge_bytes:g} B embedded: both directions, counts and versions",
        f"in the cluster {given.row_bytes:g} B a direction and copy, {demand.replicas} copies: "
        f"{2 * given.row_bytes * demand.replicas:g} B an edge",
        f"a log event takes {given.event_bytes:g} B and is kept {demand.log_days:g} days",
        f"the hot {given.hot_share:.0%} of the edges stay in memory: as file pages embedded, in the cluster as "
        f"{given.cache_copies} cached copies of {given.cached_member_bytes:g} B a member, forward lists only",
        f"embedded needs no filter; in the cluster each process has a filter of {given.filter_edge_bytes:g} B an edge, "
        f"and two during a replacement, if a node of {given.node_cores} processes has room for them: "
        f"{'here it has' if has_filter else 'here it has not'}",
        f"{given.filter_no_share if has_filter else 0:.0%} of checks end at the filter, "
        f"{given.cache_hit_share:.0%} of the rest in the cache",
        f"a core does {given.core_checks_per_s:,.0f} checks/s, {given.core_batched_checks_per_s:,.0f} in batches, "
        f"{given.core_writes_per_s:,.0f} writes/s or {given.core_pages_per_s:,.0f} pages/s; "
        f"{given.core_homes_per_s:,.0f} homes/s, {given.core_posts_per_s:,.0f} posts/s or "
        f"{given.core_deliveries_per_s:,.0f} deliveries/s",
        f"in the cluster a core of an instance does {given.instance_checks_per_s:,.0f} checks/s beyond the filter, "
        f"{given.instance_writes_per_s:,.0f} writes/s, {given.instance_homes_per_s:,.0f} homes/s or "
        f"{given.instance_deliveries_per_s:,.0f} deliveries/s",
        f"a core of the cache does {given.cache_lookups_per_s:,.0f} look-ups/s or {given.cache_deliveries_per_s:,.0f} "
        "deliveries/s",
        f"a core of the store does {given.store_reads_per_s:,.0f} reads/s, {given.store_writes_per_s:,.0f} writes/s of "
        f"each copy, or {given.store_homes_per_s:,.0f} homes/s; a core of the log {given.log_writes_per_s:,.0f} "
        f"writes/s of each copy; a post counts as {given.post_writes:g} writes",
        f"a timeline takes {in_words(given.timeline_bytes, 'B')}, in the cluster {given.cache_copies} times; a "
        f"notification takes {given.notice_bytes:g} B and is kept {given.notice_days:g} days, a post "
        f"{given.post_bytes:g} B, and posts of {given.post_days:g} days are counted, in as many copies as edges",
        f"cores are used to {given.core_use_max:.0%}, memory to {given.memory_use_max:.0%}, disks to "
        f"{given.disk_use_max:.0%}, disks of the store to {given.store_disk_use_max:.0%}",
        f"one machine is at most {given.machine_cores} cores, {in_words(given.machine_memory_bytes, 'B')} of memory, "
        f"{in_words(given.machine_disk_bytes, 'B')} of disk and {given.machine_writes_per_s:,.0f} synced writes/s",
        f"a node is {given.node_cores} cores, {in_words(given.node_memory_bytes, 'B')} of memory and "
        f"{in_words(given.node_disk_bytes, 'B')} of disk (store and log only)",
        f"a month costs {given.core_usd:g} USD a core, {given.memory_gb_usd:g} a GB of memory, {given.disk_tb_usd:g} "
        f"a TB of disk, {given.traffic_gb_usd:g} a GB between nodes",
        "left out: media, backups, staff, a second site, and notifying followers of mentions, which "
        "`kith plan notifications` plans",
    )
