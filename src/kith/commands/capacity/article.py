"""Recomputes the arithmetic of article 000 ("social graph at 500M users") line by line.

Each row has a quantity, the article's figure, the figure that follows from the article's own inputs, and a verdict.
Where the article needs a figure that it does not give, the row names the source. `docs/capacity.md` shows all rows.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

DAY_S = 86_400

# Inputs that the article gives.
USERS = 500_000_000
FOLLOWS = 400  # average following and follower count
EDGES = USERS * FOLLOWS
CHECKS = 50e9 / DAY_S  # a second, on average
WRITES = 5e9 / DAY_S
PEAK = 2  # peak over average
ID = 8  # bytes of an id
ROW = FOLLOWS * ID  # bytes of an average list
HIT = 0.7  # share of Redis lookups that find the list
FILTERED = 0.65  # share of checks that end at the filter
INSTANCES = 200  # of the check service, in the interview part
FILTER_BITS = -math.log(0.001) / math.log(2) ** 2  # a key, at 0.1% false positives (Bloom 1970)

# Not in the article.
REDIS_MEMBER = 68  # bytes in a set of more than 512 members: measured, Redis 6.2.14, sets of 5,000 64-bit ids
SQL_ROW = 24 + 4 + 2 * ID  # PostgreSQL: tuple header, line pointer, two bigints
RAM_USD = 2.5  # per GB and month, as in kith.commands.capacity.Assumptions


class ClaimVerdict(StrEnum):
    """right: the article's figure follows from its inputs. wrong: it does not. inconsistent: two of its figures
    disagree. missing: a consequence of its design that it leaves out.
    """

    RIGHT = "right"
    WRONG = "wrong"
    INCONSISTENT = "inconsistent"
    MISSING = "missing"


RIGHT, WRONG, INCONSISTENT, MISSING = ClaimVerdict


class ArticleRow(msgspec.Struct, frozen=True):
    """One quantity. `value`: our figure in `unit` (decimal: 1 MB is 10**6 bytes). `article`: its figure as printed."""

    quantity: str
    article: str
    value: float
    unit: str
    verdict: ClaimVerdict
    why: str

    @property
    def ours(self) -> str:
        """`value` as text: three digits and a prefix, such as `1.16 M/s` or `360 GB`."""
        return in_words(self.value, self.unit)


def article_000() -> list[ArticleRow]:
    """Every checkable figure of the article, by subject in the article's order."""
    return [*_traffic(), *_storage(), *_shards(), *_redis(), *_filter(), *_network(), *_compute(), *_walks()]


def in_words(value: float, unit: str) -> str:
    """Three digits and a decimal prefix: in_words(3.6e11, "B") is "360 GB", (2e11, "/s") "200 bn/s"."""
    is_bytes = unit in ("B", "B/s")
    prefixes = ("", "K", "M", "G", "T", "P", "E") if is_bytes else ("", "K", "M", "bn", "tn")
    power = 0
    while abs(value) >= 999.5 and power < len(prefixes) - 1:
        value /= 1000
        power += 1
    digits = f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.3g}"
    if is_bytes:
        return f"{digits} {prefixes[power]}{unit}"
    number = f"{digits} {prefixes[power]}".rstrip()
    return f"{number} {unit}" if unit.isalpha() and unit != "x" else f"{number}{unit}"


# A table that is formatted by hand: quantity, article, ours, unit, verdict, and below them the reason.
# fmt: off
def _traffic() -> list[ArticleRow]:
    return [
        ArticleRow("follow checks at peak", "580 K/s", CHECKS * PEAK, "/s", WRONG,
                   "50 bn a day is 579 K/s on average; the 2x peak it names was never applied"),
        ArticleRow("follows and unfollows at peak", "58 to 60 K/s", WRITES * PEAK, "/s", WRONG,
                   "5 bn a day is 57.9 K/s on average; the same slip"),
        ArticleRow("reads for each write", "100", CHECKS / WRITES, "", WRONG,
                   "50 bn checks over 5 bn changes a day; the case for splitting the paths rests on it"),
        ArticleRow("days of writes that equal the whole graph", "not stated",
                   EDGES / (WRITES * DAY_S), "days", MISSING,
                   "10 changes by each user every day would turn the graph over every 40 days: likely too many"),
        ArticleRow("edges", "200 bn; elsewhere 500 bn", EDGES, "", INCONSISTENT,
                   "500 M x 400; 500 bn means 1,000 follows each and 2.5 times every figure of storage"),
        ArticleRow("downtime a year at 99.99%", "under 52 minutes", 365 * 24 * 60 * 0.0001, "minutes", RIGHT,
                   "rounded"),
    ]


def _storage() -> list[ArticleRow]:
    log = WRITES * DAY_S * 7 * 100
    return [
        ArticleRow("ids of one direction", "1.6 TB", EDGES * ID, "B", RIGHT,
                   "ids alone, no versions or rows"),
        ArticleRow("SQL table of all edges", "over 1 TB", EDGES * SQL_ROW, "B", MISSING,
                   "true, but 3.2 TB as two bigints, and PostgreSQL adds 28 B a row; indexes on top"),
        ArticleRow("row of 10,000 ids", "80 KB; elsewhere 10 KB, and one 8 KB page",
                   10_000 * ID, "B", INCONSISTENT,
                   "ten pages, kept out of line in some 40 pieces; random ids hardly compress"),
        ArticleRow("row of the average user", "400 bytes", ROW, "B", WRONG,
                   "400 is the number of ids, at 8 B each"),
        ArticleRow("follower row of 200 M ids", "1.6 GB", 200e6 * ID, "B", RIGHT,
                   "and above the 1 GB that a PostgreSQL field can hold, so pages are a must"),
        ArticleRow("followers that make a celebrity", "1 M; elsewhere 10 M", 1e6, "", INCONSISTENT,
                   "text and comment of the schema differ"),
        ArticleRow("lists of 1 M users with 1 M followers", "800 GB", 1e6 * 1e6 * ID, "B", WRONG,
                   "10^12 edges, five times the graph; 200 bn edges allow 200,000 such users, 800 GB 100,000"),
        ArticleRow("log of 7 days at 100 B an event", "not counted", log, "B", MISSING,
                   "retention and event size are the article's; more than both directions of ids"),
        ArticleRow("persistent storage with 3 copies", "12 TB", 3 * (2 * EDGES * ID + log), "B", WRONG,
                   "its 4 TB raw counts celebrities twice (they are in the follower lists) and no log"),
        ArticleRow("rewritten for each second of follows, one direction", "not counted",
                   WRITES * ROW, "B/s", MISSING,
                   "an array is stored anew for each 8 B change: 400 times as much, more for the popular"),
    ]


def _shards() -> list[ArticleRow]:
    shard_users = USERS / 256
    return [
        ArticleRow("users a shard", "2 M", shard_users, "", RIGHT,
                   "rounded"),
        ArticleRow("largest possible shard", "160 GB", shard_users * 10_000 * ID, "B", RIGHT,
                   "rounded"),
        ArticleRow("average shard", "800 MB", shard_users * ROW, "B", WRONG,
                   "follows from the 400-byte row"),
        ArticleRow("shard of user 1,000,000", "by id range (0); by id % 256; by hash",
                   1_000_000 % 256, "", INCONSISTENT,
                   "three schemes in one design; ours is the modulo, as its code computes it"),
        ArticleRow("partitions a host", "8", 2 * 256 / 32, "", INCONSISTENT,
                   "256 for each of two tables over 32 hosts; 48 with three copies"),
        ArticleRow("users hit when a host fails", "1/256", 100 / 32, "%", WRONG,
                   "a host carries 8 of the 256 following partitions: 1/32"),
    ]


def _redis() -> list[ArticleRow]:
    return [
        ArticleRow("Redis memory for the hot 20%", "320 GB", 0.2 * EDGES * REDIS_MEMBER, "B", WRONG,
                   "8 B a member holds to 512 members; above, a set is a hash table of 68 B: up to 8.5 times"),
        ArticleRow("cached list of 5,000 ids", "40 KB", 5_000 * REDIS_MEMBER, "B", WRONG,
                   "a hash table (measured: 67.7 B a member), not an array"),
        ArticleRow("Redis nodes of 16 GB with 3 copies", "20", 3 * 320 / 16, "", WRONG,
                   "20 x 16 GB is 320 GB: no copy, no overhead, no free byte; up to 510 as hash tables"),
        ArticleRow("RAM a month for the whole graph in Redis", "$80,000",
                   3 * EDGES * REDIS_MEMBER / 1e9 * RAM_USD, "USD", INCONSISTENT,
                   "$50 a GB: fair only with overhead and copies, which its 320 GB leaves out (ours: $2.50)"),
        ArticleRow("ids put into Redis by misses", "not counted", CHECKS * (1 - HIT) * FOLLOWS, "/s", MISSING,
                   "each miss loads the whole list; still 24 M/s when the filter ends 65% of checks"),
    ]


def _filter() -> list[ArticleRow]:
    fill = EDGES / (USERS * FILTER_BITS)
    return [
        ArticleRow("Bloom filter at 0.1% false positives", "10 MB", EDGES * FILTER_BITS / 8, "B", WRONG,
                   "14.4 bits an edge, since its keys are pairs; even 500 M keys need 899 MB"),
        ArticleRow("false positives of that filter as coded", "0.1%",
                   100 * (1 - math.exp(-10 * fill)) ** 10, "%", WRONG,
                   "made for 500 M keys, given 200 bn: every bit is set and it never says no"),
        ArticleRow("bits read by one lookup", "1", math.ceil(math.log2(1000)), "", WRONG,
                   "k = log2(1/p), rounded up"),
        ArticleRow("Redis calls with and without the filter", "fleet 3x smaller",
                   1 / (1 - FILTERED), "x", INCONSISTENT,
                   "calls fall so far, but its fleet is sized by memory, which does not"),
        ArticleRow("events sent to the filters of 200 instances", "not counted",
                   WRITES * 100 * INSTANCES, "B/s", MISSING,
                   "every instance reads the whole topic; 8 times its total of outbound traffic"),
        ArticleRow("snapshots sent for a rebuild every 6 hours", "6 hours; elsewhere nightly",
                   EDGES * FILTER_BITS / 8 * INSTANCES / (6 * 3600), "B/s", INCONSISTENT,
                   "360 GB for each of 200 instances; harmless only at 10 MB"),
    ]


def _network() -> list[ArticleRow]:
    return [
        ArticleRow("answers to checks", "116 MB/s inbound", CHECKS * 200, "B/s", INCONSISTENT,
                   "product right for the average (231 MB/s at peak), but answers go out"),
        ArticleRow("follow events", "5.8 MB/s", WRITES * 100, "B/s", RIGHT,
                   "twice that at peak"),
        ArticleRow("events in 3 copies", "17.4 MB/s", WRITES * 300, "B/s", RIGHT,
                   "twice that at peak"),
        ArticleRow("lists read from storage by misses", "150 MB/s outbound in all",
                   CHECKS * (1 - HIT) * ROW, "B/s", WRONG,
                   "30% of checks fetch 3.2 KB each; 194 MB/s even when the filter ends 65% first"),
        ArticleRow("headroom of 2 s over 200 ms of lag", "10x", 2 / 0.2, "x", RIGHT,
                   "as long as consumers keep up"),
    ]


def _compute() -> list[ArticleRow]:
    cores = CHECKS * 0.0005 + WRITES * 0.002
    return [
        ArticleRow("cores for checks at 0.5 ms", "290", CHECKS * 0.0005, "", RIGHT,
                   "average; 579 at peak"),
        ArticleRow("cores for writes at 2 ms", "116", WRITES * 0.002, "", RIGHT,
                   "average; 231 at peak"),
        ArticleRow("r6i.2xlarge (8 vCPU) for both", "50; elsewhere 200+",
                   math.ceil(cores * PEAK / 0.7 / 8), "", WRONG,
                   "50 give 400 cores, 405 are busy on average; 73 at its own 70%, and twice that at peak"),
        ArticleRow("CPU of a check that passes the filter", "0.5 ms on average, p99 below 1 ms",
                   (0.5 - FILTERED * 0.01) / (1 - FILTERED), "ms", INCONSISTENT,
                   "if 65% take 0.01 ms, the other 35% average 1.41 ms, above the limit for all but 1%"),
        ArticleRow("p99 of 0.3 ms hits and 2 ms misses", "0.81 ms, within 1 ms", 2, "ms", WRONG,
                   "0.81 ms is the mean; 30% take 2 ms (10.5% of all checks when the filter ends 65%)"),
        ArticleRow("NVMe reads that fit into 1 ms", "0: storage cannot do it", 1 / 0.1, "", WRONG,
                   "its own 100 microseconds a read is a tenth of the budget"),
        ArticleRow("comparisons in a list of 10,000", "14", math.ceil(math.log2(10_001)), "", RIGHT,
                   "binary search"),
    ]


def _walks() -> list[ArticleRow]:
    in_flight = CHECKS * 0.05
    return [
        ArticleRow("nodes within two hops", "250,000", FOLLOWS**2, "", INCONSISTENT,
                   "500 x 500 is its cap, but called the average, which is 400 elsewhere"),
        ArticleRow("two hops for each follow check", "145 bn visits/s", 250_000 * CHECKS, "/s", INCONSISTENT,
                   "product right, premise not: 580 K/s is the rate of checks, not of suggestions"),
        ArticleRow("two hops, list after list as coded", "under 50 ms", 501 * 0.3, "ms", WRONG,
                   "501 reads of 0.1 to 0.3 ms are 50 to 150 ms, before 2 MB of ids are moved"),
        ArticleRow("bit set over all users", "62 MB", USERS / 8, "B", RIGHT,
                   "for one request"),
        ArticleRow("bit sets in flight at 580 K/s and 50 ms", "not counted",
                   in_flight * USERS / 8, "B", MISSING,
                   "28,935 requests at once; a set of the 250,000 ids met is a few MB each"),
        ArticleRow("bitmap of a user's follows", "31 TB a user", USERS / 8, "B", WRONG,
                   "62.5 MB a user; 31 PB, not TB, for all 500 M"),
    ]
