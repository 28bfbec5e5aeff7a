"""Every place that takes a duration, by every way to count time, in both languages."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from anabranch import AnabranchError, Engine, Stream
from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.forms.split import Split
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.merge import Merge
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping, Session
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.shift import Shift
from anabranch.algebra.time_window import TimeWindow
from tests.units.streams import COARSE, INTEGERS, KINDS, SECONDS, TIMESTAMPS, Kind

Outcome = int | str
UNKNOWN: Final = "the length of a chronon is not declared"
BARE: Final = "has no unit of time"
PART: Final = "is not a whole number of chronons"

# What comes out: so many chronons, or what the error says.
GIVEN: Final[dict[str, dict[Any, Outcome]]] = {
    "integers": {3: 3, "3": 3, "3 seconds": UNKNOWN, "0.5 seconds": UNKNOWN, "2.5": PART},
    "seconds": {3: 3, "3": 3, "3 seconds": 3, "1 minute": 60, "0.5 seconds": PART, "2.5": PART},
    "timestamps": {
        3: BARE,
        "3": BARE,
        "3 seconds": 3_000_000,
        "1.5 seconds": 1_500_000,
        "0.0000005 seconds": PART,
        "2.5": BARE,
    },
    "coarse": {3: BARE, "3": BARE, "3 seconds": 3, "2 minutes": 120, "0.5 seconds": PART},
}
# Python has other values than texts and whole numbers.
VALUES: Final[dict[str, dict[Any, Outcome]]] = {
    "integers": {2.5: PART, 2.0: 2, timedelta(seconds=3): UNKNOWN},
    "seconds": {2.5: PART, timedelta(seconds=3): 3, timedelta(milliseconds=1): PART},
    "timestamps": {2.5: BARE, timedelta(seconds=3): 3_000_000},
    "coarse": {2.5: BARE, timedelta(seconds=3): 3, timedelta(milliseconds=1): PART},
}


def found(kind: type[Node], stream: Stream) -> Any:
    return next(node for node in stream.node.walk() if isinstance(node, kind))


def axis(stream: Stream) -> Any:
    return found(ApplyOperator, stream).window


PYTHON: Final[dict[str, Callable[[Stream, Any], int]]] = {
    "window": lambda s, x: found(TimeWindow, s.window(x)).size,
    "slide": lambda s, x: found(TimeWindow, s.window("forever", x)).slide,
    "session_window": lambda s, x: found(SessionWindow, s.session_window(x)).gap,
    "granularity": lambda s, x: found(Granularity, s.granularity(x)).granule,
    "split": lambda s, x: found(Split, s.split(x)).length,
    "shift": lambda s, x: found(Shift, s.shift(x)).by,
    "duration": lambda s, x: found(AlterLifetime, s.lifetime(duration=x)).duration,
    "extend": lambda s, x: found(AlterLifetime, s.lifetime(extend=x)).extend,
    "at_most": lambda s, x: found(AlterLifetime, s.lifetime(at_most=x)).at_most,
    "lag": lambda s, x: found(Merge, s.merge(lag=x)).policy.lag,
    "hopping": lambda s, x: axis(s.hopping(x, x).agg(n="COUNT(*)")).hop,
    "offset": lambda s, x: axis(s.tumbling(x, offset=x).agg(n="COUNT(*)")).size,
    "tumbling": lambda s, x: axis(s.tumbling(x).agg(n="COUNT(*)")).size,
    "session_windows": lambda s, x: axis(s.session_windows(x).agg(n="COUNT(*)")).gap,
}

SQL: Final[dict[str, tuple[str, Callable[[Stream], int]]]] = {
    "RANGE": ("SELECT k FROM S WINDOW(RANGE {})", lambda s: found(TimeWindow, s).size),
    "SLIDE": (
        "SELECT k FROM S WINDOW(RANGE UNBOUNDED SLIDE {})",
        lambda s: found(TimeWindow, s).slide,
    ),
    "GRANULARITY": ("SELECT k FROM S GRANULARITY({})", lambda s: found(Granularity, s).granule),
    "TUMBLE": (
        "SELECT k FROM TUMBLE(S, DESCRIPTOR(at), {})",
        lambda s: found(TimeWindow, s).size,
    ),
    "HOP": (
        "SELECT k FROM HOP(S, DESCRIPTOR(at), {0}, {0})",
        lambda s: found(TimeWindow, s).slide,
    ),
    "SESSION": (
        "SELECT k FROM SESSION(S, DESCRIPTOR(at), {})",
        lambda s: found(SessionWindow, s).gap,
    ),
    "HOPPING": (
        "SELECT COUNT(*) AS n FROM S GROUP BY HOPPING({0}, {0})",
        lambda s: axis(s).hop,
    ),
    "OFFSET": (
        "SELECT COUNT(*) AS n FROM S GROUP BY TUMBLING({0}, OFFSET {0})",
        lambda s: axis(s).size,
    ),
    "SESSION of the axis": (
        "SELECT COUNT(*) AS n FROM S GROUP BY SESSION({})",
        lambda s: axis(s).gap,
    ),
    "MERGE": (
        "SELECT k FROM MERGE(S, T, lag => {})",
        lambda s: found(Merge, s).policy.lag,
    ),
}


def outcome(make: Callable[[], int], expected: Outcome) -> None:
    if isinstance(expected, int):
        assert make() == expected
        return
    with pytest.raises(AnabranchError, match=re.escape(expected)) as refused:
        make()
    assert refused.value.hint


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("place", PYTHON)
def test_python_converts_durations(place: str, kind: Kind, tmp_path: Path) -> None:
    stream = kind.stream(kind.write(tmp_path))
    for given, expected in {**GIVEN[kind.name], **VALUES[kind.name]}.items():
        outcome(lambda given=given: PYTHON[place](stream, given), expected)  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("place", SQL)
def test_sql_converts_durations(place: str, kind: Kind, tmp_path: Path) -> None:
    engine, path = Engine(), kind.write(tmp_path)
    engine.sql(kind.create(path) + kind.create(path, "T"))
    text, get = SQL[place]
    for given, expected in GIVEN[kind.name].items():
        written = f"'{given}'" if isinstance(given, str) and " " in given else str(given)
        outcome(lambda said=written: get(engine.sql(text.format(said))), expected)  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_delay_is_a_whole_number_of_chronons(kind: Kind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    for given, expected in GIVEN[kind.name].items():

        def sql(said: Any = given) -> int:
            engine = Engine()
            engine.sql(kind.create(path, more=f"DELAY '{said}'"))
            return int(engine.sql("SELECT * FROM S").sources["S"].promise.delay)

        def python(said: Any = given) -> int:
            stream = kind.stream(path, delay=said)
            return int(next(iter(stream.sources.values())).promise.delay)

        outcome(sql, expected)
        outcome(python, expected)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_heartbeat_is_a_whole_number_of_chronons(kind: Kind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    for given, expected in GIVEN[kind.name].items():
        chronon = 1 if kind is TIMESTAMPS else 1_000_000
        if kind is INTEGERS:
            expected = "a heartbeat needs a declared chronon"
        elif isinstance(expected, int):
            # By the clock on the wall: microseconds, whatever the stream counts.
            expected *= chronon

        def sql(said: Any = given) -> int:
            engine = Engine()
            engine.sql(kind.create(path, more=f"HEARTBEAT '{said}'"))
            return int(engine.sql("SELECT * FROM S").sources["S"].promise.heartbeat)

        def python(said: Any = given) -> int:
            stream = kind.stream(path, heartbeat=said)
            return int(next(iter(stream.sources.values())).promise.heartbeat)

        outcome(sql, expected)
        outcome(python, expected)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_both_languages_give_the_same_plan(kind: Kind, tmp_path: Path) -> None:
    path, engine = kind.write(tmp_path), Engine()
    engine.sql(kind.create(path))
    source = engine.sql("SELECT k FROM S")
    for size in (given for given, value in GIVEN[kind.name].items() if isinstance(value, int)):
        written = f"'{size}'" if isinstance(size, str) else size
        in_sql = engine.sql(f"SELECT k FROM (SELECT k FROM S) WINDOW(RANGE {written})")
        assert found(TimeWindow, in_sql) == source.window(size).node


@pytest.mark.parametrize("kind", [TIMESTAMPS, COARSE], ids=lambda kind: kind.name)
def test_nothing_and_forever_need_no_unit(kind: Kind, tmp_path: Path) -> None:
    stream = kind.stream(kind.write(tmp_path), delay="0")
    assert found(TimeWindow, stream.window("forever")).size == 2**63 - 1
    assert found(Shift, stream.shift(0)).by == 0
    assert found(Merge, stream.merge(lag=0)).policy.lag == 0


@pytest.mark.parametrize("kind", [SECONDS, COARSE], ids=lambda kind: kind.name)
def test_a_shift_may_go_back(kind: Kind, tmp_path: Path) -> None:
    stream = kind.stream(kind.write(tmp_path))
    assert found(Shift, stream.shift("-2 minutes")).by == -120
    assert found(Shift, stream.shift(timedelta(seconds=-2))).by == -2
    assert found(
        ApplyOperator, stream.tumbling("1 minute", offset="-5 s").agg(n="COUNT(*)")
    ).window == (
        Hopping(60, 60, -5)  # type: ignore[arg-type]
    )
    assert isinstance(axis(stream.session_windows("5 s").agg(n="COUNT(*)")), Session)


def test_durations_are_exact(tmp_path: Path) -> None:
    numbers = INTEGERS.stream(INTEGERS.write(tmp_path))
    for exact in (9007199254740993, "9007199254740993"):
        assert found(TimeWindow, numbers.window(exact)).size == 9007199254740993
    times = TIMESTAMPS.stream(TIMESTAMPS.write(tmp_path))
    assert found(TimeWindow, times.window("9007199254740993 us")).size == 9007199254740993
    assert found(TimeWindow, times.window("0.1 s")).size == 100_000


@pytest.mark.parametrize(
    "wrong", [True, None, "soon", "3 moons", "", float("nan"), float("inf"), b"3"]
)
def test_what_is_no_duration_is_refused(wrong: Any, tmp_path: Path) -> None:
    for kind in KINDS:
        with pytest.raises(AnabranchError):
            kind.stream(kind.write(tmp_path)).window(wrong)


def test_a_chronon_is_a_duration_with_a_unit(tmp_path: Path) -> None:
    path = INTEGERS.write(tmp_path)
    for wrong in ("5", "0 seconds", "forever", 5):
        with pytest.raises(AnabranchError):
            Engine().stream(str(path), start="at", chronon=wrong)


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("250 US", 250),
        ("20 ms", 20_000),
        ("10 SEC", 10_000_000),
        ("10 secs", 10_000_000),
        ("5 s", 5_000_000),
        ("1 MIN", 60_000_000),
        ("MIN 1 MIN, MAX 3 MINS", 180_000_000),
        ("INTERVAL '5' MIN", 300_000_000),
        ("5 m SLIDE 1 sec", 300_000_000),
        ("2 HRS", 7_200_000_000),
        ("1 hr", 3_600_000_000),
        ("3 H", 10_800_000_000),
        ("1 d", 86_400_000_000),
    ],
)
def test_units_may_be_short(tmp_path: Path, written: str, microseconds: int) -> None:
    engine = Engine()
    engine.stream([{"k": 1, "at": "2026-01-01"}], start="at", name="S")
    query = engine.sql(f"SELECT k FROM S WINDOW(RANGE {written})")
    (window,) = [each for each in query.node.walk() if isinstance(each, TimeWindow)]
    assert window.size == microseconds
    (tmp_path / "s.json").write_text('{"k": 1, "at": "2026-01-01T00:00:00"}\n')
    engine.sql(
        f"CREATE STREAM D (k INT, at TIMESTAMP) SOURCE '{tmp_path / 's.json'}' ORDERED BY at "
        "DELAY 5 MIN LATE REVISE KEEP 2 D"
    )
    (source,) = engine.sql("SELECT k FROM D").sources.values()
    assert source.promise.delay == 300_000_000
    assert source.archive.keep_age == 172_800_000_000
