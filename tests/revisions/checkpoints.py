"""Checkpoints of queries that keep their past, without the queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.elements import Adjust, Insert, batch_of
from anabranch.model.time import Duration
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.bucket import write_bucket
from anabranch.runtime.revisions.archived_sources import ArchivedSource, ArchivedSources
from anabranch.runtime.sources.archived.pieces import ArchivedBatch
from anabranch.runtime.sources.spec import ArchiveSpec, LatePolicy, Promise
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.query_record import QueryRecord, write_query_record

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = [Insert((1, "a"), 5, 6), Insert((2, "a"), 5, 6), Insert((1, "b"), 7, 8)]


def checkpoint(
    tmp_path: Path,
    batches: Sequence[Sequence[Insert | Adjust]] = (ROWS,),
    *,
    late: LatePolicy = "revise",
    clock: Clock = INTEGERS,
) -> str:
    """The checkpoint of a query with a copied archive of its source Bid."""
    path = str(tmp_path / "ck")
    write_query_record(Folder.at(path), QueryRecord(query="q", shards=1))
    promise = Promise(source="Bid", late=late, clock=clock, delay=Duration(2))
    source = ArchivedSource(promise=promise, only_points=False)
    ArchivedSources(sources={"Bid": source}).write(f"{path}/revisions")
    archive = Archive(Folder.at(f"{path}/archive/Bid"), None, ArchiveSpec())
    archive.create("Bid", SCHEMA, clock, copied=True)
    for number, rows in enumerate(batches):
        add(path, number, batch_of(rows, SCHEMA))
    return path


def add(path: str, batch: int, rows: EventBatch) -> None:
    folder = Folder.at(f"{path}/archive/Bid")
    piece = write_bucket(folder, rows, batch=batch, part=0, clock=INTEGERS)
    Archive(folder, None).add(ArchivedBatch(batch=batch, pieces=(piece,), promised=9))
