"""The cost of mentions by push, pull and hybrid, and article 003's arithmetic. The document shows both."""

from __future__ import annotations

from pathlib import Path

import pytest

from kith.commands.capacity import (
    MENTION_LINES,
    ArticleRow,
    ClaimVerdict,
    MentionDemand,
    MentionFigures,
    article_003,
    in_words,
    mention_costs,
)
from kith.core.errors import BadRequest
from kith.engines.embedded.changes import claim_taken, record_changed, record_key
from kith.notifications.coordinator import CHUNK_IDS
from kith.notifications.notice import NoticeDraft, claim_of, notice_from, notice_record

DOCUMENT = (Path(__file__).parents[3] / "docs" / "capacity-of-mentions.md").read_text()


def test_push_pull_and_hybrid_write_what_their_names_say() -> None:
    push, pull, hybrid = mention_costs(MentionDemand(followers=1_000_000, asking_share=0.5))
    assert (push.rows_per_event, pull.rows_per_event, hybrid.rows_per_event) == (500_001, 1, 25_001)
    assert push.chunks_per_event == 1_000_000 / CHUNK_IDS
    assert hybrid.chunks_per_event == 3 * push.chunks_per_event, "each tier walks the followers once"
    assert pull.chunks_per_event == 0
    figures = MentionFigures()
    assert hybrid.bytes_per_event == 25_001 * figures.row_bytes + figures.notice_bytes
    assert push.stored_bytes == push.bytes_per_event * 500 * 86_400 * 90


def test_pull_costs_the_same_for_any_number_of_followers() -> None:
    (_, few, _), (_, many, _) = (mention_costs(MentionDemand(followers=number)) for number in (10, 200_000_000))
    assert few == many


def test_half_the_rates_need_half_the_cores() -> None:
    whole, half = (mention_costs(MentionDemand(mentions_per_s=500 / by, opens_per_s=500_000 / by)) for by in (1, 2))
    for one, other in zip(whole, half, strict=True):
        assert other.write_cores == pytest.approx(one.write_cores / 2)
        assert other.open_cores == pytest.approx(one.open_cores / 2)


@pytest.mark.parametrize("wrong", [{"followers": 0}, {"active_share": 1.1}, {"mentions_per_s": -1.0}, {"kept_days": 0}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadRequest):
        MentionDemand(**wrong)  # type: ignore[arg-type]


def test_the_size_of_a_notice_is_the_sum_of_its_parts() -> None:
    draft, id_ = NoticeDraft("mention", 5 * 10**17, 6 * 10**17, 1_790_000_000_000, 5 * 10**17), 5 * 10**17
    notice, claim = notice_record(notice_from(id_, draft), 1 << 60), claim_of(draft, id_, 1 << 60)  # type: ignore[arg-type]
    rows = len(record_key(notice.kind, id_)) + 8 + len(notice.data) + 17 + 8 + len(claim.value) + 25
    events = len(record_changed(notice)) + len(claim_taken(claim.key, claim.now_ms + claim.keep_ms, claim.value))
    assert rows + events == pytest.approx(MentionFigures().notice_bytes, rel=0.02)


def test_a_verdict_of_right_means_the_articles_figure() -> None:
    printed = [55, 100e6, 5e6, 800e6, 1.67e6, 500e3, 160e9]
    right = [row.value for row in article_003() if row.verdict is ClaimVerdict.RIGHT]
    assert right == [pytest.approx(value, rel=0.025) for value in printed]


@pytest.mark.parametrize(
    ("quantity", "ours"),
    [
        ("90 days of the peak, hybrid", "2.49 EB"),
        ("90 days of the peak, push", "49.8 EB"),
        ("rows a second at the peak, hybrid", "2.5 bn/s"),
        ("workers", "5 M"),
        ("90 days of 50 bn rows a day", "576 TB"),
    ],
)
def test_the_article_is_recomputed(quantity: str, ours: str) -> None:
    (found,) = [row for row in article_003() if row.quantity == quantity]
    assert found.ours == ours


@pytest.mark.parametrize("found", article_003(), ids=lambda found: found.quantity)
def test_the_document_has_each_verdict_row(found: ArticleRow) -> None:
    line = f"| {found.quantity} | {found.article} | {found.ours} | {found.verdict} | {found.why} |\n"
    assert DOCUMENT.count(line) == 1


def test_the_document_shows_exactly_these_costs() -> None:
    costs = mention_costs(MentionDemand())
    for name, field, unit in MENTION_LINES:
        cells = [name, *(in_words(getattr(cost, field), unit) for cost in costs)]
        assert f"| {' | '.join(cells)} |\n" in DOCUMENT
    rows = article_003()
    counts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in ClaimVerdict}
    assert counts == {verdict: DOCUMENT.count(f" | {verdict} | ") for verdict in ClaimVerdict}
    right, wrong, inconsistent, missing = (counts[verdict] for verdict in ClaimVerdict)
    sentence = (
        f"Of {len(rows)} lines {right} are right, {wrong} wrong, {inconsistent} inconsistent and {missing} missing."
    )
    assert sentence in " ".join(DOCUMENT.split())
