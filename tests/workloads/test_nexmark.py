"""The auction is realistic, and the same for the same seed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch.errors import QueryError
from anabranch.model.time import SECOND, Duration
from anabranch.workloads.arrival import bid_rows
from anabranch.workloads.nexmark import (
    BID,
    CLOSED_AUCTION,
    FIRST_ID,
    OPEN_AUCTION,
    PERSON,
    Nexmark,
    closed_auctions,
    open_auctions,
    persons,
)

CONFIG = Nexmark(bids=20_000, seed=3)


def table(parts: object) -> pa.Table:
    return pa.Table.from_batches(list(parts))  # type: ignore[call-overload]


@pytest.mark.parametrize("make", [bid_rows, open_auctions, closed_auctions, persons])
def test_pieces_of_any_size_are_the_same_stream(make: object) -> None:
    assert callable(make)
    whole = table(make(CONFIG, chunk_rows=10**6))
    assert table(make(CONFIG, chunk_rows=777)).equals(whole)
    assert not table(make(Nexmark(bids=20_000, seed=4))).equals(whole)


def test_the_streams_have_their_schemas() -> None:
    for make, schema in (
        (bid_rows, BID),
        (open_auctions, OPEN_AUCTION),
        (closed_auctions, CLOSED_AUCTION),
        (persons, PERSON),
    ):
        assert table(make(CONFIG)).schema == schema


def test_the_first_bids_never_change() -> None:
    """Golden: tutorials and tests of others show these rows."""
    rows = table(bid_rows(Nexmark(bids=5))).to_pylist()
    assert [(row["itemID"], row["bidderID"], row["price"]) for row in rows] == [
        (1000, 1000, 1.01),
        (1000, 1000, 1.24),
        (1000, 1000, 1.17),
        (1000, 1000, 1.38),
        (1000, 1000, 1.07),
    ]
    assert [row["bidTS"].isoformat() for row in rows][:2] == [
        "2026-11-01T10:00:00+00:00",
        "2026-11-01T10:00:00.001000+00:00",
    ]


def test_there_are_ten_bids_per_item_and_a_hundred_per_person() -> None:
    assert table(bid_rows(CONFIG)).num_rows == 20_000
    assert table(open_auctions(CONFIG)).num_rows == 2_000
    assert table(closed_auctions(CONFIG)).num_rows == 2_000
    assert table(persons(CONFIG)).num_rows == 200


def test_bids_come_in_order_at_the_given_rate() -> None:
    times = table(bid_rows(CONFIG)).column("bidTS").cast(pa.int64()).to_numpy()
    assert (times[1:] >= times[:-1]).all()
    assert times[-1] - times[0] == pytest.approx(20 * SECOND, rel=0.01)
    # Several bids share one time.
    fast = Nexmark(bids=1_000, rate=100_000)
    assert pc.count_distinct(table(bid_rows(fast)).column("bidTS")).as_py() < 20


def test_a_bid_lies_between_the_opening_and_the_closing_of_its_auction() -> None:
    joined = (
        table(bid_rows(CONFIG))
        .join(table(open_auctions(CONFIG)), "itemID", join_type="inner")
        .join(table(closed_auctions(CONFIG)), "itemID", join_type="inner")
    )
    assert joined.num_rows == 20_000
    assert pc.all(pc.greater_equal(joined["bidTS"], joined["openTS"])).as_py()
    assert pc.all(pc.less(joined["bidTS"], joined["closeTS"])).as_py()


def test_bidders_sellers_and_buyers_are_persons() -> None:
    registered = table(persons(CONFIG)).select(["id", "registrationTime"])
    for stream, key, time in (
        (table(bid_rows(CONFIG)), "bidderID", "bidTS"),
        (table(open_auctions(CONFIG)), "sellerID", "openTS"),
    ):
        joined = stream.join(registered, key, "id", join_type="inner")
        assert joined.num_rows == stream.num_rows
        assert pc.all(pc.less_equal(joined["registrationTime"], joined[time])).as_py()
    buyers = table(closed_auctions(CONFIG)).column("buyerID")
    assert 0 < buyers.null_count < 200


def test_few_items_are_hot() -> None:
    rows = table(bid_rows(CONFIG)).group_by("itemID").aggregate([("price", "count")])
    counts = sorted(rows.column("price_count").to_pylist(), reverse=True)
    assert sum(counts[:200]) > 0.4 * 20_000
    assert len(counts) > 1_500


def test_the_number_of_items_can_be_fixed() -> None:
    fixed = Nexmark(bids=50_000, items=1_000)
    items = table(bid_rows(fixed)).column("itemID")
    assert pc.min(items).as_py() >= FIRST_ID
    assert pc.max(items).as_py() < FIRST_ID + 1_000
    assert pc.count_distinct(items).as_py() > 990
    assert table(open_auctions(fixed)).num_rows == 1_000
    assert list(closed_auctions(fixed)) == []


def test_prices_are_positive_and_in_cents() -> None:
    price = table(bid_rows(CONFIG)).column("price").to_numpy()
    assert price.min() > 0
    assert (price.round(2) == price).all()


@pytest.mark.parametrize(
    "options",
    [{"bids": -1}, {"rate": 0.0}, {"hot": 1.5}, {"chronon": Duration(0)}, {"open_items": 0}],
)
def test_senseless_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(QueryError):
        Nexmark(**options)  # type: ignore[arg-type]
