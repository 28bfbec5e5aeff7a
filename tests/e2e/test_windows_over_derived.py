"""Windows over derived streams on Spark, on microseconds, against DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.workloads.derived_windows import (
    DECLARATION,
    QUERIES,
    REFUSED,
    answers,
    expected,
    instants,
    write_bids,
)

from anabranch.engine import Engine
from anabranch.errors import PlanError

pytestmark = pytest.mark.spark


def test_windows_over_views_say_what_duckdb_says(engine: Engine, tmp_path: Path) -> None:
    folder = write_bids(tmp_path / "bids")
    engine.sql(DECLARATION.format(folder=folder).replace("CREATE", "CREATE OR REPLACE"))
    queries = {name: engine.sql(text) for name, (text, _) in QUERIES.items()}
    places = [tmp_path / f"out{number}" for number in range(len(queries))]
    runs = engine.start_all([*queries.values()], places, available_now=True)
    for name, run in zip(queries, runs, strict=True):
        run.await_end()
        found, wanted = answers(run.table()), expected(folder, QUERIES[name][1])
        assert [found(t) for t in instants()] == [wanted(t) for t in instants()], name
    with pytest.raises(PlanError, match="whose rows hold for"):
        engine.sql(REFUSED["a mean at every instant"]).start("memory", available_now=True)
