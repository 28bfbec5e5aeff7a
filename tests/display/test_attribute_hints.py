"""What Spark's queries and DataFrames have, and runs and answers do not, is translated."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.query import StreamingQuery

import anabranch as ab
from anabranch.display.attribute_hints import RUN_INSTEAD, TABLE_INSTEAD
from anabranch.errors import PlanError

OF_SPARK = [name for name in dir(StreamingQuery) if not name.startswith("_")]


@pytest.fixture
def run() -> ab.LocalRun:
    rows = [{"k": k, "at": f"2026-11-01T10:00:0{k}"} for k in range(3)]
    return ab.Engine().stream(rows, start="at").window("10 seconds").run_local()


@pytest.mark.parametrize("name", OF_SPARK)
def test_an_attribute_of_a_streaming_query_is_there_or_has_a_replacement(name: str) -> None:
    # The name of a run on Spark is set when it starts.
    assert hasattr(ab.Run, name) or name in RUN_INSTEAD


@pytest.mark.parametrize("name", sorted(RUN_INSTEAD))
def test_a_run_says_what_to_write(run: ab.LocalRun, name: str) -> None:
    with pytest.raises(AttributeError, match=f"a run has no '{name}'; write "):
        getattr(run, name)


@pytest.mark.parametrize("name", sorted(TABLE_INSTEAD))
def test_an_answer_says_what_to_write(run: ab.LocalRun, name: str) -> None:
    with pytest.raises(AttributeError, match=f"an answer has no '{name}'; write "):
        getattr(run.events(), name)


def test_a_misspelt_name_is_guessed(run: ab.LocalRun) -> None:
    with pytest.raises(AttributeError, match="did you mean 'snapshot'"):
        run.snapshto  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'to_pandas'"):
        run.events().to_panda  # noqa: B018
    assert not hasattr(run, "_nothing")


def test_show_takes_rows_first_as_in_spark(
    run: ab.LocalRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run.show(2)
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 3 events; all final"
    run.show(at="2026-11-01 10:00:01")
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 rows at 2026-11-01T10:00:01")
    with pytest.raises(PlanError, match="a number of rows") as caught:
        run.show("2026-11-01 10:00:01")  # type: ignore[arg-type]
    assert "show(at='2026-11-01 10:00:01')" in caught.value.hint
