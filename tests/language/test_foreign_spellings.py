"""Spellings of other systems are refused, and the hint is their translation."""

import pytest

from anabranch import Engine
from anabranch.errors import QueryError
from anabranch.reading import read_statements


@pytest.fixture(scope="module")
def engine() -> Engine:
    engine = Engine()
    rows = [{"item": 1, "price": 80.0, "at": "2026-11-01T10:00:01"}]
    engine.stream(rows, start="at", name="Bid")
    engine.stream(rows, start="at", name="Offer", hide_times=True)
    return engine


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT COUNT(*) FROM Bid GROUP BY window(at, '10 minutes')", "TUMBLING('10 minutes')"),
        (
            "SELECT item, COUNT(*) FROM Bid GROUP BY item, window(at, '10 minutes', '1 minute')",
            "HOPPING('10 minutes', '1 minute')",
        ),
        (
            "SELECT COUNT(*) FROM Bid b GROUP BY window(b.at, '1 hour', '1 hour', '15 minutes')",
            "HOPPING('1 hour', '1 hour', OFFSET '15 minutes')",
        ),
        ("SELECT window.start FROM Bid GROUP BY TUMBLING(10 MINUTES)", "write window_start"),
        (
            "SELECT COUNT(*) FROM Bid GROUP BY session_window(at, '5 minutes')",
            "SESSION('5 minutes')",
        ),
        (
            "SELECT COUNT(*) FROM Bid GROUP BY TUMBLE(at, INTERVAL '10' MINUTE)",
            "TUMBLING(INTERVAL '10' MINUTE)",
        ),
        (
            "SELECT COUNT(*) FROM Bid GROUP BY HOP(at, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE)",
            "HOPPING(INTERVAL '10' MINUTE, INTERVAL '1' MINUTE)",
        ),
        (
            "SELECT COUNT(*) FROM Bid GROUP BY SESSION(at, INTERVAL '10' MINUTE)",
            "SESSION(INTERVAL '10' MINUTE)",
        ),
        ("SELECT TUMBLE_START(at, INTERVAL '1' HOUR) FROM Bid", "write window_start"),
        ("SELECT TUMBLE_END(at, INTERVAL '1' HOUR) FROM Bid", "write window_end"),
        ("INSERT INTO out SELECT * FROM Bid", "--to PATH"),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM Bid", "CREATE VIEW name AS query"),
        ("SELECT * FROM Bid EMIT CHANGES", "--emit speculative"),
        ("SELECT STREAM item FROM Bid", "write SELECT"),
        ("UPDATE Bid SET price = 1", "LATE REVISE"),
        ("USE other", "one catalog"),
        (
            "CREATE TABLE B (item INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '5' "
            "SECOND) WITH ('connector' = 'kafka')",
            "ORDERED BY at DELAY INTERVAL '5' SECOND",
        ),
        (
            "SELECT b.item FROM Bid b JOIN Offer o ON b.item = o.item AND b.at BETWEEN o.at AND "
            "o.at + INTERVAL '5' MINUTE",
            "Offer WINDOW(RANGE 10 MINUTES)",
        ),
        ("SELECT my_udf(price) FROM Bid", "spark.udf.register"),
    ],
)
def test_the_hint_is_the_translation(engine: Engine, text: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.sql(text)
    assert hint in caught.value.hint


def test_what_looks_alike_is_not_refused(engine: Engine) -> None:
    rows = [{"window": 1, "session": 2, "stream": 3, "emit": 4, "at": 5}]
    engine.stream(rows, start="at", name="Odd")
    assert engine.sql("SELECT stream, emit, session FROM Odd").columns[0] == "stream"
    assert engine.sql("SELECT stream FROM Odd").columns == ["stream"]
    assert engine.sql("SELECT `window` FROM Odd").columns == ["window"]
    flink = "SELECT * FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(at), INTERVAL '10' MINUTES))"
    assert engine.sql(flink).columns[-1] == "window_end"
    assert engine.sql("SELECT item FROM SESSION(Bid PARTITION BY item, DESCRIPTOR(at), 5 MINUTES)")


def test_one_word_means_one_thing_in_group_by(engine: Engine) -> None:
    text = "SELECT item, COUNT(*) AS n, window_end FROM Bid GROUP BY item, {}(10 MINUTES)"
    one, other = (engine.sql(text.format(word)) for word in ("TUMBLE", "TUMBLING"))
    assert one.node == other.node


@pytest.mark.parametrize("rows", ["WINDOW(ROWS 1 ORDER BY k)", "[ROWS 1 ORDER BY k]"])
def test_windows_of_from_may_follow_an_order_in_parentheses(rows: str) -> None:
    statement = (
        f"SELECT t1.k AS k FROM s t1 {rows}, TUMBLE(s, DESCRIPTOR(at), 2) t2 WHERE t1.k = t2.k"
    )
    assert len(list(read_statements(statement))) == 1
