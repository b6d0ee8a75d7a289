"""FollowReconciler changes of boards with many followers: page by page, by the request and then by the consumer."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run
from reference_leases import own_leases
from reference_records import RowRecords
from scrambled_edges import ScrambledEdges
from services import Services, settle_boards
from store_wrappers import ProcessDied

from kith.boards import consumer
from kith.boards.board import Board
from kith.boards.reconciler import BoardFollowRows, void_edges
from kith.core.clock import Hlc
from kith.core.errors import Conflict
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction, Edge, EdgeChange, EdgeWrite, State
from kith.graph.graphs import PINS
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.people.privacy import SYSTEM
from kith.people.removal import account_jobs
from kith.posts.post import Draft

CROWD = [NodeId(100 + at) for at in range(26)]


@pytest.fixture
def kith(run: Run, monkeypatch: pytest.MonkeyPatch) -> Services:
    monkeypatch.setattr(consumer, "_PAGE", 3)
    services: Services = run(Services.in_memory(clock=FakeClock()))
    return services


def test_the_consumer_settles_followers_that_a_request_left_over(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    for user in CROWD:
        run(kith.board_following.follow(user, board.id))
    followers = Listing(kith.reconciler.explicit, board.id, Direction.IN)
    run(kith.boards.change(ALICE, board.id, secret=True))
    (left,) = run(kith.edges.count_many([followers]))
    assert 0 < left < len(CROWD), "a request settles a few pages"
    assert run(kith.board_following.follower_count(SYSTEM, board.id)) == 0
    slices = 0
    while run(kith.boards_consumer.work_backlog()):
        slices += 1
    assert slices > 1
    assert run(kith.edges.count_many([followers])) == [0]
    assert run(kith.edges.notes("")) == {}
    assert [run(kith.board_following.interests(user)) for user in CROWD] == [(0, 0, 0, 0, 0)] * len(CROWD)


def test_a_board_that_nobody_follows_is_settled_with_one_write(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    noted, notes = kith.edges.put_note, list[bytes | None]()

    async def noting(key: str, value: bytes | None, **named: bytes) -> bool:
        notes.append(value)
        return await noted(key, value, **named)

    monkeypatch.setattr(kith.edges, "put_note", noting)
    run(kith.boards.delete(ALICE, board.id))
    assert len(notes) == 2
    assert notes[1] is None, "noted before the change, and forgotten after it"
    assert run(kith.edges.notes("")) == {}


def test_followers_of_a_page_are_settled_with_two_writes(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One ends their follows of the board, one the implicit follows of its owner; each waits for the disk."""
    monkeypatch.setattr(consumer, "_PAGE", 500)
    board = run(kith.boards.create(ALICE, "Recipes")).board
    for user in CROWD:
        run(kith.board_following.follow(user, board.id))
    apply, sizes = kith.edges.apply, list[int]()

    async def counting(writes: list[EdgeWrite]) -> list[EdgeChange]:
        sizes.append(len(writes))
        return await apply(writes)

    monkeypatch.setattr(kith.reconciler.store, "apply", counting)
    run(kith.boards.change(ALICE, board.id, secret=True))
    assert [size for size in sizes if size > 1] == [len(CROWD)] * 2
    assert len(sizes) < len(CROWD)
    assert run(kith.board_following.interests(ALICE)).implicit_followers == 0


def test_fields_that_a_newer_kith_added_to_a_note_are_kept(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    for user in CROWD:
        run(kith.board_following.follow(user, board.id))
    run(kith.boards.change(ALICE, board.id, secret=True))
    ((key, raw),) = run(kith.edges.notes("")).items()
    run(kith.edges.put_note(key, msgspec.msgpack.encode([*msgspec.msgpack.decode(raw), "of a newer Kith"])))
    assert run(kith.boards_consumer.work_backlog())
    ((_, raw),) = run(kith.edges.notes("")).items()
    assert msgspec.msgpack.decode(raw)[-1] == "of a newer Kith"


def test_a_board_is_moved_again_once_its_followers_are_settled(run: Run, kith: Services) -> None:
    """They follow Bob, who owns the board for a moment, so their explicit follows of it end."""
    board, crowd = run(kith.boards.create(ALICE, "Recipes")).board, [NodeId(100 + at) for at in range(150)]
    for user in crowd:
        run(kith.board_following.follow(user, board.id))
        run(kith.people.follow(user, BOB))
    for member in (BOB, CAROL):
        run(kith.collaborators.invite(ALICE, board.id, member))
    run(kith.boards.move(ALICE, board.id, BOB))
    with pytest.raises(Conflict, match="try again in some seconds"):
        run(kith.boards.move(BOB, board.id, CAROL))
    assert run(kith.boards.get(SYSTEM, board.id)).owner == BOB
    while run(kith.boards_consumer.work_backlog()):
        pass
    run(kith.boards.move(BOB, board.id, CAROL))
    assert run(kith.board_following.follower_count(SYSTEM, board.id)) == 0


@pytest.mark.parametrize("invited_again", [False, True])
def test_a_block_ends_memberships_of_boards_that_move_before_the_consumer_reads_it(
    run: Run, kith: Services, invited_again: bool
) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    for member in (BOB, CAROL):
        run(kith.collaborators.invite(ALICE, board.id, member))
    run(kith.people.block(ALICE, BOB))
    run(kith.boards.move(ALICE, board.id, CAROL))
    if invited_again:
        run(kith.collaborators.dismiss(CAROL, board.id, BOB))
        run(kith.collaborators.invite(CAROL, board.id, BOB))
    run(settle_boards(kith))
    assert run(kith.boards.is_member(BOB, board.id)) == invited_again


@pytest.mark.parametrize("transactional", [True, False])
def test_boards_of_a_deactivated_user_are_not_counted_until_the_user_returns(
    run: Run, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    """Bob explicitly follows a board of Alice. Carol follows Alice, and unfollowed her other board."""
    kith: Services = run(Services.in_memory(transactional=transactional, clock=FakeClock()))
    jobs = account_jobs(kith.graph, own_leases())
    board, other = (run(kith.boards.create(ALICE, name)).board for name in ("Recipes", "Soups"))

    def shown() -> None:
        if isinstance(kith.edges, ScrambledEdges):
            kith.edges.settle()

    def settled() -> list[tuple[int, ...]]:
        for _ in range(4):
            shown()
            run(kith.boards_consumer.handle(kith.edges.log))
            while run(kith.boards_consumer.work_backlog()):
                pass
        shown()
        return [run(kith.board_following.interests(user))[1:4] for user in (BOB, CAROL)]

    def run_job(operation: NodeOperation, user: NodeId) -> None:
        async def whole() -> None:
            await jobs.start(operation, user)
            await jobs.wait()

        shown()
        kith.clock.ms += 5
        run(whole())

    run(kith.board_following.follow(BOB, board.id))
    followed_ms = kith.clock.ms
    kith.clock.ms += 5
    run(kith.people.follow(CAROL, ALICE))
    run(kith.board_following.unfollow(CAROL, other.id))
    holds = [(1, 0, 1), (0, 1, 0)]
    assert settled() == holds
    run_job(NodeOperation.ARCHIVE, ALICE)
    assert settled() == [(0, 0, 0), (0, 0, 0)]
    run_job(NodeOperation.ARCHIVE, BOB)
    run_job(NodeOperation.RESTORE, BOB)
    assert settled() == [(0, 0, 0), (0, 0, 0)], "Bob's deactivation and return change nothing"
    run_job(NodeOperation.ARCHIVE, CAROL)
    run_job(NodeOperation.RESTORE, ALICE)
    assert settled() == [(1, 0, 1), (0, 0, 0)]
    run_job(NodeOperation.RESTORE, CAROL)
    assert settled() == holds
    marks = run(kith.edges.page(Listing(kith.reconciler.explicit, BOB, Direction.OUT), Window(5))).items
    assert [(mark.id, mark.position) for mark in marks] == [(board.id, followed_ms)], "at its old position"


def test_a_deactivated_owner_makes_work_only_for_boards_with_explicit_follows_or_unfollows(
    run: Run, kith: Services
) -> None:
    """An owner may have 10,000 boards, and each note takes several writes."""
    jobs = account_jobs(kith.graph, own_leases())
    followed, unfollowed, *_ = (run(kith.boards.create(ALICE, f"board {at}")).board.id for at in range(12))
    run(kith.people.follow(BOB, ALICE))
    run(kith.board_following.unfollow(BOB, unfollowed))
    run(kith.board_following.follow(CAROL, followed))

    async def run_job(operation: NodeOperation) -> None:
        kith.clock.ms += 5
        told = len(kith.edges.log)
        await jobs.start(operation, ALICE)
        await jobs.wait()
        await kith.boards_consumer.handle(kith.edges.log[told:])

    for operation, counts in ((NodeOperation.ARCHIVE, [0, 0]), (NodeOperation.RESTORE, [2, 0])):
        run(run_job(operation))
        noted = run(kith.edges.notes("boards/"))
        assert {int(key.removeprefix("boards/").partition("-")[0]) for key in noted} == {followed, unfollowed}
        run(settle_boards(kith))
        shown = [run(kith.board_following.follower_count(SYSTEM, board)) for board in (followed, unfollowed)]
        assert shown == counts


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("ends", ["removes", "blocks"])
def test_a_follow_that_ends_while_its_user_is_deactivated_does_not_come_back(
    run: Run, monkeypatch: pytest.MonkeyPatch, transactional: bool, ends: str
) -> None:
    """Bob explicitly follows boards of Alice and Carol. Alice removes or blocks him; Carol does nothing."""
    kith: Services = run(Services.in_memory(transactional=transactional, clock=FakeClock()))
    jobs = account_jobs(kith.graph, own_leases())
    boards = [run(kith.boards.create(owner, "Recipes")).board for owner in (ALICE, CAROL)]

    async def run_bobs_job(operation: NodeOperation) -> None:
        await jobs.start(operation, BOB)
        await jobs.wait()

    def settle() -> None:
        kith.clock.ms += 5
        run(settle_boards(kith))

    for board in boards:
        run(kith.board_following.follow(BOB, board.id))
    settle()
    run(run_bobs_job(NodeOperation.ARCHIVE))
    settle()
    if ends == "removes":
        run(kith.people.remove_follower(ALICE, BOB))
    else:
        run(kith.people.block(ALICE, BOB))
        run(kith.people.unblock(ALICE, BOB))
    settle()
    run(run_bobs_job(NodeOperation.RESTORE))
    settle()
    assert run(kith.board_following.interests(BOB))[1:4] == (1, 0, 1)
    assert run(kith.board_following.check(BOB, [ALICE, CAROL], [board.id for board in boards])) == (
        ["none", "implicit"],
        ["none", "explicit"],
    )


def test_a_process_that_stops_while_boards_are_merged_loses_no_pin(
    run: Run, kith: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops inside a call that writes rows of several sources: only those of the last source are written."""
    soups, stews = (run(kith.boards.create(ALICE, name)).board.id for name in ("Soups", "Stews"))
    posts = [run(kith.posts.create(ALICE, Draft(text=text))).post.id for text in ("of both", "of one")]
    for board, pinned in ((soups, posts), (stews, posts[:1])):
        for post in pinned:
            run(kith.pins.add(ALICE, board, post))

    async def reaches_one(writes: list[EdgeWrite]) -> list[EdgeChange]:
        reached = [write for write in writes if write.edge.source == writes[-1].edge.source]
        changes = await applied(reached)
        if len(reached) < len(writes):
            raise ProcessDied
        return changes

    applied = kith.edges.apply
    with monkeypatch.context() as stopping, suppress(ProcessDied):
        stopping.setattr(kith.edges, "apply", reaches_one)
        run(kith.boards.merge(ALICE, soups, stews))
    while run(kith.boards_consumer.work_backlog()):
        pass
    assert run(kith.pins.counts([soups, stews])) == [0, 2]


def test_a_merge_is_done_for_its_user_though_the_consumer_restarts_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    kith: Services = run(Services.in_memory(transactional=False, clock=FakeClock()))
    edges = kith.edges
    assert isinstance(edges, ScrambledEdges)
    soups, stews = (run(kith.boards.create(ALICE, name)).board.id for name in ("Soups", "Stews"))
    run(kith.pins.add(ALICE, soups, run(kith.posts.create(ALICE, Draft(text="a pot"))).post.id))
    edges.settle()
    noted = edges.put_note

    async def handled_meanwhile(key: str, value: bytes | None, **named: bytes) -> bool:
        written = await noted(key, value, **named)
        if named:  # a step of reconciling
            edges.settle()
            with monkeypatch.context() as handling:
                handling.setattr(edges, "put_note", noted)
                await kith.boards_consumer.handle(edges.log)
        return written

    monkeypatch.setattr(edges, "put_note", handled_meanwhile)
    run(kith.boards.merge(ALICE, soups, stews))
    edges.settle()
    assert run(kith.pins.counts([soups, stews])) == [0, 1]


def test_a_noted_change_that_was_never_written_is_forgotten(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    run(kith.board_following.follow(CROWD[0], board.id))
    gone = msgspec.structs.replace(board, deleted=True)
    run(kith.boards_consumer.note_change(board, gone, kith.graph.clock.next()))
    assert not run(kith.boards_consumer.work_backlog()), "the note waits, and is no backlog"
    assert len(run(kith.edges.notes(""))) == 1
    kith.clock.ms += 61_000
    run(kith.boards_consumer.work_backlog())
    assert run(kith.edges.notes("")) == {}
    assert run(kith.board_following.follower_count(SYSTEM, board.id)) == 1


def test_a_renamed_board_keeps_everybody_and_notes_nothing(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    run(kith.board_following.follow(CROWD[0], board.id))
    assert run(kith.boards.change(ALICE, board.id, name="Soups")).board.name == "Soups"
    assert run(kith.edges.notes("")) == {}
    assert run(kith.board_following.follower_count(SYSTEM, board.id)) == 1


def test_pins_of_posts_whose_deletion_event_was_lost_are_removed(run: Run, kith: Services) -> None:
    board = run(kith.boards.create(ALICE, "Recipes")).board
    stays, goes = (run(kith.posts.create(ALICE, Draft(text=text))).post.id for text in ("stays", "goes"))
    for post in (stays, goes):
        run(kith.pins.add(ALICE, board.id, post))
    run(kith.posts.delete(ALICE, goes))
    pins = Listing(kith.graph.graphs.number(PINS), board.id, Direction.OUT)
    assert run(kith.edges.count_many([pins])) == [2]
    run(kith.boards_consumer.rebuild())
    assert run(kith.edges.count_many([pins])) == [1]
    assert [mark.id for mark in run(kith.edges.page(pins, Window(5))).items] == [stays]


def test_a_board_followed_anew_before_its_old_follow_is_dropped_stays_followed(run: Run, kith: Services) -> None:
    board, crowd = run(kith.boards.create(ALICE, "Recipes")).board, [NodeId(100 + at) for at in range(40)]
    for user in crowd:
        kith.clock.ms += 1
        run(kith.board_following.follow(user, board.id))
    for secret in (True, False):
        run(kith.boards.change(ALICE, board.id, secret=secret))
    anew = run(kith.board_following.follow(crowd[0], board.id))
    assert anew.changed, "the earlier follow is void"
    while run(kith.boards_consumer.work_backlog()):
        pass
    followers = run(kith.board_following.followers(SYSTEM, board.id, Window(50)))
    assert [mark.id for mark in followers.items] == [crowd[0]]


def test_an_unfollow_ends_the_follow_of_a_board_that_no_list_shows_yet(run: Run) -> None:
    edges = ScrambledEdges(seed=1, late_max=10**9)
    kith: Services = run(Services.over(edges, RowRecords(edges), FakeClock()))
    board = run(kith.boards.create(ALICE, "Recipes")).board
    run(kith.board_following.follow(BOB, board.id))
    run(kith.people.unfollow(BOB, ALICE))
    edges.settle()
    run(kith.boards_consumer.handle(edges.log))
    while run(kith.boards_consumer.work_backlog()):
        pass
    edges.settle()
    assert run(kith.board_following.follower_count(SYSTEM, board.id)) == 0


def test_an_explicit_follow_from_before_owning_a_board_is_void() -> None:
    board = Board(ALICE, 7, 1, "Recipes", owned_since=10, past_owners=(BOB, CAROL), given_at=(10, 5))
    for user, said, is_void in ((BOB, 9, True), (BOB, 11, False), (CAROL, 5, True), (CAROL, 6, False)):
        explicit = Edge(1, user, NodeId(7), State.NORMAL, 0, Hlc(said))
        assert void_edges(user, board, BoardFollowRows(None, explicit, None)) == [explicit] * is_void
