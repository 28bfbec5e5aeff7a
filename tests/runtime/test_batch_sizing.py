"""Batches grow while a query is behind, until their fixed cost is a small part of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.record import plain
from anabranch.runtime.measure.running_plan import running_text
from anabranch.runtime.sources.files.batch_sizing import (
    FILE,
    FIXED,
    LEAST_SHARE,
    MOST_SHARE,
    STEP,
    BatchSize,
    BatchSizing,
    SizeLimits,
    read_size,
)
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.spec import FileSource, Limits, Promise, Shape
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.query_statistics import QueryStatistics

START = 1_000
ROW_BYTES = 100
MOST = 1_000_000

floors = st.floats(5, 2_000)
row_costs = st.floats(1e-4, 1.0)
noises = st.lists(st.floats(-1.0, 1.0), min_size=40, max_size=40)


def sizing(most: int = MOST, start: int = START) -> BatchSizing:
    return BatchSizing(SizeLimits(start=start, bytes=most * ROW_BYTES))


def run(sized: BatchSizing, floor: float, row: float, noise: list[float]) -> list[int]:
    """The sizes of batches of a query that stays behind, but for those of half the size."""
    sizes = []
    for factor in noise:
        rows = sized.rows
        sizes.append(sized.size.rows)
        taken = factor * (floor + row * rows)
        sized.learn(rows, rows * ROW_BYTES, taken, is_behind=True)
    return sizes


@pytest.mark.parametrize("most", [0.05, 0.15])
@given(floors, row_costs, noises)
def test_the_floor_becomes_a_small_part_of_a_batch(
    most: float, floor: float, row: float, noise: list[float]
) -> None:
    sized = sizing()
    sizes = run(sized, floor, row, [1 + most * each for each in noise])
    share = floor / (floor + row * sized.size.rows)
    # Let f be the floor, w the work of a batch, e the error of what is measured. The floor follows
    # from batches of half the size and whole ones: 2 (1 - e) (f + w/2) - (1 + e) (f + w), at the
    # least, which is (1 - 3e) f - 2e w. Batches grow if that is over a fifth of (1 + e) (f + w).
    bound = (MOST_SHARE * (1 + most) + 2 * most) / (1 - most)
    assert share <= 1.02 * bound or sized.rows == MOST
    # A first wrong step is not taken back while it does little harm.
    assert share >= LEAST_SHARE / 2 or sized.rows <= START * STEP**2
    assert all(START <= size <= MOST for size in sizes)


@given(floors, row_costs)
def test_without_noise_the_size_comes_to_rest(floor: float, row: float) -> None:
    sized = sizing()
    sizes = run(sized, floor, row, [1.0] * 40)
    assert len(set(sizes[20:])) == 1
    share = floor / (floor + row * sizes[-1])
    assert share <= 1.05 * MOST_SHARE or sizes[-1] == MOST
    assert sizes == sorted(sizes)


@given(floors, row_costs, st.integers(50_000, 500_000))
def test_a_backlog_is_done_sooner_than_with_batches_of_the_start(
    floor: float, row: float, backlog: int
) -> None:
    def spent(sized: BatchSizing) -> float:
        left, total = backlog, 0.0
        while left > 0:
            rows = min(left, sized.rows)
            taken = floor + row * rows
            left, total = left - rows, total + taken
            sized.learn(rows, 0, taken, is_behind=left > 0)
        return total

    # One batch in sixteen has half the rows, to measure the floor: 32 batches instead of 31. The
    # last batch of all and the last one of half the rows may be one more than their share.
    fixed = spent(BatchSizing(SizeLimits(start=START, bytes=0)))
    assert spent(sizing()) <= fixed + floor * (2 + backlog / START / 31)


@given(st.lists(st.tuples(st.integers(0, START), st.floats(1, 5_000)), max_size=50))
def test_without_a_backlog_nothing_grows(batches: list[tuple[int, float]]) -> None:
    sized = sizing()
    for rows, taken in batches:
        sized.learn(rows, rows * ROW_BYTES, taken, is_behind=False)
    assert sized.rows == START


@given(floors, row_costs, noises)
def test_batches_of_a_fixed_size_stay_as_they_are(
    floor: float, row: float, noise: list[float]
) -> None:
    sized = BatchSizing(FIXED)
    assert set(run(sized, floor, row, [1 + each / 2 for each in noise])) == {FIXED.start}


def test_small_batches_before_a_backlog_tell_the_floor() -> None:
    sized = sizing()
    for _ in range(10):
        sized.learn(10, 0, 60.0, is_behind=False)
    for rows in (START, START // 2):
        sized.learn(rows, 0, 60 + rows / 10, is_behind=True)
    assert sized.costs.floor == pytest.approx(59, abs=3)
    assert sized.costs.row == pytest.approx(0.1, rel=0.1)
    assert sized.rows > START


def test_the_first_batches_of_a_process_tell_nothing() -> None:
    sized = sizing()
    sized.learn(START, 0, 30_000.0, is_behind=True)
    sized.learn(START, 0, 9_000.0, is_behind=True)
    assert sized.rows == START
    assert sized.costs.batches == 0


def test_one_batch_that_was_disturbed_changes_little() -> None:
    sized = sizing()
    run(sized, 100.0, 0.01, [1.0] * 30)
    before = sized.rows
    sized.learn(before, 0, 60_000.0, is_behind=True)
    assert before / STEP - 1 <= sized.rows <= before * STEP
    run(sized, 100.0, 0.01, [1.0] * 30)
    share = 100.0 / (100.0 + 0.01 * sized.rows)
    assert LEAST_SHARE <= share <= MOST_SHARE


def test_batches_shrink_again_when_rows_become_expensive() -> None:
    sized = sizing()
    run(sized, 200.0, 0.001, [1.0] * 30)
    large = sized.rows
    run(sized, 200.0, 1.0, [1.0] * 60)
    assert sized.rows < large / 4


def test_wide_rows_bound_the_size() -> None:
    sized = sizing(most=4_000)
    run(sized, 1_000.0, 1e-4, [1.0] * 20)
    assert sized.rows == 4_000
    # Memory is for what comes: rows that get wider make batches smaller, but not below the start.
    sized.learn(4_000, 4_000 * ROW_BYTES * 2, 1_000.0, is_behind=True)
    assert sized.rows == 2_000
    sized.learn(4_000, 4_000 * ROW_BYTES * 100, 1_000.0, is_behind=True)
    assert sized.rows == START


class Backlog:
    """A planner over files of ten rows each, and a clock that goes on with every batch."""

    def __init__(
        self,
        home: Path,
        files: int,
        most: int | None = 500,
        start: int = 10,
        most_files: int | None = None,
    ) -> None:
        (home / "rows").mkdir(exist_ok=True)
        for number in range(files):
            rows = {"k": range(10), "at": range(number * 10, number * 10 + 10)}
            pq.write_table(pa.table(rows), home / "rows" / f"{number}.parquet")
        schema = pa.schema([("k", pa.int64()), ("at", pa.int64())])
        self.source = FileSource(
            promise=Promise(source="S"),
            path=str(home / "rows"),
            form="parquet",
            schema=schema,
            stored=schema,
            shape=Shape(start="at"),
            limits=Limits(most, most_files),
        )
        self.folder = Folder.at(str(home / "planned"))
        self.limits = SizeLimits(start=start, bytes=1 << 20)
        self.now = 0
        self.open()

    def open(self) -> None:
        sized = BatchSizing(self.limits, [self.source], self.folder)
        self.planner = FilePlanner(
            [self.source], self.folder, 1, clock=lambda: self.now, sizing=sized
        )

    def batches(self, at: int = 0) -> list[int]:
        """The rows of each batch of what is there; each takes 100 ms and 1 ms for ten rows."""
        found = []
        while (after := self.planner.latest(at)) > at:
            rows = sum(
                10 * (split.last - split.first)
                for part in self.planner.parts(at, after)
                for split in part.splits
            )
            found.append(rows)
            self.now += 100_000_000 + rows * 100_000
            at = after
        return found


def test_a_planner_measures_its_batches_and_lets_them_grow(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, 200)
    sizes = backlog.batches()
    assert sum(sizes) == 2_000
    # The fourth should have five rows, but no row group has; so the fifth is larger.
    assert sizes[:5] == [10, 10, 10, 10, 20]
    assert max(sizes) == 500
    noted = read_size(backlog.folder)
    assert noted is not None
    assert noted.rows >= 500
    assert noted.floor_ms == pytest.approx(100, rel=0.25)


def test_the_bound_of_the_owner_holds_and_without_one_a_batch_takes_everything(
    tmp_path: Path,
) -> None:
    for name, most, expected in (("bound", 20, 20), ("small", 5, 10), ("none", None, 600)):
        home = tmp_path / name
        home.mkdir()
        # A row group is never split: one of ten rows goes in whole.
        assert max(Backlog(home, 60, most).batches()) == expected


@pytest.mark.parametrize(("most", "most_files"), [(20, None), (500, 2), (None, 2)])
def test_no_batch_is_smaller_to_measure_a_floor_where_the_owner_lets_none_be_larger(
    tmp_path: Path, most: int | None, most_files: int | None
) -> None:
    backlog = Backlog(tmp_path, 120, most, start=20, most_files=most_files)
    assert backlog.batches() == [20] * 60


@given(floors, row_costs, st.lists(st.booleans(), max_size=60))
def test_capped_batches_never_grow_but_shrink_where_they_have_grown(
    floor: float, row: float, grows: list[bool]
) -> None:
    sized = sizing()
    for may_grow in grows:
        rows, before = sized.rows, sized.size.rows
        taken = floor + row * rows
        sized.learn(rows, rows * ROW_BYTES, taken, is_behind=True, may_grow=may_grow)
        assert START <= sized.size.rows <= (before * STEP if may_grow else before)


def test_a_planner_that_starts_again_repeats_what_is_planned(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, 100)
    sizes = backlog.batches()
    backlog.now = 10**15
    backlog.open()
    assert backlog.batches() == sizes


def test_a_batch_takes_what_is_there_when_there_is_no_backlog(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, 1, start=1_000)
    assert backlog.batches() == [10]
    assert read_size(backlog.folder) is None


def test_the_size_is_written_down_only_when_it_has_changed(tmp_path: Path) -> None:
    folder = Folder.at(str(tmp_path))
    sized = BatchSizing(SizeLimits(start=START, bytes=MOST * ROW_BYTES), folder=folder)
    written = []
    for number in range(40):
        sized.begin(number * 10**9, START, START, is_behind=True)
        sized.finish(number * 10**9 + 100_000_000)
        if folder.read(FILE) is not None:
            written.append(folder.read(FILE))
            folder.remove(FILE)
    assert 0 < len(written) < 20


def test_explain_tells_the_size(tmp_path: Path) -> None:
    size = BatchSize(rows=4_000_000, floor_ms=181.6, million_rows_ms=120.0, batches=9)
    text = running_text(QueryStatistics(), size=size)
    assert text.endswith(
        "\nwhile it is behind, a batch takes up to 4,000,000 rows of a source: its fixed cost is "
        "182 ms, a million rows take 120 ms"
    )
    folder = Folder.at(str(tmp_path))
    folder.write_json(FILE, plain(size))
    assert read_size(folder) == size
