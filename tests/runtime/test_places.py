"""Places: schemes that are known, those that are not, and paths that look like one."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab
from anabranch.runtime.sources.location import FILE_SYSTEMS, SINKS, scheme_of

ELEMENTS = '{"insert": {"item": 1}, "start": 5, "end": 9}\n{"stable": 6}\n'


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ab.Stream:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text(ELEMENTS)
    return ab.Engine().stream("in.jsonl")


@pytest.mark.parametrize(
    ("to", "near"),
    [
        ("iceberg:x", ""),
        ("detla:x", "delta:x"),
        ("Detla:x#current", "delta:x#current"),
        ("postgre://db/x", "postgres://db/x"),
        ("kafka://broker/topic", ""),
        ("a:b", ""),
        ("hdf://x/y", "hdfs://x/y"),
    ],
)
def test_an_unknown_scheme_is_refused_and_writes_nothing(
    query: ab.Stream, to: str, near: str
) -> None:
    for start in (query.run_local, query.start):
        with pytest.raises(ab.PlanError, match="results cannot be written to") as raised:
            start(to)
        assert raised.value.where == f"to='{to}'"
        assert f"./{to}" in raised.value.hint
        assert near in raised.value.hint
    with pytest.raises(ab.PlanError, match="cannot be written to"):
        ab.Engine().start_all([query], to)
    assert [each.name for each in Path().iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("to", ["s3:/x", "postgres:x", "hdfs:x", "s3://bucket/x.jsonl"])
def test_an_address_that_cannot_be_one_is_refused(query: ab.Stream, to: str) -> None:
    with pytest.raises(ab.PlanError) as raised:
        query.run_local(to)
    assert raised.value.where
    assert raised.value.hint
    assert [each.name for each in Path().iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("to", ["./a:b", "out/a:b", Path("a:b"), Path("delta:x"), "10:30"])
def test_a_path_with_a_colon_is_a_path(query: ab.Stream, to: str | Path) -> None:
    run = query.run_local(to)
    assert run.snapshot(5).num_rows == 1
    assert Path(to).is_dir()
    again = ab.Engine().stream(Path(to))
    assert again.run_local().snapshot(5).num_rows == 1


def test_a_file_address_is_a_path(query: ab.Stream, tmp_path: Path) -> None:
    query.run_local(f"file://{tmp_path}/out")
    again = ab.Engine().stream(f"file://{tmp_path}/out")
    assert again.run_local().snapshot(5).num_rows == 1


@pytest.mark.parametrize("to", ["-", "x.jsonl", "delta:x", "postgresql://db/x?table=t"])
def test_several_queries_need_a_folder(query: ab.Stream, to: str) -> None:
    with pytest.raises(ab.PlanError, match="several queries cannot be written to") as raised:
        ab.Engine().start_all([query], to)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("s3://bucket/bids", "spark('parquet', 's3://bucket/bids')"),
        ("https://host/bids.csv", "let Spark read them"),
        ("kafka://broker/topic", "spark('kafka')"),
        ("detla:bids", "delta:bids"),
        ("what:ever", "./what:ever"),
    ],
)
def test_a_source_that_is_no_path_is_told_what_to_write(
    query: ab.Stream, source: str, said: str
) -> None:
    engine = ab.Engine()
    with pytest.raises(ab.StreamError, match="there are no files at") as raised:
        engine.stream(source, start="at")
    assert said in raised.value.hint
    assert source in raised.value.where
    with pytest.raises(ab.StreamError, match="there are no files at"):
        engine.sql(f"CREATE STREAM b (at BIGINT) SOURCE '{source}' ORDERED BY at")


@pytest.mark.parametrize("source", ["", "  ", None, 5, b"x", [1], object()])
def test_what_is_no_source_is_refused(source: object) -> None:
    for make in (ab.Engine().stream, ab.Engine().relation):
        with pytest.raises(ab.PlanError, match="a stream cannot be read from") as raised:
            make(source)
        assert raised.value.where
        assert raised.value.hint


def test_schemes_are_told_from_paths() -> None:
    for scheme in (*SINKS, *FILE_SYSTEMS):
        assert scheme_of(f"{scheme}://x") == scheme
    assert [scheme_of(path) for path in ("a/b:c", "/a:b", ".:x", "1a:b", "")] == [None] * 5
