"""The auction house of the public benchmark is realistic, and the same for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from anabranch.errors import QueryError
from anabranch.model.arrivals import Arrivals
from anabranch.model.files.stream_file import read_batches
from anabranch.model.history import History
from anabranch.model.legality import LegalityChecker
from anabranch.model.time import FOREVER, SECOND, Duration
from anabranch.workloads.disturbance import Disturbance
from anabranch.workloads.nexmark_arrival import (
    ROUGH,
    VIEWS,
    event_elements,
    event_rows,
    write_event_elements,
    write_event_rows,
)
from anabranch.workloads.nexmark_events import (
    AUCTION,
    BID,
    SCHEMAS,
    NexmarkEvents,
    StreamName,
    event_number,
    prices,
)

CONFIG = NexmarkEvents(events=100_000, seed=3)
STREAMS: tuple[StreamName, ...] = ("person", "auction", "bid")


def table(config: NexmarkEvents, stream: StreamName, chunk: int = 10**6) -> pa.Table:
    return pa.Table.from_batches(list(event_rows(config, stream, chunk_rows=chunk)))


def times(rows: pa.Table, name: str = "dateTime") -> np.ndarray:
    return np.asarray(rows.column(name).cast(pa.int64()).to_numpy())


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in rows.column_names])


@pytest.mark.parametrize("stream", STREAMS)
def test_pieces_of_any_size_are_the_same_stream(stream: StreamName) -> None:
    whole = table(CONFIG, stream)
    assert table(CONFIG, stream, 777).equals(whole)
    assert whole.schema == SCHEMAS[stream]
    assert not table(NexmarkEvents(events=100_000, seed=4), stream).equals(whole)


@pytest.mark.parametrize("events", [0, 1, 2, 4, 5, 49, 50, 51, 1_234])
def test_of_fifty_events_one_is_a_person_and_three_are_auctions(events: int) -> None:
    config = NexmarkEvents(events=events)
    numbers = [event_number(each, np.arange(config.count(each))) for each in STREAMS]
    assert sorted(np.concatenate(numbers).tolist()) == list(range(events))
    assert [len(CONFIG.rows(each, np.arange(CONFIG.count(each)))) for each in STREAMS] == [
        *(2_000, 6_000, 92_000)
    ]


def test_the_first_rows_never_change() -> None:
    """Golden: answers that others have written down depend on these."""
    bids = CONFIG.bids(np.arange(3)).to_pylist()
    assert [(bid["auction"], bid["bidder"], bid["price"], bid["channel"]) for bid in bids] == [
        (1000, 1001, 157_450, "Facebook"),
        (1000, 1001, 1_945_703, "Apple"),
        (1002, 1001, 93_660, "channel-3062"),
    ]
    assert bids[0]["dateTime"].isoformat() == "2026-11-01T10:00:00+00:00"
    auction = CONFIG.auctions(np.arange(1)).to_pylist()[0]
    assert (auction["id"], auction["seller"], auction["category"]) == (1000, 1000, 14)


def test_events_come_in_order_at_the_given_rate() -> None:
    for stream in STREAMS:
        when = times(table(CONFIG, stream))
        assert (when[1:] >= when[:-1]).all()
        assert when[-1] - when[0] == pytest.approx(10 * SECOND, rel=0.01)


def test_few_auctions_bidders_and_sellers_are_hot() -> None:
    bids, auctions = table(CONFIG, "bid"), table(CONFIG, "auction")
    for rows, key, share in (
        (bids, "auction", 1 / 2),
        (bids, "bidder", 3 / 4),
        (auctions, "seller", 3 / 4),
    ):
        counts = rows.group_by(key).aggregate([([], "count_all")]).column("count_all").to_numpy()
        hot = np.sort(counts)[::-1][:60].sum() / rows.num_rows
        assert share - 0.05 < hot < share + 0.15
        assert len(counts) > 900


def test_bids_go_to_auctions_that_are_there_or_soon_will_be() -> None:
    bids, auctions = table(CONFIG, "bid"), table(CONFIG, "auction")
    joined = bids.join(auctions.select(["id", "expires"]), "auction", "id", join_type="inner")
    assert joined.num_rows > 0.99 * bids.num_rows
    newest = 1_000 + np.arange(bids.num_rows) // 46 * 3 + 2
    ahead = bids.column("auction").to_numpy() - newest
    assert 0 < ahead.max() <= 10
    assert ahead.min() >= -100


def test_auctions_last_as_long_as_the_next_hundred_take_to_open() -> None:
    auctions = table(CONFIG, "auction")
    length = times(auctions, "expires") - times(auctions)
    assert length.min() >= 1_000
    assert length.max() <= CONFIG.longest_auction
    assert length.mean() == pytest.approx(100 * 50 / 3 * SECOND / CONFIG.rate, rel=0.05)
    assert pc.all(pc.greater(auctions["reserve"], auctions["initialBid"])).as_py()
    assert sorted(set(auctions["category"].to_pylist())) == [10, 11, 12, 13, 14]


def test_prices_are_of_all_sizes() -> None:
    price = prices(np.linspace(0, 1, 60_001)[:-1])
    assert (price[1:] >= price[:-1]).all()
    assert (price[0], price[10_000], price[50_000]) == (100, 1_000, 10_000_000)
    assert price[-1] < 100_000_000
    assert price[5_000] == pytest.approx(316, rel=0.05)


def test_half_of_the_bids_come_through_channels_of_their_own() -> None:
    bids = table(CONFIG, "bid")
    known = pc.is_in(bids["channel"], pa.array(["Google", "Facebook", "Baidu", "Apple"]))
    assert 0.48 < pc.mean(known.cast(pa.int8())).as_py() < 0.52
    others = bids.filter(pc.invert(known))
    with_id = pc.match_substring(others["url"], "&channel_id=")
    assert 0.88 < pc.mean(with_id.cast(pa.int8())).as_py() < 0.92
    assert pc.all(pc.match_substring_regex(bids["url"], r"\.com/[a-z]+/[a-z]+/[a-z]+/")).as_py()
    # A channel has one url.
    pairs = bids.group_by(["channel", "url"]).aggregate([])
    assert pairs.num_rows == pc.count_distinct(bids["channel"]).as_py()


def test_disorder_keeps_all_events_and_is_bounded() -> None:
    how = Disturbance(disorder=Duration(SECOND))
    rough = pa.Table.from_batches(event_rows(CONFIG, "bid", how))
    calm = table(CONFIG, "bid")
    assert not rough.equals(calm)
    assert in_order(rough).equals(in_order(calm))
    when = times(rough)
    assert SECOND // 2 < (np.maximum.accumulate(when) - when).max() <= SECOND


@pytest.mark.parametrize("view", VIEWS)
def test_corrected_streams_are_legal_and_right_in_the_end(view: str) -> None:
    config = NexmarkEvents(events=20_000, rate=1_000)
    batches = list(event_elements(config, view, ROUGH))
    checker = LegalityChecker()
    place = 0
    for batch in batches:
        rows = np.arange(place, place + len(batch))
        place += len(batch) + 1
        piece = Arrivals(
            batch=batch,
            position=rows,
            is_adjust=batch.end != batch.start,
            stables=np.array([batch.stable]),
            stable_positions=np.array([place - 1]),
        )
        assert checker.feed(piece, limit=1) == []
    assert batches[-1].stable == FOREVER
    seen = VIEWS[view]
    right = table(config, seen.stream)
    history = History.of(batches)
    assert in_order(pa.Table.from_batches([history.payload])).equals(in_order(right))
    starts = times(right, seen.start)
    assert sorted(history.start.tolist()) == sorted(starts.tolist())
    ends = starts + 1 if seen.end is None else times(right, seen.end)
    assert sorted(history.end.tolist()) == sorted(ends.tolist())
    withdrawn = sum(int((batch.new_end == batch.start).sum()) for batch in batches)
    assert withdrawn / right.num_rows == pytest.approx(0.1, abs=0.04)


def test_rows_are_spread_over_files(tmp_path: Path) -> None:
    config = NexmarkEvents(events=2_000)
    write_event_rows(tmp_path, config, files=4)
    for stream in STREAMS:
        files = sorted((tmp_path / stream).iterdir())
        assert [file.name for file in files] == [f"part-{n:05}.parquet" for n in range(4)]
        assert pa.concat_tables(map(pq.read_table, files)).equals(table(config, stream))
    side = pcsv.read_csv(tmp_path / "side_input.csv")
    assert side.column_names == ["key", "value"]
    assert side.num_rows == 10_000


def test_elements_are_spread_over_files(tmp_path: Path) -> None:
    config = NexmarkEvents(events=2_000, rate=100)
    write_event_elements(tmp_path, config, files=4)
    for view in VIEWS:
        files = sorted((tmp_path / view).iterdir())
        assert len(files) in (3, 4, 5)
        assert max(batch.stable for batch in read_batches(files[-1])) == FOREVER
    assert (tmp_path / "side_input.csv").exists()


def test_no_events_are_empty_streams(tmp_path: Path) -> None:
    write_event_rows(tmp_path, NexmarkEvents(events=0))
    assert pq.read_table(tmp_path / "bid").schema == BID
    assert pq.read_table(tmp_path / "auction").schema == AUCTION
    assert [batch.stable for batch in event_elements(NexmarkEvents(events=0), "bid")] == [FOREVER]


def test_plain_rows_cannot_be_corrected() -> None:
    with pytest.raises(QueryError, match="plain rows cannot be corrected"):
        event_rows(CONFIG, "bid", ROUGH)


@pytest.mark.parametrize(
    "options",
    [{"events": -1}, {"rate": 0.0}, {"chronon": 0}, {"open_auctions": 0}, {"channels": 0}],
)
def test_senseless_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(QueryError):
        NexmarkEvents(**options)
