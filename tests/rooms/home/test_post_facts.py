"""The cache of facts decides nothing: whatever it holds or evicts, it answers as a dictionary would."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cast import ALICE, BOB, CAROL, DANA, FakeClock
from coroutines import Run
from home_scene import HomeScene, open_home
from hypothesis import given
from hypothesis import strategies as st
from store_types import EngineStores

from kith.core.ids import ID_MAX
from kith.core.labels import LIMIT
from kith.graph.graphs import LIKES, SAVES, SHARES
from kith.home.rank import facts as facts_module
from kith.home.rank.facts import (
    COPIED_CHARS_MIN,
    FACTS_RELOAD_MS,
    FACTS_STALE_MS,
    WAYS,
    PostFacts,
    copy_key,
    file_print,
)
from kith.home.rank.features import TYPES, Facts
from kith.media.media import Media
from kith.posts.labels import Moderation
from kith.posts.post import Post, PostEdit, read_post
from kith.records.read_cache import ReadCache
from kith.records.store import RecordKind


@pytest.fixture
def home(run: Run, whole: EngineStores, clock: FakeClock) -> HomeScene:
    return run(open_home(whole, clock))


def of(run: Run, facts: PostFacts, ids: list[int]) -> Facts:
    found: Facts = run(facts.of(np.array(ids, np.int64)))
    assert {len(column) for column in found} == {len(found.ids)}
    return found


def small(home: HomeScene, bits: int = 1) -> PostFacts:
    """A cache with so few places that nearly every read evicts."""
    return PostFacts(home.posts.store, home.graph, ReadCache(home.graph.store, home.log), home.clock, bits=bits)


@pytest.mark.parametrize("bits", [1, 2, 4, 10], ids="{} bits".format)
def test_a_cache_of_any_size_answers_as_a_dictionary_would(run: Run, home: HomeScene, bits: int) -> None:
    chosen = random.Random(bits)
    authors = [ALICE, BOB, CAROL, DANA]
    links = [None, "https://example.com/a"]
    posts = [run(home.post(chosen.choice(authors), link=links[at % 2])) for at in range(60)]
    known = {post.id: post for post in posts}
    facts = small(home, bits)
    for _ in range(80):
        home.clock.ms += chosen.choice((0, 10, FACTS_STALE_MS, FACTS_STALE_MS + 1, -FACTS_STALE_MS))
        asked = chosen.sample([*known, 5, 2**63 - 1, 0], chosen.randrange(40))
        found = of(run, facts, asked)
        expected = [known[id_] for id_ in asked if id_ in known]
        assert found.ids.tolist() == [post.id for post in expected]
        assert found.authors.tolist() == [post.author for post in expected]
        assert [TYPES[number] for number in found.types] == [post.type for post in expected]
        assert found.made_ms.tolist() == [post.created_at for post in expected]
        assert found.copy_keys.tolist() == [copy_key(post) for post in expected]


def test_more_posts_of_one_call_than_their_set_holds_are_all_answered(run: Run, home: HomeScene) -> None:
    posts = [run(home.post(BOB)).id for _ in range(10 * WAYS)]
    facts = small(home, 1)  # two sets
    for _ in range(3):
        assert of(run, facts, posts).ids.tolist() == posts


def test_a_call_that_is_overtaken_by_others_loses_nothing(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, others = ([run(home.post(BOB)).id for _ in range(8)] for _ in range(2))
    facts = small(home, 1)
    of(run, facts, mine[:4])
    get_many = home.posts.store.get_many

    async def overtaken(*args: object) -> object:
        monkeypatch.setattr(home.posts.store, "get_many", get_many)
        await facts.of(np.array(others, np.int64))  # while the first read waits, other reads take all places
        return await get_many(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(home.posts.store, "get_many", overtaken)
    assert of(run, facts, mine).ids.tolist() == mine


def test_engagement_is_at_most_half_a_minute_old(run: Run, home: HomeScene) -> None:
    post = run(home.post(BOB))
    assert of(run, home.facts, [post.id]).engagement.tolist() == [0]
    for graph in (LIKES, SHARES, SAVES):
        run(home.engagement.add(graph, ALICE, post.id))
    run(home.comments.create(CAROL, post.id, "well"))
    assert of(run, home.facts, [post.id]).engagement.tolist() == [0]
    home.clock.ms += FACTS_STALE_MS + 1
    assert of(run, home.facts, [post.id]).engagement.tolist() == [1 + 3 + 2 + 3]
    run(home.engagement.drop(LIKES, ALICE, post.id))
    home.clock.ms -= 3 * FACTS_STALE_MS  # a clock that was put back caches nothing for longer
    assert of(run, home.facts, [post.id]).engagement.tolist() == [8]


def test_a_deleted_post_vanishes_once_its_facts_are_read_again(run: Run, home: HomeScene) -> None:
    first, second = run(home.post(BOB)), run(home.post(BOB))
    of(run, home.facts, [first.id, second.id])
    run(home.posts.delete(BOB, first.id))
    home.clock.ms += FACTS_STALE_MS + 1
    for _ in range(2):
        assert of(run, home.facts, [first.id, second.id]).ids.tolist() == [second.id]
    kept, authors = run(home.facts.with_authors(np.array([second.id, first.id]), [first.id, second.id, 7]))
    assert (kept.ids.tolist(), authors) == ([second.id], {second.id: BOB})


def test_a_changed_post_is_decoded_again_and_an_unchanged_one_is_not(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited, labelled, same = (run(home.post(BOB)) for _ in range(3))
    before = of(run, home.facts, [edited.id, labelled.id, same.id])
    assert not before.limited.any()
    link = "https://example.com/new"
    run(home.posts.edit(BOB, edited.id, PostEdit(link=link)))
    run(Moderation(home.posts).set("post", labelled.id, LIMIT))
    home.clock.ms += FACTS_STALE_MS + 1
    looked_into: list[int] = []
    monkeypatch.setattr(facts_module, "read_post", lambda record: looked_into.append(record.id) or read_post(record))
    after = of(run, home.facts, [edited.id, labelled.id, same.id])
    assert looked_into == [edited.id, labelled.id]
    assert [TYPES[number] for number in after.types] == ["link", "text", "text"]
    assert after.limited.tolist() == [False, True, False]
    assert (after.copy_keys == before.copy_keys).tolist() == [False, True, True]
    run(Moderation(home.posts).set("user", BOB, LIMIT))
    home.clock.ms += FACTS_STALE_MS + 1
    assert of(run, home.facts, [edited.id, labelled.id, same.id]).limited.all()
    run(Moderation(home.posts).set("user", BOB, 0))
    home.clock.ms += FACTS_STALE_MS + 1
    assert of(run, home.facts, [edited.id, labelled.id, same.id]).limited.tolist() == [False, True, False]
    assert looked_into == [edited.id, labelled.id]


def test_facts_half_as_old_are_reloaded_together_with_expired_ones(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, younger, young = ([run(home.post(BOB)).id for _ in range(3)] for _ in range(3))
    for posts, later_ms in ((old, FACTS_STALE_MS - FACTS_RELOAD_MS), (younger, FACTS_RELOAD_MS), (young, 1)):
        of(run, home.facts, posts)
        home.clock.ms += later_ms
    home.clock.ms += 1
    asked: list[int] = []
    get_many = home.posts.store.get_many

    async def noting(kind: object, ids: list[int]) -> object:
        asked.extend(ids)
        return await get_many(kind, ids)

    monkeypatch.setattr(home.posts.store, "get_many", noting)
    of(run, home.facts, younger + young)
    assert asked == []
    of(run, home.facts, young + younger + old)
    assert asked == younger + old


def test_facts_without_a_change_in_the_log_are_not_reloaded(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_cache, asked = ReadCache(home.graph.store, home.log), list[int]()
    facts = PostFacts(home.posts.store, home.graph, read_cache, home.clock, bits=8)
    get_many = home.posts.store.get_many

    async def noting(kind: object, ids: list[int]) -> object:
        asked.extend(ids)
        return await get_many(kind, ids)

    def read_now(later_ms: int) -> list[int]:
        """The ids that a request reads from the store, `later_ms` after the last one."""
        home.clock.ms += later_ms
        asked.clear()
        run(read_cache.refresh())
        of(run, facts, ids)
        return asked

    posts = [run(home.post(author)) for author in (BOB, BOB, CAROL)]
    ids = [post.id for post in posts]
    monkeypatch.setattr(home.posts.store, "get_many", noting)
    read_now(0)
    if not read_cache.generation:
        pytest.skip("this engine's log does not tell all that is so by now")
    assert read_now(FACTS_STALE_MS + 1) == ids, "they were read in the millisecond in which the log was first read"
    assert read_now(FACTS_STALE_MS + 1) == [], "nothing happened to them"
    run(home.engagement.add(LIKES, ALICE, ids[1]))
    run(home.posts.edit(CAROL, ids[2], PostEdit(text="edited")))
    assert read_now(FACTS_STALE_MS + 1) == ids[1:]
    assert read_now(FACTS_STALE_MS + 1) == []
    run(Moderation(home.posts).set("user", BOB, LIMIT))
    assert read_now(FACTS_STALE_MS + 1) == ids, "which posts belong to an account is not known here"
    assert of(run, facts, ids).limited.tolist() == [True, True, False]
    read_now(FACTS_STALE_MS + 1)
    run(home.posts.delete(CAROL, ids[2]))
    assert read_now(FACTS_STALE_MS + 1) == ids[2:]
    assert of(run, facts, ids).ids.tolist() == ids[:2]
    home.clock.ms -= 2 * FACTS_STALE_MS
    assert read_now(0) == ids, "a clock that was put back caches nothing for longer"


def test_a_change_that_is_logged_while_facts_are_read_is_not_lost(
    run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Possible across a network: another request refreshes the cache while this one waits for its older answer."""
    post, other = (run(home.post(BOB)).id for _ in range(2))
    read_cache = ReadCache(home.graph.store, home.log)
    facts = PostFacts(home.posts.store, home.graph, read_cache, home.clock)
    run(read_cache.refresh())
    of(run, facts, [other])
    home.clock.ms += 1
    get_many = home.posts.store.get_many

    async def slow(*args: object) -> object:
        monkeypatch.setattr(home.posts.store, "get_many", get_many)
        found = await get_many(*args)  # type: ignore[arg-type]
        await Moderation(home.posts).set("post", post, LIMIT)
        await read_cache.refresh()
        await facts.of(np.array([other], np.int64))
        return found

    monkeypatch.setattr(home.posts.store, "get_many", slow)
    assert of(run, facts, [post]).limited.tolist() == [False]
    home.clock.ms += FACTS_STALE_MS + 1
    run(read_cache.refresh())
    assert of(run, facts, [post]).limited.tolist() == [True]


def test_cached_facts_need_no_read_of_the_store(run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    posts = [run(home.post(BOB)).id for _ in range(20)]
    of(run, home.facts, posts)
    monkeypatch.setattr(home.posts.store, "get_many", None)
    home.clock.ms += FACTS_STALE_MS
    assert of(run, home.facts, posts[::-1]).ids.tolist() == posts[::-1]
    assert of(run, home.facts, []).ids.tolist() == []


def test_the_newest_posts_are_read_ahead_in_batches(run: Run, home: HomeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    posts = [run(home.post(BOB)).id for _ in range(7)]
    if not run(home.posts.store.newest(RecordKind.POST, ID_MAX, 1)):
        pytest.skip("this engine does not know which are the newest")
    monkeypatch.setattr(facts_module, "READ_AHEAD_MAX", 6)
    monkeypatch.setattr(facts_module, "READ_AHEAD_BATCH", 2)
    monkeypatch.setattr(facts_module, "READ_AHEAD_PAUSE_S", 0)
    run(home.facts.read_ahead())
    with monkeypatch.context() as patch:
        patch.setattr(home.posts.store, "get_many", None)
        assert of(run, home.facts, posts[1:]).ids.tolist() == posts[1:]
    run(home.posts.delete(BOB, posts[6]))
    home.clock.ms += FACTS_STALE_MS + 1
    assert of(run, home.facts, posts).ids.tolist() == posts[:6]


# --- copies ------------------------------------------------------------------------------------------------

LONG = "Hello, World! " * 6


def shown(text: str = "", link: str | None = None, media: tuple[int, ...] = (), by: int = BOB, id_: int = 1) -> int:
    kind = "image" if media else "link" if link else "text"
    prints = {4: b"4", 5: b"5", 14: b"4"}
    return copy_key(Post(id_, by, 0, kind, text, link, media, "public", (), (), b"{}"), prints)  # type: ignore[arg-type]


def test_same_files_bare_links_and_long_texts_are_copies_whoever_posts_them() -> None:
    assert shown(link="https://example.com/a/") == shown(link="https://example.com/a", by=CAROL, id_=9)
    assert shown(media=(4, 5)) == shown(media=(14, 5), by=CAROL)
    assert shown(LONG) == shown(LONG.upper().replace(" ", "\n"), by=CAROL)
    assert shown(LONG, "https://example.com/a") == shown(LONG, "https://example.com/a", by=CAROL)


def test_short_texts_are_copies_only_by_the_same_author() -> None:
    for content in ({}, {"link": "https://example.com/a"}, {"media": (4,)}):
        assert shown("Well  done", **content) == shown("well done", **content, id_=9)  # type: ignore[arg-type]
        assert shown("well done", **content) != shown("well done", **content, by=CAROL)  # type: ignore[arg-type]
    edge = "x" * (COPIED_CHARS_MIN - 1)
    assert shown(edge) != shown(edge, by=CAROL)
    assert shown(f"{edge}x") == shown(f"{edge}x", by=CAROL)


def test_different_posts_have_different_copy_keys() -> None:
    different = [
        shown("hello world"), shown("helloworld"), shown("hello worlds"), shown("!!!"), shown("???"), shown("🦊"),
        shown("+1"), shown("-1"), shown("1"), shown("Ⓐ"), shown(by=CAROL), shown(),
        shown("https://example.com"), shown(link="https://example.com"), shown(link="https://example.com?x"),
        shown("look", link="https://example.com"), shown("see", link="https://example.com"),
        shown("text4", media=(4,)), shown(media=(4,)), shown(media=(4, 5)), shown(media=(5, 4)), shown("4"),
        shown(media=(4,), link="https://example.com"), shown(LONG), shown(LONG, media=(4,)), shown(f"{LONG}?"),
    ]  # fmt: skip
    assert len(set(different)) == len(different)


@given(st.text(max_size=100))
def test_any_text_has_a_copy_key_of_64_bits_whatever_its_case(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    assert -(2**63) <= shown(text) < 2**63
    assert shown(text) == shown(text.casefold())


def test_the_same_picture_is_known_whoever_uploads_it_and_one_without_a_fingerprint_equals_only_itself() -> None:
    def media(id_: int, fingerprint: int = 77, size: int = 9_000) -> Media:
        return Media(id_, 1, 0, "png", 120, 80, size, fingerprint, b"")

    def shown(*posted: Media) -> int:
        ids, prints = tuple(one.id for one in posted), {one.id: file_print(one) for one in posted}
        return copy_key(Post(1, ALICE, 0, "image", "", None, ids, "public", (), (), b"{}"), prints)

    assert shown(media(10)) == shown(media(11))
    assert shown(media(10)) != shown(media(11, size=9_001)), "a different picture that looks alike, as memes do"
    assert shown(media(12, fingerprint=0)) != shown(media(13, fingerprint=0))
    assert shown(media(10), media(12, fingerprint=0)) != shown(media(10))
