"""Find out what copies of a stream hold, and check that they are copies of one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pyarrow as pa

from anabranch.algebra.source import Source
from anabranch.errors import PlanError, StreamError
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.files.stream_file import describe as describe_stream
from anabranch.runtime.sources.declare.declared import Declared, leaf_of, with_times
from anabranch.runtime.sources.declare.log_properties import relying
from anabranch.runtime.sources.files.copies import form_of_copy, list_copies, measure, misfit
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.log_records import NOTHING_KNOWN, LogProperties
from anabranch.runtime.sources.spec import ELEMENTS, FileSource


def describe_copies(path: str, declared: Declared) -> tuple[FileSource, Source]:
    """A source of which everything that a path matches is a copy, and the leaf it is in a plan.

    Raises:
        StreamError: There is nothing there and no columns are declared, or a copy has others.
        PlanError: What is declared makes no sense for copies.
    """
    declared.refuse_misplaced("table" if declared.relation else "copies", path)
    if declared.late == "revise":
        raise PlanError(
            "late rows of copies cannot be revised",
            where=f"source '{declared.name}': {path}",
            hint="a merge takes what another copy says; write LATE DROP, LATE ADJUST or LATE FAIL",
        )
    copies = list_copies(path)
    schema, clock = declared.schema, INTEGERS
    if copies:
        # What a file says about its columns itself is surer than what JSON looks like.
        first = min(copies.values(), key=lambda each: measure(each).form == "lines")
        found, clock = _columns(first)
        schema = found if schema is None else schema
    if schema is None:
        raise StreamError(
            "there is no copy of the stream yet",
            where=f"source '{declared.name}': {path}",
            hint="declare its columns if copies will appear later; a copy is a log folder or a "
            "stream file (.jsonl, .parquet)",
        )
    promise = declared.promise(clock)
    for name, copy in copies.items():
        wrong = misfit(form_of_copy(copy, measure(copy).form), schema, promise.clock)
        if wrong:
            raise StreamError(
                f"copy '{name}' is not like the others: {wrong}",
                where=f"source '{declared.name}': {copy}",
                hint="copies of one stream have the same columns; move it away, or narrow the "
                "pattern",
            )
    source = FileSource(
        promise=promise,
        path=str(Path(path).absolute()),
        form="copies",
        schema=schema,
        stored=with_times(schema),
        shape=ELEMENTS,
        limits=declared.limits,
    )
    leaf = replace(leaf_of(declared, schema, ELEMENTS, promise.clock), copies=True)
    return relying(source, leaf, _properties(copies.values()), declared)


def _properties(copies: Iterable[Path]) -> LogProperties:
    """What all copies say of themselves; nothing where there is none yet, or a stream file."""
    found = [
        LogFolder(str(copy)).properties() if copy.is_dir() else NOTHING_KNOWN for copy in copies
    ]
    return reduce(LogProperties.meet, found) if found else NOTHING_KNOWN


def _columns(copy: Path) -> tuple[pa.Schema, Clock]:
    """The payload columns of a copy, and how it counts time."""
    if copy.is_dir():
        return LogFolder(str(copy)).about()
    form = describe_stream(copy)
    return form.schema, form.clock
