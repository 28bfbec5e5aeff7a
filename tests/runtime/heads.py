"""Heads of parcels: strategies that draw them, and results that say no more than a test needs."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from anabranch.kernels.contract.command import VERBS, Command
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.messages.counters import CopyCounters, SourceCounters, StageCounters
from anabranch.runtime.messages.heads import (
    CONTINUED,
    ControlHead,
    CopyReport,
    DeliveredRows,
    Head,
    LogFile,
    OutputHead,
    OutputSummary,
    SourceHead,
    StageHead,
    TimeHead,
)

TIMES = st.integers(int(BEGINNING), int(FOREVER))
COUNTS = st.integers(0, 9)
NAMES = st.text(max_size=4)
LIFETIMES = st.lists(st.tuples(TIMES, TIMES), max_size=2).map(tuple)
COMMANDS = st.builds(
    Command,
    verb=st.sampled_from(VERBS),
    source=NAMES,
    value=st.none() | TIMES,
    copy=st.none() | NAMES,
)
_FILES = st.builds(
    LogFile,
    name=NAMES,
    rows=COUNTS,
    bytes=COUNTS,
    sender=st.none() | st.tuples(COUNTS, COUNTS, COUNTS),
)
_COPIES = st.builds(
    CopyReport,
    name=NAMES,
    reached=TIMES,
    rows=COUNTS,
    late=COUNTS,
    adjusted=COUNTS,
    restart=st.booleans(),
    problem=st.none() | NAMES,
)
_SOURCES = st.builds(
    SourceHead,
    source=NAMES,
    counted_at=st.tuples(COUNTS, COUNTS),
    reached=TIMES,
    rows=COUNTS,
    late=COUNTS,
    adjusted=COUNTS,
    skipped=COUNTS,
    ordered=st.booleans(),
    copies=st.dictionaries(COUNTS, _COPIES, max_size=2),
    delivered=st.none()
    | st.builds(DeliveredRows, COUNTS, st.dictionaries(COUNTS, _FILES, max_size=2), LIFETIMES),
)
_COPY_COUNTERS = st.builds(
    CopyCounters, rows=COUNTS, late=COUNTS, adjusted=COUNTS, reached=TIMES, problem=NAMES
)
_SOURCE_COUNTERS = st.builds(
    SourceCounters,
    rows=COUNTS,
    late=COUNTS,
    adjusted=COUNTS,
    reached=TIMES,
    order=st.sampled_from([None, "none"]),
    skipped=COUNTS,
    copies=st.none() | st.dictionaries(NAMES, _COPY_COUNTERS, max_size=2),
)
STAGE_COUNTERS = st.builds(
    StageCounters,
    stage=NAMES,
    shard=COUNTS,
    rows_in=COUNTS,
    rows_out=COUNTS,
    state_rows=COUNTS,
    state_runs=COUNTS,
    stable=TIMES,
    sources=st.dictionaries(NAMES, _SOURCE_COUNTERS, max_size=2),
    control=st.lists(COMMANDS, max_size=2).map(tuple),
    report=st.dictionaries(NAMES, st.none() | COUNTS | st.lists(NAMES), max_size=2),
    state_bytes=COUNTS,
    seconds=st.dictionaries(NAMES, st.floats(0, 9), max_size=2),
)
_COUNTERS = st.lists(STAGE_COUNTERS, max_size=2).map(tuple)
HEADS: st.SearchStrategy[Head] = st.one_of(
    _SOURCES,
    st.builds(TimeHead, NAMES, COUNTS),
    st.builds(ControlHead, st.lists(COMMANDS, max_size=2).map(tuple)),
    st.builds(StageHead, stable=TIMES, shards=st.integers(1, 4_096), counters=_COUNTERS),
    st.builds(
        OutputHead,
        output=COUNTS,
        stable=TIMES,
        stable_before=TIMES,
        said=st.builds(
            OutputSummary, rows_in=COUNTS, rows_out=COUNTS, state_rows=COUNTS, stable=TIMES
        ),
        counters=_COUNTERS,
        files=st.lists(_FILES, max_size=2).map(tuple),
        lifetimes=LIFETIMES,
    ),
    st.just(CONTINUED),
)


def output_head(
    *, stable: int = BEGINNING, before: int = BEGINNING, files: Sequence[LogFile] = ()
) -> OutputHead:
    return OutputHead(
        output=0,
        stable=int(stable),
        stable_before=int(before),
        said=OutputSummary(stable=int(stable)),
        files=tuple(files),
    )
