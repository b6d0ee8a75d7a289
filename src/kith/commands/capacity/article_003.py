"""Recomputes the arithmetic of article 003 ("mentions of celebrities") line by line, as `article` does for 000."""

from __future__ import annotations

from kith.commands.capacity.article import DAY_S, INCONSISTENT, MISSING, RIGHT, WRONG, ArticleRow

# Inputs that the article gives.
FOLLOWERS = 100_000_000
ACTIVE = 0.05
MENTIONS = 500  # a second, at peak
OPENS = 500_000  # a second
ROW = 128  # bytes
CHUNK = 100_000  # followers a task
ROWS_A_DAY = 50e9
DAYS = 90
TASK_S = 10  # a worker's time for a task

_HYBRID = FOLLOWERS * ACTIVE
_TASKS = FOLLOWERS / CHUNK


# fmt: off
def article_003() -> list[ArticleRow]:
    """Every figure of the article's cost model and capacity estimate, in the article's order."""
    return [*_an_event(), *_the_peak(), *_retention()]


def _an_event() -> list[ArticleRow]:
    return [
        ArticleRow("hours of one insert after another", "55", FOLLOWERS * 0.002 / 3600, "hours", RIGHT,
                   "100 M rows of 2 ms"),
        ArticleRow("rows of a mention, push", "100 M", FOLLOWERS, "", RIGHT, "one a follower"),
        ArticleRow("rows of a mention, hybrid", "5 M", _HYBRID, "", RIGHT, "5% were here within a day"),
        ArticleRow("write amplification, hybrid", "0.05", _HYBRID, "", INCONSISTENT,
                   "by its own definition, rows for an event; 0.05 is the share of push that is left"),
        ArticleRow("saved a day by hybrid, one celebrity an hour", "270.0 GB",
                   (FOLLOWERS - _HYBRID) * 24 * ROW, "B", WRONG,
                   "its program divides by 1,024 three times and prints 271.8, which is GiB"),
        ArticleRow("ids of all followers in memory", "800 MB", FOLLOWERS * 8, "B", RIGHT, "8 B an id"),
        ArticleRow("rows a second for push within a minute", "1.67 M/s", FOLLOWERS / 60, "/s", RIGHT,
                   "for one mention"),
    ]


def _the_peak() -> list[ArticleRow]:
    return [
        ArticleRow("rows a second at the peak, hybrid", "500 M/s", MENTIONS * _HYBRID, "/s", WRONG,
                   "taking 5 s for each mention lowers no steady rate: as many rows begin as end each second"),
        ArticleRow("tasks a second", "500 K/s", MENTIONS * _TASKS, "/s", RIGHT, "1,000 tasks a mention"),
        ArticleRow("rows a second of all tasks, each of 100,000", "1.67 bn/s", MENTIONS * FOLLOWERS, "/s", WRONG,
                   "the tasks of one second over 30 s; the next brings as many. And it is push: hybrid has 5% of it"),
        ArticleRow("bytes a second of tasks", "500 MB/s", MENTIONS * _TASKS * 1_000, "B/s", INCONSISTENT,
                   "at 1 KB a task; 200 B elsewhere, which is 100 MB/s"),
        ArticleRow("bytes a second of ids in the first tier's queue", "160 GB/s", MENTIONS * _HYBRID * 64, "B/s", RIGHT,
                   "64 B an id; batches of 1,000 lower it to 8 B an id, not further"),
        ArticleRow("workers", "5,000", MENTIONS * _TASKS * TASK_S, "", WRONG,
                   "500,000 tasks/s of 10 s each keep 5 M at work; a backlog delays this work and removes none"),
        ArticleRow("queries a second from opened tabs", "not stated", OPENS, "/s", MISSING,
                   "one a tab where the accounts mentioned lately are intersected with the reader's follows; with a "
                   "flag for each celebrity, as many as they follow"),
    ]


def _retention() -> list[ArticleRow]:
    hybrid_bytes = MENTIONS * _HYBRID * DAY_S * DAYS * ROW
    return [
        ArticleRow("rows a day at the peak, hybrid", "50 bn", MENTIONS * _HYBRID * DAY_S, "", INCONSISTENT,
                   "a given; the peak all day is 4,320 times as many, 50 bn are 10,000 mentions a day"),
        ArticleRow("90 days of the peak, hybrid", "2.5 PB", hybrid_bytes, "B", WRONG,
                   "a thousand times as much"),
        ArticleRow("90 days of the peak, push", "25 PB", hybrid_bytes / ACTIVE, "B", WRONG,
                   "20 times hybrid, not 10: 5% are active"),
        ArticleRow("90 days of 50 bn rows a day", "not stated", ROWS_A_DAY * DAYS * ROW, "B", MISSING,
                   "what its givens ask for; 67.5 TB with rows of 15 B that point to one notice"),
    ]
# fmt: on
