"""The parts of the demo that need no Spark: feeds, plans, what is recorded and drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anabranch.bench.demo.answer import (
    check_promises,
    compare,
    query_plan,
    right_answer,
)
from anabranch.bench.demo.correction import compare_means
from anabranch.bench.demo.feeds import (
    BIDS,
    PARTS,
    STEP,
    TAMPERED,
    ReplicaFeed,
    feed_of,
    tampered,
    write_opening,
)
from anabranch.bench.demo.quotes import (
    HOUR,
    UNTIL,
    believed,
    corrected,
    hourly_means,
    write_correction,
    write_feed,
)
from anabranch.bench.demo.quotes_query import CORRECTION, QUOTES, hourly
from anabranch.bench.demo.replica import FEEDS, PLANS, replica_name, script_of
from anabranch.engine import Engine
from anabranch.errors import EngineError
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.files.stream_file import read_arrivals
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.model.time import FOREVER, SECOND, Time
from anabranch.optimizer.driver import optimize
from anabranch.stream import Stream
from anabranch.testing.oracle import meaning
from anabranch.workloads.arrival import bid_elements
from anabranch.workloads.quotes import BEGIN, FIRST_SYMBOL


@pytest.fixture(scope="module")
def feeds() -> dict[int, ReplicaFeed]:
    return {number: feed_of(number) for number in PLANS}


@pytest.fixture(scope="module")
def right() -> LogicalStream:
    return right_answer(bid_elements(BIDS))


def all_of(feed: ReplicaFeed) -> list[EventBatch]:
    return [batch for part in feed.parts for batch in part]


def query_of(number: int, folder: Path) -> Stream:
    feed = folder / FEEDS / replica_name(number)
    feed.mkdir(parents=True)
    write_opening(feed)
    query: Stream = Engine().sql(script_of(number, folder)).canonical()
    return query


def test_feeds_differ_and_mean_the_bids(feeds: dict[int, ReplicaFeed]) -> None:
    bids = LogicalStream.of_batches(bid_elements(BIDS))
    for feed in feeds.values():
        assert LogicalStream.of_batches(all_of(feed)).agrees_with(bids) is None
    assert len({feed.elements for feed in feeds.values()}) == len(feeds)


def test_parts_of_feeds_end_alike(feeds: dict[int, ReplicaFeed]) -> None:
    for feed in feeds.values():
        assert len(feed.ends) == PARTS
        assert feed.ends[-1] == FOREVER
        for place, end in enumerate(feed.ends[:-1], 1):
            assert BIDS.begin + place * STEP <= end < BIDS.begin + (place + 1) * STEP


def test_a_tampered_feed_is_legal_and_wrong_for_a_while(feeds: dict[int, ReplicaFeed]) -> None:
    honest, other = all_of(feeds[2]), all_of(tampered(feeds[2]))
    for one, two in zip(honest, other, strict=True):
        meant = (one.start >= TAMPERED[0]) & (one.start < TAMPERED[1])
        same = np.equal(one.payload["price"], two.payload["price"])
        assert (same == ~meant).all()
    differs = LogicalStream.of_batches(other).agrees_with(LogicalStream.of_batches(honest))
    assert differs is not None
    assert TAMPERED[0] <= differs < TAMPERED[1]


@pytest.mark.parametrize("number", PLANS)
def test_plans_mean_the_same(number: int, tmp_path: Path) -> None:
    query = query_of(number, tmp_path)
    assert query.schema.names == query_plan().schema.names
    assert query.schema.types == query_plan().schema.types
    bids = list(bid_elements(replace(BIDS, bids=1_000)))
    meant = meaning(query.node, {"Bid": LogicalStream.of_batches(bids)})
    assert meant.agrees_with(right_answer(bids)) is None


@pytest.mark.parametrize("number", PLANS)
def test_every_replica_gives_the_answer(
    number: int, feeds: dict[int, ReplicaFeed], right: LogicalStream, tmp_path: Path
) -> None:
    runner = LocalRunner(optimize(query_of(number, tmp_path).node).node)
    answer = [runner.step({"Bid": EventBatch.concat(part)}) for part in feeds[number].parts]
    assert answer[-1].stable == FOREVER
    assert compare(right, answer) > 20
    check_promises(answer)


def test_a_wrong_answer_is_noticed(
    feeds: dict[int, ReplicaFeed], right: LogicalStream, tmp_path: Path
) -> None:
    runner = LocalRunner(optimize(query_of(2, tmp_path).node).node)
    answer = [runner.step({"Bid": EventBatch.concat(part)}) for part in tampered(feeds[2]).parts]
    with pytest.raises(EngineError, match="the demo's answer is wrong"):
        compare(right, answer)


def test_a_broken_promise_is_noticed(feeds: dict[int, ReplicaFeed]) -> None:
    part = EventBatch.concat(feeds[1].parts[0])
    with pytest.raises(EngineError, match="breaks a promise"):
        check_promises([part, part])


def corrected_quotes(folder: Path) -> list[EventBatch | Revision]:
    """What the query of the third act writes, in this process."""
    write_feed(folder / QUOTES)
    write_correction(folder / QUOTES / CORRECTION)
    hourly(Engine(), folder).run_local(to=folder / "means.jsonl")
    return [part for each in read_arrivals(folder / "means.jsonl") for part in each.parts()]


def test_a_corrected_price_changes_the_answer_of_yesterday(tmp_path: Path) -> None:
    parts = corrected_quotes(tmp_path)
    before, after = hourly_means(believed()), hourly_means(corrected())
    changed = {key for key, mean in after.items() if before[key] != mean}
    assert len(changed) == 2
    assert {symbol for symbol, _ in changed} == {FIRST_SYMBOL}
    noon = Time(BEGIN + UNTIL * SECOND)
    known = [part for part in parts if isinstance(part, EventBatch)]
    assert compare_means(before, known, noon, "before") == len(before) - 4
    moves = [part.changes if isinstance(part, Revision) else part for part in parts]
    assert compare_means(after, moves, noon, "after") == len(after) - 4
    with pytest.raises(EngineError, match="the demo's answer is wrong"):
        compare_means(after, known, noon, "before")
    revisions = [part for part in parts if isinstance(part, Revision)]
    assert [each.number for each in revisions] == [1]
    assert revisions[0].last <= noon - 12 * HOUR
