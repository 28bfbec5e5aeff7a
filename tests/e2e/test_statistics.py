"""What a query measures of itself on Spark is what its rows are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.engine import Engine
from anabranch.runtime.store.query_statistics import QueryStatistics, read_statistics

pytestmark = pytest.mark.spark

ROWS = 60_000
BATCHES = 6
WINDOW = 500


def write_rows(folder: Path, name: str, keys: int, seed: int) -> None:
    """Ten rows per chronon, in as many files as there are batches."""
    draw = np.random.default_rng(seed)
    (folder / name).mkdir(parents=True)
    for number in range(BATCHES):
        each = ROWS // BATCHES
        at = (np.arange(each) + number * each) // 10
        rows = {"k": draw.integers(0, keys, each), "v": draw.integers(0, 100, each), "at": at}
        pq.write_table(pa.table(rows), folder / name / f"{number}.parquet")


def declare(engine: Engine, folder: Path) -> None:
    for name in ("A", "B"):
        engine.sql(
            f"CREATE STREAM {name} (k BIGINT, v BIGINT, at BIGINT) SOURCE '{folder / name}' "
            "ORDERED BY at DELAY 0 WITH (max_files_per_batch = 1)"
        )


QUERY = f"""
    SELECT A.k AS k, COUNT(*) AS n
    FROM A WINDOW(RANGE {WINDOW}), B WINDOW(RANGE {WINDOW})
    WHERE A.k = B.k AND A.v < 25
    GROUP BY A.k
"""


def measured(run_folder: Path) -> QueryStatistics:
    found = read_statistics(str(run_folder))
    assert found is not None
    return found


def test_statistics_are_measured_and_kept(engine: Engine, tmp_path: Path) -> None:
    for seed, name in enumerate(("A", "B")):
        write_rows(tmp_path, name, 2_000, seed)
    declare(engine, tmp_path)
    home = tmp_path / "checkpoint"
    query = engine.sql(QUERY)
    run = query.start("nothing", checkpoint=home, available_now=True)
    run.await_end()

    found = measured(home)
    assert found.batches == BATCHES
    for name in ("A", "B"):
        assert found.sources[name].rate == pytest.approx(10, rel=0.02)
        assert found.sources[name].lifetime == 1
        assert found.sources[name].values["k"] == pytest.approx(2_000, rel=0.35)
    by_label = {each.label.split()[0]: each for each in found.operators.values()}
    assert by_label["Filter"].share == pytest.approx(0.25, rel=0.05)
    assert by_label["Join"].share == pytest.approx(1 / 2_000, rel=0.2)
    # What is held reaches back by a window, from the last stable point.
    assert by_label["Join"].state_rows >= 12.5 * WINDOW * 0.8
    assert by_label["Join"].state_bytes > 0
    assert by_label["Join"].keys == pytest.approx(2_000, rel=0.35)
    assert by_label["Aggregate"].seconds > 0
    assert sum(by_label["Aggregate"].rows_in) == pytest.approx(by_label["Join"].rows_out)
    # What is priced by this is near to what was seen.
    prices = found.for_plans()
    assert prices.shares['"A.k" = "B.k"'] == by_label["Join"].share

    # It goes on after a restart, with the same plan.
    for name in ("A", "B"):
        each = ROWS // BATCHES
        at = (np.arange(each) + ROWS) // 10
        rows = {"k": np.arange(each) % 7, "v": np.zeros(each, np.int64), "at": at}
        pq.write_table(pa.table(rows), tmp_path / name / "later.parquet")
    query.start("nothing", checkpoint=home, available_now=True).await_end()
    later = measured(home)
    assert later.batches == BATCHES + 1
    assert later.operators.keys() == found.operators.keys()
    assert later.sources["A"].values["k"] < found.sources["A"].values["k"]


def test_a_query_resumes_with_its_plan_whatever_is_declared_anew(
    first_engine: Engine, tmp_path: Path
) -> None:
    for seed, name in enumerate(("A", "B", "C")):
        write_rows(tmp_path, name, 5_000, seed)
    text = """
        SELECT A.v AS a, B.v AS b, C.v AS c
        FROM A WINDOW(RANGE 10), B WINDOW(RANGE 10), C WINDOW(RANGE 10)
        WHERE A.k = B.k AND B.k = C.k
    """
    plans = []
    for rates in ({"A": 1, "B": 1, "C": 1000}, {"A": 1000, "B": 1, "C": 1}):
        with Engine(first_engine.spark, shards=2) as engine:
            for name, rate in rates.items():
                engine.sql(
                    f"CREATE STREAM {name} (k BIGINT, v BIGINT, at BIGINT) "
                    f"SOURCE '{tmp_path / name}' ORDERED BY at DELAY 0 RATE {rate} "
                    "DISTINCT (k 5000) WITH (max_files_per_batch = 3)"
                )
            query = engine.sql(text)
            plans.append(query.explain())
            run = query.start("nothing", checkpoint=tmp_path / "home", available_now=True)
            run.await_end()
    assert plans[0] != plans[1]
