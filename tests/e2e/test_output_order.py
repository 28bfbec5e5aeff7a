"""On Spark: output is legal for any parts and shards, and a table of elements is a stream again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.streams import opened
from anabranch.engine import Engine, Stream
from anabranch.model.legality import LegalityChecker
from anabranch.model.logical import LogicalStream
from anabranch.runtime.query.run import Run
from anabranch.runtime.spark import session

pytestmark = pytest.mark.spark

EVENTS = 24
FILES = 6


def lines() -> list[list[dict[str, Any]]]:
    """Events of which each file inserts some, and adjusts and withdraws some of the files before.

    Nearly all is of the last file, so that Spark, which reads large files first, begins with it.
    """
    files: list[list[dict[str, Any]]] = []
    for number in range(FILES):
        rows: list[dict[str, Any]] = [
            {"insert": {"k": k % 7, "v": k}, "start": 100 + k, "end": 900}
            for k in range(number * EVENTS, (number + 1) * EVENTS)
        ]
        for k in range(number * EVENTS):
            event = {"k": k % 7, "v": k}
            if k % 5 == 0 and k // EVENTS == number - 1:
                rows.append({"adjust": event, "start": 100 + k, "end": 900, "new_end": 100 + k})
            elif k % 5:
                end = 900 + (number - 1 - k // EVENTS) * 3
                times = {"end": end, "new_end": end + 3 if number < FILES - 1 else "forever"}
                rows.append({"adjust": event, "start": 100 + k, **times})
        rows.append({"stable": 100 + number})
        files.append(rows)
    return files


def write_lines(folder: Path) -> Path:
    folder.mkdir()
    for number, rows in enumerate(lines()):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def finish(run: Run) -> Run:
    assert run.await_end()
    return run


def checked(path: Path) -> LogicalStream:
    """What `anabranch check` reads, all of it legal."""
    with opened(str(path)) as [source]:
        form = source.describe(whole=True)
        checker = LegalityChecker()
        found = []
        for piece in source.pieces(form, strict=False):
            assert checker.feed(piece) == []
            found.append(piece.batch)
    return LogicalStream.of_batches(found)


@pytest.mark.parametrize(("parts", "shards"), [(5, 2), (2, 5)])
def test_files_that_adjust_each_other_give_legal_output(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int, shards: int
) -> None:
    monkeypatch.setattr(session, "parallelism", lambda _: parts)
    monkeypatch.setattr(session, "rows_per_task", lambda _: 1)
    few = Engine(engine.spark, shards=shards)
    bids = few.stream(write_lines(tmp_path / "in"), name="bids")
    other = few.stream(tmp_path / "in", name="other")
    queries: dict[str, Stream] = {
        "log": bids.where("v >= 0").select("k"),
        "out.jsonl": bids.where("v >= 0").select("k"),
        "union": bids.union(other),
        "final.jsonl": bids.where("v >= 0"),
    }
    for name, query in queries.items():
        emit: Any = "final" if name.startswith("final") else "speculative"
        finish(query.start(to=tmp_path / name, emit=emit, available_now=True))
        local = query.run_local(emit=emit)._sink.batches()
        assert checked(tmp_path / name) == LogicalStream.of_batches(local)


def write_tables(engine: Engine, folder: Path, files: int) -> None:
    """The same elements as Parquet files, as somebody else would write them."""
    schema = "kind string, start long, end long, new_end long, k long, v long"
    for number, some in enumerate(lines()[:files]):
        rows = []
        for row in some:
            kind = next(iter(row))
            payload = row[kind] if kind != "stable" else {}
            times = [row.get(name) for name in ("start", "end", "new_end")]
            if kind == "stable":
                times = [row["stable"], None, None]
            times = [None if time == "forever" else time for time in times]
            rows.append((kind, *times, payload.get("k"), payload.get("v")))
        frame = engine.spark.createDataFrame(rows, schema).coalesce(1)
        frame.write.mode("append").parquet(str(folder / str(number)))


def test_two_files_of_a_dataframe_in_one_trigger_give_legal_output(
    engine: Engine, tmp_path: Path
) -> None:
    write_tables(engine, tmp_path / "in", FILES)
    expected = Engine().stream(write_lines(tmp_path / "lines"), name="lines").run_local()
    wanted = LogicalStream.of_batches(expected._sink.batches())
    schema = "kind string, start long, end long, new_end long, k long, v long"
    for most in (2, FILES):
        reader = engine.spark.readStream.schema(schema).option("maxFilesPerTrigger", most)
        stream = engine.stream(reader.parquet(str(tmp_path / "in/*")), name=f"frame{most}")
        for name in (f"log{most}", f"out{most}.jsonl"):
            finish(stream.where("v >= 0").start(to=tmp_path / name, available_now=True))
            assert checked(tmp_path / name) == wanted
    # All at once, without a stream.
    still = engine.stream(engine.spark.read.parquet(str(tmp_path / "in/*")), name="still")
    finish(still.start(to=tmp_path / "still", available_now=True))
    assert checked(tmp_path / "still") == wanted


@pytest.mark.parametrize("timestamps", [False, True])
def test_what_to_df_writes_is_the_stream_again(
    engine: Engine, tmp_path: Path, timestamps: bool
) -> None:
    folder = write_lines(tmp_path / "in")
    if timestamps:
        for file in folder.iterdir():
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            times = ("start", "end", "new_end", "stable")
            for row in rows:
                for name in times:
                    if isinstance(row.get(name), int):
                        row[name] = f"2026-01-01T00:00:00.000{row[name]:03}Z"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bids = engine.stream(folder, name="bids", max_files_per_batch=2)
    frame = bids.where("v >= 0").to_df()
    assert frame.columns == [*("kind", "start", "end", "new_end"), "k", "v", "_batch", "_position"]
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "spark"))
    writer = writer.format("parquet").option("path", str(tmp_path / "out"))
    writer.trigger(availableNow=True).start().awaitTermination()
    wanted = LogicalStream.of_batches(bids.run_local()._sink.batches())
    table = engine.spark.read.parquet(str(tmp_path / "out"))
    again = engine.spark.readStream.schema(table.schema).parquet(str(tmp_path / "out"))
    sources = {
        "a table": engine.stream(table, name="table"),
        "a stream": engine.stream(again, name="stream"),
        "files": engine.stream(tmp_path / "out", name="files"),
    }
    for number, (what, back) in enumerate(sources.items()):
        to = tmp_path / f"back{number}"
        run = finish(back.start(to=to, available_now=True))
        assert checked(to) == wanted, what
        assert back.node.timestamps == timestamps, what  # type: ignore[attr-defined]
        # A table that has an end promises forever.
        assert run.stable >= bids.run_local().stable, what
    local = sources["files"].run_local(tmp_path / "local")
    assert local.stable == bids.run_local().stable
    assert checked(tmp_path / "local") == wanted
