"""What workers say arrives as it was said, or is refused with a reason."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import EngineError
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
    head_as,
    head_of_text,
    head_text,
)

_TIMES = st.integers(int(BEGINNING), int(FOREVER))
_COUNTS = st.integers(0, 9)
_NAMES = st.text(max_size=4)
_COMMANDS = st.builds(
    Command,
    verb=st.sampled_from(VERBS),
    source=_NAMES,
    value=st.none() | _TIMES,
    copy=st.none() | _NAMES,
)
_FILES = st.builds(
    LogFile,
    name=_NAMES,
    rows=_COUNTS,
    bytes=_COUNTS,
    sender=st.none() | st.tuples(_COUNTS, _COUNTS, _COUNTS),
)
_COPIES = st.builds(
    CopyReport,
    name=_NAMES,
    reached=_TIMES,
    rows=_COUNTS,
    late=_COUNTS,
    adjusted=_COUNTS,
    restart=st.booleans(),
    problem=st.none() | _NAMES,
)
_SOURCES = st.builds(
    SourceHead,
    source=_NAMES,
    counted_at=st.tuples(_COUNTS, _COUNTS),
    reached=_TIMES,
    rows=_COUNTS,
    late=_COUNTS,
    adjusted=_COUNTS,
    skipped=_COUNTS,
    ordered=st.booleans(),
    copies=st.dictionaries(_COUNTS, _COPIES, max_size=2),
    delivered=st.none()
    | st.builds(DeliveredRows, _COUNTS, st.dictionaries(_COUNTS, _FILES, max_size=2)),
)
_COPY_COUNTERS = st.builds(
    CopyCounters, rows=_COUNTS, late=_COUNTS, adjusted=_COUNTS, reached=_TIMES, problem=_NAMES
)
_SOURCE_COUNTERS = st.builds(
    SourceCounters,
    rows=_COUNTS,
    late=_COUNTS,
    adjusted=_COUNTS,
    reached=_TIMES,
    order=st.sampled_from([None, "none"]),
    skipped=_COUNTS,
    copies=st.none() | st.dictionaries(_NAMES, _COPY_COUNTERS, max_size=2),
)
STAGE_COUNTERS = st.builds(
    StageCounters,
    stage=_NAMES,
    shard=_COUNTS,
    rows_in=_COUNTS,
    rows_out=_COUNTS,
    state_rows=_COUNTS,
    state_runs=_COUNTS,
    stable=_TIMES,
    sources=st.dictionaries(_NAMES, _SOURCE_COUNTERS, max_size=2),
    control=st.lists(_COMMANDS, max_size=2).map(tuple),
    report=st.dictionaries(_NAMES, st.none() | _COUNTS | st.lists(_NAMES), max_size=2),
    state_bytes=_COUNTS,
    seconds=st.dictionaries(_NAMES, st.floats(0, 9), max_size=2),
)
_COUNTERS = st.lists(STAGE_COUNTERS, max_size=2).map(tuple)
_HEADS: st.SearchStrategy[Head] = st.one_of(
    _SOURCES,
    st.builds(TimeHead, _NAMES, _COUNTS),
    st.builds(ControlHead, st.lists(_COMMANDS, max_size=2).map(tuple)),
    st.builds(StageHead, stable=_TIMES, stable_before=_TIMES, counters=_COUNTERS),
    st.builds(
        OutputHead,
        output=_COUNTS,
        stable=_TIMES,
        stable_before=_TIMES,
        said=st.builds(
            OutputSummary, rows_in=_COUNTS, rows_out=_COUNTS, state_rows=_COUNTS, stable=_TIMES
        ),
        counters=_COUNTERS,
        files=st.lists(_FILES, max_size=2).map(tuple),
    ),
    st.just(CONTINUED),
)


@given(_HEADS)
def test_a_head_arrives_as_it_was_sent(head: Head) -> None:
    assert head_of_text(head_text(head)) == head


@given(_HEADS)
def test_a_head_with_another_key_is_refused(head: Head) -> None:
    content = {**json.loads(head_text(head)), "else": 1}
    with pytest.raises(EngineError, match="'else' is a key that this version does not know"):
        head_of_text(json.dumps(content))


@given(_HEADS, st.data())
def test_a_head_without_one_of_its_keys_is_refused_unless_that_has_a_default(
    head: Head, data: st.DataObject
) -> None:
    content = json.loads(head_text(head))
    left_out = data.draw(st.sampled_from(sorted(content)))
    del content[left_out]
    bare = [each for each in fields(head) if each.default is each.default_factory is MISSING]
    if left_out == "kind" or left_out in [each.name for each in bare]:
        with pytest.raises(EngineError, match=f"'{left_out}' is missing|not say what it is"):
            head_of_text(json.dumps(content))
    else:
        assert type(head_of_text(json.dumps(content))) is type(head)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "{}", '{"kind": "letter"}', '{"kind": ["source"]}']
)
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="it does not say what it is"):
        head_of_text(text)


def test_a_head_of_another_kind_is_not_taken_for_an_output() -> None:
    with pytest.raises(EngineError, match="brought TimeHead where OutputHead belongs"):
        head_as(OutputHead, TimeHead("bids", 7))
