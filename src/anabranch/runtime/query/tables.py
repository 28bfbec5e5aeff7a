"""Relations that queries look up in: small, read once, kept in the checkpoint."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from anabranch.kernels.plan.compile import PhysicalPlan, tables_of
from anabranch.model.batch import concat_rows, no_rows
from anabranch.runtime.query.checkpoint import read_facts
from anabranch.runtime.sources.files.delta_table import snapshot_bytes
from anabranch.runtime.sources.files.listing import list_files
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import arrow_file
from anabranch.runtime.workers.source_task import read_pieces

BROADCAST_UP_TO_BYTES: Final = 16 << 20
"""What is larger is read like a stream, and kept in shards."""

_INDEX: Final = "tables.json"


def lookup_tables(sources: Mapping[str, Any], checkpoint: str | None) -> frozenset[str]:
    """The relations to look up in; for a query that goes on, those it began with."""
    facts = None if checkpoint is None else read_facts(checkpoint)
    if facts is not None:
        return frozenset(facts.tables)
    return frozenset(
        name
        for name, source in sources.items()
        if isinstance(source, FileSource)
        and _holds_always(source)
        and _size(source) <= BROADCAST_UP_TO_BYTES
    )


def store_tables(plan: PhysicalPlan, sources: Mapping[str, Any], folder: str) -> dict[str, str]:
    """Where the tables of a plan are; those that are not there yet are written.

    A name tells the content, so whoever has read a file may keep what was in it.
    """
    wanted = tables_of(plan)
    if not wanted:
        return {}
    store = Folder.at(folder)
    index: dict[str, str] = store.read_json(_INDEX) or {}
    for name in wanted:
        if name not in index:
            data = arrow_file(_rows(sources[name]))
            index[name] = f"{hashlib.sha256(data).hexdigest()}.arrow"
            store.write(index[name], data)
            store.write_json(_INDEX, index)
    return {name: f"{folder}/{index[name]}" for name in wanted}


def _holds_always(source: FileSource) -> bool:
    return source.shape is not None and source.shape.start is None


def _size(source: FileSource) -> int:
    if source.form == "delta":
        return snapshot_bytes(source.path)
    return sum(Path(file).stat().st_size for file in list_files(source.path, source.form))


def _rows(source: FileSource) -> pa.RecordBatch:
    """All rows of a relation in files."""
    with tempfile.TemporaryDirectory(prefix="anabranch-") as folder:
        planner = FilePlanner([source], Folder.at(folder), parts=1)
        end = planner.latest(0, limited=False)
        parts = [
            arrivals.batch.payload
            for part in planner.parts(0, end)
            for arrivals, _ in read_pieces(source, part.splits, source.schema.names)
        ]
    return concat_rows([no_rows(source.schema), *parts])
