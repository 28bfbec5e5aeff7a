"""What Python and SQL declare of a source is the same, and holds."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.algebra.source import Source
from anabranch.model.time import Duration
from anabranch.runtime.sources.files.batch_sizing import FIXED
from anabranch.runtime.sources.spec import ArchiveSpec

COLUMNS = "(id BIGINT, k STRING, at BIGINT{})"
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("at", pa.int64())])


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    lines = [(1, "a", 1), (2, "b", 4), (3, "c", 2), (4, "d", 4), (5, "e", 7)]
    text = "".join(f'{{"id": {i}, "k": "{k}", "at": {at}}}\n' for i, k, at in lines)
    (tmp_path / "rows.jsonl").write_text(text)
    return tmp_path / "rows.jsonl"


SAME: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": ("", "ORDERED BY at KEEP", {}),
    "hidden": ("", "ORDERED BY at", {"hide_times": True}),
    "unique": (" , UNIQUE (id)", "ORDERED BY at KEEP", {"unique": "id"}),
    "unique sets": (
        ", UNIQUE (id), UNIQUE (k, at)",
        "ORDERED BY at KEEP",
        {"unique": ["id", ("k", "at")]},
    ),
    "ordered": ("", "ORDERED BY at KEEP ORDERED", {"ordered": True}),
    "keyed": ("", "ORDERED BY at KEEP KEYED", {"keyed": True}),
    "all": (
        ", UNIQUE (id)",
        "ORDERED BY at ORDERED KEYED LATE FAIL",
        {"unique": ["id"], "hide_times": True, "ordered": True, "keyed": True, "late": "fail"},
    ),
    "revised": ("", "ORDERED BY at KEEP DELAY 2 LATE REVISE", {"delay": 2, "late": "revise"}),
    "revised, in order": (
        "",
        "ORDERED BY at KEEP ORDERED LATE REVISE",
        {"ordered": True, "late": "revise"},
    ),
    "archived": (
        "",
        "ORDERED BY at KEEP DELAY 2 LATE REVISE ARCHIVE 'archive/s' KEEP 500 CHRONONS, 1000 ROWS",
        {"delay": 2, "late": "revise", "archive": "archive/s", "keep": (500, 1000)},
    ),
    "an archive without revisions": (
        "",
        "ARCHIVE 'archive/s' ORDERED BY at KEEP",
        {"archive": Path("archive/s")},
    ),
    "expected rows and values": (
        "",
        "ORDERED BY at KEEP RATE 2.5 DISTINCT (ID 100, k 7)",
        {"rate": 2.5, "distinct": {"k": 7, "id": 100}},
    ),
    "a rate with a unit": (
        "",
        "ORDERED BY at KEEP CHRONON 1 SECOND RATE 600 PER 2 MINUTES",
        {"chronon": "1 second", "rate": "600 per 2 minutes"},
    ),
    "a rate per unit": (
        "",
        "RATE 1e3 PER HOUR ORDERED BY at KEEP CHRONON 1 MINUTE",
        {"chronon": "1 minute", "rate": "1000/hour"},
    ),
    "rows that are kept": ("", "ORDERED BY at KEEP KEEP 7 ROWS", {"keep": 7}),
    "an age with a unit": (
        "",
        "ORDERED BY at KEEP KEEP 2 MINUTES KEEP 7 ROWS CHRONON 1 SECOND",
        {"keep": ("2 minutes", 7), "chronon": "1 second"},
    ),
}


def leaf(stream: Any) -> Source:
    (found,) = [node for node in stream.node.walk() if isinstance(node, Source)]
    return found


@pytest.mark.parametrize("case", SAME)
def test_both_languages_declare_the_same(rows: Path, case: str) -> None:
    more, clauses, options = SAME[case]
    engine = ab.Engine()
    engine.sql(f"CREATE STREAM S {COLUMNS.format(more)} SOURCE '{rows}' {clauses}")
    in_sql = engine.sql("SELECT * FROM S")
    in_python = ab.Engine().stream(rows, name="S", start="at", schema=SCHEMA, **options)
    assert leaf(in_sql) == leaf(in_python)
    (mine,), (theirs,) = in_sql.sources.values(), in_python.sources.values()
    assert mine.promise == theirs.promise
    assert mine.archive == theirs.archive


def test_rows_out_of_order_are_late(rows: Path, tmp_path: Path) -> None:
    stream = ab.Engine().stream(rows, start="at", ordered=True, max_rows_per_batch=1)
    assert leaf(stream).properties.order == "start"
    run = stream.select("id").run_local(to=tmp_path / "out.jsonl")
    assert sum(batch["late"] for batch in run.metrics()) == 1
    assert '"id": 3' not in (tmp_path / "out.jsonl").read_text()
    failing = ab.Engine().stream(rows, start="at", ordered=True, late="fail", max_rows_per_batch=1)
    with pytest.raises(ab.StreamError, match="too late"):
        failing.run_local(to=tmp_path / "other.jsonl")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"ordered": True, "delay": 5}, "a source whose rows are in order has no delay"),
        ({"unique": "nothing"}, "there is no column 'nothing' for UNIQUE"),
        ({"distinct": {"nothing": 5}}, "there is no column 'nothing' for DISTINCT"),
        ({"rate": "5 per minute"}, "nobody has said how long a chronon is"),
        ({"rate": "5 per moon"}, "rate must be a number of rows per second"),
        ({"unique": []}, "unique must be the name of a column"),
        ({"unique": [3]}, "unique must be the name of a column"),
        ({"ordered": 1}, "ordered must be True, False or 'ties'"),
        ({"keyed": "yes"}, "keyed must be True or False"),
    ],
)
def test_what_makes_no_sense_is_refused(rows: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ab.PlanError, match=what) as error:
        ab.Engine().stream(rows, start="at", **options)
    assert error.value.hint


def test_elements_can_be_declared_in_order_and_have_no_times_to_hide(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"insert": {"k": 1}, "start": 5}\n')
    ordered = leaf(ab.Engine().stream(tmp_path / "s.jsonl", ordered=True)).properties
    assert (ordered.insert_only, ordered.order) == (True, "start")
    with pytest.raises(ab.PlanError, match="has no meaning for files of elements"):
        ab.Engine().stream(tmp_path / "s.jsonl", hide_times=True)
    keyed = ab.Engine().stream(tmp_path / "s.jsonl", keyed=True)
    assert leaf(keyed).properties.keyed


def test_merges_rely_on_what_is_declared(rows: Path) -> None:
    declared: dict[str, Any] = {"start": "at", "ordered": True, "keyed": True}
    engine = ab.Engine()
    one = engine.stream(rows, name="one", **declared)
    other = engine.stream(rows, name="other", **declared)
    assert "r4" not in one.merge(other).node.label


def test_rows_that_may_be_revised_are_not_inserts_only(rows: Path) -> None:
    revised = leaf(ab.Engine().stream(rows, start="at", delay=2, late="revise")).properties
    plain = leaf(ab.Engine().stream(rows, start="at", delay=2)).properties
    assert (revised.insert_only, revised.only_points) == (False, True)
    assert (plain.insert_only, plain.only_points) == (True, True)


def test_an_order_that_revisions_break_is_not_promised(rows: Path) -> None:
    stream = ab.Engine().stream(rows, start="at", ordered=True, late="revise")
    assert leaf(stream).properties.order == "none"


def test_an_archive_is_in_the_checkpoint_unless_it_has_a_folder(rows: Path) -> None:
    def archive(**options: Any) -> Any:
        (source,) = ab.Engine().stream(rows, start="at", **options).sources.values()
        return source.archive

    assert archive() is None
    assert archive(late="adjust") is None
    assert archive(late="revise") == ArchiveSpec()
    assert archive(keep=timedelta(seconds=5), chronon="1 second") == ArchiveSpec(
        keep_age=Duration(5)
    )
    assert archive(archive="kept") == ArchiveSpec(path=str(Path("kept").absolute()))
    assert archive(archive="s3://bucket/kept/") == ArchiveSpec(path="s3://bucket/kept")


def test_a_folder_beside_the_script_is_found_there(rows: Path) -> None:
    (rows.parent / "kept").mkdir()
    engine = ab.Engine()
    engine.sql(
        f"CREATE STREAM S (id BIGINT, at BIGINT) SOURCE '{rows}' ORDERED BY at ARCHIVE 'kept'",
        name=str(rows.parent / "query.sql"),
    )
    (source,) = engine.sql("SELECT * FROM S").sources.values()
    assert source.archive == ArchiveSpec(path=str(rows.parent / "kept"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"keep": "7"}, "keep must be an age with a unit, a number of rows"),
        ({"keep": "0 days"}, "keep must be"),
        ({"keep": (None, None)}, "keep must be"),
        ({"keep": ("1 day", 5, 5)}, "keep must be"),
        ({"keep": ("1 day", "5")}, "keep must be"),
        ({"keep": "30 days"}, "the length of a chronon is not declared"),
        ({"archive": "kafka:x"}, "an archive cannot be at 'kafka:'"),
        ({"archive": "s3:bucket"}, "an archive cannot be at 's3:'"),
        ({"late": "correct"}, "late must be one of drop, adjust, fail, revise"),
    ],
)
def test_an_archive_that_makes_no_sense_is_refused(
    rows: Path, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(ab.AnabranchError, match=what) as raised:
        ab.Engine().stream(rows, start="at", **options)
    assert raised.value.where
    assert raised.value.hint


def test_an_archive_is_not_among_the_files_of_its_source(rows: Path) -> None:
    folder = rows.parent
    for path, archive in [
        (folder, folder),
        (folder, folder / "archive"),
        (folder / "**/*.jsonl", folder / "archive"),
    ]:
        with pytest.raises(ab.PlanError, match="cannot be among its own files") as raised:
            ab.Engine().stream(path, start="at", archive=archive)
        assert raised.value.where
        assert raised.value.hint
    for path, archive in [
        (folder, folder / "_archive"),
        (folder / "*.jsonl", folder / "archive"),
        (rows, folder / "archive"),
    ]:
        ab.Engine().stream(path, start="at", archive=archive)


def test_copies_are_not_revised(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"insert": {"id": 1}, "start": 5}\n')
    with pytest.raises(ab.PlanError, match="late rows of copies cannot be revised") as raised:
        ab.Engine().stream(tmp_path, copies=True, late="revise")
    assert raised.value.hint


def test_explain_tells_of_an_archive(rows: Path) -> None:
    def notes(**options: Any) -> str:
        stream = ab.Engine().stream(rows, name="S", start="at", delay=2, **options)
        return "\n".join(stream.explain_json()["notes"])

    assert notes() == ""
    assert notes(late="revise") == (
        "archive of source 'S': in the checkpoint, keeps everything; late rows revise results"
    )
    assert notes(archive="/kept", keep=(500, 7)) == (
        "archive of source 'S': /kept, keeps 500 and 7 rows"
    )


REVISIONS = [("revisions", "ignore"), ("revisions", "archive"), ("replay", "RA")]


@pytest.mark.parametrize(("option", "value"), REVISIONS)
def test_options_of_revisions_need_a_source_that_has_some(
    rows: Path, option: str, value: str
) -> None:
    given: dict[str, Any] = {option: value}
    plain = ab.Engine().stream(rows, start="at", delay=2)
    with pytest.raises(ab.PlanError, match=f"{option} has no meaning for sources") as raised:
        plain.run_local(**given)
    assert raised.value.where
    assert raised.value.hint
    plain.run_local(revisions="emit", replay="auto")
    ab.Engine().stream(rows, start="at", delay=2, late="revise").run_local(**given)


def test_nothing_is_replayed_for_results_that_are_not_corrected(rows: Path) -> None:
    query = ab.Engine().stream(rows, start="at", delay=2, late="revise")
    with pytest.raises(ab.PlanError, match="replay has no meaning with revisions='ignore'"):
        query.run_local(revisions="ignore", replay="RW")


def test_two_sources_do_not_share_a_folder_for_their_archives(rows: Path) -> None:
    engine = ab.Engine()
    for name in ("A", "B"):
        engine.sql(
            f"CREATE STREAM {name} (id INT, at INT) SOURCE '{rows}' ORDERED BY at ARCHIVE 'x'"
        )
    query = engine.sql("SELECT id FROM A UNION ALL SELECT id FROM B")
    with pytest.raises(ab.PlanError, match="archives in one folder") as raised:
        query.run_local()
    assert "'A' and 'B'" in raised.value.where
    assert raised.value.hint


def test_a_data_frame_of_elements_has_no_revisions(rows: Path) -> None:
    query = ab.Engine().stream(rows, name="S", start="at", delay=2, late="revise")
    with pytest.raises(ab.PlanError, match="revisions cannot be handed on") as raised:
        query.to_df()
    assert "'S'" in raised.value.where
    assert raised.value.hint


CLAUSES = [
    "ORDERED BY at KEEP",
    "DELAY 2",
    "LATE REVISE",
    "ARCHIVE '/kept'",
    "KEEP 500 CHRONONS KEEP 7 ROWS",
]


@pytest.mark.parametrize("clauses", list(permutations(CLAUSES)), ids=str)
def test_clauses_may_be_in_any_order(rows: Path, clauses: tuple[str, ...]) -> None:
    engine = ab.Engine()
    engine.sql(f"CREATE STREAM S {COLUMNS.format('')} SOURCE '{rows}' {' '.join(clauses)}")
    stream = engine.sql("SELECT * FROM S")
    (source,) = stream.sources.values()
    assert "at" in leaf(stream).schema.names
    assert (source.promise.delay, source.promise.late) == (2, "revise")
    assert source.archive == ArchiveSpec(path="/kept", keep_age=Duration(500), keep_rows=7)


def test_options_of_revisions_reach_the_query(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    def start_query(*_: Any, revisions: str, replay: str, **__: Any) -> list[Any]:
        seen.append((revisions, replay))
        raise InterruptedError

    monkeypatch.setattr("anabranch.runtime.query.start.start_query", start_query)
    monkeypatch.setattr("anabranch.runtime.spark.session.parallelism", lambda _: 2)
    monkeypatch.setattr("anabranch.runtime.spark.session.rows_per_task", lambda _: 1)
    monkeypatch.setattr("anabranch.runtime.spark.session.batch_sizes", lambda _: FIXED)
    engine = ab.Engine(SimpleNamespace(readStream=None))
    query = engine.stream(rows, start="at", delay=2, late="revise")
    with pytest.raises(InterruptedError):
        query.start()
    with pytest.raises(InterruptedError):
        query.start(revisions="archive")
    with pytest.raises(InterruptedError):
        engine.start_all([query], to=rows.parent / "out", replay="RW")
    assert seen == [("emit", "auto"), ("archive", "auto"), ("emit", "RW")]
    plain = engine.stream(rows, name="plain", start="at", delay=2)
    with pytest.raises(ab.PlanError, match="replay has no meaning for sources") as raised:
        engine.start_all([plain], to=rows.parent / "out", replay="RW")
    assert "start_all(...)" in raised.value.where
