"""The public benchmark asks everyone the same queries, and counts them fairly."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from anabranch.bench.catalog import BENCHES
from anabranch.bench.nexmark import flink as nexmark_flink
from anabranch.bench.nexmark import flink_sql as nexmark_flink_sql
from anabranch.bench.nexmark import spark as nexmark_spark
from anabranch.bench.nexmark.nexmark import PEERS, _figures, nexmark
from anabranch.bench.nexmark.scripts import QUERIES, examples, script_of
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
    }


def test_unknown_queries_and_peers_are_refused() -> None:
    assert BENCHES["nexmark"].options == ("queries", "peers")
    assert tuple(PEERS) == ("spark", "flink")
    with pytest.raises(QueryError, match="there is no query 'q23'"):
        nexmark(silent(), queries=["q23"])
    with pytest.raises(QueryError, match="there is no peer 'storm'"):
        nexmark(silent(), peers=["storm"])
