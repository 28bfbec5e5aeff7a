"""A Delta table as a source: its versions count, not the files in its folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import anabranch as ab
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sources.files.earlier_parts import promises_within
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.reader import read_times
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.source_task import read_pieces

FEED = {"delta.enableChangeDataFeed": "true"}


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"item": [item for item, _ in pairs], "at": [at for _, at in pairs]})


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "bids")
    write_deltalake(path, rows((1, 5), (2, 6)))
    return path


def files_of(stream: ab.Stream) -> FileSource:
    (source,) = stream.sources.values()
    assert isinstance(source, FileSource)
    return source


class Reading:
    """A source that is read batch by batch, by planners that come and go."""

    def __init__(self, source: FileSource, folder: Path) -> None:
        self.source = source
        self.folder = Folder.at(str(folder / "plans"))
        self.at = 0
        self.batches: list[EventBatch] = []

    def step(self) -> bool:
        """Plan and read one more batch, as after a restart."""
        planner = FilePlanner([self.source], self.folder, parts=2)
        after = planner.latest(self.at)
        if after == self.at:
            return False
        for part in planner.parts(self.at, after):
            pieces = read_pieces(self.source, part.splits, self.source.schema.names)
            self.batches += [came.batch for came, _ in pieces]
        self.at = after
        return True

    def drain(self) -> int:
        """Read all there is; gives the number of batches."""
        return sum(1 for _ in iter(self.step, False))

    def events(self) -> Counter[Any]:
        """The payloads that hold at some instant, with it."""
        stream = LogicalStream.of_batches(self.batches)
        found: Counter[Any] = Counter()
        for at in range(40):
            for payload, count in stream.snapshot(Time(at)).items():
                found[(at, payload)] += count
        return found


def content(path: str) -> Counter[Any]:
    """What a table holds, as events; `to_pyarrow_table` is another reader."""
    found = pa.table(DeltaTable(path).to_pyarrow_table()).to_pylist()
    return Counter((row["at"], (row["item"], row["at"])) for row in found)


def test_dead_files_do_not_count(table: str) -> None:
    write_deltalake(table, rows((3, 7)), mode="overwrite")
    assert len(list(Path(table).glob("*.parquet"))) == 2
    engine = ab.Engine()
    for source in (table, f"delta:{table}", Path(table)):
        run = engine.stream(source, start="at").run_local()
        assert [row["item"] for row in run.table().to_pylist()] == [3]
    engine.sql(f"CREATE STREAM a SOURCE '{table}' ORDERED BY at")
    engine.sql(f"CREATE STREAM b SOURCE delta('{table}') ORDERED BY at")
    engine.sql(f"CREATE STREAM c (item BIGINT, at BIGINT) SOURCE 'delta:{table}' ORDERED BY at")
    for name in "abc":
        run = engine.sql(f"SELECT item FROM {name}").run_local()
        assert run.snapshot(7).to_pylist() == [{"item": 3}]
        assert run.snapshot(5).num_rows == 0


def test_files_and_folders_inside_a_table_are_refused(table: str, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "parts"), rows((1, 5)), partition_by=["item"])
    engine = ab.Engine()
    for inside in (f"{table}/*.parquet", tmp_path, tmp_path / "parts" / "item=1"):
        with pytest.raises(ab.StreamError, match="files of a Delta table") as raised:
            engine.stream(inside, start="at")
        assert "delta:" in raised.value.hint
    # One file that is named is read as what it is.
    (file,) = Path(table).glob("*.parquet")
    assert engine.stream(file, start="at").run_local().table().num_rows == 2


def test_versions_come_in_their_order(table: str, tmp_path: Path) -> None:
    reading = Reading(files_of(ab.Engine().stream(table, start="at")), tmp_path)
    assert reading.drain() == 1
    for n in range(3):
        write_deltalake(table, rows((10 + n, 9 - n)), mode="append")
    assert reading.drain() == 1
    items = [each for batch in reading.batches for each in batch.payload["item"].to_pylist()]
    assert items == [1, 2, 10, 11, 12]
    assert not reading.step()
    assert reading.events() == content(table)


@pytest.mark.parametrize("limit", [{"max_rows_per_batch": 1}, {"max_files_per_batch": 1}])
def test_a_batch_takes_part_of_a_version_and_a_restart_goes_on_there(
    tmp_path: Path, limit: dict[str, Any]
) -> None:
    path = str(tmp_path / "bids")
    for n in range(3):
        write_deltalake(path, rows((n, n), (n, n + 1)), mode="append")
    reading = Reading(files_of(ab.Engine().stream(path, start="at", **limit)), tmp_path)
    assert reading.step()
    # What comes while the first version is being read comes behind it.
    write_deltalake(path, rows((7, 7)), mode="append")
    DeltaTable(path).optimize.compact()
    write_deltalake(path, rows((8, 8)), mode="append")
    assert 4 <= reading.drain() <= 6
    assert reading.events() == content(path)


def test_rewriting_files_changes_nothing(table: str, tmp_path: Path) -> None:
    reading = Reading(files_of(ab.Engine().stream(table, start="at")), tmp_path)
    reading.drain()
    write_deltalake(table, rows((3, 7)), mode="append")
    DeltaTable(table).optimize.compact()
    reading.drain()
    assert reading.events() == content(table)
    assert sum(len(batch) for batch in reading.batches) == 3


@pytest.mark.parametrize("change", ["delete", "update", "overwrite"])
def test_rows_that_are_taken_away_without_a_feed_stop_the_stream(
    table: str, tmp_path: Path, change: str
) -> None:
    reading = Reading(files_of(ab.Engine().stream(table, start="at")), tmp_path)
    reading.drain()
    if change == "delete":
        DeltaTable(table).delete("item = 1")
    elif change == "update":
        DeltaTable(table).update({"item": "item + 5"}, predicate="item = 1")
    else:
        write_deltalake(table, rows((3, 7)), mode="overwrite")
    with pytest.raises(ab.StreamError, match="version 1 of the Delta table removes rows") as at:
        reading.step()
    assert "enableChangeDataFeed" in at.value.hint
    # A stream that begins now begins with what is there.
    fresh = Reading(files_of(ab.Engine().stream(table, start="at")), tmp_path / "fresh")
    fresh.drain()
    assert fresh.events() == content(table)


@pytest.mark.parametrize("partition", [None, ["item"]])
def test_a_feed_of_changes_withdraws_rows(tmp_path: Path, partition: list[str] | None) -> None:
    path = str(tmp_path / "bids")
    write_deltalake(
        path,
        rows((1, 5), (2, 6), (2, 6), (3, 8)),
        configuration=FEED,
        partition_by=partition,
    )
    stream = ab.Engine().stream(path, start="at")
    assert not stream.node.properties.insert_only
    reading = Reading(files_of(stream), tmp_path)
    reading.drain()
    assert reading.events() == content(path)
    table = DeltaTable(path)
    table.delete("item = 1")
    table.update({"at": "at + 10"}, predicate="item = 2")
    reading.drain()
    assert reading.events() == content(path)
    (
        table.merge(rows((3, 9), (4, 4)), "t.item = s.item", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    reading.drain()
    assert reading.events() == content(path)
    write_deltalake(path, rows((9, 9)), mode="overwrite")
    reading.drain()
    assert reading.events() == content(path) == Counter({(9, (9, 9)): 1})


def test_a_feed_of_lifetimes_withdraws_them(tmp_path: Path) -> None:
    path = str(tmp_path / "prices")
    held = pa.table({"item": [1, 2], "at": [5, 6], "until": pa.array([9, None], pa.int64())})
    write_deltalake(path, held, configuration=FEED)
    source = files_of(ab.Engine().stream(path, start="at", end="until"))
    reading = Reading(source, tmp_path)
    reading.drain()
    DeltaTable(path).delete("item = 2")
    reading.drain()
    held_at = {at for at, _ in reading.events()}
    assert held_at == {5, 6, 7, 8}


def test_partitions_and_columns_that_came_later_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "bids")
    day, noon = date(2026, 1, 2), datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
    first = pa.table(
        {
            "item": [1, 2, 3],
            "place": ["a b", "y/z", None],
            "day": [day, day, None],
            "seen": pa.array([noon] * 3, pa.timestamp("us", tz="UTC")),
            "at": pa.array(
                [noon + timedelta(seconds=n) for n in range(3)], pa.timestamp("us", tz="UTC")
            ),
        }
    )
    write_deltalake(path, first, partition_by=["place", "day", "seen"])
    later = first.slice(0, 1).append_column("price", pa.array([2.5]))
    write_deltalake(path, later, mode="append", schema_mode="merge")
    stream = ab.Engine().stream(path, start="at")
    found = stream.run_local().table().to_pylist()
    plain = [{name: row[name] for name in stream.schema.names} for row in found]
    there = pa.table(DeltaTable(path).to_pyarrow_table()).to_pylist()
    assert sorted(plain, key=repr) == sorted(there, key=repr)
    only = stream.select("place").run_local().table()
    assert Counter(only["place"].to_pylist()) == Counter(["a b", "a b", "y/z", None])


def test_a_relation_is_the_newest_version(table: str) -> None:
    write_deltalake(table, rows((3, 7)), mode="overwrite")
    engine = ab.Engine()
    assert engine.relation(table).run_local().snapshot(0).to_pylist() == [{"item": 3, "at": 7}]
    engine.sql(f"CREATE TABLE t SOURCE delta('{table}')")
    engine.sql(f"CREATE TABLE u (item BIGINT) SOURCE '{table}'")
    for name in "tu":
        run = engine.sql(f"SELECT item FROM {name}").run_local()
        assert run.snapshot(0).to_pylist() == [{"item": 3}]


def test_a_source_that_ends_is_one_version(table: str, tmp_path: Path) -> None:
    stream = ab.Engine().stream(table, start="at", ends=True, max_rows_per_batch=1)
    assert stream.run_local().stable == ab.FOREVER
    reading = Reading(files_of(stream), tmp_path)
    reading.drain()
    write_deltalake(table, rows((3, 7)), mode="append")
    assert reading.drain() == 0


def test_rows_without_a_time_get_that_of_their_arrival(table: str) -> None:
    engine = ab.Engine()
    engine.sql(f"CREATE STREAM b (item BIGINT) SOURCE '{table}'")
    run = engine.sql("SELECT COUNT(*) AS n FROM b WINDOW(RANGE 1 DAY)").run_local()
    assert run.table().to_pylist()[0]["n"] == 2
    with pytest.raises(ab.PlanError, match="rows need a column with their time"):
        engine.stream(table)


def test_a_table_of_elements_is_read_as_elements(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"insert": {"item": 1}, "start": 5, "end": 9}\n'
        '{"adjust": {"item": 1}, "start": 5, "end": 9, "new_end": 7}\n{"stable": 6}\n'
    )
    engine = ab.Engine()
    engine.stream(tmp_path / "in.jsonl").run_local(to=f"delta:{tmp_path / 'out'}")
    run = engine.stream(f"delta:{tmp_path / 'out'}").run_local()
    assert (run.snapshot(6).to_pylist(), run.snapshot(7).num_rows) == ([{"item": 1}], 0)
    assert run.stable == 6


def test_stable_points_in_a_table_of_elements_hold_within_a_batch(tmp_path: Path) -> None:
    path = str(tmp_path / "elements")
    names = ["kind", "start", "end", "new_end", "item"]
    for row in (
        ["insert", 5, 9, None, 1],
        ["stable", 8, None, None, None],
        ["insert", 3, 4, None, 2],
    ):
        types = [pa.string(), *[pa.int64()] * 4]
        columns = [pa.array([value], kind) for value, kind in zip(row, types, strict=True)]
        write_deltalake(path, pa.table(columns, names=names), mode="append")
    stream = ab.Engine().stream(f"delta:{path}")
    source = files_of(stream)
    planner = FilePlanner([source], Folder.at(str(tmp_path / "plans")), parts=1)
    splits = [split for part in planner.parts(0, planner.latest(0)) for split in part.splits]
    assert promises_within(source)
    assert [read_times(source, split)[1] for split in splits] == [BEGINNING, 8, BEGINNING]
    run = stream.run_local()
    assert sum(batch["late"] for batch in run.metrics()) == 1
    assert {row["item"] for row in run.table().to_pylist() if row["kind"] == "insert"} == {1}


def test_a_misspelt_column_is_refused(table: str) -> None:
    engine = ab.Engine()
    with pytest.raises(ab.StreamError, match="no column 'itme'") as raised:
        engine.sql(f"CREATE STREAM b (itme BIGINT, at BIGINT) SOURCE '{table}' ORDERED BY at")
    assert "did you mean 'item'?" in raised.value.hint
    with pytest.raises(ab.PlanError, match="has no column 'ta'"):
        engine.stream(table, start="ta")


def _features(table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    for name in ("deletionVectors", "variantType"):
        features = {"readerFeatures": [name], "writerFeatures": [name]}
        yield name, {"protocol": {**protocol, **features}}


def test_a_table_with_unknown_features_is_refused(table: str, tmp_path: Path) -> None:
    log = Path(table) / "_delta_log"
    engine = ab.Engine()
    reading = Reading(files_of(engine.stream(table, start="at")), tmp_path)
    reading.drain()
    for number, (name, action) in enumerate(_features(table), 1):
        (log / f"{number:020}.json").write_text(json.dumps(action) + "\n")
        with pytest.raises(ab.StreamError) as raised:
            engine.stream(table, start="at")
        assert name in str(raised.value) or "cannot be read" in raised.value.what
        with pytest.raises(ab.StreamError):
            reading.step()


@pytest.mark.parametrize("source", ["delta:nowhere", "delta:", "delta:s3://bucket/x"])
def test_what_is_no_table_is_refused(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ab.AnabranchError) as raised:
        ab.Engine().stream(source, start="at")
    assert raised.value.where
    assert raised.value.hint


def test_a_log_that_has_forgotten_a_version_is_told(table: str, tmp_path: Path) -> None:
    reading = Reading(files_of(ab.Engine().stream(table, start="at")), tmp_path)
    reading.drain()
    for n in range(2):
        write_deltalake(table, rows((n, n)), mode="append")
    (Path(table) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(
        ab.StreamError, match="version 1 of the Delta table is no longer in its log"
    ):
        reading.step()


def test_a_file_that_vacuum_took_is_told(table: str, tmp_path: Path) -> None:
    source = files_of(ab.Engine().stream(table, start="at"))
    for file in Path(table).glob("*.parquet"):
        file.unlink()
    with pytest.raises(ab.StreamError, match="a file of the Delta table cannot be read") as raised:
        Reading(source, tmp_path).step()
    assert "VACUUM" in raised.value.hint
