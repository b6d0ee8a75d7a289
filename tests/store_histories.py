"""Random histories of an embedded store, and its content row by row."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from coroutines import run_coroutine

from kith.core.clock import Hlc, hlc_of
from kith.core.events import USER_CHANGED, Event
from kith.core.ids import NodeId
from kith.engines.embedded.commits import CommitQueue
from kith.engines.embedded.edge_store import EmbeddedEdges
from kith.engines.embedded.environment import Environment
from kith.engines.embedded.record_store import EmbeddedRecords
from kith.engines.embedded.retention import LogBounds
from kith.engines.embedded.suggestion_store import EmbeddedSuggestions
from kith.graph.edge import Edge, EdgeWrite, State
from kith.records.store import AtVersion, Claim, Record, RecordKind
from kith.suggestions.store import RankingRow

_START_MS = 1_650_000_000_000
_POSITIONS = (0, 1, -(2**63), 2**63 - 1, _START_MS, 1 << 48)


class StoreHistory:
    """One store under random write jobs. There are few ids and versions, so jobs often touch the same rows."""

    def __init__(
        self,
        opened: Environment,
        seed: int,
        *,
        repairs: bool = True,
        now_ms: Callable[[], int] = lambda: _START_MS,
        events_max: int = 10_000_000,
    ) -> None:
        self.environment, self._chosen, self._repairs = opened, random.Random(seed), repairs
        self._commits = CommitQueue(opened, now_ms=now_ms, log_bounds=LogBounds(events_max))
        self._edges = EmbeddedEdges(opened, self._commits)
        self._records = EmbeddedRecords(opened, self._commits)
        self._suggestions = EmbeddedSuggestions(opened, self._commits)
        self._graphs = ["follows"]
        run_coroutine(self._edges.declare(self._graphs))

    def close(self) -> None:
        self._commits.close()

    def step(self) -> None:
        """Do one job of a random kind."""
        kinds: list[Callable[[], Any]] = [
            *[self._apply] * 6, self._forget, self._node, self._put, self._put, self._drop, self._suggest, self._note
        ]  # fmt: skip
        job = self._chosen.choice(kinds)()
        run_coroutine(job)
        if self._chosen.random() < 0.02:
            self._graphs.append(f"graph_{len(self._graphs)}")
            run_coroutine(self._edges.declare(self._graphs))
        if self._repairs and self._chosen.random() < 0.02:
            run_coroutine(self._edges.repair([self._edge() for _ in range(3)]))
        if self._chosen.random() < 0.04:
            assert self.environment.free_pages()

    def _id(self) -> int:
        return self._chosen.choice((1, 2, 3, self._chosen.randrange(1, 300)))

    def _version(self) -> Hlc:
        return Hlc(hlc_of(_START_MS) + self._chosen.randrange(20))

    def _edge(self) -> Edge:
        graph = self._chosen.randrange(1, len(self._graphs) + 1)
        ends = NodeId(self._id()), NodeId(self._id() + 1_000)
        state, position = self._chosen.choice(list(State)), self._chosen.choice(_POSITIONS)
        expires_ms = self._chosen.choice((0, 0, 0, 0, 0, 0, _START_MS, _START_MS + self._chosen.randrange(10**9)))
        return Edge(graph, *ends, state, position, self._version(), expires_ms)

    def _writes(self) -> list[EdgeWrite]:
        chosen = self._chosen
        return [
            EdgeWrite(self._edge(), chosen.random() < 0.5, keep_place=chosen.random() < 0.2)
            for _ in range(chosen.choice((1, 3, 40)))
        ]

    def _apply(self) -> Any:
        return self._edges.apply(self._writes())

    def _forget(self) -> Any:
        return self._edges.forget(1, [(self._id(), self._id() + 1_000) for _ in range(5)])

    def _node(self) -> Any:
        chosen = self._chosen
        told = Event(1, None, USER_CHANGED, self._id(), 0, 0, self._version())
        state = chosen.choice([None, State.NORMAL, State.ARCHIVED])
        return self._edges.change_node(self._id(), state=state, labels=chosen.choice((0, 1)), tell=told)

    def _put(self) -> Any:
        chosen, id_ = self._chosen, self._id()
        record = Record(RecordKind.POST, id_, self._version(), chosen.randbytes(chosen.choice((0, 30, 5_000))))
        claim = Claim(b"%016d" % chosen.randrange(40), b"value", _START_MS + chosen.randrange(100), 30)
        conditions = [AtVersion(RecordKind.POST, id_, 0)] if chosen.random() < 0.3 else []
        return self._records.put(
            [record],
            self._writes() if chosen.random() < 0.5 else [],
            only_if=conditions,
            claim=claim if chosen.random() < 0.5 else None,
        )

    def _drop(self) -> Any:
        if self._chosen.random() < 0.3:
            return self._records.forget_below(RecordKind.POST, self._id(), 2)
        return self._records.forget(RecordKind.POST, [self._id() for _ in range(3)])

    def _suggest(self) -> Any:
        now_ms = _START_MS + self._chosen.randrange(100)
        return self._suggestions.put_many([RankingRow(self._id(), now_ms + 20, b"ranking")], now_ms)

    def _note(self) -> Any:
        value = None if self._chosen.random() < 0.3 else self._chosen.randbytes(10)
        return self._edges.put_note(f"note-{self._id() % 5}", value)


def content(opened: Environment) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """Every row of every database."""
    with opened.lmdb.begin() as txn:
        names = [bytes(name) for name, _ in txn.cursor()]
        return {name: list(txn.cursor(opened.lmdb.open_db(name, txn=txn))) for name in names}


def joined(found: dict[bytes, list[tuple[bytes, bytes]]]) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """The same rows, with the blocks of each list joined: where a list is cut may depend on the order of writes."""
    whole = {}
    for name, rows in found.items():
        lists: dict[bytes, bytes] = {}
        for key, value in rows if name.startswith(b"graph-") else ():
            if key[8:9] >= b"\x80":  # a list; otherwise an edge
                lists.setdefault(key[:9], b"")
                lists[key[:9]] += value if len(key) > 10 else value[4:] + value[:4]
        others = [(key, value) for key, value in rows if key[:9] not in lists]
        whole[name] = sorted([*others, *lists.items()])
    return whole
