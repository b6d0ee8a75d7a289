"""Computes what a mention costs by push, pull and hybrid notification of followers, and what the busiest second needs.

Push writes an inbox row for every follower, pull for none, hybrid for followers who were active recently. A follower
without a row finds the mention when they open their inbox. Rows are pointers to the notice, which is stored once. Pure.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from kith.commands.capacity.inputs import Assumptions
from kith.core.errors import BadRequest
from kith.notifications.coordinator import CHUNK_IDS

NotificationWay = Literal["push", "pull", "hybrid"]
WAYS: tuple[NotificationWay, ...] = ("push", "pull", "hybrid")
_DAY_S = 86_400


class MentionDemand(msgspec.Struct, frozen=True, kw_only=True):
    """Mentions to plan for; the default is article 003's peak.

    `active_share`: share of the followers who were active within a day. `asking_share`: share of these who asked for
    notifications of mentions of accounts that they follow; Kith notifies nobody else. `peak_share`: a day's average
    rate as a share of the peak.
    """

    followers: int = 100_000_000
    active_share: float = 0.05
    asking_share: float = 1.0
    mentions_per_s: float = 500
    opens_per_s: float = 500_000
    peak_share: float = 1.0
    kept_days: int = 90

    def __post_init__(self) -> None:
        """Check the numbers. Errors: BadRequest."""
        shares = (self.active_share, self.asking_share, self.peak_share)
        if self.followers < 1 or not all(0 <= share <= 1 for share in shares):
            raise BadRequest("there is at least one follower, and shares go from 0 to 1")
        if not all(0 <= rate < math.inf for rate in (self.mentions_per_s, self.opens_per_s)) or self.kept_days < 1:
            raise BadRequest("rates are numbers from 0 up, and rows are kept for a day at least")


class MentionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of Kith measured on one core; replace those that you have measured yourself.

    row_bytes, core_rows_per_s: decision 25. notice_bytes: the record, its claim and their events in the log, by their
    lengths. core_ids_per_s: followers whose activity and preferences a walk looks up; from `kith bench mention`: three
    walks over 10 M followers in 24 s, of which 0.7 s were spent writing rows, on a machine with other load. walks: of
    hybrid, one per tier. core_opens_per_s: pages of 50 over HTTP, with 1,000 recently mentioned accounts (decision 26).
    """

    row_bytes: float = 15
    notice_bytes: float = 330
    core_rows_per_s: float = 732_000
    core_ids_per_s: float = 1_290_000
    walks: int = 3
    core_opens_per_s: float = 620


class MentionCost(msgspec.Struct, frozen=True, kw_only=True):
    """Costs of one way. Cores are for the busiest second, at the utilization that `Assumptions` allows."""

    way: NotificationWay
    rows_per_event: float
    bytes_per_event: float
    chunks_per_event: float
    rows_per_s: float
    write_cores: float
    open_cores: float
    stored_bytes: float
    usd_month: float


MENTION_LINES = (
    ("rows of a mention", "rows_per_event", ""),
    ("bytes of a mention", "bytes_per_event", "B"),
    ("chunks of followers", "chunks_per_event", ""),
    ("rows a second", "rows_per_s", "/s"),
    ("cores that write", "write_cores", ""),
    ("cores that open inboxes", "open_cores", ""),
    ("stored", "stored_bytes", "B"),
    ("USD a month", "usd_month", ""),
)
"""Lines of the printed table: label, field of `MentionCost`, unit."""


def mention_costs(
    demand: MentionDemand,
    figures: MentionFigures = MentionFigures(),  # noqa: B008  frozen
    assumed: Assumptions = Assumptions(),  # noqa: B008  frozen
) -> list[MentionCost]:
    """The costs of each way, in the order of WAYS."""
    return [_cost(way, demand, figures, assumed) for way in WAYS]


def _cost(way: NotificationWay, demand: MentionDemand, figures: MentionFigures, assumed: Assumptions) -> MentionCost:
    reached = {"push": 1.0, "pull": 0.0, "hybrid": demand.active_share}[way]
    rows = demand.followers * reached * demand.asking_share + 1  # the account itself is always notified
    looked_at = demand.followers * {"push": 1, "pull": 0, "hybrid": figures.walks}[way]
    size = rows * figures.row_bytes + figures.notice_bytes
    cores_an_event = rows / figures.core_rows_per_s + looked_at / figures.core_ids_per_s
    write_cores = demand.mentions_per_s * cores_an_event / assumed.core_use_max
    open_cores = demand.opens_per_s / figures.core_opens_per_s / assumed.core_use_max
    stored = size * demand.mentions_per_s * demand.peak_share * _DAY_S * demand.kept_days
    return MentionCost(
        way=way,
        rows_per_event=rows,
        bytes_per_event=size,
        chunks_per_event=looked_at / CHUNK_IDS,
        rows_per_s=rows * demand.mentions_per_s,
        write_cores=write_cores,
        open_cores=open_cores,
        stored_bytes=stored,
        usd_month=(write_cores + open_cores) * assumed.core_usd
        + stored / assumed.disk_use_max / 1e12 * assumed.disk_tb_usd,
    )
