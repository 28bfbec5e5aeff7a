"""A source as its archive knew it: the same columns by another name, read from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anabranch.runtime.sources.spec import FileForm, FileSource, KnowledgePoint


def known_source(source: Any, name: str, known: KnowledgePoint) -> FileSource:
    """What is read for the leaf `name`, of a source with an archive in a folder of its own.

    What was known does not grow any more: it ends, and nothing is late before that. Its rows are
    not kept once more. Of a DataFrame the archive has the rows themselves.
    """
    form: FileForm = source.form if isinstance(source, FileSource) else "parquet"
    return FileSource(
        promise=replace(source.promise, source=name, delay=None, late="drop", heartbeat=None),
        path=source.archive.path,
        form=form,
        schema=source.schema,
        stored=source.stored,
        shape=source.shape,
        ends=True,
        limits=source.limits,
        ordered=isinstance(source, FileSource) and source.ordered,
        known=known,
    )
