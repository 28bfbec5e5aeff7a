"""Settings of the user's session change no answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.engine import Engine
from anabranch.errors import AnabranchError
from anabranch.model.logical import LogicalStream
from anabranch.runtime.spark.session_free import SETTINGS, pinned

pytestmark = pytest.mark.spark

AT = datetime(2026, 3, 29, 0, 30, tzinfo=timezone.utc)
ROWS: dict[str, Any] = {
    "t": [1, 2, 3, 4],
    "at": [AT, AT + timedelta(hours=5), None, AT - timedelta(days=120)],
    "clock": [AT.replace(tzinfo=None), None, datetime(2026, 7, 1, 23), datetime(1969, 12, 31, 20)],
    "day": [date(2026, 3, 29), date(2025, 12, 31), None, date(1969, 12, 31)],
    "k": [2**63 - 2, -5, None, 0],
    "small": pa.array([127, -1, 0, None], pa.int8()),
    "x": [1.5, float("nan"), None, -0.0],
    "s": ["2026-03-29 00:30:00", "12", 'it\'s \\ "x"', None],
    "b": [True, False, None, True],
}

COLUMNS = {
    "hour": "hour(at)",
    "clock_hour": "hour(clock)",
    "text": "CAST(at AS STRING)",
    "clock_text": "CAST(clock AS STRING)",
    "as_day": "CAST(at AS DATE)",
    "as_instant": "CAST(clock AS TIMESTAMP)",
    "midnight": "date_trunc('DAY', at)",
    "of_day": "CAST(day AS TIMESTAMP)",
    "read": "to_timestamp('2026-03-29 00:30:00')",
    "next": "at + INTERVAL 1 DAY",
    "number": "try_cast(s AS INT)",
    "quotient": "try_divide(1, k)",
    "sum": "small + 1",
    "half": "k / 2",
    "quoted": "concat(s, '\\\\')",
    "label": "date_format(at, 'yyyy-MM-dd HH')",
}
CONDITIONS = [
    *(
        f"{name} {sign} {other}"
        for name, other in [("k", "0"), ("x", "1.5"), ("small", "-1")]
        for sign in ("=", "<>", "<", "<=", ">", ">=")
    ),
    *("NOT x > 1.5", "NOT x <= 1.5", "1.5 < x", "1.5 >= x", "NOT 1.5 = x", "x <> -0.0"),
    *("s = '12'", "s > '2'", "b", "NOT b", "k IS NULL", "NOT x IS NULL", "k = small", "0 < k"),
    *("k > 0 OR b", "k > 0 AND NOT b", "at = at", "day < day", "clock >= clock", "b = b"),
    *("at > TIMESTAMP '2026-03-29 00:00:00'", "day = DATE '2026-03-29'", "hour(at) < 3"),
    *("s = 'it''s \\\\ \"x\"'", "at = clock", "k IN (0, -5)", "x BETWEEN 0 AND 2"),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    pq.write_table(pa.table(ROWS), folder / "rows.parquet")
    return folder


@pytest.fixture(params=[("America/New_York", False), ("Asia/Kolkata", True)])
def session(engine: Engine, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    zone, ansi = request.param
    session = engine.spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    session.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    yield session
    assert session.conf.get("spark.sql.session.timeZone") == zone
    assert session.conf.get("spark.sql.ansi.enabled") == str(ansi).lower()


def answers(run: Any) -> LogicalStream:
    assert run.await_end()
    return LogicalStream.of_batches(run._sink.batches())


def test_every_session_gives_the_same_answers(session: SparkSession, rows: Path) -> None:
    spark = Engine(session, shards=1)
    frame = session.read.parquet(str(rows))
    stored = Engine().stream(rows, name="rows", start="t")
    came = spark.stream(frame, name="rows", start="t")
    expressions = [f"{text} AS {name}" for name, text in COLUMNS.items()]
    flags = []
    for number, text in enumerate(CONDITIONS):
        try:
            stored.select(f"{text} AS c")
        except AnabranchError:
            # What workers do not evaluate is no question of who evaluates it.
            continue
        flags.append((number, text))
    assert len(flags) > 30
    wanted = stored.select("t", *expressions).run_local()
    found = came.select("t", *expressions).start(available_now=True)
    assert answers(found) == answers(wanted)
    # Each condition as a filter of its own, all in one query: rows say which one let them pass.
    whole, parts = None, None
    for number, text in flags:
        one, other = (each.where(text).select("t", f"{number} AS n") for each in (came, stored))
        whole = one if whole is None else whole.union(one)
        parts = other if parts is None else parts.union(other)
        if number % 9 == 8 or number == flags[-1][0]:
            assert whole is not None
            assert parts is not None
            assert answers(whole.start(available_now=True)) == answers(parts.run_local())
            whole, parts = None, None


@pytest.mark.parametrize("text", ["CAST('x' || s AS INT)", "k + 9", "1 / (k - k)"])
def test_what_fails_fails_in_every_session(session: SparkSession, rows: Path, text: str) -> None:
    came = Engine(session, shards=1).stream(session.read.parquet(str(rows)), name="r", start="t")
    run = came.select(f"{text} AS v").start(available_now=True)
    with pytest.raises(AnabranchError, match="cannot evaluate"):
        run.await_end()


def test_what_only_spark_evaluates_has_one_meaning(session: SparkSession, rows: Path) -> None:
    engine = Engine(session, shards=1)
    engine.stream(session.read.parquet(str(rows)), name="r", start="t")
    coded = "SELECT soundex(CAST(hour(at) AS STRING)) AS code FROM r"
    run = engine.sql(f"SELECT code FROM ({coded}) WHERE code = '0'").start(available_now=True)
    assert sum(answers(run).snapshot(1).values()) == 1
    failing = engine.sql("SELECT soundex(CAST(CAST('x' || s AS INT) AS STRING)) AS v FROM r")
    # A DataFrame that does not stream is written down first.
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        failing.start(available_now=True)


def test_settings_are_ours_for_a_moment(session: SparkSession) -> None:
    with pinned(session):
        assert {name: session.conf.get(name) for name in SETTINGS} == SETTINGS
    assert session.conf.get("spark.sql.session.timeZone") != "UTC"
