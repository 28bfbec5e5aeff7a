"""A source as its archive knew it: the same columns by another name, read from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anabranch.runtime.sources.archived.about import archived_columns
from anabranch.runtime.sources.spec import FileSource, KnowledgePoint


def known_source(source: Any, name: str, known: KnowledgePoint) -> FileSource:
    """What is read for the leaf `name`, of a source with an archive in a folder of its own.

    What was known does not grow any more: it ends, and nothing is late before that. Its rows are
    not kept once more. The archive has the rows themselves, and counts in chronons of the stream.
    """
    stored, shape = archived_columns(source.schema, source.schema)
    return FileSource(
        promise=replace(
            source.promise,
            source=name,
            delay=None,
            late="drop",
            heartbeat=None,
            step=1,
            stamped=False,
        ),
        path=source.archive.path,
        form="archive",
        schema=source.schema,
        stored=stored,
        shape=shape,
        ends=True,
        limits=source.limits,
        known=known,
    )
