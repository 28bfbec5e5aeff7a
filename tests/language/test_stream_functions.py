"""Functions of streams in FROM, hints, and aggregates of users without windows: as in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.language.bind.stream_functions import FUNCTIONS
from anabranch.language.text.stream_dialect import STREAM_FUNCTIONS
from anabranch.stream import Stream


@pytest.fixture
def engine(tmp_path: Path) -> ab.Engine:
    (tmp_path / "bids.jsonl").write_text(
        '{"insert": {"k": 1, "p": 2.0}, "start": 5, "end": 9}\n'
        '{"insert": {"k": 1, "p": 4.0}, "start": 6, "end": 8}\n'
        '{"insert": {"k": 2, "p": 3.0}, "start": 6}\n'
        '{"stable": 12}\n'
    )
    engine = ab.Engine()
    engine.sql(f"CREATE STREAM Bid (k INT, p DOUBLE) SOURCE '{tmp_path / 'bids.jsonl'}'")
    engine.sql(f"CREATE STREAM Other (k INT, p DOUBLE) SOURCE '{tmp_path / 'bids.jsonl'}'")
    return engine


def plan(engine: ab.Engine, text: str) -> Node:
    """The plan of a SELECT * without the projection on top."""
    node = engine.sql(text).node
    assert isinstance(node, Map)
    return node.input


SAME: dict[str, tuple[str, Callable[[Stream, Stream], Stream]]] = {
    "istream": ("ISTREAM(Bid)", lambda bid, _: bid.istream()),
    "dstream": ("Dstream(Bid)", lambda bid, _: bid.dstream()),
    "dstream anchor": (
        "DSTREAM(Bid, anchor => 'first_invalid')",
        lambda bid, _: bid.dstream(anchor="first_invalid"),
    ),
    "rstream": ("RSTREAM(Bid)", lambda bid, _: bid.rstream()),
    "coalesce": ("COALESCE(Bid)", lambda bid, _: bid.coalesce()),
    "canonical": ("CANONICAL(Bid)", lambda bid, _: bid.canonical()),
    "split": ("SPLIT(Bid, 3)", lambda bid, _: bid.split(3)),
    "split by name": ("SPLIT(Bid, length => 3)", lambda bid, _: bid.split(3)),
    "shift": ("SHIFT(Bid, 3)", lambda bid, _: bid.shift(3)),
    "shift back": ("SHIFT(Bid, -3)", lambda bid, _: bid.shift(-3)),
    "clip": ("CLIP(Bid, 5, 8)", lambda bid, _: bid.clip(5, 8)),
    "clip from": ("CLIP(Bid, start => 5)", lambda bid, _: bid.clip(5)),
    "clip until": ("CLIP(Bid, end => '8')", lambda bid, _: bid.clip(end=8)),
    "lifetime": ("LIFETIME(Bid, 3)", lambda bid, _: bid.lifetime(duration=3)),
    "lifetime extend": ("LIFETIME(Bid, extend => 3)", lambda bid, _: bid.lifetime(extend=3)),
    "lifetime at most": ("LIFETIME(Bid, at_most => 3)", lambda bid, _: bid.lifetime(at_most=3)),
    "cleanse": ("CLEANSE(Bid)", lambda bid, _: bid.cleanse()),
    "cleanse whole": ("CLEANSE(Bid, cut => FALSE)", lambda bid, _: bid.cleanse(cut=False)),
    "to signed": ("TO_SIGNED(Bid)", lambda bid, _: bid.to_signed()),
    "to signed column": ("TO_SIGNED(Bid, column => 'w')", lambda bid, _: bid.to_signed("w")),
    "from signed": (
        "FROM_SIGNED(TO_SIGNED(Bid, 'w'), 'w')",
        lambda bid, _: bid.to_signed("w").from_signed("w"),
    ),
    "max union": ("MAX_UNION(Bid, Other)", lambda bid, other: bid.max_union(other)),
    "strict difference": (
        "STRICT_DIFFERENCE(Bid, Other)",
        lambda bid, other: bid.difference(other, strict=True),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_sql_and_python_make_the_same_plan(engine: ab.Engine, case: str) -> None:
    text, make = SAME[case]
    bid = engine.sql("SELECT * FROM Bid")
    other = engine.sql("SELECT * FROM Other")

    def bare(stream: Stream) -> Stream:
        assert isinstance(stream.node, Map)
        return stream._with(stream.node.input)

    assert plan(engine, f"SELECT * FROM {text}") == make(bare(bid), bare(other)).node


def test_every_function_of_streams_is_tested_and_has_a_meaning() -> None:
    assert set(FUNCTIONS) == set(STREAM_FUNCTIONS)
    called = {text.partition("(")[0].upper() for text, _ in SAME.values()}
    assert called == set(STREAM_FUNCTIONS)


def test_functions_take_queries_windows_and_aliases(engine: ab.Engine) -> None:
    bare = plan(engine, "SELECT * FROM ISTREAM(SELECT k FROM Bid) AS s WHERE s.k > 1")
    wrapped = plan(engine, "SELECT * FROM ISTREAM((SELECT k FROM Bid)) s WHERE s.k > 1")
    assert bare == wrapped
    with pytest.raises(ab.QueryError) as error:
        engine.sql("SELECT * FROM SPLIT(SELECT k FROM Bid, 2)")
    assert "put a query in parentheses" in (error.value.hint or "")
    windowed = plan(engine, "SELECT * FROM ISTREAM(Bid WINDOW(RANGE 5)) WINDOW(RANGE 2)")
    assert [node.label for node in windowed.walk()] == [
        "Source Bid",
        "TimeWindow 5",
        "Istream",
        "TimeWindow 2",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SPLIT(Bid)", "SPLIT needs the argument 'length'"),
        ("SPLIT(Bid, 2, 3)", "SPLIT has too many arguments"),
        ("SPLIT(Bid, lenth => 2)", "SPLIT has no parameter 'lenth'"),
        ("SPLIT(Bid, 2, length => 3)", "'length' is given twice"),
        ("SPLIT(Bid, 0)", "a duration must be positive"),
        ("SPLIT(7, 2)", "SPLIT needs the name of a stream, or a query"),
        ("SHIFT(Bid, length => 2, 3)", "an argument without a name"),
        ("CLEANSE(Bid, cut => 5)", "'5' is neither TRUE nor FALSE"),
        ("CLIP(Bid)", "a clip needs a start or an end"),
        ("CLIP(Bid, 9, 5)", "there is no instant between 9 and 5"),
        ("CLIP(Bid, 'soon')", "'soon' is not an instant"),
        ("CLIP(Bid, 5 MINUTES)", "'5 MINUTES' is not an instant"),
        ("DSTREAM(Bid, anchor => 'middle')", "a deletion cannot be placed at 'middle'"),
        ("ISTREAM(Bid, 5)", "ISTREAM has too many arguments"),
        ("MAX_UNION(Bid)", "MAX_UNION takes two streams"),
        ("MAX_UNION(Bid, (SELECT k FROM Bid))", "the sides of MAX_UNION have 2 and 1 columns"),
        ("LIFETIME(Bid, duration => 2, extend => 1)", "takes one of three arguments, not 2"),
        ("SHIFTED(7)", "there is no function 'SHIFTED' that FROM accepts"),
    ],
)
def test_wrong_arguments_are_refused_at_their_place(
    engine: ab.Engine, text: str, what: str
) -> None:
    with pytest.raises(ab.QueryError) as error:
        engine.sql(f"SELECT * FROM {text}")
    assert what in error.value.what
    assert "line 1, column" in str(error.value)
    assert error.value.hint


def test_a_module_cannot_take_the_name_of_a_function_of_streams(engine: ab.Engine) -> None:
    @ab.uda(name="split")
    def parts(values: list[float]) -> float:
        return sum(values)

    with pytest.raises(ab.PlanError, match="a module cannot be called 'split'"):
        engine.register(parts)


def joined(engine: ab.Engine, text: str) -> Join:
    (join,) = [node for node in engine.sql(text).node.walk() if isinstance(node, Join)]
    return join


@pytest.mark.parametrize("word", ["BROADCAST", "broadcastjoin", "MAPJOIN"])
def test_a_hint_names_the_side_that_is_broadcast(engine: ab.Engine, word: str) -> None:
    text = "SELECT /*+ {}({}) */ * FROM Bid b JOIN Other o ON b.k = o.k"
    assert joined(engine, text.format(word, "o")).broadcast == "right"
    assert joined(engine, text.format(word, "Other")).broadcast == "right"
    assert joined(engine, text.format(word, "b")).broadcast == "left"
    assert joined(engine, "SELECT * FROM Bid b JOIN Other o ON b.k = o.k").broadcast is None


@pytest.mark.parametrize(
    ("hint", "what"),
    [
        ("BROADCAST(x)", "the hint BROADCAST(x) matches no join"),
        ("BROADCAST", "names no stream"),
        ("SHUFFLE_HASH(o)", "there is no hint SHUFFLE_HASH"),
        ("COALESCE(3)", "there is no hint COALESCE"),
        ("BROADCAST(b)", "the left side of a left join cannot be broadcast"),
    ],
)
def test_other_hints_are_refused(engine: ab.Engine, hint: str, what: str) -> None:
    with pytest.raises(ab.QueryError) as error:
        engine.sql(f"SELECT /*+ {hint} */ * FROM Bid b LEFT JOIN Other o ON b.k = o.k")
    assert what in error.value.what
