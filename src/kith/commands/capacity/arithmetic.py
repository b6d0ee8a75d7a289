"""Computes disks, memory, cores, machines and a monthly bill from a demand. Pure arithmetic, decimal units.

Not planned here: media, and idle machines for the loss of a site.
"""

from __future__ import annotations

import math

import msgspec

from kith.commands.capacity.article import DAY_S, in_words
from kith.commands.capacity.inputs import Assumptions, Demand, describe_assumptions, filter_of_node

MONTH_S = 730 * 3600


class Storage(msgspec.Struct, frozen=True):
    """Bytes, copies included. `ids_bytes` is a lower bound: bare ids, both directions, one copy; not in the total.

    `notices_bytes`: notifications in inboxes.
    `disk_bytes` is what to buy: the total plus the space that must stay free. `largest_list_bytes` is the
    longest list, one copy of one direction; in the cluster it is split into `largest_list_partitions`.
    """

    edges: float
    ids_bytes: float
    edges_bytes: float
    log_bytes: float
    notices_bytes: float
    posts_bytes: float
    disk_bytes: float
    largest_list_bytes: float
    largest_list_partitions: int

    @property
    def total_bytes(self) -> float:
        """Bytes of edges, log, notifications and posts."""
        return self.edges_bytes + self.log_bytes + self.notices_bytes + self.posts_bytes


class Memory(msgspec.Struct, frozen=True):
    """Bytes, copies included. `filter_bytes`: 0 where the filter does not fit. `total_bytes` is what to buy: with the
    base memory and the share that must stay free.
    """

    hot_bytes: float
    timelines_bytes: float
    filter_bytes: float
    total_bytes: float


class Network(msgspec.Struct, frozen=True):
    """Bytes a second at peak: from callers, to callers, and between machines."""

    in_bytes_per_s: float
    out_bytes_per_s: float
    internal_bytes_per_s: float


class Bound(msgspec.Struct, frozen=True):
    """One limit of the single machine."""

    name: str
    needed: float
    available: float
    unit: str

    @property
    def broken(self) -> bool:
        return self.needed > self.available


class EmbeddedPlan(msgspec.Struct, frozen=True):
    """One machine. `cost_usd_month` is None when the demand does not fit; `verdict` says why, in a sentence."""

    storage: Storage
    memory: Memory
    cores: float
    network: Network
    bounds: tuple[Bound, ...]
    fits: bool
    verdict: str
    cost_usd_month: float | None


class Role(msgspec.Struct, frozen=True):
    """Nodes of one kind. `decided_by`: the need that sets their number: cores, memory, disk or copies."""

    name: str
    nodes: int
    decided_by: str
    cores: float
    memory_bytes: float
    disk_bytes: float
    cost_usd_month: float


class ClusterPlan(msgspec.Struct, frozen=True):
    """Nodes by role. `cores` are busy cores with headroom, over all roles; the bill includes `traffic_usd_month`."""

    storage: Storage
    memory: Memory
    cores: float
    network: Network
    roles: tuple[Role, ...]
    machines: int
    traffic_usd_month: float
    cost_usd_month: float


class CapacityPlan(msgspec.Struct, frozen=True):
    """The plans for one machine and for a cluster, and their assumptions in words."""

    demand: Demand
    embedded: EmbeddedPlan
    cluster: ClusterPlan
    assumptions: tuple[str, ...]


def plan(demand: Demand, given: Assumptions | None = None) -> CapacityPlan:
    """Plan what `demand` needs, on one machine and on a cluster. Pure."""
    given = given or Assumptions()
    return CapacityPlan(demand, _embedded(demand, given), _cluster(demand, given), describe_assumptions(demand, given))


def _embedded(demand: Demand, given: Assumptions) -> EmbeddedPlan:
    edges_bytes = demand.edges * given.edge_bytes
    log_bytes = _log_bytes(demand, given)
    notices_bytes, posts_bytes = _notices_bytes(demand, given), _posts_bytes(demand, given)
    hot_bytes, timelines_bytes = edges_bytes * given.hot_share, demand.timelines * given.timeline_bytes
    storage = Storage(
        edges=demand.edges,
        ids_bytes=2 * demand.edges * given.id_bytes,
        edges_bytes=edges_bytes,
        log_bytes=log_bytes,
        notices_bytes=notices_bytes,
        posts_bytes=posts_bytes,
        disk_bytes=(edges_bytes + log_bytes + notices_bytes + posts_bytes) / given.disk_use_max,
        largest_list_bytes=demand.degree_max * given.edge_bytes / 2,
        largest_list_partitions=1,
    )
    used_bytes = hot_bytes + timelines_bytes + given.base_memory_bytes
    memory = Memory(hot_bytes, timelines_bytes, 0.0, used_bytes / given.memory_use_max)
    batched = demand.checks_per_s * demand.batched_share
    cores = (
        (demand.checks_per_s - batched) / given.core_checks_per_s
        + batched / given.core_batched_checks_per_s
        + demand.writes_per_s / given.core_writes_per_s
        + demand.pages_per_s / given.core_pages_per_s
        + demand.homes_per_s / given.core_homes_per_s
        + demand.posts_per_s / given.core_posts_per_s
        + demand.deliveries_per_s / given.core_deliveries_per_s
    ) / given.core_use_max
    bounds = (
        Bound("disk", storage.disk_bytes, given.machine_disk_bytes, "B"),
        Bound("memory", memory.total_bytes, given.machine_memory_bytes, "B"),
        Bound("cores", cores, given.machine_cores, ""),
        Bound("write rate", demand.writes_per_s + demand.posts_per_s, given.machine_writes_per_s, "/s"),
    )
    broken = [bound for bound in bounds if bound.broken]
    network = Network(*_callers(demand, given), 0.0)
    cost = _hardware_usd(math.ceil(cores), memory.total_bytes, storage.disk_bytes, given)
    return EmbeddedPlan(storage, memory, cores, network, bounds, not broken, _verdict(broken), None if broken else cost)


def _cluster(demand: Demand, given: Assumptions) -> ClusterPlan:
    list_bytes = demand.degree_max * given.row_bytes
    edges_bytes = 2 * demand.edges * given.row_bytes * demand.replicas
    log_bytes = _log_bytes(demand, given) * demand.replicas
    notices_bytes = _notices_bytes(demand, given) * demand.replicas
    posts_bytes = _posts_bytes(demand, given) * demand.replicas
    store_disk = (edges_bytes + notices_bytes + posts_bytes) / given.store_disk_use_max
    log_disk = log_bytes / given.disk_use_max
    storage = Storage(
        edges=demand.edges,
        ids_bytes=2 * demand.edges * given.id_bytes,
        edges_bytes=edges_bytes,
        log_bytes=log_bytes,
        notices_bytes=notices_bytes,
        posts_bytes=posts_bytes,
        disk_bytes=store_disk + log_disk,
        largest_list_bytes=list_bytes,
        largest_list_partitions=max(1, math.ceil(list_bytes / given.partition_bytes_max)),
    )
    hot_bytes = demand.edges * given.hot_share * given.cached_member_bytes * given.cache_copies
    timelines_bytes = demand.timelines * given.timeline_bytes * given.cache_copies
    api, cache, store, log = _cluster_cores(demand, given)
    roles = (
        _role("api", 2, cores=api, given=given),
        _role("cache", given.cache_copies, cores=cache, memory=hot_bytes + timelines_bytes, given=given),
        _role("store", demand.replicas, cores=store, disk_bytes=store_disk, given=given),
        _role("log", demand.replicas, cores=log, disk_bytes=log_disk, given=given),
    )
    filter_bytes = roles[0].nodes * filter_of_node(demand, given)
    network = Network(*_callers(demand, given), _internal(demand, given))
    month_bytes = network.internal_bytes_per_s / given.peak_factor * MONTH_S
    traffic_usd = month_bytes / 1e9 * given.traffic_gb_usd
    return ClusterPlan(
        storage=storage,
        memory=Memory(hot_bytes, timelines_bytes, filter_bytes, sum(role.memory_bytes for role in roles)),
        cores=sum(role.cores for role in roles),
        network=network,
        roles=roles,
        machines=sum(role.nodes for role in roles),
        traffic_usd_month=traffic_usd,
        cost_usd_month=traffic_usd + sum(role.cost_usd_month for role in roles),
    )


def _past_filter(demand: Demand, given: Assumptions) -> tuple[float, float]:
    """Checks a second that pass the filter, and the part of them that misses the cache."""
    ended_share = given.filter_no_share if filter_of_node(demand, given) else 0.0
    passed = demand.checks_per_s * (1 - ended_share)
    return passed, passed * (1 - given.cache_hit_share)


def _cluster_cores(demand: Demand, given: Assumptions) -> tuple[float, float, float, float]:
    """Busy cores of instances, cache, store and log. A write costs every copy, a read one."""
    passed, missed = _past_filter(demand, given)
    ended = demand.checks_per_s - passed
    batched = ended * demand.batched_share
    writes = demand.writes_per_s + demand.posts_per_s * given.post_writes
    api = (
        (ended - batched) / given.core_checks_per_s
        + batched / given.core_batched_checks_per_s
        + passed / given.instance_checks_per_s
        + writes / given.instance_writes_per_s
        + demand.pages_per_s / given.core_pages_per_s
        + demand.homes_per_s / given.instance_homes_per_s
        + demand.deliveries_per_s / given.instance_deliveries_per_s
    )
    cache = (
        passed / given.cache_lookups_per_s + demand.deliveries_per_s * given.cache_copies / given.cache_deliveries_per_s
    )
    store = (
        (missed + demand.pages_per_s) / given.store_reads_per_s
        + writes * demand.replicas / given.store_writes_per_s
        + demand.homes_per_s / given.store_homes_per_s
    )
    return api, cache, store, writes * demand.replicas / given.log_writes_per_s


def _internal(demand: Demand, given: Assumptions) -> float:
    """Bytes a second between nodes: events and rows to every replica, and answers of cache and store."""
    passed, missed = _past_filter(demand, given)
    writes = demand.writes_per_s + demand.posts_per_s * given.post_writes
    written_bytes = writes * demand.replicas * (given.event_bytes + 2 * given.row_bytes)
    written_bytes += demand.deliveries_per_s * 2 * given.id_bytes * given.cache_copies  # ids of post and reader
    read_bytes = passed * given.cached_member_bytes + missed * given.row_bytes + demand.pages_per_s * given.page_bytes
    return written_bytes + read_bytes + demand.homes_per_s * (given.home_bytes + given.timeline_bytes)


def _role(
    name: str, least: int, *, cores: float, memory: float = 0.0, disk_bytes: float = 0.0, given: Assumptions
) -> Role:
    """As many nodes as cores, memory or disk need, whichever needs most; at least `least`."""
    cores = cores / given.core_use_max
    usable = given.node_memory_bytes * given.memory_use_max - given.base_memory_bytes
    nodes_by_need = {
        "copies": least,
        "cores": math.ceil(cores / given.node_cores),
        "memory": math.ceil(memory / usable),
        "disk": math.ceil(disk_bytes / given.node_disk_bytes),
    }
    decided_by = max(nodes_by_need, key=lambda need: nodes_by_need[need])
    nodes = nodes_by_need[decided_by]
    node_disk_bytes = given.node_disk_bytes if disk_bytes else 0.0
    usd = _hardware_usd(given.node_cores, given.node_memory_bytes, node_disk_bytes, given)
    return Role(name, nodes, decided_by, cores, nodes * given.node_memory_bytes, disk_bytes, nodes * usd)


def _callers(demand: Demand, given: Assumptions) -> tuple[float, float]:
    """Bytes a second from and to callers."""
    batched = demand.checks_per_s * demand.batched_share
    calls = demand.checks_per_s - batched + demand.writes_per_s + demand.posts_per_s
    pages = demand.pages_per_s * given.page_bytes + demand.homes_per_s * given.home_bytes
    return (
        (calls + demand.pages_per_s + demand.homes_per_s) * given.request_bytes + batched * given.pair_in_bytes,
        calls * given.response_bytes + batched * given.pair_out_bytes + pages,
    )


def _log_bytes(demand: Demand, given: Assumptions) -> float:
    """Bytes of one copy of the log; it grows with the average rate, not with the peak."""
    writes = demand.writes_per_s + demand.posts_per_s * given.post_writes
    return writes / given.peak_factor * DAY_S * demand.log_days * given.event_bytes


def _notices_bytes(demand: Demand, given: Assumptions) -> float:
    """Bytes of one copy of the notifications."""
    return demand.notices_per_s / given.peak_factor * DAY_S * given.notice_days * given.notice_bytes


def _posts_bytes(demand: Demand, given: Assumptions) -> float:
    """Bytes of one copy of the posts."""
    return demand.posts_per_s / given.peak_factor * DAY_S * given.post_days * given.post_bytes


def _hardware_usd(cores: float, memory_bytes: float, disk_bytes: float, given: Assumptions) -> float:
    return cores * given.core_usd + memory_bytes / 1e9 * given.memory_gb_usd + disk_bytes / 1e12 * given.disk_tb_usd


def _verdict(broken: list[Bound]) -> str:
    if not broken:
        return "fits one machine"
    needs = ", ".join(
        f"{bound.name} {in_words(bound.needed, bound.unit)} of {in_words(bound.available, bound.unit)}"
        for bound in broken
    )
    return f"too small: {needs}"
