"""Posts as JSON, alone or on a page of home. What is the same for every reader is encoded once and cached.

The cache of a process holds, by post id: the JSON before and after the counts, valid for the post, profile and pictures
that it was made from; the counts; and by reader, which posts they like and saved. The log reports changes of each
(`records.read_cache`), so every page is current. For its author a post is always encoded afresh.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from kith.api.presenter import EngagementAnswer, Presenter, RankingAnswer
from kith.core.gathering import gather
from kith.core.ids import NodeId
from kith.core.paging import Mark
from kith.graph.questions import Questions
from kith.home.home import HomePage
from kith.home.rank.candidates import Placed
from kith.home.slate import Slate
from kith.media.library import MediaLibrary
from kith.media.media import Media
from kith.people.profiles import Profile, Profiles
from kith.people.unrestricted import UnrestrictedPeople
from kith.posts.engagement import Engagement, PostCounts
from kith.posts.post import Post
from kith.posts.post_cache import PostCache
from kith.records.cache_tables import CachedResults, CachedValues
from kith.records.store import RecordKind

POSTS_MAX, PROFILES_MAX, MEDIA_MAX, READERS_MAX = 20_000, 20_000, 20_000, 4_000
"""Entries of the caches of a process: 1 KB per post, 0.5 KB per profile or picture, 3 KB per reader."""
PAGES_MAX = 4_000
"""Readers whose last page is cached as JSON, 13 KB each."""
_OWN_MAX = 100
"""For how many posts the cache knows whether a reader likes, saved and shared them. Above that it keeps only the last
page's.
"""
V = TypeVar("V")
_encode = msgspec.json.Encoder().encode
_NO_COUNTS = PostCounts(0, 0, 0, 0, False, False, False)
_NUMBERS = b',"engagement":'
_NO_NUMBERS = _NUMBERS + _encode(EngagementAnswer(*_NO_COUNTS))
_TOTALS = b'{"likeCount":%d,"commentCount":%d,"shareCount":%d,"viewCount":%d,"isLiked":'
_OWN = {
    own: b'%b,"isSaved":%b,"isShared":%b}' % tuple(map(_encode, own))
    for own in itertools.product((False, True), repeat=3)
}


class _EncodedPost(msgspec.Struct, frozen=True, gc=False):
    """The JSON of a post before and after its counts, and what it was made from. `pictures`: those of the post and its
    author; None for one that is deleted.
    """

    post: Post
    profile: Profile
    pictures: tuple[tuple[int, Media | None], ...]
    head: bytes
    rest: bytes


class _LastPage(NamedTuple):
    """The page of posts that a reader was shown last. `ranking`: the ranking data shown with the posts."""

    posts: Sequence[Post]
    ranking: tuple[object, ...]
    encoded: bytes


class PageEncoder:
    """Everything that the posts of one page are shown with, by the id of the author, picture or post."""

    def __init__(self, encoder: PostEncoder, reader: NodeId) -> None:
        self._encoder, self._reader = encoder, reader
        self.profiles: dict[int, Profile] = {}
        self.media: dict[int, Media | None] = {}
        self.totals: dict[int, bytes] = {}
        self.own: dict[int, bytes] = {}
        self.generation: int | None = None  # of the cache, at the first read

    async def read(self, posts: Sequence[Post]) -> None:
        """Read what these posts are shown with, while the service checks which of them may be shown (see
        `posts.Prefetch`).
        """
        if posts:
            await self._encoder.read(self._reader, posts, self)

    async def encoded(self, page: HomePage[Mark] | HomePage[Slate]) -> bytes:
        """The posts of the page, as the JSON of a list of `PostAnswer`."""
        cached = self._encoder.cached_page(self._reader, page)
        if cached is not None:
            return cached
        await self.read([post for post in page.posts if post.id not in self.totals])
        return self._encoder.encoded(self._reader, page, self)


class PostEncoder:
    """Reads what posts are shown with, and encodes them. `immediate`: whether its stores answer without waiting."""

    def __init__(
        self,
        present: Presenter,
        profiles: Profiles,
        media: MediaLibrary,
        engagement: Engagement,
        posts: PostCache,
        unrestricted: UnrestrictedPeople,
    ) -> None:
        self._present, self._profile_store, self._library, self._engagement = present, profiles, media, engagement
        self._posts, self._unrestricted, read_cache = posts, unrestricted, posts.read_cache
        self._read_cache, self.immediate = read_cache, profiles.store.immediate
        self._profiles: CachedValues[Profile] = read_cache.of_records(RecordKind.USER, PROFILES_MAX)
        self._media: CachedValues[Media | None] = read_cache.of_records(RecordKind.MEDIA, MEDIA_MAX)
        self._totals: CachedValues[bytes] = read_cache.of_edges(engagement.counted, POSTS_MAX)
        self._own: CachedValues[dict[int, bytes]] = read_cache.of_edges(engagement.own_graphs, READERS_MAX)
        self._encoded: CachedValues[_EncodedPost] = read_cache.of_records(RecordKind.POST, POSTS_MAX)
        self._pages: CachedResults[_LastPage] = read_cache.cached_results(PAGES_MAX)
        self._count_changes = read_cache.changes(graphs={*engagement.counted, *engagement.own_graphs})
        self._profile_changes, self._media_changes = (
            read_cache.changes([RecordKind.USER]),
            read_cache.changes([RecordKind.MEDIA]),
        )

    async def one(self, reader: NodeId, id_: int) -> bytes:
        """A post as `reader` sees it. PostNotFound if it does not exist or is hidden from them. Only for stores that
        are `immediate`, because it queries them one after another.
        """
        await self._read_cache.refresh()
        posts, details, questions = self._posts.posts, self.of(reader), Questions()
        stored = await self._posts.read([id_])
        is_plain = bool(stored) and await self._is_unrestricted(stored[0], reader)
        visible = None if is_plain else posts.ask_visible(questions, reader, stored)
        own = self._engagement.ask_own(questions, reader, [id_])
        if not all(self._fill_from_cache(post, details) for post in stored):
            await self._read_people(stored, details)
            await self._read_totals([id_], details.totals)
        answers = await posts.graph.store.answer(questions)
        visible_now = stored if visible is None else visible(answers)
        if not visible_now or visible_now[0] is None:
            raise posts.missing(id_)
        (liked,), (saved,), (shared,) = own(answers)
        details.own[id_] = _OWN[liked, saved, shared]
        return b"".join(self._parts(reader, visible_now[0], details, self._encoded.now)) + b"}"

    async def _is_unrestricted(self, post: Post, reader: NodeId) -> bool:
        """Whether no rule can hide the post or anything of it: it is public and unlabelled, its author is unrestricted,
        and no block involves the reader.
        """
        if post.visibility != "public" or post.labels or not await self._unrestricted.are_unrestricted((post.author,)):
            return False
        return await self._unrestricted.is_in_no_block(reader)

    def _fill_from_cache(self, post: Post, into: PageEncoder) -> bool:
        """Take what the post is shown with from the cache; false if something is missing. Posts with pictures are never
        taken.
        """
        profile, totals = self._profiles.now.get(post.author), self._totals.now.get(post.id)
        if profile is None or totals is None or _pictures_of(post, profile):
            return False
        into.profiles[post.author], into.totals[post.id] = profile, totals
        return True

    def of(self, reader: NodeId) -> PageEncoder:
        """An empty `PageEncoder`, for one page of this reader."""
        return PageEncoder(self, reader)

    async def read(self, reader: NodeId, posts: Sequence[Post], into: PageEncoder) -> None:
        """Read what posts are shown with, into the encoder of their page."""
        if into.generation is None:
            into.generation = self._read_cache.generation
        ids = [post.id for post in posts]
        await gather(
            self.immediate,
            self._read_people(posts, into),
            self._read_totals(ids, into.totals),
            self._read_own(reader, ids, into.own),
        )

    async def _read_people(self, posts: Sequence[Post], into: PageEncoder) -> None:
        """The profiles of the posts' authors, and the pictures of both."""
        generation = self._read_cache.generation
        if missing := _copy_cached(self._profiles.now, {post.author for post in posts}, into.profiles):
            profiles = dict(zip(missing, await self._profile_store.get_many(missing), strict=True))
            into.profiles.update(profiles)
            self._profiles.keep(generation, profiles)
        pictures = {id_ for post in posts for id_ in _pictures_of(post, into.profiles[post.author])}
        cached, generation = self._media.now, self._read_cache.generation
        into.media.update((id_, cached[id_]) for id_ in pictures if id_ in cached)
        unknown = [id_ for id_ in pictures if id_ not in into.media]
        if unknown:
            stored = await self._library.get_many(unknown)
            media = {id_: stored.get(id_) for id_ in unknown}
            into.media.update(media)
            self._media.keep(generation, media)

    async def _read_totals(self, ids: Sequence[int], into: dict[int, bytes]) -> None:
        generation = self._read_cache.generation
        if missing := _copy_cached(self._totals.now, ids, into):
            totals = await self._engagement.totals(missing)
            encoded = {id_: _TOTALS % numbers for id_, numbers in zip(missing, totals, strict=True)}
            into.update(encoded)
            self._totals.keep(generation, encoded)

    async def _read_own(self, reader: NodeId, ids: Sequence[int], into: dict[int, bytes]) -> None:
        cached, generation = self._own.now.get(reader, {}), self._read_cache.generation
        if missing := _copy_cached(cached, ids, into):
            encoded = {
                id_: _OWN[own] for id_, own in zip(missing, await self._engagement.own(reader, missing), strict=True)
            }
            into.update(encoded)
            self._own.keep(
                generation, {reader: {**cached, **encoded} if len(cached) + len(encoded) <= _OWN_MAX else encoded}
            )

    def cached_page(self, reader: NodeId, page: HomePage[Mark] | HomePage[Slate]) -> bytes | None:
        """The JSON of the page, if it equals the page that the reader was shown last and nothing of it changed; else
        None.
        """
        cached = self._pages.get(reader)
        if cached is None or cached.posts != page.posts or cached.ranking != _ranking_data(page):
            return None
        return cached.encoded

    def encoded(self, reader: NodeId, page: HomePage[Mark] | HomePage[Slate], details: PageEncoder) -> bytes:
        """The posts of a page as the JSON of a list; cached for the reader's next request."""
        encoded = self._encode_all(reader, page, details)
        self._pages.keep(
            details.generation or 0,
            reader,
            _LastPage(page.posts, _ranking_data(page), encoded),
            (self._count_changes, details.totals.keys()),
            (self._profile_changes, details.profiles.keys()),
            (self._media_changes, details.media.keys()),
        )
        return encoded

    def _encode_all(self, reader: NodeId, page: HomePage[Mark] | HomePage[Slate], details: PageEncoder) -> bytes:
        placed, seen, copies = page.placed, page.seen, page.copies
        parts, rankings, encoded = list[bytes](), _rankings(placed), self._encoded.now
        for post in page.posts:
            id_ = post.id
            parts += self._parts(reader, post, details, encoded)
            if id_ in rankings:
                parts.append(rankings[id_])
            if id_ in seen:
                parts.append(b',"seen":true')
            if id_ in copies:
                parts.append(b',"copies":' + _encode(list(map(str, copies[id_]))))
            parts.append(b"},")
        return b"[%b]" % b"".join(parts)[:-1]

    def _parts(
        self, reader: NodeId, post: Post, details: PageEncoder, encoded: Mapping[int, _EncodedPost]
    ) -> tuple[bytes, bytes, bytes, bytes]:
        """A post as JSON, without its end. `encoded`: the cached posts."""
        cached = encoded.get(post.id)
        if cached is None or cached.post is not post or post.author == reader or not _is_current(cached, details):
            cached = self._encode(reader, post, details)
        return cached.head, details.totals[post.id], details.own[post.id], cached.rest

    def _encode(self, reader: NodeId, post: Post, details: PageEncoder) -> _EncodedPost:
        """A post as `reader` sees it; cached, unless it is their own."""
        profile = details.profiles[post.author]
        pictures = tuple((id_, details.media[id_]) for id_ in _pictures_of(post, profile))
        existing = {id_: media for id_, media in pictures if media is not None}
        raw = _encode(self._present.post_answer(reader, post, _NO_COUNTS, profile, existing))
        head, _, rest = raw.partition(_NO_NUMBERS)  # it occurs only once: quotes within texts are escaped
        post_json = _EncodedPost(post, profile, pictures, head + _NUMBERS, rest[:-1])
        if reader != post.author:
            self._encoded.keep(self._read_cache.generation, {post.id: post_json})
        return post_json


def _copy_cached(cached: Mapping[int, V], ids: Collection[int], into: dict[int, V]) -> list[int]:
    """Copy the cached values of these ids to `into`; returns the ids that are not cached."""
    into.update({id_: cached[id_] for id_ in ids if id_ in cached})
    return [id_ for id_ in ids if id_ not in cached]


def _ranking_data(page: HomePage[Mark] | HomePage[Slate]) -> tuple[object, ...]:
    """The ranking data that a page shows beside its posts."""
    return page.placed, page.seen, page.copies


def _is_current(cached: _EncodedPost, details: PageEncoder) -> bool:
    """Whether a cached post was encoded with the current profile and pictures."""
    if cached.profile is not details.profiles[cached.post.author]:
        return False
    return not cached.pictures or all(details.media[id_] is picture for id_, picture in cached.pictures)


def _rankings(placed: Mapping[int, Placed]) -> dict[int, bytes]:
    """By post, its ranking as JSON. All are encoded together, in a third of the time, and split at `},{`, which cannot
    occur within: reasons are fixed words.
    """
    if not placed:
        return {}
    encoded = _encode([RankingAnswer(round(score, 4), reason) for score, reason in placed.values()])
    return {id_: b',"ranking":{%b}' % ranking for id_, ranking in zip(placed, encoded[2:-2].split(b"},{"), strict=True)}


def _pictures_of(post: Post, profile: Profile) -> Collection[int]:
    """The ids of the media of a post and of its author's avatar."""
    if profile.avatar is None:
        return post.media
    return (*post.media, profile.avatar)
