"""What every RecordStore must do, as `records.store.RecordStore` promises."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, DANA, START_MS
from coroutines import Run, run_coroutine
from edges import G, edge_of, writes_of
from engines import REFERENCE, Engine, in_new_folder
from hypothesis import given
from hypothesis import strategies as st
from store_types import Stores

from kith.core.clock import Hlc, hlc_of
from kith.core.events import NOWHERE
from kith.core.ids import ID_MAX
from kith.graph.edge import Outcome
from kith.records.store import AtVersion, Claim, Put, Record, RecordKind, Write

PORT = "stores"
KEY, OTHER = b"k" * 16, b"o" * 16
HOUR_MS = 3_600_000


def record(id_: int = 7, version: int = 1, data: bytes = b"data", kind: RecordKind = RecordKind.POST) -> Record:
    """A record; `version` counts from START_MS."""
    return Record(kind, id_, Hlc(hlc_of(START_MS) + version), data)


def claim(key: bytes = KEY, value: bytes = b"first", now_ms: int = START_MS) -> Claim:
    """A claim for one hour."""
    return Claim(key, value, now_ms, HOUR_MS)


def test_a_record_reads_as_it_was_put(run: Run, stores: Stores) -> None:
    put = record(data=bytes(range(256)) * 200)
    assert run(stores.records.put([put])).stored
    assert run(stores.records.get_many(RecordKind.POST, [7])) == [put]


def test_many_records_are_read_in_the_requested_order_with_none_for_missing_ones(run: Run, stores: Stores) -> None:
    run(stores.records.put([record(1, data=b"a"), record(ID_MAX, data=b""), record(0, data=b"zero")]))
    records = run(stores.records.get_many(RecordKind.POST, [ID_MAX, 5, 0, 1, 1]))
    versions = run(stores.records.versions(RecordKind.POST, [ID_MAX, 5, 0, 1, 1]))
    assert versions == [0 if found_record is None else found_record.updated_at for found_record in records]
    assert [found_record and found_record.data for found_record in records] == [b"", None, b"zero", b"a", b"a"]
    assert run(stores.records.get_many(RecordKind.POST, [])) == []


def test_records_of_two_kinds_with_the_same_id_are_separate(run: Run, stores: Stores) -> None:
    run(stores.records.put([record(data=kind.name.encode(), kind=kind) for kind in RecordKind]))
    for kind in RecordKind:
        (stored,) = run(stores.records.get_many(kind, [7]))
        assert stored == record(data=kind.name.encode(), kind=kind)


def test_the_newest_version_wins_in_any_order_and_repetition(run: Run, stores: Stores) -> None:
    versions = [record(version=1, data=b"old"), record(version=2, data=b"b"), record(version=2, data=b"c")]
    for id_, order in enumerate(permutations([*versions, versions[0]])):
        renumbered = [Record(version.kind, id_, version.updated_at, version.data) for version in order]
        for version in renumbered:
            assert run(stores.records.put([version])).stored
        (stored,) = run(stores.records.get_many(RecordKind.POST, [id_]))
        assert stored is not None
        assert stored.data == b"c"


def test_records_and_edges_are_put_together(run: Run, stores: Stores) -> None:
    put = run(stores.records.put([record()], writes_of(edge_of(ALICE, BOB))))
    assert [change.outcome for change in put.changes] == [Outcome.APPLIED]
    assert run(stores.edges.exists_many(G, [(ALICE, BOB)])) == [True]
    second = run(stores.records.put([record()], writes_of(edge_of(ALICE, BOB))))
    assert second.stored
    assert [change.outcome for change in second.changes] == [Outcome.UNCHANGED]


def test_if_a_condition_does_not_hold_nothing_is_written(run: Run, stores: Stores) -> None:
    stored = record(version=1, data=b"stored")
    run(stores.records.put([stored]))
    new_record = record(version=9, data=b"new")
    wrong_conditions: list[Sequence[AtVersion]] = [
        [AtVersion(RecordKind.POST, 7, 0)],
        [AtVersion(RecordKind.POST, 7, stored.updated_at + 1)],
        [AtVersion(RecordKind.COMMENT, 7, stored.updated_at)],
        [AtVersion(RecordKind.POST, 7, stored.updated_at), AtVersion(RecordKind.POST, 8, 1)],
    ]
    for only_if in wrong_conditions:
        put = run(stores.records.put([new_record], writes_of(edge_of(ALICE, BOB)), only_if=only_if, claim=claim()))
        assert (put.stored, put.changes, put.claimed) == (False, [], None)
    assert run(stores.records.get_many(RecordKind.POST, [7])) == [stored]
    assert run(stores.edges.exists_many(G, [(ALICE, BOB)])) == [False]
    right = [AtVersion(RecordKind.POST, 7, stored.updated_at), AtVersion(RecordKind.POST, 8, 0)]
    assert run(stores.records.put([new_record], only_if=right, claim=claim())).stored, (
        "a refused put must not keep its claim"
    )
    assert run(stores.records.get_many(RecordKind.POST, [7])) == [new_record]


def test_if_the_first_edge_is_refused_nothing_is_written(run: Run, stores: Stores) -> None:
    if not stores.records.transactional:
        pytest.skip("without transactions this engine writes the records first")
    first, second = writes_of(edge_of(ALICE, BOB), edge_of(BOB, ALICE))
    barred = msgspec.structs.replace(first, unless=((G, CAROL, ALICE),))
    run(stores.edges.apply(writes_of(edge_of(CAROL, ALICE))))
    put = run(stores.records.put([record(1)], [barred, second], claim=claim()))
    assert (put.stored, put.refusal, put.claimed) == (False, Outcome.FORBIDDEN, None)
    assert run(stores.records.get_many(RecordKind.POST, [7])) == [None]
    assert run(stores.edges.exists_many(G, [(ALICE, BOB), (BOB, ALICE)])) == [False, False]
    put = run(stores.records.put([record(1)], [first], claim=claim()))
    assert (put.stored, put.refusal) == (True, None), "a refused put must not keep its claim"


def test_a_claim_is_taken_once_and_answers_the_first_value(run: Run, stores: Stores) -> None:
    first = run(stores.records.put([record(1)], writes_of(edge_of(ALICE, BOB)), claim=claim()))
    assert (first.stored, first.claimed) == (True, None)
    second = run(stores.records.put([record(2)], writes_of(edge_of(BOB, ALICE)), claim=claim(value=b"second")))
    assert (second.stored, second.changes, second.claimed) == (False, [], b"first")
    assert run(stores.records.get_many(RecordKind.POST, [2])) == [None]
    assert run(stores.edges.exists_many(G, [(BOB, ALICE)])) == [False]
    assert run(stores.records.put([record(3)], claim=claim(OTHER, b"other"))).stored


def test_a_claim_can_be_read_without_being_taken(run: Run, stores: Stores) -> None:
    assert run(stores.records.claimed([claim(), claim(OTHER)])) == [None, None]
    assert run(stores.records.claimed([claim(), claim(OTHER)])) == [None, None]
    run(stores.records.put([record(1)], claim=claim()))
    assert run(stores.records.claimed([claim(OTHER), claim()])) == [None, claim().value]
    expired = claim()._replace(now_ms=claim().now_ms + claim().keep_ms)
    assert run(stores.records.claimed([expired])) == [None]


def test_of_many_puts_each_succeeds_or_fails_alone(run: Run, stores: Stores) -> None:
    assert run(stores.records.put_many([])) == []
    run(stores.records.put([record(9)], claim=claim(OTHER, b"earlier")))
    puts = run(
        stores.records.put_many(
            [Write([record(1)], claim()), Write([record(2)], claim(OTHER)), Write([record(3), record(4)]), Write([])]
        )
    )
    assert [(put.stored, put.claimed) for put in puts] == [
        (True, None),
        (False, b"earlier"),
        (True, None),
        (True, None),
    ]
    assert puts[0].mark.updated_at == record().updated_at
    assert NOWHERE not in (puts[0].mark.at, puts[2].mark.at)
    stored = run(stores.records.get_many(RecordKind.POST, [1, 2, 3, 4]))
    assert stored == [record(1), None, record(3), record(4)]
    assert run(stores.records.claimed([claim(), claim(OTHER)])) == [b"first", b"earlier"]


def test_of_many_puts_with_one_key_one_is_stored(run: Run, stores: Stores) -> None:
    puts = run(stores.records.put_many([Write([record(index)], claim(value=b"%d" % index)) for index in range(3)]))
    (first,) = [index for index, put in enumerate(puts) if put.stored]
    assert [put.claimed for put in puts] == [None if index == first else b"%d" % first for index in range(3)]
    stored = run(stores.records.get_many(RecordKind.POST, range(3)))
    assert [found_record is not None for found_record in stored] == [index == first for index in range(3)]


def test_an_expired_claim_can_be_taken_again(run: Run, stores: Stores) -> None:
    for number in range(20):  # more than a claim deletes at once, and expired before it
        run(stores.records.put([], claim=claim(b"before%010d" % number, b"", START_MS - 1)))
    run(stores.records.put([], claim=claim()))
    last_ms = START_MS + HOUR_MS - 1
    assert run(stores.records.put([], claim=claim(value=b"late", now_ms=last_ms))).claimed == b"first"
    assert run(stores.records.put([], claim=claim(value=b"anew", now_ms=last_ms + 1))).stored
    assert run(stores.records.put([], claim=claim(value=b"x", now_ms=last_ms + 2))).claimed == b"anew"
    for number in range(20):  # deleting expired claims must not delete the one that was taken again
        run(stores.records.put([], claim=claim(b"%016d" % number, b"", last_ms + 3)))
    assert run(stores.records.put([], claim=claim(value=b"x", now_ms=last_ms + 4))).claimed == b"anew"


def test_the_mark_has_the_position_and_version_of_the_write(run: Run, stores: Stores) -> None:
    put = run(stores.records.put([record(version=5)], writes_of(edge_of(ALICE, BOB), edge_of(ALICE, DANA))))
    assert put.mark.updated_at == record(version=5).updated_at
    assert NOWHERE not in (put.mark.at, *(change.log_position for change in put.changes))


def _without_marks(put: Put) -> Put:
    """An answer without the positions that only its engine can read."""
    changes = [msgspec.structs.replace(change, log_position=NOWHERE) for change in put.changes]
    return put._replace(changes=changes, mark=put.mark._replace(at=NOWHERE))


CALLS = st.tuples(
    st.integers(0, 2), st.integers(1, 4), st.binary(max_size=2), st.integers(-1, 4), st.sampled_from([None, KEY])
)
"""(id, version, data, the version that it requires or -1, its claim)"""


@given(puts=st.lists(CALLS, max_size=12))
def test_the_engine_equals_the_reference(
    compared: Engine, puts: list[tuple[int, int, bytes, int, bytes | None]]
) -> None:
    results = []
    for engine in (REFERENCE, compared):
        assert engine.stores
        with in_new_folder(engine.stores) as stores:
            run_coroutine(stores.edges.declare(["follows"]))
            answers = []
            for id_, version, data, condition, key in puts:
                versions = [AtVersion(RecordKind.POST, id_, condition and hlc_of(START_MS) + condition)]
                put = stores.records.put(
                    [record(id_, version, data)],
                    writes_of(edge_of(id_, 9, version=version)),
                    only_if=versions if condition >= 0 else (),
                    claim=None if key is None else claim(key, data),
                )
                answers.append(_without_marks(run_coroutine(put)))
            results.append((answers, run_coroutine(stores.records.get_many(RecordKind.POST, [0, 1, 2]))))
    assert results[0] == results[1]


def test_a_forgotten_record_leaves_no_trace(run: Run, stores: Stores) -> None:
    run(stores.records.put([record(1), record(2), record(1, kind=RecordKind.STORY), record(3)]))
    run(stores.records.forget(RecordKind.POST, [1, 3, 9, 1]))
    assert run(stores.records.get_many(RecordKind.POST, [1, 2, 3])) == [None, record(2), None]
    assert run(stores.records.get_many(RecordKind.STORY, [1])) == [record(1, kind=RecordKind.STORY)]
    run(stores.records.put([record(1, version=0)]))
    assert run(stores.records.get_many(RecordKind.POST, [1])) == [record(1, version=0)], (
        "no stored version is in the way"
    )


def test_a_conditional_forget_removes_only_the_version_that_was_read(run: Run, stores: Stores) -> None:
    first, second, third = (record(number, version=number + 4) for number in (1, 2, 3))
    run(stores.records.put([first, second, third]))
    versions = [first.updated_at, first.updated_at, third.updated_at + 1, 0]
    run(stores.records.forget(RecordKind.POST, [1, 2, 3, 9], versions))
    assert run(stores.records.versions(RecordKind.POST, [1, 2, 3, 9])) == [0, second.updated_at, third.updated_at, 0]
    run(stores.records.forget(RecordKind.POST, [3, 2], [third.updated_at, second.updated_at]))
    assert run(stores.records.versions(RecordKind.POST, [1, 2, 3])) == [0, 0, 0]


def test_records_of_a_kind_are_forgotten_up_to_an_id_in_batches(run: Run, stores: Stores) -> None:
    other_records = [record(2, kind=kind) for kind in (RecordKind.COMMENT, RecordKind.STORY)]
    run(stores.records.put([*(record(id_, kind=RecordKind.NOTICE) for id_ in (0, 3, 5, 7, 2**63 - 1)), *other_records]))

    def left() -> list[int]:
        stored = run(stores.records.get_many(RecordKind.NOTICE, [0, 3, 5, 7, 2**63 - 1]))
        return [found_record.id for found_record in stored if found_record is not None]

    assert run(stores.records.forget_below(RecordKind.NOTICE, 0, 9)) == 0
    assert run(stores.records.forget_below(RecordKind.NOTICE, 7, 2)) == 2
    assert left() == [5, 7, 2**63 - 1]
    assert run(stores.records.forget_below(RecordKind.NOTICE, 7, 2)) == 1
    assert run(stores.records.forget_below(RecordKind.NOTICE, 7, 2)) == 0
    assert left() == [7, 2**63 - 1]
    assert [run(stores.records.get_many(found_record.kind, [2])) for found_record in other_records] == [
        [found_record] for found_record in other_records
    ]


def test_an_engine_with_ordered_ids_lists_the_greatest_ids_of_a_kind(run: Run, engine: Engine, stores: Stores) -> None:
    other_records = [record(id_, kind=kind) for kind in (RecordKind.USER, RecordKind.STORY) for id_ in (1, 2**63 - 1)]
    run(stores.records.put([*(record(id_) for id_ in (0, 3, 5, 2**63 - 1)), *other_records]))

    def newest(below: int, limit: int) -> list[int]:
        ids: list[int] = run(stores.records.newest(RecordKind.POST, below, limit))
        return ids

    if engine.name.startswith("cassandra"):
        assert newest(ID_MAX, 9) == [], "an engine without ordered ids lists none"
        return
    assert newest(ID_MAX, 9) == [5, 3, 0]
    assert newest(ID_MAX, 2) == [5, 3]
    assert newest(5, 2) == [3, 0]
    assert newest(4, 9) == [3, 0]
    assert newest(0, 9) == []
    assert run(stores.records.newest(RecordKind.STORY, ID_MAX, 9)) == [1]
    assert run(stores.records.newest(RecordKind.NOTICE, ID_MAX, 9)) == []


def test_records_and_claims_are_there_after_a_restart(run: Run, lasting: Engine, tmp_path: Path) -> None:
    assert lasting.stores
    with lasting.stores(tmp_path) as first:
        run(first.records.put([record()], claim=claim()))
    with lasting.stores(tmp_path) as second:
        assert run(second.records.get_many(RecordKind.POST, [7])) == [record()]
        assert run(second.records.put([], claim=claim(value=b"second"))).claimed == b"first"
