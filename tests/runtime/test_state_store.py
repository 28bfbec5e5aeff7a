from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.errors import EngineError
from anabranch.kernels.contract.kernel import SortedRun, Trace
from anabranch.model.time import Time
from anabranch.runtime.store.folder import Folder, RemoteFolder
from anabranch.runtime.store.state_store import Manifest, ShardStore, check_runs


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"v": pa.array(values, pa.int64())})


@pytest.fixture
def store(tmp_path: Path) -> ShardStore:
    return ShardStore(folder=Folder.at(str(tmp_path / "shard")), keep=2)


def save(
    store: ShardStore, batch: int, before: Manifest | None, *runs: SortedRun, stable: int = 0
) -> Manifest:
    trace = Trace({"timeline": runs}, Time(stable))
    return store.save(batch, before, [trace], sources={"bids": stable}, counters=None)


def values(store: ShardStore, manifest: Manifest) -> list[list[int]]:
    (trace,) = store.traces(manifest)
    return [run.rows.column("v").to_pylist() for run in trace.runs["timeline"]]


def test_what_was_saved_is_what_is_loaded(store: ShardStore) -> None:
    save(store, 0, None, SortedRun(rows(1, 2)), SortedRun(rows()), stable=-5)
    found = store.load(1)
    assert found is not None
    assert values(store, found) == [[1, 2], []]
    assert (found.kernels[0].stable, found.sources) == (-5, {"bids": -5})
    check_runs(store, found)


def test_runs_that_have_a_name_are_not_written_again(store: ShardStore, tmp_path: Path) -> None:
    first = save(store, 0, None, SortedRun(rows(1)))
    (trace,) = store.traces(first)
    save(store, 1, first, *trace.runs["timeline"], SortedRun(rows(2)))
    assert sorted(p.name for p in (tmp_path / "shard").glob("*.arrow")) == [
        "0-0.arrow",
        "1-0.arrow",
    ]


def test_what_follows_from_a_run_is_there_for_the_next_batch(store: ShardStore) -> None:
    first = save(store, 0, None, SortedRun(rows(1)))
    (trace,) = store.traces(first)
    (run,) = trace.runs["timeline"]
    run.derived["sum"] = 1
    second = save(store, 1, first, run, SortedRun(rows(2)))
    (trace,) = store.traces(second)
    assert [each.derived for each in trace.runs["timeline"]] == [{"sum": 1}, {}]


def test_a_batch_never_sees_its_own_or_a_later_version(store: ShardStore) -> None:
    first = save(store, 0, None, SortedRun(rows(1)))
    save(store, 1, first, SortedRun(rows(2)))
    found = store.load(1)
    assert found is not None
    assert values(store, found) == [[1]]
    assert store.load(0) is None


def test_a_skipped_batch_does_not_matter(store: ShardStore) -> None:
    save(store, 3, None, SortedRun(rows(1)))
    found = store.load(7)
    assert found is not None
    assert found.batch == 3


def test_saving_a_batch_again_puts_the_same_bytes_in_place(
    store: ShardStore, tmp_path: Path
) -> None:
    save(store, 0, None, SortedRun(rows(1, 2, 3)))
    before = {p.name: p.read_bytes() for p in (tmp_path / "shard").iterdir()}
    save(store, 0, None, SortedRun(rows(1, 2, 3)))
    assert {p.name: p.read_bytes() for p in (tmp_path / "shard").iterdir()} == before


def test_cleaning_keeps_what_the_last_versions_need(store: ShardStore, tmp_path: Path) -> None:
    manifest = save(store, 0, None, SortedRun(rows(0)))
    for batch in range(1, 6):
        (trace,) = store.traces(manifest)
        kept = trace.runs["timeline"][:1]
        manifest = save(store, batch, manifest, *kept, SortedRun(rows(batch)))
    folder = tmp_path / "shard"
    (folder / ".partial-3-77-0").touch()
    (folder / ".partial-5-77-0").touch()
    store.clean(5)
    assert sorted(p.name for p in folder.iterdir()) == [
        ".partial-5-77-0",
        "0-0.arrow",
        "4-0.arrow",
        "4.json",
        "5-0.arrow",
        "5.json",
    ]


def test_a_run_of_another_life_of_the_folder_is_not_taken_for_ours(store: ShardStore) -> None:
    first = save(store, 0, None, SortedRun(rows(1)))
    assert values(store, first) == [[1]]
    again = save(store, 0, None, SortedRun(rows(9)))
    assert values(store, again) == [[9]]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: p.unlink(), "is missing"),
        (lambda p: p.write_bytes(p.read_bytes()[:-9]), "bytes"),
    ],
)
def test_a_missing_or_shortened_run_is_named(
    store: ShardStore, tmp_path: Path, damage: object, message: str
) -> None:
    manifest = save(store, 0, None, SortedRun(rows(5, 6)))
    assert callable(damage)
    damage(tmp_path / "shard" / "0-0.arrow")
    with pytest.raises(EngineError, match=message) as raised:
        store.traces(manifest)
    assert "0-0.arrow" in raised.value.where
    assert "checkpoint" in raised.value.hint


def test_a_changed_run_is_found_by_its_checksum(store: ShardStore, tmp_path: Path) -> None:
    manifest = save(store, 0, None, SortedRun(rows(5, 6)))
    file = tmp_path / "shard" / "0-0.arrow"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(EngineError, match="has changed"):
        check_runs(store, manifest)


def test_a_manifest_of_another_format_is_refused(store: ShardStore, tmp_path: Path) -> None:
    save(store, 0, None, SortedRun(rows(1)))
    file = tmp_path / "shard" / "0.json"
    file.write_text(json.dumps({**json.loads(file.read_text().splitlines()[0]), "format": 99}))
    with pytest.raises(EngineError, match="format 99"):
        store.load(1)


def test_state_can_live_in_any_file_system_that_arrow_knows(tmp_path: Path) -> None:
    from pyarrow.fs import LocalFileSystem

    store = ShardStore(folder=RemoteFolder(LocalFileSystem(), str(tmp_path / "far")), keep=2)
    manifest: Manifest | None = None
    for batch in range(5):
        manifest = save(store, batch, manifest, SortedRun(rows(batch)))
        store.clean(batch)
    found = store.load(5)
    assert found is not None
    assert values(store, found) == [[4]]
    assert len(store.folder.names()) == 4


def test_a_large_run_from_afar_is_on_disk_not_in_memory(tmp_path: Path) -> None:
    from pyarrow.fs import LocalFileSystem

    store = ShardStore(folder=RemoteFolder(LocalFileSystem(), str(tmp_path / "far")), keep=2)
    large = pa.RecordBatch.from_pydict({"v": list(range(500_000))})
    manifest = save(store, 0, None, SortedRun(large))
    before = pa.total_allocated_bytes()
    [trace] = store.traces(manifest)
    [[run]] = trace.runs.values()
    assert pa.total_allocated_bytes() - before < 100_000
    assert run.rows.equals(large)
