"""Late rows correct what queries on Spark have settled: against DuckDB over the corrected input."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.revised_queries import (
    DIRECT,
    SWAPPED,
    assert_answers,
    assert_legal,
    bids,
    direct_queries,
    swapped_queries,
    write_bids,
)

from anabranch.engine import Engine
from anabranch.runtime.sources.files.log_folder import LogFolder

pytestmark = pytest.mark.spark


def run_direct(engine: Engine, folder: Path, shards: int) -> None:
    with Engine(engine.spark, shards=shards) as other:
        bid, item = bids(other, folder / "bid"), bids(other, folder / "item", "Item")
        queries = direct_queries(bid, item)
        targets = [folder / f"out-{number}" for number in range(len(queries))]
        runs = other.start_all(queries, targets, checkpoint=folder / "ck", available_now=True)
        for run in runs:
            run.await_end()


def test_several_queries_are_corrected_together(first_engine: Engine, tmp_path: Path) -> None:
    """Over three starts, the second with another number of shards while corrections wait.

    All in all 116,400 rows in several parts, 177 of them too late.
    """
    inputs = {"Bid": tmp_path / "bid", "Item": tmp_path / "item"}
    # Item is behind, so that what Bid changes in the join is settled bit by bit.
    for begin, end, items, shards in ((0, 6, 3, 2), (6, 9, 7, 3), (9, 12, 12, 2)):
        write_bids(inputs["Bid"], range(begin, end), 9_000, 12)
        write_bids(inputs["Item"], range(items), 700, 3)
        run_direct(first_engine, tmp_path, shards)
        # Answers are corrected as far as those of all queries of the job are settled.
        before = min(end, items) * 1000 - 200
        for number, query in enumerate(DIRECT):
            assert_answers(tmp_path / f"out-{number}", query, inputs, before)
    for number in range(len(DIRECT)):
        assert_legal(tmp_path / f"out-{number}")
        assert LogFolder(str(tmp_path / f"out-{number}")).revisions()


def run_swapped(engine: Engine, folder: Path, shards: int) -> None:
    with Engine(engine.spark, shards=shards) as other:
        queries = swapped_queries(bids(other, folder / "bid"))
        targets = [folder / f"out-{number}" for number in range(len(queries))]
        runs = other.start_all(
            queries, targets, checkpoint=folder / "ck", available_now=True, allow_unbounded=True
        )
        for run in runs:
            run.await_end()


def test_several_queries_exchange_their_state(first_engine: Engine, tmp_path: Path) -> None:
    inputs = {"Bid": tmp_path / "bid"}
    for begin, end, shards in ((0, 4, 2), (4, 6, 3)):
        write_bids(inputs["Bid"], range(begin, end), 1_500, 10)
        run_swapped(first_engine, tmp_path, shards)
        for number, query in enumerate(SWAPPED):
            assert_answers(tmp_path / f"out-{number}", query, inputs, end * 1000 - 300)
    for number in range(len(SWAPPED)):
        assert_legal(tmp_path / f"out-{number}")
        assert LogFolder(str(tmp_path / f"out-{number}")).revisions()
