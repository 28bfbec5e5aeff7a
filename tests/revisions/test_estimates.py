"""Corrections of input that is gone are estimated, and the bounds hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.payload import rows_of
from anabranch.model.time import BEGINNING, Duration, Time
from anabranch.runtime.archive import cut_summary
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.bucket import write_bucket
from anabranch.runtime.revisions import estimator
from anabranch.runtime.revisions.estimator import RevisionEstimator, widest
from anabranch.runtime.sources.archived.index import ArchiveCut
from anabranch.runtime.sources.archived.pieces import ArchivedBatch
from anabranch.runtime.sources.spec import ArchiveSpec
from anabranch.runtime.store.folder import Folder
from tests.kernels.plans import SCHEMA, aggregate

Row: TypeAlias = tuple[str | None, int | None, int]
"""Key, value, instant."""

POINTS: Final = Source(name="S", schema=SCHEMA, only_points=True)
FUNCTIONS: Final = {"n": "count", "s": "sum", "a": "avg"}


def plan(function: str, size: int, slide: int) -> Node:
    window = TimeWindow(input=POINTS, size=Duration(size), slide=Duration(slide))
    return aggregate(window, ("k",), function)


def moves(rows: Sequence[Row], *, gone: Sequence[Row] = ()) -> EventBatch:
    every = [*rows, *gone]
    at = np.array([row[2] for row in every], np.int64)
    is_gone = np.arange(len(every)) >= len(rows)
    payload = rows_of([(k, v, None) for k, v, _ in every], SCHEMA)
    batch = EventBatch(payload, at, at, at + 1, BEGINNING)
    return batch.with_ends(np.where(is_gone, at + 1, at), np.where(is_gone, at, at + 1))


class Kept:
    """An archive that keeps some instants, and sums up the others."""

    def __init__(self, folder: Path, found: RevisionEstimator, keep: int) -> None:
        self.archive = Archive(Folder.at(str(folder)), None, ArchiveSpec(keep_age=Duration(keep)))
        self.archive.create("S", SCHEMA, INTEGERS, copied=True)
        self.archive.summaries.declare(found.about, self.archive.index.cut())
        self.batch = -1

    def bring(self, rows: EventBatch, now: int) -> None:
        self.batch += 1
        parts = [rows.where(rows.start % 2 == part) for part in (0, 1)]
        pieces = tuple(
            write_bucket(self.archive.folder, each, batch=self.batch, part=part, clock=INTEGERS)
            for part, each in enumerate(parts)
            if len(each)
        )
        self.archive.add(ArchivedBatch(batch=self.batch, pieces=pieces, promised=now))


def exact(function: str, rows: Sequence[Row], key: object, end: int, size: int) -> float | None:
    inside = [v for k, v, at in rows if k == key and end - size <= at < end]
    values = [v for v in inside if v is not None]
    match FUNCTIONS[function]:
        case "count":
            return float(len(inside)) if inside else None
        case "sum":
            return float(sum(values)) if values else None
    return sum(values) / len(values) if values else None


keys = st.sampled_from(["a", "b", None])
values = st.one_of(st.integers(-50, 50), st.none())
instants = st.integers(0, 60)
rows = st.lists(st.tuples(keys, values, instants), max_size=30)


@settings(deadline=None)
@given(
    batches=st.lists(rows, min_size=1, max_size=4),
    corrections=st.lists(st.tuples(rows, st.integers(0, 3)), min_size=1, max_size=3),
    function=st.sampled_from(sorted(FUNCTIONS)),
    window=st.tuples(st.integers(2, 25), st.integers(1, 12)),
    width=st.integers(1, 15),
    keep=st.integers(1, 70),
    merged=st.booleans(),
)
def test_exact_answers_are_within_the_bounds(
    batches: list[list[Row]],
    corrections: list[tuple[list[Row], int]],
    function: str,
    window: tuple[int, int],
    width: int,
    keep: int,
    merged: bool,
) -> None:
    size, slide = window
    found = RevisionEstimator.of([plan(function, size, slide)], width)
    there: list[Row] = []
    now = 60
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if merged:
            patch.setattr(cut_summary, "MERGE_FROM_FILES", 2)
        kept = Kept(Path(folder), found, keep)
        for number, own in enumerate(batches):
            kept.bring(moves(own), now)
            there += own
            # Of some batches nothing is old yet.
            kept.archive.cut(Time(now * (number + 1) // len(batches)))
        for missing, wrong in corrections:
            gone, before = there[:wrong], there
            there = [*there[wrong:], *missing]
            late = moves(missing, gone=gone)
            kept.bring(late, now)
            if not len(late):
                continue
            estimates = found.estimates(kept.archive, late, kept.batch, now + 1)
            changed = {
                (k, at) for k, v, at in [*missing, *gone] if v is not None or function == "n"
            }
            assert {(each.group[0], each.start) for each in estimates} == {
                (k, end - 1) for k, at in changed for end in found.asked.ends(at) if end <= now + 1
            }
            for each in estimates:
                for told, known in ((each.before, before), (each.after, there)):
                    answer = exact(function, known, each.group[0], each.start + 1, size)
                    if answer is not None:
                        assert told is not None
                        assert told[1] <= answer <= told[2]
                    elif told is not None:
                        assert told[1] <= 0 or FUNCTIONS[function] != "count"
            kept.archive.cut(Time(now))


def test_where_no_bucket_is_cut_estimates_are_exact(tmp_path: Path) -> None:
    found = RevisionEstimator.of([plan("a", 10, 10)], 5)
    kept = Kept(tmp_path, found, 20)
    kept.bring(moves([("a", at, at) for at in range(100)]), 100)
    assert kept.archive.cut(Time(100)) == BEGINNING
    kept.bring(moves([("a", 7, 100)]), 130)
    kept.archive.cut(Time(130))
    kept.bring(moves([("a", 125, 25)]), 130)
    (answer,) = found.estimates(kept.archive, moves([("a", 125, 25)]), kept.batch, 130)
    assert (answer.start, answer.end) == (29, 39)
    assert answer.before is not None
    assert answer.after is not None
    assert answer.before[0] == pytest.approx(24.5)
    assert answer.after[0] == pytest.approx((245 + 125) / 11)
    assert answer.bound < 1e-9


def test_of_many_estimates_a_record_has_those_with_the_widest_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimator, "ESTIMATES_IN_RECORD", 3)
    found = RevisionEstimator.of([plan("s", 12, 1)], 6)
    kept = Kept(tmp_path, found, 1)
    kept.bring(moves([("a", at, at) for at in range(40)]), 60)
    kept.archive.cut(Time(60))
    late = moves([("a", 5, 20)])
    kept.bring(late, 60)
    answers = found.estimates(kept.archive, late, kept.batch, 60)
    assert len(answers) == 12
    chosen = widest(answers)
    assert len(chosen) == 3
    assert min(each.bound for each in chosen) >= sorted(each.bound for each in answers)[-3]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([aggregate(POINTS, ("k",), "n")], "is not a window of time"),
        ([plan("lo", 10, 10)], "is not COUNT, SUM or AVG"),
        ([plan("s", 10, 10), plan("s", 10, 10)], "2 queries are started together"),
    ],
)
def test_other_plans_are_refused_with_the_reason(nodes: list[Node], why: str) -> None:
    with pytest.raises(PlanError) as refused:
        RevisionEstimator.of(nodes, 10)
    assert why in str(refused.value.where)


def test_a_summary_of_something_else_is_refused(tmp_path: Path) -> None:
    kept = Kept(tmp_path, RevisionEstimator.of([plan("s", 12, 1)], 6), 1)
    other = RevisionEstimator.of([plan("s", 12, 1)], 7)
    with pytest.raises(PlanError, match="summary of something else"):
        kept.archive.summaries.declare(other.about, kept.archive.index.cut())
    (tmp_path / "other").mkdir()
    fresh = Archive(Folder.at(str(tmp_path / "other")), None)
    with pytest.raises(PlanError, match="never summed up"):
        fresh.summaries.declare(other.about, ArchiveCut(before=3, oldest=3))
