"""The copies that a task leaves in an archive, written beside its work."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.algebra.source import Source
from anabranch.errors import StreamError
from anabranch.kernels.plan.compile import compile_plan
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Adjust, Element, Insert, batch_of
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.archive.arrived import ArrivedFolder
from anabranch.runtime.archive.bucket import read_bucket
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.part_log import PartLog, PastJob
from anabranch.testing.physical import elements_of

SCHEMA = pa.schema(
    [("k", pa.string()), ("x", pa.float64()), ("at", pa.timestamp("us", tz="Europe/Berlin"))]
)


def log_of(tmp_path: Path, schema: pa.Schema, promised: Time = BEGINNING) -> PartLog:
    plan = compile_plan(Source(name="S", schema=schema))
    job = PastJob(folder=str(tmp_path / "revisions"), copied={"S": str(tmp_path / "archive")})
    return PartLog(job, plan, "S", 0, 7, promised)


def rows(*elements: Element) -> EventBatch:
    return batch_of(list(elements), SCHEMA)


def test_all_copies_are_there_in_order_once_it_is_closed(tmp_path: Path) -> None:
    log = log_of(tmp_path, SCHEMA, Time(5))
    batches = [
        rows(*(Insert((f"k{n}", n / 2, None), n, n + 1) for n in range(10 * at, 10 * at + 10)))
        for at in range(1, 8)
    ]
    moved = rows(Insert(("a", None, None), 90, FOREVER), Adjust(("a", None, None), 90, FOREVER, 95))
    late = rows(Insert(("late", 0.5, None), 2, 3), Insert(("k", 0.5, None), 8, 9))
    for batch in (*batches, moved, late):
        log.copy(batch, INTEGERS, revised=True)
    log.close(Time(100))
    folder = Folder.at(str(tmp_path / "archive"))
    (part,) = ArrivedFolder.of(str(tmp_path / "revisions")).take(7)
    read = [
        [
            element
            for found in read_bucket(folder, piece.split.path, SCHEMA, every=SCHEMA)
            for element in elements_of(found)
        ]
        for piece in part.pieces
    ]
    wanted = [elements_of(batch) for batch in (*batches, moved, late.between(0, 1))]
    assert read == [*wanted, elements_of(late.between(1, 2))]
    assert [piece.is_late for piece in part.pieces] == [*[False] * 8, True, False]
    path = tmp_path / "archive" / part.pieces[0].split.path
    stored = pq.read_schema(path)
    assert stored.field("kind").type == pa.string()
    assert [stored.field(name).type for name in SCHEMA.names] == SCHEMA.types


def test_a_copy_that_cannot_be_written_is_noticed(tmp_path: Path) -> None:
    schema = pa.schema([("i", pa.month_day_nano_interval())])
    log = log_of(tmp_path, schema)
    log.copy(batch_of([Insert(((1, 2, 3),), 1, 2)], schema), INTEGERS)
    with pytest.raises(StreamError, match="a column cannot be archived"):
        log.close(Time(5))
    assert ArrivedFolder.of(str(tmp_path / "revisions")).take(7) == []
