"""The public benchmark asks everyone the same queries, and counts them fairly."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from anabranch.bench.catalog import BENCHES
from anabranch.bench.nexmark import flink as nexmark_flink
from anabranch.bench.nexmark import flink_sql as nexmark_flink_sql
from anabranch.bench.nexmark import spark as nexmark_spark
from anabranch.bench.nexmark.nexmark import PEERS, NexmarkSize, QueryRate, _figures, nexmark
from anabranch.bench.nexmark.scripts import QUERIES, examples, script_of
from anabranch.bench.nexmark.warm_up import is_warm
from anabranch.bench.nexmark.where import time_row, time_sentence
from anabranch.bench.report import Report
from anabranch.errors import QueryError
from anabranch.workloads.nexmark_arrival import write_event_rows
from anabranch.workloads.nexmark_events import NexmarkEvents


def silent() -> Report:
    return Report("nexmark", lambda line: None)


def test_every_query_is_there_or_there_is_a_reason() -> None:
    assert len(QUERIES) == 23
    assert all((examples() / f"{query}.sql").exists() for query in QUERIES)
    for known, cannot in (
        (nexmark_spark.QUERIES, nexmark_spark.CANNOT),
        (nexmark_flink_sql.QUERIES, nexmark_flink.CANNOT),
    ):
        assert {*known} | {*cannot} == {*QUERIES}
        assert not {*known} & {*cannot}


@pytest.mark.parametrize("query", QUERIES)
def test_a_script_stands_alone(query: str, tmp_path: Path) -> None:
    text = script_of(query, tmp_path, files_per_batch=3)
    assert "\nINCLUDE" not in text
    assert "'data/" not in text
    assert f"SOURCE '{tmp_path}/bid' ORDERED BY dateTime KEEP DELAY 4 SECONDS WITH (" in text
    assert text.count("max_files_per_batch = 3") == 5


def test_tasks_of_flink_share_the_rows(tmp_path: Path) -> None:
    write_event_rows(tmp_path / "rows", NexmarkEvents(events=1_000), files=2)
    nexmark_flink.write_csv(tmp_path / "rows", tmp_path / "csv", 2)
    names = pq.read_schema(tmp_path / "rows" / "bid" / "part-00000.parquet").names
    options = pcsv.ReadOptions(column_names=names)
    parts = [pcsv.read_csv(tmp_path / "csv" / "bid" / f"part-{n}.csv", options) for n in (0, 1)]
    assert [part.num_rows for part in parts] == [460, 460]
    prices = pq.read_table(tmp_path / "rows" / "bid").column("price").to_pylist()
    assert parts[0].column("price").to_pylist() == prices[::2]
    assert parts[1].column("price").to_pylist() == prices[1::2]
    first = (tmp_path / "csv" / "bid" / "part-0.csv").read_text().splitlines()[0]
    assert '"2026-11-01 10:00:00.000"' in first


def test_shares_count_the_queries_that_a_peer_can_run() -> None:
    report = silent()
    speeds = {
        ("q0", "anabranch"): 200.0,
        ("q0", "spark"): 100.0,
        ("q0", "flink"): 400.0,
        ("q5", "anabranch"): 90.0,
        ("q5", "flink"): 60.0,
        ("q6", "anabranch"): 10.0,
    }
    _figures(report, speeds, ("spark", "flink"))
    assert report.figures == {
        "q0_events_per_s": 200.0,
        "q0_vs_spark": 2.0,
        "q0_vs_flink": 0.5,
        "q5_events_per_s": 90.0,
        "q5_vs_flink": 1.5,
        "q6_events_per_s": 10.0,
        "ahead_of_spark": 1.0,
        "ahead_of_flink": 0.5,
        "worst_ratio": 0.5,
        "pairs": 3.0,
    }


def test_everyone_warms_up_and_then_runs_in_turns() -> None:
    said: list[Mapping[str, Any]] = []
    size = NexmarkSize(
        events=1_000, files=1, files_per_batch=1, warm_ups=5, repeats=2, queries=("q0",)
    )
    measured = QueryRate(Report("nexmark", said.append), size)
    # Ours is warm after three more that are no faster than 1 s, Spark needs more than it gets.
    spent = {
        "anabranch": iter([2.0, 1.0, 1.01, 0.99, 0.5, 0.4]),
        "spark": iter([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]),
    }
    measured.run("q0", {who: partial(next, each) for who, each in spent.items()})
    order = [(line["engine"], "warm_up" in line, line["seconds"]) for line in said]
    assert order[:4] == [("anabranch", True, each) for each in (2.0, 1.0, 1.01, 0.99)]
    assert order[4:9] == [("spark", True, each) for each in (0.9, 0.8, 0.7, 0.6, 0.5)]
    assert order[9:] == [
        ("anabranch", False, 0.5),
        ("spark", False, 0.4),
        ("anabranch", False, 0.4),
        ("spark", False, 0.3),
    ]
    assert measured.rates["q0", "anabranch"] == [2_000.0, 2_500.0]


def test_spark_runs_the_form_that_is_faster_there() -> None:
    said: list[Mapping[str, Any]] = []
    say = Report("nexmark", said.append).measured
    forms = nexmark_spark.forms_of("q7")
    spent = iter([9.0, 2.0, 2.0, 4.0, 2.0, 2.0, 1.5, 4.0])
    assert nexmark_spark.faster_form("q7", lambda _: next(spent), say, 2) == forms["other"]
    assert said[0]["seconds"]["published"] == [9.0, 2.0]
    assert said[0]["chosen"] == "other"
    nexmark_spark.faster_form("q0", lambda _: next(spent), say, 2)
    assert len(said) == 1, "q0 has one form, which needs no run"


def test_slow_queries_warm_up_twice_and_the_smoke_form_never() -> None:
    assert is_warm([], most=0)
    assert not is_warm([30.0], most=5)
    assert is_warm([30.0, 20.0], most=5)
    # A first run that is slow says nothing of the others.
    assert not is_warm([30.0, 2.0], most=5)
    assert is_warm([30.0, 2.0], most=2)


def test_a_page_tells_where_the_time_of_a_query_goes() -> None:
    way = {
        "driver": 3,
        "tasks": 1,
        "batch_ms": {"spark": 20.0, "batch": 180.0},
        "stages_ms": {
            "0-join": {"gather": 10.0, "step": 30.0, "store": 0.5},
            "1-aggregate": {"step": 0.2},
        },
    }
    assert time_sentence(way) == (
        "An average batch takes 200 ms: 70 % to read files, evaluate expressions and exchange "
        "rows, 20 % in `0-join` (15 % to compute, 5 % to gather its rows), 10 % for planning and "
        "logs of Spark."
    )
    assert time_row("q4", way) == "| q4 | 3 in driver, 1 in tasks | 20 | 180 | 0-join 10/30/0 |"


def test_unknown_queries_and_peers_are_refused() -> None:
    assert BENCHES["nexmark"].options == ("queries", "peers")
    assert tuple(PEERS) == ("spark", "flink")
    with pytest.raises(QueryError, match="there is no query 'q23'"):
        nexmark(silent(), queries=["q23"])
    with pytest.raises(QueryError, match="there is no peer 'storm'"):
        nexmark(silent(), peers=["storm"])
