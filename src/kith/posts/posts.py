"""Creates, edits and deletes posts. Every read of a post goes through here, so each viewer sees only what they may.

A post, its place in the author's outbox (an edge of the graph `authored`) and its places in the lists of the users it
mentions (`mentioned`) are one write. On an engine without transactions the record is written first, and the edge then
makes it visible. An edit writes the edge again at its old place, so that the log has an event of it. A change replaces
only the version that it was made from, so an edit never restores a post that was deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from kith.core.clock import Hlc, ms_of
from kith.core.errors import Forbidden, InvalidContent, NotFound, PostNotFound
from kith.core.gathering import gather
from kith.core.ids import NodeId, Snowflakes, made_at_ms
from kith.core.paging import Mark, Page, Window
from kith.core.tokens import WriteMark
from kith.graph.edge import Direction, Edge, EdgeWrite, Outcome, State
from kith.graph.graph import Graph
from kith.graph.graphs import AUTHORED, MENTIONED
from kith.graph.questions import Answers, Questions
from kith.graph.shapes import Listing
from kith.graph.walk import walk
from kith.media.media import MediaType, owned
from kith.people.accounts import ask_active, check_active, is_removed
from kith.people.privacy import SYSTEM, Privacy, Standing, System, Viewer
from kith.posts.mentions import MentionLists, mentioned_users
from kith.posts.post import (
    MEDIA_MAX,
    Draft,
    Post,
    PostEdit,
    canonical_draft,
    check_draft,
    edited,
    emptied,
    post_from,
    post_record,
    read_post,
    with_labels,
)
from kith.posts.visibility import may_see, visible_posts
from kith.records.claims import claim_of, first_of
from kith.records.rewriting import NOTHING_TO_DO, next_version, rewrite, with_newer_fields
from kith.records.store import AtVersion, Claim, Put, Record, RecordKind, RecordStore

POSTS_SCANNED_MAX = 5_000
"""Posts that a page of an outbox may look at to find those that its viewer may see; about 5 us each."""

Prefetch: TypeAlias = Callable[[Sequence[Post]], Coroutine[Any, Any, object]]
"""Reads what posts are shown with (such as authors and media) while their visibility is checked. For posts that turn
out to be hidden it reads in vain.
"""


async def no_prefetch(_: Sequence[Post]) -> None:
    """A Prefetch that reads nothing."""


class PostKind(NamedTuple):
    """A kind of posts: its records, the graph of its authors' lists, its noun in messages, its error.

    `mentions`: the graph that lists the posts that mention a user; None: there is none. `is_expired`: whether the post
    with this id has expired, so that a repeated key does not write it again.
    """

    record_kind: RecordKind = RecordKind.POST
    graph: str = AUTHORED
    noun: str = "post"
    missing: type[NotFound] = PostNotFound
    mentions: str | None = MENTIONED
    is_expired: Callable[[int], bool] = lambda _: False


class PostWritten(NamedTuple):
    """A post after a write, and the place of the write for read-your-writes."""

    post: Post
    mark: WriteMark


class Posts:
    """Writes posts, and reads those that a viewer may see. `kind`: the kind of posts; it sees no other kinds."""

    def __init__(self, store: RecordStore, graph: Graph, snowflakes: Snowflakes, kind: PostKind | None = None) -> None:
        self.store, self.graph, self.snowflakes = store, graph, snowflakes
        self._kind, self._privacy = kind or PostKind(), Privacy(graph)
        self._authored = graph.graphs.number(self._kind.graph)
        self._mentions = MentionLists(graph, self._kind.mentions)

    # --- writing ---------------------------------------------------------------------------------------

    async def create(self, actor: NodeId, draft: Draft, key: str | None = None) -> PostWritten:
        """Create a post of `actor`. With a `key`, a repetition within 24 h returns the same post, in its current state.

        Errors: InvalidContent; Forbidden if the actor is deactivated; IdempotencyKeyReused if the key came with another
        draft; the `missing` of the kind if a repeated key's post was deleted.
        """
        id_, version = self.snowflakes.next(), self.graph.clock.next()
        claim = None
        if key is not None:
            claim = claim_of(self._kind.noun, actor, key, canonical_draft(draft), id_, version)
        types, _, users = await gather(
            self.store.immediate,
            self._types_of(actor, draft, claim),
            check_active(self.graph.store, actor),
            mentioned_users(self.store, self._privacy, actor, draft.text),
        )
        new = msgspec.structs.replace(post_from(id_, actor, made_at_ms(id_), check_draft(draft, types)), named=users)
        record = self._record(new, version)
        put = await self.store.put([record], self._listing(record, version), claim=claim)
        again = put.claimed is not None
        if claim is not None and put.claimed is not None:
            id_, version = first_of(put.claimed, claim)
            new = msgspec.structs.replace(new, id=id_, created_at=made_at_ms(id_))
            (stored,) = await self.store.get_many(self._kind.record_kind, [id_])
            record = stored or self._record(new, version)
            if read_post(record).deleted or self._kind.is_expired(id_):
                raise self.missing(id_)
            # completes a first try that stopped half way, such as on a cluster whose store was moved here since
            put = await self.store.put([record], self._listing(record, version))
        post = read_post(record)
        empty, later = emptied(post), Hlc(record.updated_at + 1)
        removing = [self._remove_write(actor, id_), *self._mentions.writes(post, empty, later)]
        await self.raise_if_inactive(actor, put, [self._record(empty, later)], removing, again=again)
        return PostWritten(post, put.mark)

    async def edit(self, actor: NodeId, id_: NodeId, change: PostEdit) -> PostWritten:
        """Change a post. Errors: PostNotFound; Forbidden for all but its author; InvalidContent."""
        now_ms = ms_of(self.graph.clock.next())
        types = [] if change.media is UNSET else await self._media_types(actor, change.media)
        users = None if change.text is UNSET else await mentioned_users(self.store, self._privacy, actor, change.text)

        def changed(post: Post) -> Post:
            new = edited(post, change, now_ms, types)
            return new if users is None or new.text == post.text else msgspec.structs.replace(new, named=users)

        return await self._rewrite(actor, id_, changed, self._edge_rewrite)

    async def delete(self, actor: NodeId, id_: NodeId) -> WriteMark:
        """Empty a post for good and remove it from the outbox. Errors: PostNotFound; Forbidden as in `edit`."""
        try:
            return (await self._rewrite(actor, id_, emptied, self._remove_write)).mark
        except NotFound:
            (post,) = await self.read([id_])
            if post is not None and post.deleted and not self.store.transactional:
                # an earlier try may have stopped before it wrote the edge
                await self.graph.write([self._remove_write(NodeId(post.author), id_)])
            raise

    async def label(self, id_: NodeId, labels: int, note: Callable[[Hlc], Record]) -> WriteMark:
        """Set the app's labels on a post, with a `note` that says why. The log has it as an edit. PostNotFound."""
        replaced = partial(msgspec.structs.replace, labels=labels)
        return (await self._rewrite(SYSTEM, id_, replaced, self._edge_rewrite, note)).mark

    async def erase(self, listing: Listing, ids: Sequence[int]) -> None:
        """Empty posts of a removed author. May be repeated.

        `listing`: the list that is being removed. Only an outbox of this kind of posts has an effect here.
        """
        if (listing.graph, listing.direction) != (self._authored, Direction.OUT):
            return

        async def empty_remaining() -> tuple[Put, None]:
            records = await self.store.get_many(self._kind.record_kind, ids)
            stored = [(record, read_post(record)) for record in records if record is not None]
            remaining = [(record, post) for record, post in stored if post.author == listing.node and not post.deleted]
            unchanged = [AtVersion(self._kind.record_kind, record.id, record.updated_at) for record, _ in remaining]
            empty, edges = list[Record](), list[EdgeWrite]()
            for record, post in remaining:
                empty_post, version = emptied(post), next_version(self.graph.clock, record)
                empty.append(self._record(empty_post, version))
                edges += self._mentions.writes(post, empty_post, version)
            return (await self.store.put(empty, edges, only_if=unchanged) if remaining else NOTHING_TO_DO), None

        await rewrite(f"a {self._kind.noun} of this account", listing.node, empty_remaining)

    async def raise_if_inactive(
        self, actor: NodeId, put: Put, empty: Sequence[Record], edges: Sequence[EdgeWrite], *, again: bool
    ) -> None:
        """Forbidden if the actor was deactivated or removed before `put` wrote a new post or comment of theirs.

        On an engine without transactions this looks for a removal after the write, too, and undoes the write with
        `empty` and `edges`. What was written before a removal is emptied by the removal's job (`erase`). `again`: `put`
        repeats a write that may have been acknowledged, so it stays if the actor is only deactivated.
        """
        refused = put.refusal is Outcome.INACTIVE
        if not self.store.transactional and ((refused and not again) or await is_removed(self.graph.store, actor)):
            await self.store.put(empty, edges)
            refused = True
        if refused:
            await check_active(self.graph.store, actor)
            raise Forbidden("your account was deactivated meanwhile; try again", id=str(actor))

    async def _types_of(self, actor: NodeId, draft: Draft, claim: Claim | None) -> Sequence[MediaType]:
        """The types of a draft's media. For a repeated key the media are not read, as they may be deleted by now."""
        claimed = (await self.store.claimed([claim]))[0] if claim is not None and draft.media else None
        if claim is not None and claimed is not None:
            first_of(claimed, claim)
            return ["video" if draft.type == "video" else "image"]
        return await self._media_types(actor, draft.media)

    async def _media_types(self, actor: NodeId, ids: Sequence[int]) -> list[MediaType]:
        """The types of these media; InvalidContent if there are too many, or `actor` did not upload one."""
        if len(ids) > MEDIA_MAX:
            raise InvalidContent(f"mediaIds takes at most {MEDIA_MAX} ids", field="mediaIds", max=MEDIA_MAX)
        records = await self.store.get_many(RecordKind.MEDIA, ids) if ids else []
        return [media.type for media in owned(actor, ids, records, "mediaIds")]

    async def author_of(self, id_: int) -> int | None:
        """The author of a post, or None if there never was such a post. Visibility is not checked."""
        (record,) = await self.store.get_many(self._kind.record_kind, [id_])
        return None if record is None else read_post(record).author

    # --- reading ---------------------------------------------------------------------------------------

    async def visible(self, viewer: Viewer, ids: Sequence[int], *, deleted_too: bool = False) -> list[Post | None]:
        """The post of each id, or None if `viewer` must not see it.

        `deleted_too`: treat deleted posts as if they were not. Costs one batch of records and one of the graph for any
        number of ids.
        """
        questions, posts = Questions(), await self.read(ids)
        if deleted_too:
            posts = [None if post is None else msgspec.structs.replace(post, deleted=False) for post in posts]
        visible = self.ask_visible(questions, viewer, posts)
        return visible(await self.graph.store.answer(questions))

    async def read(self, ids: Sequence[int]) -> list[Post | None]:
        """The post of each id as stored, or None if there never was one. Visibility is not checked."""
        records = await self.store.get_many(self._kind.record_kind, ids)
        return [None if record is None else read_post(record) for record in records]

    def ask_visible(
        self, questions: Questions, viewer: Viewer, posts: Sequence[Post | None]
    ) -> Callable[[Answers], list[Post | None]]:
        """Ask which of these posts `viewer` may see. The answer: these, with their authors' labels; None for others."""
        standings = self.ask_standings(questions, viewer, posts)
        return lambda answers: visible_posts(posts, viewer, standings(answers))

    def ask_standings(
        self, questions: Questions, viewer: Viewer, posts: Sequence[Post | None]
    ) -> Callable[[Answers], Mapping[int, Standing]]:
        """Ask the standings of the authors of these posts to `viewer`, as far as `visible_posts` needs them."""
        alive = [post for post in posts if post is not None and not post.deleted]
        friends = {post.author for post in alive if post.visibility == "friends"}
        return self._privacy.ask_standings(questions, viewer, [post.author for post in alive], friends)

    async def get(self, viewer: Viewer, id_: int) -> Post:
        """One post; PostNotFound if `viewer` must not see it."""
        (post,) = await self.visible(viewer, [id_])
        if post is None:
            raise self.missing(id_)
        return post

    async def visible_to(
        self, id_: int, viewers: Sequence[int], *, deleted_too: bool = False
    ) -> tuple[Post | None, list[bool]]:
        """One post, and whether each of many viewers may see it; see `ask_visible_to`.

        Costs one record and one batch of the graph for any number of viewers.
        """
        (post,) = await self.read([id_])
        if post is None:
            return None, [False] * len(viewers)
        questions = Questions()
        visible = self.ask_visible_to(questions, post, viewers, deleted_too=deleted_too)
        return visible(await self.graph.store.answer(questions))

    def ask_visible_to(
        self, questions: Questions, post: Post, viewers: Sequence[int], *, deleted_too: bool = False
    ) -> Callable[[Answers], tuple[Post, list[bool]]]:
        """Ask which of many viewers may see a post. The answer: the post with its author's labels, and a flag for each.

        `deleted_too`: treat a deleted post as if it were not.
        """
        checked = msgspec.structs.replace(post, deleted=False) if deleted_too else post
        with_follow_back = post.visibility == "friends"
        standings = self._privacy.ask_standing_to(questions, post.author, viewers, with_follow_back=with_follow_back)

        def seen(answers: Answers) -> tuple[Post, list[bool]]:
            authors = standings(answers)
            allowed = [may_see(checked, NodeId(user), author) for user, author in zip(viewers, authors, strict=True)]
            return with_labels(post, authors[0].labels) if authors else post, allowed

        return seen

    async def outbox(
        self, viewer: Viewer, author: NodeId, window: Window, prefetch: Prefetch = no_prefetch
    ) -> tuple[list[Post], Page]:
        """The posts of `author` that `viewer` may see, newest first, and their page, as `listed`."""
        return await self.listed(viewer, Listing(self._authored, author, Direction.OUT), window, prefetch)

    async def mentioning(
        self, viewer: Viewer, user: NodeId, window: Window, prefetch: Prefetch = no_prefetch
    ) -> tuple[list[Post], Page]:
        """The posts that mention `user` and that `viewer` may see, newest first, and their page, as `listed`."""
        listing = Listing(self.graph.graphs.number(MENTIONED), user, Direction.OUT)
        return await self.listed(viewer, listing, window, prefetch)

    async def listed(
        self, viewer: Viewer, listing: Listing, window: Window, prefetch: Prefetch = no_prefetch
    ) -> tuple[list[Post], Page]:
        """The posts of a list that `viewer` may see, newest first, and their page, as if the list had no others.

        A page that is not full after POSTS_SCANNED_MAX posts is short and says that there is more. `prefetch` is called
        with as many posts as the page still lacks, before it is known whether the viewer may see them.
        """
        visible_by_id: dict[int, Post] = {}

        async def are_shown(marks: Sequence[Mark]) -> list[bool]:
            stored, questions = await self.read([mark.id for mark in marks]), Questions()
            visible = self.ask_visible(questions, viewer, stored)
            existing = [post for post in stored if post is not None and not post.deleted]
            answers, _ = await gather(
                self.store.immediate,
                self.graph.store.answer(questions),
                prefetch(existing[: window.limit - len(visible_by_id)]),
            )
            posts = visible(answers)
            visible_by_id.update((post.id, post) for post in posts if post is not None)
            return [post is not None for post in posts]

        page = await walk(
            self.graph.store, listing, window, are_shown, entries_max=POSTS_SCANNED_MAX, first=window.limit + 1
        )
        return [visible_by_id[mark.id] for mark in page.items], page

    def _edge_rewrite(self, author: NodeId, id_: NodeId) -> EdgeWrite:
        """Writes the edge of a post again at its place, so that the log has an event of the change.

        Not if the author is being removed: the edge would end, and the job empties only posts whose edge it finds.
        """
        edge = self.graph.edge_now(self._authored, author, id_, State.NORMAL)
        return EdgeWrite(
            edge, supersede=True, keep_place=True, only_from=frozenset({edge.state}), while_node=(author, edge.state)
        )

    def _remove_write(self, author: NodeId, id_: NodeId) -> EdgeWrite:
        return self.graph.remove_write(self._authored, author, id_)

    def _listing(self, record: Record, first_version: Hlc) -> list[EdgeWrite]:
        """The edges that list a post. `first_version`: the new post's, so repeating them overrides no later change."""
        post = read_post(record)
        edge = Edge(self._authored, NodeId(post.author), NodeId(post.id), State.NORMAL, post.created_at, first_version)
        return [EdgeWrite(edge, if_active=True), *self._mentions.writes(None, post, record.updated_at)]

    def _record(self, post: Post, version: Hlc) -> Record:
        return post_record(post, version, self._kind.record_kind)

    def missing(self, id_: int) -> NotFound:
        """The error for a post that does not exist, or that the viewer must not see."""
        return self._kind.missing(f"there is no such {self._kind.noun}, or it is hidden from you", id=str(id_))

    async def _rewrite(
        self,
        actor: NodeId | System,
        id_: NodeId,
        change: Callable[[Post], Post],
        edge: Callable[[NodeId, NodeId], EdgeWrite],
        note: Callable[[Hlc], Record] | None = None,
    ) -> PostWritten:
        """Replace a post by the result of `change`; retry if another write came between.

        `actor`: its author, or the app's back office. `edge`: makes the edge to write with it. `note`: makes a record
        to put with it.
        """

        async def replace() -> tuple[Put, Post]:
            (record,) = await self.store.get_many(self._kind.record_kind, [id_])
            stored, questions = None if record is None else read_post(record), Questions()
            active = None if actor is SYSTEM else ask_active(questions, actor)
            visible = self.ask_visible(questions, actor, [stored])
            answers = await self.graph.store.answer(questions)
            if active is not None:
                active(answers)
            (post,) = visible(answers)
            if post is None or record is None or stored is None:
                raise self.missing(id_)
            if actor not in (SYSTEM, post.author):
                raise Forbidden(f"only its author may change a {self._kind.noun}", id=str(id_))
            new, version = change(stored), next_version(self.graph.clock, record)
            if new is stored and self.store.transactional:  # elsewhere the edges of an earlier try may be missing
                return NOTHING_TO_DO, post
            changed = self._record(new, version)
            changed = changed if new.deleted else with_newer_fields(changed, record)
            records = [changed, *([] if note is None else [note(version)])]
            unchanged = AtVersion(self._kind.record_kind, id_, record.updated_at)
            edges = [edge(NodeId(post.author), id_), *self._mentions.writes(stored, new, version)]
            put = await self.store.put(records, edges, only_if=[unchanged])
            return put, with_labels(new, post.labels)

        put, new = await rewrite(f"this {self._kind.noun}", id_, replace)
        return PostWritten(new, put.mark)
