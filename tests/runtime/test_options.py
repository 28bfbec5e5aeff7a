"""Options are checked or refused: every option with wrong values, and where it means nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, get_args

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import anabranch as ab
from anabranch.errors import AnabranchError
from anabranch.model.clock import INTEGERS
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.query.options import RUN_OPTIONS
from anabranch.runtime.sources.options import SOURCE_OPTIONS, SourceKind
from anabranch.runtime.store.folder import Folder

ROWS: Final = '{"item": 1, "at": 5, "until": 9, "op": "insert"}\n'
ELEMENTS: Final = '{"insert": {"item": 1}, "start": 5, "end": 9}\n{"stable": 6}\n'

WRONG: Final[Mapping[str, Any]] = {
    "none": None,
    "text": "no such thing",
    "empty": "",
    "negative": -1,
    "zero": 0,
    "huge": 10**30,
    "flag": True,
    "float": 2.5,
    "list": [1],
    "object": object(),
}
"""Values, most of which most options do not take."""

FITS: Final[Mapping[str, set[str]]] = {
    "name": {"none", "text"},
    "start": {"none"},
    "end": {"none"},
    "kind": {"none"},
    "schema": {"none"},
    "delay": {"none", "zero"},
    "heartbeat": {"none"},
    "chronon": {"none"},
    "ends": {"none", "flag"},
    "copies": set(),
    "max_rows_per_batch": {"none"},
    "max_files_per_batch": {"none"},
    "late": set(),
    "archive": {"none", "text"},
    "keep": {"none"},
    "ordered": {"flag"},
    "keyed": {"flag"},
    "unique": {"none"},
    "rate": {"none", "float"},
    "distinct": {"none"},
    "edges": {"none"},
    "hide_times": {"flag"},
    "replace": {"flag"},
}
"""Which of them are values of an option; a chronon of no length is not."""


def three_parts(error: AnabranchError) -> None:
    assert error.what
    assert error.where
    assert error.hint


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text(ROWS)
    return file


@pytest.fixture(scope="module")
def engine() -> ab.Engine:
    return ab.Engine()


def test_every_option_is_known_here() -> None:
    assert set(FITS) == set(SOURCE_OPTIONS)


def _takes(fits: bool, make: Callable[[], Any], about: str) -> None:
    """A value that fits is taken; any other is refused in three parts."""
    if fits:
        make()
        return
    try:
        make()
    except AnabranchError as error:
        three_parts(error)
    else:
        pytest.fail(f"{about} is taken without a word")


@pytest.mark.parametrize("option", SOURCE_OPTIONS)
def test_a_wrong_value_in_python_is_an_error_in_three_parts(
    engine: ab.Engine, rows: Path, option: str
) -> None:
    for name, value in WRONG.items():
        given = {"start": "at", option: value}
        if option == "start" and value is None:
            continue
        fits = name in FITS[option]
        _takes(fits, partial(engine.stream, rows, **given), f"{option}={value!r}")


@pytest.mark.parametrize("option", ["name", "start", "end", "schema", "replace"])
def test_a_wrong_value_for_a_relation_is_an_error_in_three_parts(
    engine: ab.Engine, rows: Path, option: str
) -> None:
    for name, value in WRONG.items():
        given = {"replace": True, option: value}
        fits = name in FITS[option]
        _takes(fits, partial(engine.relation, rows, **given), f"{option}={value!r}")


LITERALS: Final[Mapping[str, str]] = {
    "none": "NULL",
    "text": "'no such thing'",
    "empty": "''",
    "negative": "-1",
    "zero": "0",
    "huge": "1000000000000000000000000000000",
    "flag": "TRUE",
    "float": "2.5",
    "exponent": "1e5",
    "list": "[1]",
    "object": "STRUCT(1)",
}
FITS_SQL: Final[Mapping[str, set[str]]] = {
    "ends": {"flag"},
    "delay": {"zero"},
    "archive": {"text"},
    "rate": {"float", "exponent"},
}


@pytest.mark.parametrize("option", [n for n, each in SOURCE_OPTIONS.items() if each.in_sql])
def test_a_wrong_value_in_sql_is_an_error_in_three_parts(
    engine: ab.Engine, rows: Path, option: str
) -> None:
    clause = SOURCE_OPTIONS[option].clause
    for name, text in LITERALS.items():
        said = f"{clause} {text}" if clause else f"WITH ({option} = {text})"
        head = "Bid (item INT, at BIGINT, until BIGINT)"
        if option == "schema":
            head, said = f"Bid ({text})", "ORDERED BY at"
        elif option != "start":
            said = f"ORDERED BY at {said}"
        statement = f"CREATE OR REPLACE STREAM {head} SOURCE '{rows}' {said}"
        fits = name in FITS_SQL.get(option, ())
        _takes(fits, partial(engine.sql, statement), statement)


@pytest.mark.parametrize(
    ("said", "ends"), [("TRUE", True), ("'true'", True), ("FALSE", False), ("'false'", False)]
)
def test_a_text_that_says_false_means_false(rows: Path, said: str, ends: bool) -> None:
    engine = ab.Engine()
    engine.sql(
        f"CREATE STREAM Bid (item INT, at BIGINT) SOURCE '{rows}' ORDERED BY at "
        f"WITH (ends = {said}, max_rows_per_batch = '7')"
    )
    run = engine.sql("SELECT item FROM Bid").run_local()
    assert (run.stable == ab.FOREVER) == ends


@pytest.mark.parametrize("wrong", ["max_row_per_batch", "end", "Copy"])
def test_an_unknown_option_is_told_the_nearest(rows: Path, wrong: str) -> None:
    with pytest.raises(ab.QueryError, match=f"there is no option '{wrong}'") as raised:
        ab.Engine().sql(
            f"CREATE STREAM b (item INT, at BIGINT) SOURCE '{rows}' ORDERED BY at "
            f"WITH ({wrong} = 1)"
        )
    assert "did you mean" in raised.value.hint


def test_an_option_is_said_once_in_any_case(rows: Path) -> None:
    head = f"CREATE STREAM b (item INT, at BIGINT) SOURCE '{rows}' ORDERED BY at"
    ab.Engine().sql(f"{head} WITH (ENDS = TRUE)")
    for twice in ("ends = TRUE, ends = FALSE", "ends = TRUE, Ends = FALSE"):
        with pytest.raises(ab.QueryError, match="given twice"):
            ab.Engine().sql(f"{head} WITH ({twice})")


# A value that each option takes, to be refused for what the source is.
FITTING: Final[Mapping[str, Any]] = {
    "name": "other",
    "start": "at",
    "end": "until",
    "kind": "op",
    "schema": pa.schema([("item", pa.int64())]),
    "delay": 1,
    "late": "adjust",
    "archive": "archived",
    "keep": ("30 days", 1000),
    "heartbeat": "1 second",
    "chronon": timedelta(seconds=1),
    "ends": True,
    "max_rows_per_batch": 5,
    "max_files_per_batch": 5,
    "copies": True,
    "ordered": True,
    "keyed": True,
    "unique": "item",
    "rate": 100,
    "distinct": {"item": 10},
    "edges": "item",
    "hide_times": True,
}


def _frame(*, streams: bool) -> Any:
    fields = [StructField(name, LongType()) for name in ("item", "at", "until")]
    return SimpleNamespace(schema=StructType(fields), isStreaming=streams)


def _open(kind: SourceKind, folder: Path) -> Callable[..., Any]:
    """How a source of a kind is made with further options."""
    engine = ab.Engine()
    (folder / "rows.jsonl").write_text(ROWS)
    (folder / "elements.jsonl").write_text(ELEMENTS)
    if kind == "log":
        engine.stream(folder / "elements.jsonl").run_local(to=str(folder / "log"))
        return lambda **given: engine.stream(folder / "log", **given)
    if kind == "archive":
        archive = Archive(Folder.at(str(folder / "archive")), None)
        archive.create("bids", pa.schema([("item", pa.int64())]), INTEGERS, copied=True)
        return lambda **given: engine.stream(folder / "archive", **given)
    if kind == "copies":
        (folder / "copies").mkdir()
        (folder / "copies" / "a.jsonl").write_text(ELEMENTS)
        return lambda **given: engine.stream(folder / "copies", **{"copies": True, **given})
    if kind in ("frame", "still"):
        frame = _frame(streams=kind == "frame")
        return lambda **given: engine.stream(frame, **{"start": "at", **given})
    if kind == "delta":
        from deltalake import write_deltalake

        write_deltalake(str(folder / "delta"), pa.table({"item": [1], "at": [5], "until": [9]}))
        return lambda **given: engine.stream(folder / "delta", **{"start": "at", **given})
    if kind == "arrival":
        return lambda **given: engine.stream(
            folder / "rows.jsonl", **{"start": ab.ARRIVAL, **given}
        )
    if kind == "elements":
        return lambda **given: engine.stream(folder / "elements.jsonl", **given)
    assert kind == "rows"
    return lambda **given: engine.stream(folder / "rows.jsonl", **{"start": "at", **given})


@pytest.mark.parametrize("kind", [each for each in get_args(SourceKind) if each != "table"])
def test_an_option_is_refused_where_it_means_nothing(tmp_path: Path, kind: SourceKind) -> None:
    made = _open(kind, tmp_path)
    for name, option in SOURCE_OPTIONS.items():
        # With another start or with copies it is a source of another kind.
        if kind in option.applies_to or (name == "start" and kind == "elements"):
            continue
        of_files = ("elements", "rows", "arrival", "delta", "log", "archive")
        if name in ("kind", "copies") and kind in of_files:
            continue
        with pytest.raises(ab.PlanError, match=f"{name}\\b.* has no meaning for") as raised:
            made(**{name: FITTING[name]})
        three_parts(raised.value)


@pytest.mark.parametrize(
    "clause",
    [
        "DELAY 2",
        "HEARTBEAT 2 SECONDS",
        "LATE DROP",
        "LATE FAIL",
        "LATE REVISE",
        "ARCHIVE 'archived'",
        "KEEP 30 ROWS",
        "WITH (ends = TRUE)",
        "WITH (ends = FALSE)",
        "WITH (max_rows_per_batch = 10)",
        "WITH (max_files_per_batch = 10)",
        "WITH (copies = TRUE)",
        "WITH (kind = 'op')",
        "EDGES BY item",
        "RATE 10",
    ],
)
def test_a_table_refuses_what_only_streams_have(rows: Path, clause: str) -> None:
    with pytest.raises(AnabranchError, match="has no meaning for a table") as raised:
        ab.Engine().sql(
            f"CREATE TABLE t (item INT, at BIGINT) SOURCE '{rows}' ORDERED BY at {clause}"
        )
    three_parts(raised.value)


def test_a_table_without_times_has_no_chronon(rows: Path) -> None:
    with pytest.raises(ab.PlanError, match="no meaning for a table without times") as raised:
        ab.Engine().sql(f"CREATE TABLE t (item INT) SOURCE '{rows}' CHRONON 1 SECOND")
    three_parts(raised.value)


FITS_RUN: Final[Mapping[str, set[str]]] = {
    "to": {"none", "text"},
    "foreach": {"none"},
    "emit": set(),
    "checkpoint": {"none", "text"},
    "trigger": {"none", "zero"},
    "available_now": {"flag"},
    "allow_unbounded": {"flag"},
    "share": {"flag"},
    "plan": set(),
    "revisions": set(),
    "replay": set(),
    "estimate": {"none"},
    "changed": {"flag"},
    "rejoin": {"flag"},
    "spark": {"none"},
    "shards": {"none"},
    "cores": {"none"},
    "settings": {"none"},
    "versions": set(),
    "modules": {"none"},
    "reoptimize": set(),
    "port": {"zero"},
    "host": {"text"},
}


@pytest.mark.parametrize("option", RUN_OPTIONS)
def test_a_wrong_value_for_a_run_is_an_error_in_three_parts(
    engine: ab.Engine, rows: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every function that takes the option refuses the value before Spark is touched."""
    monkeypatch.chdir(rows.parent)
    query = engine.stream(rows, start="at")
    for name, value in WRONG.items():
        if name in FITS_RUN[option]:
            continue
        given: dict[str, Any] = {option: value}
        several = {"to": "out", **given}
        calls: Mapping[str, Callable[[], Any]] = {
            "start": partial(query.start, **given),
            "start_all": partial(engine.start_all, [query], **several),
            "run_local": partial(query.run_local, **given),
            "to_df": partial(query.to_df, **given),
            "explain": partial(query.explain, **given),
            "Engine": partial(ab.Engine, **given),
            "serve_metrics": partial(engine.serve_metrics, **given),
        }
        for place in RUN_OPTIONS[option].applies_to:
            if place == "start_all" and option == "to" and name == "none":
                continue
            _takes(False, calls[place], f"{place}({option}={value!r})")
    with pytest.raises(ab.PlanError):
        query.explain_json(emit="append")  # type: ignore[arg-type]
    with pytest.raises(ab.PlanError):
        engine.explain_all([query], emit="append")  # type: ignore[arg-type]
    with pytest.raises(ab.PlanError):
        engine.explain_all([query], plan="best")  # type: ignore[arg-type]
    assert not (rows.parent / "out").exists()


def test_every_argument_of_a_run_is_an_option() -> None:
    """Nothing is taken that the table does not know."""
    from inspect import signature

    functions: Mapping[str, Callable[..., Any]] = {
        "start": ab.Stream.start,
        "run_local": ab.Stream.run_local,
        "to_df": ab.Stream.to_df,
        "explain": ab.Stream.explain,
        "start_all": ab.Engine.start_all,
        "Engine": ab.Engine.__init__,
        "serve_metrics": ab.Engine.serve_metrics,
    }
    for place, function in functions.items():
        names = set(signature(function).parameters) - {"self", "queries"}
        assert names == {n for n, each in RUN_OPTIONS.items() if place in each.applies_to}, place
    names = set(signature(ab.Engine.stream).parameters) - {"self", "source"}
    assert names == set(SOURCE_OPTIONS)


def test_options_that_contradict_each_other_are_refused(rows: Path) -> None:
    query = ab.Engine().stream(rows, start="at")
    with pytest.raises(ab.PlanError, match="trigger has no meaning with available_now"):
        query.start(trigger="1 second", available_now=True)
    session = SimpleNamespace(readStream=None)
    with pytest.raises(ab.PlanError, match="cores has no meaning"):
        ab.Engine(session, cores=2)


@pytest.mark.parametrize("queries", [None, 5, "q", [1]])
def test_only_queries_are_started_together(queries: Any) -> None:
    with pytest.raises(ab.PlanError, match="must be a list of queries") as raised:
        ab.Engine().start_all(queries, "out")
    three_parts(raised.value)


@pytest.mark.parametrize("text", [None, 5, b"SELECT 1", ["SELECT 1"], Path("q.sql")])
def test_a_script_is_a_text(engine: ab.Engine, text: Any) -> None:
    for read in (engine.sql, engine.script):
        with pytest.raises(ab.PlanError, match="a script must be a string") as raised:
            read(text)
        three_parts(raised.value)


@pytest.mark.parametrize("name", [5, "", [1]])
def test_a_module_is_registered_under_a_name(engine: ab.Engine, name: Any) -> None:
    with pytest.raises(ab.PlanError, match="name must be a name") as raised:
        engine.register(len, name)
    three_parts(raised.value)


@pytest.mark.parametrize(("name", "function"), [(5, print), ("", print), ("f", 5)])
def test_a_source_function_has_a_name_and_can_be_called(name: Any, function: Any) -> None:
    with pytest.raises(ab.PlanError) as raised:
        ab.Engine().register_source(name, function)
    three_parts(raised.value)
