"""An archive finds every row again, by time and by batch, whatever was merged, cut or killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.algebra.analysis.spans import Span
from anabranch.errors import EngineError, PlanError, StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, MICROSECONDS
from anabranch.model.files.stream_parquet import write_parquet
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.bucket import write_bucket
from anabranch.runtime.elements.elements import element_table
from anabranch.runtime.sources.archived.index import ArchiveIndex
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece, inside
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.declare.describe import describe_files
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit, Narrow, read_split
from anabranch.runtime.sources.spec import ArchiveSpec, FileSource, KnowledgePoint
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.thresholds import thresholds
from anabranch.runtime.workers.source_task import read_pieces

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def rows(*moves: tuple[str, int, int, int]) -> EventBatch:
    keys, starts, ends, new_ends = zip(*moves) if moves else ((), (), (), ())
    payload = pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.string()), pa.array(starts, pa.int64())], schema=SCHEMA
    )
    start, end, new_end = (np.array(each, np.int64) for each in (starts, ends, new_ends))
    return EventBatch(payload, start, end, new_end)


def insert(key: str, start: int, end: int) -> tuple[str, int, int, int]:
    return key, start, start, end


def piece(first: int, last: int, count: int = 1, path: str = "/data/a.parquet") -> Piece:
    return Piece(FileSplit(path, 0, WHOLE), first, last, count)


def entry(batch: int, *pieces: Piece, promised: int = 0, known_at: int = 0) -> ArchivedBatch:
    return ArchivedBatch(batch=batch, pieces=pieces, promised=promised, known_at=known_at)


def archive_at(path: Path, spec: ArchiveSpec | None = None, *, copied: bool = True) -> Archive:
    archive = Archive(Folder.at(str(path)), None, spec)
    archive.create("quotes", SCHEMA, INTEGERS, copied=copied)
    return archive


def put(archive: Archive, batch: int, *parts: EventBatch, promised: int = 0) -> None:
    pieces = [
        write_bucket(archive.folder, part, batch=batch, part=number, clock=INTEGERS)
        for number, part in enumerate(parts)
    ]
    archive.add(entry(batch, *pieces, promised=promised))


def listed(batches: Iterator[EventBatch]) -> list[tuple[Any, ...]]:
    found = []
    for batch in batches:
        columns = [*batch.payload.to_pydict().values(), batch.start, batch.end, batch.new_end]
        found += [*zip(*(getattr(each, "tolist", lambda e=each: e)() for each in columns))]
    return found


# The index.


def test_every_batch_is_found_by_its_number_while_others_are_merged(tmp_path: Path) -> None:
    folder = Folder.at(str(tmp_path))
    writer = ArchiveIndex(folder)
    with thresholds(2):
        for batch in range(40):
            added = entry(batch, Piece(FileSplit(f"p{batch}", 0, 1), batch, batch + 1, 1))
            writer.add(added)
            for index in (writer, ArchiveIndex(folder)):
                assert index.last_batch() == batch
                assert index.entries(after=batch, upto=batch + 1) == []
                found = [index.entries(after=each - 1, upto=each) for each in range(batch + 1)]
                assert [each.batch for (each,) in found] == [*range(batch + 1)]
                assert found[-1] == [added]
                assert index.entries(upto=batch) == [each for (each,) in found]


class StopError(Exception):
    """The process dies here."""


@dataclass
class Fuse:
    """Kills whoever does one step more than it allows."""

    left: int = 1 << 30

    def burn(self) -> None:
        if not self.left:
            raise StopError
        self.left -= 1


@dataclass
class FragileFolder(Folder):
    """A folder in which a process may die before every write and removal."""

    inner: Folder
    fuse: Fuse = field(default_factory=Fuse)

    @property
    def path(self) -> str:
        return self.inner.path

    def child(self, name: str) -> Folder:
        return FragileFolder(self.inner.child(name), self.fuse)

    def names(self) -> list[str]:
        return self.inner.names()

    def folders(self) -> list[str]:
        return self.inner.folders()

    def read(self, name: str) -> bytes | None:
        return self.inner.read(name)

    def write(self, name: str, data: bytes | pa.Buffer, *, mark: str = "") -> None:
        self.fuse.burn()
        self.inner.write(name, data, mark=mark)

    def remove(self, name: str) -> None:
        self.fuse.burn()
        self.inner.remove(name)

    def drop(self, name: str) -> None:
        self.inner.drop(name)

    def open(self, name: str) -> tuple[pa.NativeFile, int] | None:
        return self.inner.open(name)


times = st.integers(-20, 60)
spans = st.tuples(times, times).map(lambda both: (Time(min(both)), Time(max(both) + 1)))


@st.composite
def hulls(draw: st.DrawFn) -> tuple[int, int]:
    first = draw(times)
    return first, draw(st.one_of(st.integers(first + 1, 80), st.just(int(FOREVER))))


@given(
    batches=st.lists(st.lists(hulls(), max_size=3), max_size=40),
    skip=st.sampled_from([1, 3]),
    span=spans,
    upto=st.one_of(st.none(), st.integers(0, 60)),
    fuses=st.lists(st.integers(0, 12), max_size=6),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from([1, 5, 1000])),
)
def test_the_index_knows_what_a_list_of_entries_knows(
    batches: list[list[tuple[int, int]]],
    skip: int,
    span: Span,
    upto: int | None,
    fuses: list[int],
    sizes: tuple[int, int, int],
) -> None:
    names = ("ENTRIES_PER_SEGMENT", "SEGMENTS_PER_LEVEL", "LARGEST_SEGMENT_PIECES")
    with TemporaryDirectory() as path, thresholds(**dict(zip(names, sizes))):
        fuse = Fuse()
        index = ArchiveIndex(FragileFolder(Folder.at(path), fuse))
        deaths = iter(fuses)
        expected: list[tuple[int, Piece]] = []
        for number, some in enumerate(batches):
            pieces = [piece(*hull, path=f"/data/{number}.parquet") for hull in some]
            batch = number * skip
            fuse.left = next(deaths, 1 << 30)
            try:
                index.add(entry(batch, *pieces))
            except StopError:
                fuse.left = 1 << 30
                # Whoever comes back commits the last batch again.
                index.add(entry(batch, *pieces))
            expected += [(batch, each) for each in pieces]
        assert index.pieces() == expected
        assert index.last_batch() == (len(batches) * skip - skip if batches else -1)
        some_of_them = [
            (batch, each)
            for batch, each in expected
            if each.overlaps(span) and (upto is None or batch <= upto)
        ]
        assert index.pieces(span, upto) == some_of_them
        after = index.entries(after=5, upto=upto)
        assert [e.batch for e in after] == [
            number * skip
            for number in range(len(batches))
            if number * skip > 5 and (upto is None or number * skip <= upto)
        ]


def test_a_reader_never_sees_an_index_with_a_gap(tmp_path: Path) -> None:
    """While files are merged a listing may show neither the old ones nor the new one."""
    folder = Folder.at(str(tmp_path))
    expected = [(batch, piece(batch, batch + 1)) for batch in range(300)]

    def write() -> None:
        for batch, each in expected:
            ArchiveIndex(folder).add(entry(batch, each))

    with thresholds(ENTRIES_PER_SEGMENT=2, SEGMENTS_PER_LEVEL=2):
        writer = Thread(target=write)
        writer.start()
        looks = 0
        while writer.is_alive() or not looks:
            found = ArchiveIndex(folder).pieces()
            assert found == expected[: len(found)]
            looks += 1
        writer.join()
    assert ArchiveIndex(folder).pieces() == expected


def test_an_entry_may_have_all_that_a_split_can_say(tmp_path: Path) -> None:
    index = ArchiveIndex(Folder.at(str(tmp_path)))
    splits = [
        FileSplit("/a", 0, WHOLE),
        FileSplit("/a", 3, 9, 12, stable=5, stamp=6, copy=7),
        FileSplit("/b/c", 0, 1, latest=4),
        FileSplit("/b/d", 0, 1, values=(("day", "1"), ("x", None)), change="feed", latest=9),
    ]
    entries = [
        entry(number, *(Piece(split, number, number + 1, 3) for split in splits), known_at=number)
        for number in range(5)
    ]
    with thresholds(ENTRIES_PER_SEGMENT=2):
        for each in entries:
            index.add(each)
    assert any(name.endswith(".segment") for name in index.folder.names())
    assert index.entries() == entries


def test_the_index_is_small_and_has_few_files(tmp_path: Path) -> None:
    index = ArchiveIndex(Folder.at(str(tmp_path)))
    path = "/a/rather/long/path/of/a/folder/with/quotes/of/the/exchange/2026-11-17/part-{}.parquet"
    most = 0
    for number in range(3000):
        first = 1_763_355_600_000_000 + number * 60_000_000
        hull = (first, first + 61_234_567)
        index.add(entry(number, piece(*hull, 10_000, path.format(number)), promised=first))
        most = max(most, len(index.folder.names()))
    assert most < 60
    assert sum(index.sizes()) / 3000 < 100


def test_a_batch_that_was_left_out_cannot_be_added_later(tmp_path: Path) -> None:
    index = ArchiveIndex(Folder.at(str(tmp_path)))
    with thresholds(ENTRIES_PER_SEGMENT=2):
        for batch in (0, 1, 3, 4, 5):
            index.add(entry(batch, piece(0, 1)))
        index.add(entry(3, piece(0, 1)))
        with pytest.raises(EngineError, match="batch 2 is added to an archive that has later ones"):
            index.add(entry(2, piece(0, 1)))


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    index = ArchiveIndex(Folder.at(str(tmp_path)))
    with thresholds(ENTRIES_PER_SEGMENT=2):
        for batch in range(4):
            index.add(entry(batch, piece(0, 1)))
    (segment,) = tmp_path.glob("*.segment")
    segment.write_bytes(segment.read_bytes()[:-10])
    # Whoever has written it, or has read it before, has it in memory.
    again = ArchiveIndex(index.folder)
    with pytest.raises(EngineError, match=r"segment of the index of an archive is damaged"):
        again.pieces()


def test_small_segments_are_read_once(tmp_path: Path) -> None:
    """They never change; what is cut is left out, and large ones are read as far as they matter."""
    index = ArchiveIndex(Folder.at(str(tmp_path)))
    with thresholds(ENTRIES_PER_SEGMENT=2):
        for batch in range(7):
            index.add(entry(batch, piece(10 * batch, 10 * batch + 5)))
    for most in (1, 1000):
        again = ArchiveIndex(index.folder)
        with thresholds(KEPT_SEGMENT_PIECES=most):
            for _ in range(2):
                found = again.pieces((Time(12), Time(41)))
                assert [batch for batch, _ in found] == [1, 2, 3, 4]
                assert [batch for batch, _ in again.pieces()] == list(range(7))
    index.set_cut(index.doomed(30, None))
    assert [batch for batch, _ in again.pieces((Time(12), Time(41)))] == [3, 4]


# Buckets.


def test_rows_come_back_as_they_arrived(tmp_path: Path) -> None:
    archive = archive_at(tmp_path)
    put(archive, 0, rows(insert("a", 1, 5), insert("b", 2, int(FOREVER))), rows(insert("c", 0, 3)))
    put(archive, 1, rows(("b", 2, int(FOREVER), 2), ("a", 1, 5, 9)), rows())
    assert listed(archive.read()) == [
        ("a", 1, 1, 1, 5),
        ("b", 2, 2, 2, int(FOREVER)),
        ("c", 0, 0, 0, 3),
        ("b", 2, 2, int(FOREVER), 2),
        ("a", 1, 1, 5, 9),
    ]
    assert listed(archive.read((Time(0), Time(1)))) == [("c", 0, 0, 0, 3)]
    assert listed(archive.read((Time(5), Time(9)), upto=0)) == [("b", 2, 2, 2, int(FOREVER))]
    assert listed(archive.read((Time(8), Time(9)), columns=["k"])) == [
        ("b", 2, 2, int(FOREVER)),
        ("b", 2, int(FOREVER), 2),
        ("a", 1, 5, 9),
    ]
    wanted = {"k": pa.array(["a", "z"])}
    assert listed(archive.read(keep=wanted, columns=["n"])) == [(1, 1, 1, 5), (1, 1, 5, 9)]


@st.composite
def arrived(draw: st.DrawFn) -> EventBatch:
    moves = []
    for first, last in draw(st.lists(hulls(), max_size=8)):
        key = draw(st.sampled_from("abc"))
        if draw(st.booleans()):
            moves.append(insert(key, first, last))
        else:
            moves.append((key, first, last, draw(st.integers(first, 90))))
    return rows(*moves)


@given(
    parts=st.lists(arrived(), max_size=6),
    span=spans,
    keys=st.lists(st.sampled_from("abcd"), max_size=2),
    group=st.integers(1, 3),
)
def test_reading_a_span_gives_the_rows_that_hold_in_it(
    parts: list[EventBatch], span: Span, keys: list[str], group: int
) -> None:
    with TemporaryDirectory() as path, thresholds(BUCKET_GROUP_ROWS=group):
        archive = archive_at(Path(path))
        for batch, part in enumerate(parts):
            put(archive, batch, part)
        expected = listed(inside(part, span) for part in parts)
        assert listed(archive.read(span)) == expected
        some = [row for row in expected if row[0] in keys]
        assert listed(archive.read(span, keep={"k": pa.array(keys, pa.string())})) == some


def test_a_repeated_attempt_writes_the_same_bucket(tmp_path: Path) -> None:
    archive = archive_at(tmp_path)
    for _ in range(2):
        put(archive, 0, rows(insert("a", 1, 5)))
    assert listed(archive.read()) == [("a", 1, 1, 1, 5)]
    assert len([*tmp_path.glob("*.parquet")]) == 1


def test_payload_columns_may_be_called_as_those_of_the_archive(tmp_path: Path) -> None:
    schema = pa.schema([("start", pa.string()), ("known", pa.int64()), ("kind", pa.int64())])
    payload = pa.RecordBatch.from_pylist([{"start": "x", "known": 7, "kind": 8}], schema)
    batch = EventBatch(payload, np.array([1]), np.array([1]), np.array([5]))
    archive = Archive(Folder.at(str(tmp_path)), None)
    archive.create("quotes", schema, INTEGERS, copied=True)
    archive.add(entry(0, write_bucket(archive.folder, batch, batch=0, part=0, clock=INTEGERS)))
    assert listed(archive.read()) == [("x", 7, 8, 1, 1, 5)]
    (file,) = tmp_path.glob("*.parquet")
    assert pq.read_schema(file).names == [
        *("_kind", "_start", "end", "new_end"),
        *("start", "known", "kind"),
        *("_known", "revision"),
    ]


def test_duckdb_reads_an_archive_as_a_table(tmp_path: Path) -> None:
    import duckdb

    archive = archive_at(tmp_path)
    put(archive, 0, rows(insert("a", 1, 5)), rows(insert("b", 2, int(FOREVER))))
    put(archive, 1, rows(("b", 2, int(FOREVER), 4)))
    archive.add_correction(1, 1, rows(("a", 1, 5, 1), insert("c", 1, 5)))
    query = f"SELECT * FROM read_parquet('{tmp_path}/*.parquet') ORDER BY known, k"
    assert duckdb.execute(query).fetchall() == [
        ("insert", 1, 5, None, "a", 1, 0, None),
        ("insert", 2, None, None, "b", 2, 0, None),
        ("adjust", 2, None, 4, "b", 2, 1, None),
    ]
    everything = f"SELECT k, known, revision FROM read_parquet('{tmp_path}/**/*.parquet')"
    assert sorted(duckdb.execute(everything).fetchall())[-1] == ("c", 1, 1)


def test_polars_reads_an_archive_as_a_table(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    archive = archive_at(tmp_path)
    put(archive, 0, rows(insert("a", 1, 5)))
    put(archive, 1, rows(insert("b", 2, int(FOREVER))))
    found = polars.read_parquet(f"{tmp_path}/*.parquet")
    assert found.select("k", "start", "end", "known").rows() == [
        ("a", 1, 5, 0),
        ("b", 2, None, 1),
    ]


def test_a_bucket_that_is_gone_is_named(tmp_path: Path) -> None:
    archive = archive_at(tmp_path)
    put(archive, 0, rows(insert("a", 1, 5)))
    (file,) = tmp_path.glob("*.parquet")
    file.unlink()
    with pytest.raises(StreamError, match="bucket of the archive is missing or damaged") as caught:
        listed(archive.read())
    assert file.name in str(caught.value)


def test_the_archive_of_another_stream_is_not_taken_over(tmp_path: Path) -> None:
    archive_at(tmp_path)
    other = Archive(Folder.at(str(tmp_path)), None)
    with pytest.raises(PlanError, match="the archive of another stream"):
        other.create("quotes", SCHEMA, MICROSECONDS, copied=True)
    with pytest.raises(PlanError, match="the archive of another query"):
        other.create("quotes", SCHEMA, INTEGERS, copied=True, query="another")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.txt").write_text("mine")
    with pytest.raises(PlanError, match="holds something else"):
        archive_at(tmp_path / "data")
    with pytest.raises(StreamError, match="not an archive"):
        Archive(Folder.at(str(tmp_path / "nothing")), None).about()


# By reference.


@pytest.fixture
def trades(tmp_path: Path) -> Callable[..., FileSource]:
    def declared(name: str, **options: object) -> FileSource:
        source, _ = describe_files(str(tmp_path / name), Declared(name="trades", **options))  # type: ignore[arg-type]
        return source

    return declared


def by_reference(path: Path, source: FileSource, splits: list[FileSplit]) -> Archive:
    archive = Archive(Folder.at(str(path)), source)
    archive.create(source.name, source.schema, source.promise.clock, copied=False)
    for batch, split in enumerate(splits):
        read = (each.batch for each in read_split(source, split, source.schema.names))
        archive.add(entry(batch, Piece.of(split, read)))
    return archive


@pytest.mark.parametrize("end", [None, "until"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("order", ["in order", "a little late", "in no order"])
def test_rows_of_a_span_with_values_are_found_in_any_order(
    tmp_path: Path, trades: Callable[..., FileSource], end: str | None, unit: str, order: str
) -> None:
    random = np.random.default_rng(5)
    late = {"in order": 1, "a little late": 50, "in no order": 5_000}[order]
    at = 1_000 * (np.arange(2_000) + random.integers(0, late, 2_000))
    times = [
        pa.array(each, pa.timestamp("us")).cast(pa.timestamp(unit)) for each in (at, at + 5_000)
    ]
    keys = pa.array([None if n % 7 == 0 else f"k{n % 7}" for n in random.integers(0, 50, 2_000)])
    table = pa.table({"at": times[0], "until": times[1], "k": keys})
    file = tmp_path / "trades.parquet"
    pq.write_table(table, file, row_group_size=300)
    source = trades("trades.parquet", start="at", end=end)
    archive = by_reference(tmp_path / "archive", source, [FileSplit(str(file), 0, WHOLE)])
    everything = listed(archive.read())
    assert len(everything) == 2_000
    at_key = source.schema.get_field_index("k")
    for first, last in ((500_000, 700_000), (0, 1), (1_999_000, 9_000_000)):
        for values in (["k3"], ["k1", None], ["gone"]):
            found = listed(archive.read((Time(first), Time(last)), keep={"k": pa.array(values)}))
            assert found == [
                row
                for row in everything
                if row[-3] < last and row[-1] > first and row[at_key] in values
            ]


@pytest.mark.parametrize("end", [None, "until"])
@pytest.mark.parametrize("step", [1, 10])
def test_row_groups_outside_a_span_are_not_read(
    tmp_path: Path,
    trades: Callable[..., FileSource],
    monkeypatch: pytest.MonkeyPatch,
    end: str | None,
    step: int,
) -> None:
    at = np.arange(1000)
    until = [None if n == 500 else n + 5 for n in at.tolist()]
    table = pa.table({"at": at, "until": until, "k": [f"k{n // 100}" for n in at.tolist()]})
    file = tmp_path / "trades.parquet"
    pq.write_table(table, file, row_group_size=50)
    options = {"start": "at", "end": end} if end else {"start": "at"}
    source = trades("trades.parquet", **options)
    if step > 1:
        source = replace(source, promise=replace(source.promise, step=step))
    archive = by_reference(tmp_path / "archive", source, [FileSplit(str(file), 0, WHOLE)])
    seen: list[tuple[int, int]] = []

    def counted(
        source: FileSource, split: FileSplit, columns: list[str], narrow: Narrow | None
    ) -> object:
        seen.append((split.first, split.last))
        return read_split(source, split, columns, narrow)

    monkeypatch.setattr("anabranch.runtime.archive.archive.read_split", counted)
    span = (Time(210 // step), Time(230 // step))
    everything = listed(
        read.batch
        for read in read_split(source, FileSplit(str(file), 0, WHOLE), source.schema.names)
    )
    expected = [row for row in everything if row[-3] < span[1] and row[-1] > span[0]]
    assert listed(archive.read(span)) == expected
    assert seen in ([(4, 5)], [(3, 5)])
    seen.clear()
    found = listed(archive.read(keep={"k": pa.array(["k3"])}))
    assert found == [row for row in everything if "k3" in row]
    assert seen == [(6, 8)]


@given(
    parts=st.lists(arrived(), min_size=1, max_size=4),
    span=spans,
    keys=st.one_of(st.none(), st.lists(st.sampled_from("abcd"), max_size=2)),
    group=st.integers(1, 4),
    as_null=st.booleans(),
)
def test_row_groups_of_elements_are_left_out_only_where_nothing_holds(
    parts: list[EventBatch], span: Span, keys: list[str] | None, group: int, as_null: bool
) -> None:
    """Forever is a number where we write elements, and NULL where others do."""
    with TemporaryDirectory() as path, thresholds(ROW_GROUP_ROWS=group):
        file = Path(path) / "elements.parquet"
        if as_null:
            table = element_table(parts, SCHEMA, after=FOREVER)
            pq.write_table(table, file, row_group_size=group)
        else:
            write_parquet(file, parts, clock=INTEGERS)
        source = describe_files(str(file), Declared(name="elements", schema=SCHEMA))[0]
        split = FileSplit(str(file), 0, WHOLE)
        everything = [each.batch for each in read_split(source, split, SCHEMA.names)]
        archive = by_reference(Path(path) / "archive", source, [split])
        wanted = None if keys is None else {"k": pa.array(keys, pa.string())}
        expected = listed(inside(each, span) for each in everything)
        assert listed(archive.read(span, keep=wanted)) == [
            row for row in expected if keys is None or row[0] in keys
        ]


def test_stream_files_are_read_again_by_their_lines(
    tmp_path: Path, trades: Callable[..., FileSource]
) -> None:
    lines = [
        '{"insert": {"k": "a"}, "start": 1, "end": 4}',
        '{"insert": {"k": "b"}, "start": 2, "end": 9}',
        '{"stable": 2}',
        '{"adjust": {"k": "b"}, "start": 2, "end": 9, "new_end": 3}',
    ]
    (tmp_path / "trades.jsonl").write_text("\n".join(lines) + "\n")
    source = trades("trades.jsonl")
    length = len(lines[0]) + len(lines[1]) + 2
    path = str(tmp_path / "trades.jsonl")
    splits = [
        FileSplit(path, 0, length),
        FileSplit(path, length, (tmp_path / "trades.jsonl").stat().st_size, 3),
    ]
    archive = by_reference(tmp_path / "archive", source, splits)
    assert listed(archive.read((Time(5), Time(6)))) == [("b", 2, 2, 9), ("b", 2, 9, 3)]
    assert listed(archive.read((Time(5), Time(6)), upto=0)) == [("b", 2, 2, 9)]
    assert not [*(tmp_path / "archive").glob("*.parquet")]
    alone = Archive(archive.folder, None)
    with pytest.raises(StreamError, match="refers to the files of its source"):
        listed(alone.read())


# What is kept.


def keep(**options: int) -> ArchiveSpec:
    return ArchiveSpec(**options)  # type: ignore[arg-type]


def test_rows_that_are_too_old_go_as_whole_buckets(tmp_path: Path) -> None:
    archive = archive_at(tmp_path, keep(keep_age=10))
    for batch in range(5):
        put(archive, batch, rows(insert("a", batch * 10, batch * 10 + 9)))
    assert archive.cut(Time(10)) == archive.oldest() == BEGINNING
    assert archive.cut(Time(40)) == archive.oldest() == 29
    assert [batch for batch, _ in archive.pieces()] == [3, 4]
    assert sorted(file.name for file in tmp_path.glob("*.parquet")) == [
        "part-00000003-0000-0000.parquet",
        "part-00000004-0000-0000.parquet",
    ]
    # What comes later than that is not kept either.
    put(archive, 5, rows(insert("late", 3, 4)), rows(insert("a", 50, 51)))
    assert listed(archive.read())[-1] == ("a", 50, 50, 50, 51)
    assert not (tmp_path / "part-00000005-0000-0000.parquet").exists()


def test_only_the_newest_rows_stay(tmp_path: Path) -> None:
    archive = archive_at(tmp_path, keep(keep_rows=4))
    for batch in range(5):
        put(archive, batch, rows(insert("a", batch, batch + 1), insert("b", batch, batch + 3)))
    assert archive.cut(FOREVER) == 5
    assert [batch for batch, _ in archive.pieces()] == [3, 4]
    # Without a spec it keeps what it was created to keep.
    again = Archive(archive.folder, None)
    assert again.keeps() == (None, 4)
    assert again.cut(FOREVER) == 5


@given(
    batches=st.lists(st.lists(hulls(), max_size=2), max_size=25),
    age=st.one_of(st.none(), st.integers(0, 30)),
    most=st.one_of(st.none(), st.integers(0, 8)),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    fuses=st.lists(st.integers(0, 9), max_size=5),
    span=spans,
)
def test_nothing_that_must_be_kept_is_lost(
    batches: list[list[tuple[int, int]]],
    age: int | None,
    most: int | None,
    cuts: list[int],
    fuses: list[int],
    span: Span,
) -> None:
    """After any cuts and crashes the archive is complete from `oldest` on, and no file is left."""
    with TemporaryDirectory() as path, thresholds(2, ENTRIES_PER_SEGMENT=3):
        fuse = Fuse()
        folder = FragileFolder(Folder.at(path), fuse)
        archive = Archive(
            folder,
            None,
            ArchiveSpec(keep_age=None if age is None else Duration(age), keep_rows=most),
        )
        archive.create("quotes", SCHEMA, INTEGERS, copied=True)
        deaths = iter(fuses)
        everything: list[tuple[int, Piece]] = []
        newest = 0

        def attempt(step: Callable[[], object]) -> None:
            fuse.left = next(deaths, 1 << 30)
            try:
                step()
            except StopError:
                fuse.left = 1 << 30
                step()
            fuse.left = 1 << 30

        for batch, some in enumerate(batches):
            parts = [rows(insert("a", *hull)) for hull in some]
            attempt(partial(put, archive, batch, *parts))
            for part, hull in enumerate(some):
                name = f"part-{batch:08d}-{part:04d}-0000.parquet"
                everything.append((batch, piece(*hull, path=name)))
                newest = max(newest, hull[0])
            if batch in cuts:
                attempt(partial(archive.cut, Time(newest)))
        oldest = archive.oldest()
        kept = archive.pieces()
        must = [each for each in everything if each[1].last > oldest]
        assert [each for each in kept if each in must] == [each for each in must if each in kept]
        if oldest < FOREVER:
            assert set(must) <= set(kept)
        if age is not None and most is None:
            assert not [
                each for each in everything if each not in kept and each[1].last >= newest - age
            ]
        assert [each for each in kept if each[1].overlaps(span)] == archive.pieces(span)
        if not cuts or (age is None and most is None):
            assert kept == everything
            assert oldest == BEGINNING
        archive.cut(Time(newest))
        there = {name for name in folder.names() if name.endswith(".parquet")}
        assert there == {each.split.path for _, each in archive.pieces()}
        assert len(listed(archive.read())) == len(archive.pieces())


def test_a_cut_that_was_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    for steps in range(12):
        path = tmp_path / str(steps)
        fuse = Fuse()
        archive = Archive(FragileFolder(Folder.at(str(path)), fuse), None, keep(keep_age=10))
        archive.create("quotes", SCHEMA, INTEGERS, copied=True)
        for batch in range(5):
            put(archive, batch, rows(insert("a", batch * 10, batch * 10 + 9)))
        fuse.left = steps
        try:
            archive.cut(Time(40))
        except StopError:
            fuse.left = 1 << 30
            listed(archive.read((archive.oldest(), FOREVER)))
            archive.cut(Time(40))
        assert len([*path.glob("*.parquet")]) == 2
        assert len(archive.pieces()) == 2


# Corrections.


def test_corrections_stay_beside_what_they_correct(tmp_path: Path) -> None:
    archive = archive_at(tmp_path)
    put(archive, 0, rows(insert("a", 1, 5)))
    archive.add_correction(1, 0, rows(("a", 1, 5, 1), insert("b", 1, 5)), known_at=100)
    put(archive, 1, rows(insert("c", 7, 8)))
    archive.add_correction(2, 1, rows(insert("d", 30, 31)), known_at=200)
    archive.add_correction(2, 1, rows(insert("d", 30, 31)), known_at=200)
    assert listed(archive.read()) == [("a", 1, 1, 1, 5), ("c", 7, 7, 7, 8)]
    first, second = archive.corrections()
    assert (first.revision, first.known, first.known_at) == (1, 0, 100)
    assert listed(iter([first.rows])) == [("a", 1, 1, 5, 1), ("b", 1, 1, 1, 5)]
    assert second.known_at == 200
    assert [each.revision for each in archive.corrections(1)] == [1]
    assert archive.corrections(0) == []
    assert [each.revision for each in archive.corrections(span=(Time(20), Time(40)))] == [2]


def test_corrections_of_what_is_gone_go_as_well(tmp_path: Path) -> None:
    archive = archive_at(tmp_path, keep(keep_age=10))
    for batch in range(4):
        put(archive, batch, rows(insert("a", batch * 10, batch * 10 + 9)))
    archive.add_correction(1, 3, rows(insert("b", 1, 5)))
    archive.add_correction(2, 3, rows(insert("b", 33, 35)))
    archive.cut(Time(40))
    assert [each.revision for each in archive.corrections()] == [2]
    assert len([*tmp_path.glob("corrections/*.parquet")]) == 1


# As a source.


def reader_of(path: Path, **options: object) -> FileSource:
    return describe_files(str(path), Declared(name="again", **options))[0]  # type: ignore[arg-type]


def planned(
    source: FileSource, planner: FilePlanner, start: int = 0
) -> tuple[int, list[tuple[Any, ...]]]:
    """All rows, and promises as numbers, that are planned after an offset."""
    found: list[tuple[Any, ...]] = []
    while (end := planner.latest(start)) > start:
        for part in planner.parts(start, end):
            for arrivals, _ in read_pieces(source, part.splits, source.schema.names):
                found += listed(iter([arrivals.batch]))
                found += [(int(stable),) for stable in arrivals.stables]
        start = end
    return start, found


@pytest.mark.parametrize("look_ahead", [1, 1000])
def test_a_new_query_begins_with_history_and_goes_on_live(tmp_path: Path, look_ahead: int) -> None:
    archive = archive_at(tmp_path / "archive")
    put(archive, 0, rows(insert("a", 1, 5)), rows(insert("b", 2, 3)), promised=2)
    put(archive, 3, promised=4)
    archive.add_correction(1, 3, rows(("a", 1, 5, 1)))
    put(archive, 4, rows(insert("c", 7, 9)), promised=7)
    source = reader_of(tmp_path / "archive", late="adjust")
    assert source.form == "archive"
    assert source.schema == SCHEMA
    assert source.promise.clock == INTEGERS
    with thresholds(LOOK_AHEAD_BATCHES=look_ahead):
        folder = Folder.at(str(tmp_path / "plan"))
        end, found = planned(source, FilePlanner([source], folder, parts=2))
        assert found == [
            *(("a", 1, 1, 1, 5), ("b", 2, 2, 2, 3), (2,)),
            (4,),
            ("a", 1, 1, 5, 1),
            *(("c", 7, 7, 7, 9), (7,)),
        ]
        # A restarted query goes on where it was.
        planner = FilePlanner([source], folder, parts=2)
        assert planned(source, planner, end) == (end, [])
        archive.add_correction(2, 4, rows(insert("d", 1, 2)))
        put(archive, 5, rows(insert("e", 8, 9)), promised=int(FOREVER))
        _, found = planned(source, planner, end)
        assert found == [("d", 1, 1, 1, 2), ("e", 8, 8, 8, 9), (int(FOREVER),)]


def test_an_archive_is_read_as_it_was_known(tmp_path: Path) -> None:
    archive = archive_at(tmp_path / "archive")
    for batch, key in enumerate("abc"):
        piece = write_bucket(
            archive.folder, rows(insert(key, batch, 9)), batch=batch, part=0, clock=INTEGERS
        )
        archive.add(entry(batch, piece, promised=batch, known_at=batch * 10))
        change = rows((key, batch, 9, batch), insert(key.upper(), batch, 9))
        archive.add_correction(batch + 1, batch, change, known_at=batch * 10 + 5)
    whole = reader_of(tmp_path / "archive")

    def known(name: str, **point: int) -> str:
        source = replace(whole, ends=True, known=KnowledgePoint(**point))
        planner = FilePlanner([source], Folder.at(str(tmp_path / name)), parts=1)
        found: Counter[str] = Counter()
        for key, _, _, end, new_end in planned(source, planner)[1]:
            found[key] += 1 if new_end > end else -1
        return "".join(sorted(found.elements()))

    assert known("r0", revision=0) == "abc"
    assert known("r1", revision=1) == "Abc"
    assert known("r9", revision=9) == "ABC"
    assert known("t9", instant=9) == "A"
    assert known("t10", instant=10) == "Ab"
    assert known("t25", instant=25) == "ABC"


def test_late_rows_of_a_batch_are_a_correction(tmp_path: Path) -> None:
    archive = archive_at(tmp_path / "archive", ArchiveSpec(keep_rows=3))
    for batch in range(4):
        write = partial(write_bucket, archive.folder, batch=batch, part=0, clock=INTEGERS)
        pieces = [write(rows(insert("abcd"[batch], 10 * batch, 10 * batch + 5)))]
        if batch in (1, 3):
            pieces.append(
                write(
                    rows(insert("xy"[batch // 2], 6 * batch, 6 * batch + 4)), message=1, late=True
                )
            )
        came = entry(batch, *pieces, promised=10 * batch, known_at=batch)
        archive.add(came)
        archive.add_late(batch // 2 + 1, came)
        archive.add_late(batch // 2 + 1, came)
    whole = reader_of(tmp_path / "archive")

    def keys(name: str, known: KnowledgePoint | None) -> str:
        source = replace(whole, ends=True, known=known)
        planner = FilePlanner([source], Folder.at(str(tmp_path / name)), parts=1)
        return "".join(sorted(each[0] for each in planned(source, planner)[1] if len(each) > 1))

    assert keys("r0", KnowledgePoint(revision=0)) == "abcd"
    assert keys("r1", KnowledgePoint(revision=1)) == "abcdx"
    assert keys("r2", KnowledgePoint(revision=2)) == keys("now", KnowledgePoint()) == "abcdxy"
    assert keys("t0", KnowledgePoint(instant=0)) == "a"
    assert keys("t1", KnowledgePoint(instant=1)) == "abx"
    assert keys("t2", KnowledgePoint(instant=2)) == "abcx"
    # Whoever reads it as a source, or replays it, gets every row once, with its batch.
    assert keys("as it came", None) == "abcdxy"
    assert sorted(row[0] for row in listed(archive.read())) == [*"abcdxy"]
    assert archive.stats().corrections == 2
    assert [(each.revision, each.known) for each in archive.corrections()] == [(1, 1), (2, 3)]
    # Late rows go with their batch.
    archive.cut(Time(0))
    assert keys("cut", KnowledgePoint()) == "cdy"
    assert archive.stats().corrections == 1


def test_sql_reads_a_stream_as_its_archive_knew_it(tmp_path: Path) -> None:
    engine = ab.Engine()
    (tmp_path / "quotes.jsonl").write_text('{"k": "x", "at": 1}\n')
    engine.sql(f"""
        CREATE STREAM Quote (k TEXT, at BIGINT) SOURCE '{tmp_path / "quotes.jsonl"}'
          ORDERED BY at LATE REVISE ARCHIVE '{tmp_path / "archive"}' KEEP 10 ROWS
    """)
    source = engine.sql("SELECT k FROM Quote").sources["Quote"]
    archive = Archive(Folder.at(str(tmp_path / "archive")), source, source.archive)
    archive.create("Quote", source.schema, source.promise.clock, copied=True)
    for batch, key in enumerate("ab"):
        payload = pa.RecordBatch.from_pylist(
            [dict.fromkeys(source.schema.names, batch) | {"k": key}], source.schema
        )
        at = np.array([batch])
        piece = write_bucket(
            archive.folder,
            EventBatch(payload, at, at, at + 1),
            batch=batch,
            part=0,
            clock=source.promise.clock,
        )
        archive.add(entry(batch, piece, promised=batch + 1))
        archive.add_correction(batch + 1, batch, EventBatch(payload, at, at + 1, at))

    def known(revision: int) -> list[tuple[Any, ...]]:
        query = f"SELECT COUNT(*) AS n FROM Quote FOR KNOWN AS OF {revision} WINDOW(RANGE 3)"
        run = engine.sql(query).run_local("memory")
        assert run.stable == FOREVER
        return [
            (row["n"], row["start"], row["end"])
            for row in run.table().to_pylist()
            if row["kind"] == "insert" and row["n"]
        ]

    assert known(0) == [(1, 0, 1), (2, 1, 3), (1, 3, 4)]
    assert known(1) == [(1, 1, 4)]
    assert known(2) == []


def test_what_an_archive_cannot_be_read_for_is_said(tmp_path: Path) -> None:
    archive_at(tmp_path / "archive", copied=False)
    with pytest.raises(StreamError, match="only refers to the files of its source"):
        reader_of(tmp_path / "archive")
    archive_at(tmp_path / "rows")
    with pytest.raises(StreamError, match="no column 'x'"):
        reader_of(tmp_path / "rows", schema=pa.schema([("x", pa.int64())]))
    (tmp_path / "rows" / "_archive.json").write_text('{"format":2}')
    with pytest.raises(EngineError, match="format 2, this version reads 1"):
        reader_of(tmp_path / "rows")


def test_nothing_was_known_before_there_is_an_archive(tmp_path: Path) -> None:
    engine = ab.Engine()
    (tmp_path / "quotes.jsonl").write_text('{"k": "a", "x": 1, "at": 1}\n')
    engine.sql(f"""
        CREATE STREAM Quote (k TEXT, x DOUBLE, at BIGINT) SOURCE '{tmp_path / "quotes.jsonl"}'
          ORDERED BY at ARCHIVE '{tmp_path / "archive"}'
    """)
    query = engine.sql("SELECT k FROM Quote FOR KNOWN AS OF 1")
    with pytest.raises(PlanError, match="does not exist yet"):
        query.run_local("memory")
    archive_at(tmp_path / "archive")
    with pytest.raises(PlanError, match="has no column 'x'"):
        query.run_local("memory")
