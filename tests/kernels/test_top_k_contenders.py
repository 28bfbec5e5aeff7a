"""Rows that cannot be among the first k are left out before anything is sorted."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.top_k import TopK
from anabranch.kernels.columns import compiled_contenders as loops
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.top_k import top_k
from anabranch.kernels.top_k.row_order import rank_rows
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import LocalRunner, assert_agrees, batchings
from tests.kernels.busy import busy_streams
from tests.kernels.plans import SOURCE
from tests.kernels.test_top_k import ORDERS, top
from tests.kernels.test_top_k_sweep import SURVEYED, SWEPT, sent

ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([(0, 10), (0, 20), (10, 20), (BEGINNING, FOREVER)]),
        st.integers(0, 5),
        st.integers(0, 1),
        st.booleans(),
    ),
    max_size=40,
)


@given(ROWS, st.sampled_from([1, 2, 3, 7, 10**15]))
def test_rows_with_k_better_ones_of_their_lifetime_are_left_out(
    rows: list[tuple[int, tuple[int, int], int, int, bool]], k: int
) -> None:
    columns_ = zip(*((o, *life, a, b, c) for o, life, a, b, c in rows), strict=True)
    owner, begin, finish, a, b, counted = (
        (np.array(c, np.int64) for c in columns_) if rows else (np.empty((6, 0), np.int64))
    )
    kept = loops.contenders(k, owner, begin, finish, np.stack([a, b]), counted.astype(np.bool_))
    for row, (o, life, *key, c) in enumerate(rows):
        better = [one for one in rows if one[:2] == (o, life) and one[4] and [*one[2:4]] < key]
        assert kept[row] == (not c or len(better) < k)


@given(ROWS, st.data())
def test_rows_like_others_agree_in_owner_and_keys(
    rows: list[tuple[int, tuple[int, int], int, int, bool]], data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
    owner = np.array([row[0] for row in rows], np.int64)
    keys = np.array([row[2:4] for row in rows], np.int64).reshape(-1, 2).T.copy()
    found = loops.like(owner, keys, np.array(wanted, np.int64))
    signs = {(rows[one][0], *rows[one][2:4]) for one in wanted}
    assert found.tolist() == [(row[0], *row[2:4]) in signs for row in rows]


@st.composite
def tops_of_windows(draw: st.DrawFn) -> TopK:
    size = draw(st.sampled_from([5, 10, 40]))
    window = TimeWindow(input=SOURCE, size=Duration(size), slide=Duration(size))
    by = draw(st.sampled_from([(), ("k",)]))
    return top(window, draw(st.sampled_from([1, 2, 3])), *draw(ORDERS), by=by)


@given(tops_of_windows(), busy_streams(most=120).flatmap(batchings))
def test_windows_on_a_grid(node: TopK, batches: list[EventBatch]) -> None:
    swept = sent(node, batches, SWEPT)
    assert swept == sent(node, batches, SURVEYED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "COMPILE_FROM_ROWS", 0)
        patch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", 0)
        assert_agrees(node, batches)


KEYED = pa.schema([("k", pa.int64()), ("v", pa.int64())])
STREAM = Source(name="S", schema=KEYED)
SPAN = 100


def corrected(seed: int, rows: int, parts: int) -> Iterator[EventBatch]:
    """Rows of windows; a fifth are withdrawn or end earlier, in their batch or in the next one."""
    chance = np.random.default_rng(seed)
    late: EventBatch | None = None
    each = rows // parts
    for part in range(parts):
        start = (part + chance.integers(0, 3, each)) * SPAN
        columns_ = [chance.integers(0, 40, each), chance.integers(0, each // 20, each)]
        payload = pa.RecordBatch.from_arrays([*map(pa.array, columns_)], schema=KEYED)
        came = EventBatch(payload, start, start, start + SPAN, BEGINNING)
        chosen = came.take(np.flatnonzero(chance.random(each) < 0.2))
        cut = chosen.start + np.where(chance.random(len(chosen)) < 0.7, 0, SPAN // 2)
        back = chosen.with_ends(chosen.new_end, cut)
        soon = chance.random(len(back)) < 0.5
        # What is withdrawn a batch later holds in a window that is still open then.
        soon |= back.start <= part * SPAN
        moves = [came, back.where(soon), *([] if late is None else [late])]
        late = back.where(~soon)
        stable = FOREVER if part == parts - 1 else Time(part * SPAN)
        if part == parts - 1:
            moves.append(late)
        mixed = EventBatch.concat(moves)
        yield mixed.take(chance.permutation(len(mixed))).with_stable(stable)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_a_hundred_thousand_corrected_rows_on_two_shards_as_duckdb_says(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", 0)
    batches = list(corrected(k, 120_000, 8))
    node = top(STREAM, k, ("v", True, False), by=("k",))
    sent_rows = []
    for shard in range(2):
        runner = LocalRunner(node)
        for batch in batches:
            keys = np.asarray(batch.payload.column("k"))
            own = batch.where(keys % 2 == shard).with_stable(batch.stable)
            sent_rows.append(runner.step({"S": own}))
        assert runner.state_rows() == 0
    found = _table(net(EventBatch.concat(sent_rows)))
    rows = _table(net(EventBatch.concat(batches)))
    instants = pa.table({"t": np.arange(0, 11 * SPAN, SPAN // 2)})
    asked = f"""
        SELECT t, k, v FROM instants JOIN rows ON rows.start <= t AND t < rows.finish
        QUALIFY row_number() OVER (PARTITION BY t, k ORDER BY v DESC) <= {k}"""
    got = "SELECT t, k, v FROM instants JOIN found ON found.start <= t AND t < found.finish"
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        for name, table in (("rows", rows), ("found", found), ("instants", instants)):
            connection.register(name, table)
        for one, other in ((asked, got), (got, asked)):
            assert not connection.sql(f"({one}) EXCEPT ALL ({other})").fetchall()
        assert len(connection.sql(asked).fetchall()) > 500


def _table(rows: EventBatch) -> pa.Table:
    assert (rows.end == rows.start).all()
    k, v = rows.payload.columns
    return pa.table({"k": k, "v": v, "start": rows.start, "finish": rows.new_end})


def test_a_large_batch_is_left_out_but_for_its_best_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", 0)
    looked_at = []

    def counting(concat: object, owner: np.ndarray, *rest: object) -> object:
        looked_at.append(len(owner))
        return rank_rows(concat, owner, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(top_k, "rank_rows", counting)
    runner = LocalRunner(top(STREAM, 3, ("v", True, False), by=("k",)))
    (batch,) = corrected(1, 20_000, 1)
    runner.step({"S": batch.with_stable(Time(0))})
    # 40 keys in three windows; rows equal to the last one stay, and what ends earlier.
    assert sum(looked_at) < 6_000


def test_what_came_and_went_or_has_ended_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "COMPILE_FROM_ROWS", 0)
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", 0)
    start, once = np.zeros(100, np.int64), np.arange(100)
    payload = pa.RecordBatch.from_arrays([pa.array(start), pa.array(once)], schema=KEYED)
    came = EventBatch(payload, start, start, np.where(once < 30, 10, 20), BEGINNING)
    back = came.take(np.arange(90, 100)).with_ends(came.new_end[90:], start[90:])
    runner = LocalRunner(top(STREAM, 3, ("v", True, False), by=("k",)))
    runner.step({"S": EventBatch.concat([came, back]).with_stable(Time(11))})
    assert sum(len(run) for run in runner.traces[0].runs["events"]) == 60
