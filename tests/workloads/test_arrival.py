"""Bids arrive out of order, late and corrected, as ordered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.errors import QueryError
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Element, Stable, elements_of
from anabranch.model.history import History
from anabranch.model.legality import LegalityChecker
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, SECOND, Duration
from anabranch.workloads.arrival import (
    BID_PAYLOAD,
    Disturbance,
    bid_copy,
    bid_elements,
    bid_rows,
    write_bid_rows,
)
from anabranch.workloads.nexmark import BID, Nexmark

CONFIG = Nexmark(bids=100_000)
ROUGH = Disturbance(disorder=Duration(2 * SECOND), corrections=0.1, stable_every=500)


def elements(config: Nexmark, how: Disturbance, chunk_rows: int) -> list[Element]:
    batches = bid_elements(config, how, chunk_rows)
    return [element for batch in batches for element in elements_of(batch)]


def arrivals(batches: list[EventBatch]) -> list[Arrivals]:
    """One piece per batch; each stable point stands behind the rows of its batch."""
    pieces = []
    position = 0
    for batch in batches:
        rows = np.arange(position, position + len(batch))
        position += len(batch) + 1
        pieces.append(
            Arrivals(
                batch=batch,
                position=rows,
                is_adjust=batch.end != batch.start,
                stables=np.array([batch.stable]),
                stable_positions=np.array([position - 1]),
            )
        )
    return pieces


def violations(how: Disturbance) -> int:
    checker = LegalityChecker()
    found = 0
    for piece in arrivals(list(bid_elements(CONFIG, how))):
        found += len(checker.feed(piece, limit=10**6))
    return found


def test_the_size_of_pieces_has_no_influence() -> None:
    config = Nexmark(bids=2_000)
    how = Disturbance(disorder=Duration(SECOND // 5), corrections=0.2, late=0.01, stable_every=70)
    whole = elements(config, how, 10**6)
    assert elements(config, how, 17) == whole
    assert elements(config, how, 500) == whole
    assert sum(isinstance(element, Stable) for element in whole) > 30


def test_disorder_keeps_all_bids_and_is_bounded() -> None:
    calm = pa.Table.from_batches(bid_rows(CONFIG))
    rough = pa.Table.from_batches(bid_rows(CONFIG, Disturbance(disorder=Duration(2 * SECOND))))
    assert not calm.equals(rough)
    keys = [("bidTS", "ascending"), ("itemID", "ascending"), ("bidderID", "ascending")]
    keys.append(("price", "ascending"))
    assert rough.sort_by(keys).equals(calm.sort_by(keys))
    times = rough.column("bidTS").cast(pa.int64()).to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert SECOND < behind.max() <= 2 * SECOND


def test_late_bids_are_beyond_the_delay() -> None:
    how = Disturbance(disorder=Duration(2 * SECOND), late=0.001)
    times = pa.Table.from_batches(bid_rows(CONFIG, how)).column("bidTS").cast(pa.int64()).to_numpy()
    behind = np.maximum.accumulate(times) - times
    late = int((behind > 2 * SECOND).sum())
    assert 20 < late < 200


def test_without_late_bids_the_stream_is_legal() -> None:
    assert violations(Disturbance()) == 0
    assert violations(ROUGH) == 0


def test_late_bids_break_promises() -> None:
    how = Disturbance(disorder=Duration(SECOND), late=0.001, corrections=0.05)
    assert 20 < violations(how) < 200


def test_the_stream_makes_progress_and_ends() -> None:
    stables = [batch.stable for batch in bid_elements(CONFIG, ROUGH)]
    promised = [stable for stable in stables if stable > 0]
    assert promised == sorted(promised)
    assert len(promised) > 100
    assert stables[-1] == FOREVER


def test_corrections_withdraw_bids_or_change_their_price() -> None:
    batches = list(bid_elements(CONFIG, ROUGH))
    withdrawn = sum(int((batch.new_end == batch.start).sum()) for batch in batches)
    inserted = sum(int((batch.end == batch.start).sum()) for batch in batches)
    assert 9_000 < withdrawn < 11_000
    assert 4_000 < inserted - 100_000 < 6_000
    history = History.of(batches)
    assert len(history) == inserted - withdrawn
    assert (history.end == history.start + 1).all()


def test_elements_are_points_at_the_time_of_the_bid() -> None:
    calm = EventBatch.concat(list(bid_elements(Nexmark(bids=100))))
    rows = pa.Table.from_batches(bid_rows(Nexmark(bids=100)))
    assert calm.start.tolist() == rows.column("bidTS").cast(pa.int64()).to_pylist()
    assert calm.schema == BID_PAYLOAD
    assert calm.payload.to_pylist() == rows.drop_columns("bidTS").to_pylist()


def test_plain_rows_cannot_be_corrected() -> None:
    with pytest.raises(QueryError, match="plain rows cannot be corrected"):
        bid_rows(CONFIG, ROUGH)


def test_rows_are_written_to_a_file_or_spread_over_a_folder(tmp_path: Path) -> None:
    config = Nexmark(bids=1_000)
    whole = pa.Table.from_batches(bid_rows(config))
    write_bid_rows(tmp_path / "bids.parquet", config)
    assert pq.read_table(tmp_path / "bids.parquet").equals(whole)
    write_bid_rows(tmp_path / "bids", config, files=3)
    files = sorted((tmp_path / "bids").iterdir())
    assert [file.name for file in files] == [f"part-0000{i}.parquet" for i in range(3)]
    assert pa.concat_tables([pq.read_table(file) for file in files]).equals(whole)


def test_no_bids_are_an_empty_stream(tmp_path: Path) -> None:
    none = Nexmark(bids=0)
    assert [batch.stable for batch in bid_elements(none)] == [FOREVER]
    assert list(bid_rows(none)) == []
    write_bid_rows(tmp_path / "a.parquet", none)
    write_bid_rows(tmp_path / "b", none)
    assert pq.read_table(tmp_path / "a.parquet").schema == BID
    assert pq.read_table(tmp_path / "b").num_rows == 0


def test_senseless_options_are_refused() -> None:
    for options in ({"late": 2.0}, {"corrections": -1.0}, {"stable_every": 0}, {"disorder": -1}):
        with pytest.raises(QueryError):
            Disturbance(**options)


def copy_of(number: int, how: Disturbance) -> list[EventBatch]:
    return list(bid_copy(Nexmark(bids=3_000, rate=50.0), number, how))


def test_copies_mean_the_same_and_arrive_differently() -> None:
    calm = LogicalStream.of_batches(bid_elements(Nexmark(bids=3_000, rate=50.0)))
    hasty = Disturbance(disorder=Duration(SECOND), corrections=0.02, stable_every=40)
    copies = [copy_of(1, ROUGH), copy_of(2, ROUGH), copy_of(2, hasty)]
    for copy in copies:
        assert LogicalStream.of_batches(copy).agrees_with(calm) is None
    told = [[element for batch in copy for element in elements_of(batch)] for copy in copies]
    assert len({len(each) for each in told}) == 3
    assert told[0][:100] != told[1][:100]


def test_copies_are_legal_and_repeatable() -> None:
    checker = LegalityChecker()
    copy = copy_of(7, ROUGH)
    for piece in arrivals(copy):
        assert checker.feed(piece) == []
    again = copy_of(7, ROUGH)
    assert [elements_of(one) for one in again] == [elements_of(one) for one in copy]
    assert copy[-1].stable == FOREVER
