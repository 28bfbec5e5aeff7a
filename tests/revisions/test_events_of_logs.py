"""User operators see events; revisions in the log of another query name instants, not events."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given

import anabranch as ab
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Insert, Stable, batch_of
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.testing import meaning
from tests.model.revised_streams import SCHEMA, Part, insert, revised_streams, revision, withdrawal
from tests.model.revised_streams import meaning as of_parts
from tests.runtime.revised_logs import written_log


@ab.uda
def how_many(values: Sequence[str]) -> int:
    """How many events a window has."""
    return len(values)


def part(*elements: Insert | Adjust | Stable) -> EventBatch:
    return batch_of(elements, SCHEMA)


MOVED_LATER: list[Part] = [
    part(insert("a", 15, 60), Stable(32)),
    revision(1, 20, 30, withdrawal("a", 20, 30)),
    part(insert("b", 33, 34), Stable(33)),
    # Of [15, 60) the log says that it ends at 50; [15, 20) and [30, 60) are left of it.
    part(Adjust({"a": "a"}, 15, 60, 50), Stable(70)),
]
JOINED: list[Part] = [
    part(insert("a", 0, 5), insert("a", 8, 20), Stable(9)),
    revision(1, 5, 8, insert("a", 5, 8)),
    part(Adjust({"a": "a"}, 8, 20, 12), Stable(30)),
]


def windowed(stream: ab.Stream, window: str) -> Any:
    if window == "snapshot":
        return stream.snapshot_windows().apply(how_many, "a", name="n")
    return stream.session_windows(2).apply(how_many, "a", name="n")


@pytest.mark.parametrize("window", ["snapshot", "session"])
@given(parts=revised_streams())
@example(parts=MOVED_LATER)
@example(parts=JOINED)
def test_an_operator_reads_a_log_whose_events_are_cut_by_revisions(
    window: str, parts: list[Part]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written_log(folder / "log", [*parts, part(Stable(100))])
        stream = ab.Engine().stream(folder / "log", name="L", late="revise")
        query = windowed(stream, window)
        target = folder / "out.jsonl"
        run = query.run_local(to=target)
        wanted = meaning(query.node, {"L": of_parts(parts)}, stable=100)
        found = LogicalStream.of_batches(read_batches(target, query.node.schema))
        assert not found.difference(wanted, run.stable)
