"""For any history, every list and count of boards and their followers equals that of a naive model of article 002.

Users follow (some for a limited time), unfollow and block. Accounts become private, are deactivated and reactivated, or
removed. Boards are created, hidden, moved, merged and deleted; users become collaborators, and pin posts. One engine
has transactions. The other delays, repeats and reorders events; its processes stop between any two writes and repeat
calls that were not answered.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cast import FakeClock
from coroutines import answer
from edges import all_pages
from engines import Engine
from naive_boards import PEOPLE, NaiveBoards, Owned
from random_histories import run_history
from reference_leases import own_leases
from services import Services
from store_types import EngineStores
from store_wrappers import ProcessDied

from kith.core.events import NOWHERE, LogPosition
from kith.core.ids import NodeId
from kith.core.paging import Window
from kith.graph.edge import Direction, EdgeWrite, State
from kith.graph.graphs import BOARD_MEMBERS, PINS
from kith.graph.node_jobs import NodeOperation
from kith.graph.shapes import Listing
from kith.people.privacy import SYSTEM
from kith.people.removal import account_jobs
from kith.posts.post import Draft

PORT = "whole"


class StopSignal:
    """A store whose process can be made to stop before one of its next writes."""

    def __init__(self, store: Any) -> None:
        self._store, self.left = store, -1

    def __getattr__(self, name: str) -> Any:
        if name in ("apply", "put", "put_note"):
            if self.left == 0:
                self.left = -1
                raise ProcessDied
            self.left -= self.left > 0
        return getattr(self._store, name)


class History:
    """Random actions, on Kith and on the model alike."""

    def __init__(self, seed: int) -> None:
        self.chosen, self.clock, self.naive = random.Random(seed), FakeClock(), NaiveBoards()
        self.at: LogPosition = NOWHERE
        self.made = self.stops = 0
        self.opened = False  # an account changed its privacy or state, and the consumer may not know yet

    async def begin(self, whole: EngineStores) -> None:
        self.whole = whole
        self.edges, self.records = StopSignal(whole.edges), StopSignal(whole.records)
        self.kith = await Services.over(self.edges, self.records, self.clock)  # type: ignore[arg-type]
        self.steps = (self.edges, self.records)
        erase = (self.kith.posts.erase, self.kith.boards.erase)
        self.jobs = account_jobs(self.kith.graph, own_leases(), *erase)

    async def act(self) -> None:
        """Do one random action. If its process is stopped, the action is repeated."""
        chosen, naive, kith = self.chosen, self.naive, self.kith
        one = chosen.choice([user for user in PEOPLE if user not in naive.inactive])
        other = chosen.choice([user for user in PEOPLE if user != one])
        boards = sorted(board for board, owned in naive.boards.items() if owned.owner not in naive.inactive)
        board = NodeId(chosen.choice(boards) if boards else 0)
        owned = naive.boards.get(board)
        owner = NodeId(owned.owner if owned else 1)
        following = kith.board_following
        match chosen.randrange(38):
            case 0 | 1 | 2:
                until = self.clock.ms + chosen.choice((5_000, 20_000)) if chosen.random() < 0.3 else 0
                if other in naive.private:
                    until = naive.follows.get((one, other), 0)
                await self.does(lambda: kith.people.follow(one, other, until))
                naive.follow(one, other, until)
            case 3:
                await self.does(lambda: kith.people.unfollow(one, other))
                naive.unfollow(one, other)
            case 4:
                await self.does(lambda: kith.people.remove_follower(one, other))
                naive.unfollow(other, one)
            case 5:
                await self.does(lambda: kith.people.block(one, other))
                naive.block(one, other)
            case 6 | 7:
                await self.does(lambda: kith.people.unblock(one, other))
                naive.blocks.discard((one, other))
            case 8 | 9 | 10 | 11:
                await self.does(lambda: following.follow(one, board))
                naive.follow_board(one, board)
            case 12 | 13 | 14:
                await self.does(lambda: following.unfollow(one, board))
                naive.unfollow_board(one, board)
            case 15 | 16 if len(naive.boards) < 8:
                await self.make(one)
            case 17 if owned:
                secret = not owned.secret
                await self.does(lambda: kith.boards.change(owner, board, secret=secret))
                naive.hide(board, secret)
            case 18 if owned and len(naive.boards) > 3:
                await self.does(lambda: kith.boards.delete(owner, board))
                naive.delete(board)
            case 19 | 20 if owned and one != owner:
                await self.move(owner, board, one)
            case 21 if owned:
                into = NodeId(chosen.choice(boards))
                target = naive.boards[into]
                if into != board and target == owned:
                    await self.does(lambda: kith.boards.merge(owner, board, into))
                    naive.merge(board, into)

            case 22 | 23:
                private = one not in naive.private
                await self.does(lambda: kith.edges.change_node(one, private=private))
                naive.private ^= {int(one)}
                self.opened = True
            case 24:
                for user, asked in sorted(pair for pair in naive.requests if not {*pair} & naive.inactive):
                    await self.does(partial(kith.people.accept, NodeId(asked), NodeId(user)))
                    naive.let_in(user, asked, 0)

            case 25 | 26:
                away = naive.inactive - naive.removed
                await self.toggle_active(NodeId(chosen.choice([*sorted(away), *([one] if len(away) < 2 else [])])))
            case 27:
                said = sorted((user, naive.boards[unfollowed].owner) for user, unfollowed in naive.board_unfollows)
                await self.reorder(*(chosen.choice(said) if said else (one, other)))
            case 28 | 29 | 30 if owned:
                post = NodeId(chosen.choice([await self.write(one), *naive.posts]))
                await self.does(lambda: kith.pins.add(one, board, post))
                naive.pin(one, board, post)
            case 31 if mine := sorted(pin for pin in naive.pins if pin[0] == board):
                await self.does(lambda: kith.pins.remove(owner, *mine[0]))
                naive.pins.remove(mine[0])
            case 32 if posts := [post for post, author in naive.posts.items() if author == one]:
                await self.does(lambda: kith.posts.delete(one, posts[0]))
                naive.delete_post(posts[0])
            case 33 | 34 if owned and one != owner:
                await self.does(lambda: kith.collaborators.invite(owner, board, one))
                naive.members |= set() if naive.blocked(owner, one) else {(one, board)}
            case 35 if joined := sorted(user for user, own in naive.members if own == board):
                who = chosen.choice([owner, joined[0]])
                if who not in naive.inactive:
                    await self.does(lambda: kith.collaborators.dismiss(NodeId(who), board, NodeId(joined[0])))
                    naive.members.remove((joined[0], board))
            case 36 if not naive.removed and not naive.inactive and chosen.random() < 0.2:
                await self.remove(one)

    async def reorder(self, user: int, other: int) -> None:
        """As an app: move a follow in its lists, to the top or down."""
        position = self.clock.ms + self.chosen.choice((-1_000_000, -1, 1, 1 << 40))
        edge = self.kith.graph.edge_now(self.kith.reconciler.follows, NodeId(user), NodeId(other), State.NORMAL)
        moved = msgspec.structs.replace(edge, position=position)
        write = EdgeWrite(moved, supersede=True, keep_expiry=True, only_from=frozenset({State.NORMAL}))
        await self.does(lambda: self.kith.edges.apply([write]))

    async def toggle_active(self, user: NodeId) -> None:
        """Deactivate an account, or reactivate it."""
        operation = NodeOperation.RESTORE if user in self.naive.inactive else NodeOperation.ARCHIVE
        self.whole.settle()  # a job waits until lists show earlier writes
        self.clock.ms += 1
        await self.jobs.start(operation, user)
        await self.jobs.wait()
        self.naive.inactive ^= {int(user)}
        self.opened = True

    async def remove(self, user: NodeId) -> None:
        """Remove an account."""
        self.whole.settle()
        self.clock.ms += 1
        await self.jobs.start(NodeOperation.REMOVE, user)
        await self.jobs.wait()
        self.naive.remove(user)
        self.opened = True

    async def write(self, author: NodeId) -> int:
        post = (await self.kith.posts.create(author, Draft(text="a pot"))).post.id
        self.naive.posts[post] = author
        return post

    async def make(self, owner: NodeId) -> None:
        self.made += 1
        key, name = f"key {self.made}", f"board {self.made}"
        await self.does(lambda: self.kith.boards.create(owner, name, key=key))
        board = (await self.kith.boards.create(owner, name, key=key)).board
        self.naive.boards[board.id] = Owned(owner, secret=False)

    async def move(self, owner: NodeId, board: NodeId, to: NodeId) -> None:
        naive, kith = self.naive, self.kith
        if naive.blocked(owner, to):
            return
        await self.does(lambda: kith.collaborators.invite(owner, board, to))
        naive.members.add((to, board))
        if self.opened or owner in naive.private:  # the followers, as the lists show them, are compared below
            await self.catch_up_with_all()
        barred = any(naive.blocked(user, to) for user, followed in naive.active_follows if followed == board)
        self.whole.settle()  # blocks are read from a list
        await self.does(lambda: kith.boards.move(owner, board, to))
        if not barred:
            naive.move(board, to)

    async def does(self, act: Any) -> None:
        """Do an action. Its process may be stopped; then the action is repeated."""
        store = self.chosen.choice(self.steps)
        if self.chosen.random() < 0.6:
            store.left = self.chosen.randrange(3)
        try:
            await answer(act())
        except ProcessDied:
            self.stops += 1
            await answer(act())
        store.left = -1

    async def catch_up(self, *, some: bool = False) -> None:
        """Let the consumer handle the events that it can read, some of them twice. `some`: one batch only."""
        boards_consumer, log = self.kith.boards_consumer, self.whole.log
        while True:
            batch = await log.read(self.at, self.chosen.randint(1, 20))
            await boards_consumer.handle(batch.events)
            if self.chosen.random() < 0.8:
                self.at = batch.next
            if some or not batch.events:
                break
        for _ in range(1 if some else 100):
            if not await boards_consumer.work_backlog():
                break

    async def catch_up_with_all(self) -> None:
        """Let lists show every write, and the consumer handle every event."""
        for _ in range(4):  # the consumer's own writes come by the log, too
            await self.whole.edges.put_note("tick", None)  # a commit makes the store log expired edges
            self.whole.settle()
            await self.catch_up()
        self.whole.settle()
        self.opened = False

    async def check(self) -> None:
        """Catch up; then compare every list, count and check of active users with the model."""
        await self.catch_up_with_all()
        naive, kith, chosen = self.naive, self.kith, self.chosen
        following, limit = kith.board_following, chosen.randint(1, 3)
        here = [user for user in PEOPLE if user not in naive.inactive]
        pins, members = (kith.graph.graphs.number(name) for name in (PINS, BOARD_MEMBERS))
        for board in sorted(naive.boards):
            pinned, joined = {pin[1] for pin in naive.pins if pin[0] == board}, {*here} & naive.members_of(board)
            for listing, ids in (
                (Listing(pins, board, Direction.OUT), pinned),
                (Listing(members, board, Direction.IN), joined),
            ):
                assert {mark.id for mark in (await kith.edges.page(listing, Window(200))).items} == ids
                assert await kith.edges.count_many([listing]) == [len(ids)]
            if naive.boards[board].owner in here:
                visible = [user for user in here if (await kith.boards.visible(user, [board]))[0] is not None]
                assert visible == [user for user in here if naive.sees(user, board)]
        for board in sorted(board for board, owned in naive.boards.items() if owned.owner in here):
            viewer = SYSTEM if chosen.random() < 0.5 else NodeId(naive.boards[board].owner)
            backward = chosen.random() < 0.3
            fetch = partial(following.followers, viewer, board)
            listed = await all_pages(fetch, limit, backward=backward)
            assert [mark.id for mark in listed] == [mark.id for mark in sorted(listed, reverse=True)]
            assert sorted(mark.id for mark in listed) == sorted(naive.followers(board))
            assert await following.follower_count(viewer, board) == len(listed)
        for user in here:
            own = {board for one, board in naive.active_follows if one == user}
            against = {board for one, board in naive.active_unfollows if one == user}
            boards, page = await following.followed(SYSTEM, user, Window(50))
            assert ({board.id for board in boards}, page.more_after) == (own, False)
            assert {board.id for board in (await following.unfollowed(user, Window(50)))[0]} == against
            implicit = {other for other in PEOPLE if naive.kind(user, other) == "implicit"}
            back = {other for other in PEOPLE if naive.kind(other, user) == "implicit"}
            assert {mark.id for mark in (await following.implicit_following(user, Window(50))).items} == implicit
            assert {mark.id for mark in (await following.implicit_followers(user, Window(50))).items} == back
            public = [board for board, owned in naive.boards.items() if owned == (user, False)]
            sizes = (len(public), len(own), len(against), len(implicit), len(back))
            assert await following.interests(user) == sizes
            asked = chosen.sample(sorted(naive.boards), min(8, len(naive.boards)))
            checked = await following.check(user, PEOPLE, asked)
            assert checked.users == [naive.kind(user, other) for other in PEOPLE]
            assert checked.boards == [naive.board_kind(user, board) for board in asked]
            shown, _ = await kith.boards.of_owner(SYSTEM, user, Window(50))
            assert {board.id for board in shown} == {b for b, owned in naive.boards.items() if owned.owner == user}

    async def live(self) -> None:
        for moment in range(120):
            self.clock.ms += self.chosen.choice((0, 1, 5_000))
            self.naive.expire(self.clock.ms)
            await self.act()
            if self.chosen.random() < 0.3:
                await self.catch_up(some=True)
            if moment % 6 == 5:
                await self.check()
        assert self.stops > 0, "no action was ever stopped"


@pytest.mark.parametrize("seed", range(8))
def test_boards_equal_a_naive_model(tmp_path: Path, engine: Engine, seed: int) -> None:
    run_history(History(seed), engine, tmp_path)
