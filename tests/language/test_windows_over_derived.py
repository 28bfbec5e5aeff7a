"""Windows over derived streams, on microseconds: what runs, and what is refused with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab
from anabranch.errors import PlanError
from tests.workloads.derived_windows import (
    DECLARATION,
    QUERIES,
    REFUSED,
    answers,
    expected,
    instants,
    write_bids,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bids(tmp_path_factory.mktemp("derived") / "bids")


@pytest.fixture
def engine(folder: Path) -> ab.Engine:
    engine = ab.Engine()
    engine.sql(DECLARATION.format(folder=folder))
    return engine


@pytest.mark.parametrize("name", QUERIES)
def test_windows_over_views_say_what_duckdb_says(
    engine: ab.Engine, folder: Path, name: str
) -> None:
    query, sql = QUERIES[name]
    run = engine.sql(query).run_local("memory")
    found, wanted = answers(run.table()), expected(folder, sql)
    some = [wanted(t) for t in instants()]
    assert [found(t) for t in instants()] == some
    assert sum(map(bool, some)) > 5


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_need_a_row_per_instant_is_refused(engine: ab.Engine, name: str) -> None:
    query = engine.sql(REFUSED[name])
    for refused in (query.explain, lambda: query.run_local("memory")):
        with pytest.raises(PlanError, match="times") as raised:
            refused()
        assert "rows hold for" in str(raised.value)
        assert "SLIDE" in str(raised.value)
        assert "Istream" in str(raised.value)


def test_the_way_out_runs(engine: ab.Engine) -> None:
    """Changes of the means are points, and a window over points counts each of them once."""
    query = engine.sql("SELECT COUNT(*) AS n FROM Istream(Mean) WINDOW(RANGE 1 HOUR)")
    assert query.run_local("memory").table().num_rows > 100
