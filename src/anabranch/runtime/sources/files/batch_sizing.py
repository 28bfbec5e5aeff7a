"""How many rows a batch takes while a query is behind: enough that its fixed cost is a small part.

A batch takes `floor + rows * row` milliseconds: the floor is what Spark, the log of offsets, the
exchange and the commit cost before the first row. With few rows per batch a query that is behind
spends its time on floors; with many its first results come late, and memory is needed. So the size
follows from what is measured: where the floor is more than a fifth of a batch, batches grow.

Whoever plans batches is asked for the next one as soon as the last one is done, so the time between
two questions is what a batch has cost, everything included. Nothing else is measured, and nobody
has to tell the planner. Where there is no backlog a batch takes what is there, however little; its
time says what the floor is. A query with a trigger of its own waits for that between batches: the
wait is part of the floor, for it is the same however many rows a batch has.

What is planned is written down, with the rows of each batch, so a restart repeats it exactly
whatever is measured then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, final

import pyarrow as pa

from anabranch.model.record import OMITTED, plain, record
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder

START_ROWS: Final = 1_000_000
"""The rows of a source in a batch while nothing is measured, and at least while it is behind."""

GROW_TO_BYTES: Final = 512 << 20
"""The bytes of rows, not compressed, up to which batches grow."""

MOST_SHARE: Final = 1 / 5
"""Where the floor is a larger part of a batch, batches grow."""

LEAST_SHARE: Final = 1 / 32
"""Where it is a smaller part, batches that have grown shrink: their results come too late."""

AIM: Final = 1 / 8
"""What they grow and shrink to: between the two, so that noise changes nothing."""

STEP: Final = 2.0
"""Batches grow and shrink by this factor at the most: one wrong measurement costs little."""

FLOOR_MS: Final = 100.0
"""The floor while nothing is measured; later, the last one that was."""

_COLD: Final = 2
"""The first batches of a process import modules and compile loops, and tell nothing."""

_FADE: Final = 0.85
"""How much of the weight of a batch remains with every further one."""

_LAST: Final = 32
"""The batches that count: older ones would have no weight."""

_DOUBT: Final = 0.01
"""The weight of the last floor among the batches: it decides while all of them have one size."""

_PROBE: Final = 16
"""Of so many batches of a query that is behind one has another size: that shows the floor."""

_OUTLIER: Final = 4.0
"""A batch that takes more than so many times what was expected counts as if it took that."""

_WIDTH: Final = 64
"""The assumed bytes of a value whose type does not tell."""

FILE: Final = "batch-size.json"
"""The file in the folder of the plan that tells people how large batches are at present."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimits:
    """The bounds within which batches adapt.

    Attributes:
        start: The rows of a source in a batch while nothing is measured.
        bytes: The bytes of rows up to which batches grow; 0: they keep the size of the start.
    """

    start: int = START_ROWS
    bytes: int = GROW_TO_BYTES


FIXED: Final = SizeLimits(bytes=0)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """How large the batches of a query are while it is behind, and why.

    Attributes:
        rows: The rows of a source that go into a batch at the most, within what its owner allows.
        floor_ms: What a batch costs before its first row.
        million_rows_ms: What a million rows cost.
        batches: How many batches were measured.
    """

    rows: int
    floor_ms: float
    million_rows_ms: float
    batches: int = field(default=0, metadata=OMITTED)

    def in_words(self) -> str:
        """For people."""
        return (
            f"while it is behind, a batch takes up to {self.rows:,} rows of a source: its fixed "
            f"cost is {self.floor_ms:.0f} ms, a million rows take {self.million_rows_ms:.0f} ms"
        )

    def is_near(self, other: BatchSize | None) -> bool:
        """Whether another one says about the same, so that it need not be written down again."""
        return other is not None and all(
            abs(mine - theirs) <= theirs / 4
            for mine, theirs in (
                (self.rows, other.rows),
                (self.floor_ms, other.floor_ms),
                (self.million_rows_ms, other.million_rows_ms),
            )
        )


@final
class BatchCosts:
    """The floor and the cost of a row: a line through the times of the last batches.

    Least squares of relative errors, for a disturbance of 10 % is 5 ms in a small batch and 200 in
    a large one; older batches count less and less. While all batches have about the same size, no
    line follows from their times; the last floor takes part as a batch without rows, so it stays.
    """

    def __init__(self, floor: float = FLOOR_MS) -> None:
        """Only the floor is known, roughly."""
        self.floor: float = floor
        self.row: float = 0.0
        self.batches: int = 0
        self._last: deque[tuple[int, float]] = deque(maxlen=_LAST)

    def expected(self, rows: int) -> float:
        """The milliseconds of a batch of so many rows."""
        return self.floor + rows * self.row

    def add(self, rows: int, milliseconds: float) -> None:
        """Take in what a batch has cost."""
        if self.batches > _COLD:
            milliseconds = min(milliseconds, _OUTLIER * self.expected(rows))
        self.batches += 1
        self._last.append((rows, milliseconds))
        self._fit()

    def _fit(self) -> None:
        """The line with the least error that neither begins nor goes below zero."""
        weight = times = sizes = squares = products = 0.0
        for age, (rows, time) in enumerate(reversed(self._last)):
            # By what was expected: batches of one size have one weight, whatever they took.
            own = _FADE**age / self.expected(rows) ** 2
            weight += own
            sizes += own * rows
            squares += own * rows * rows
            times += own * time
            products += own * rows * time
        doubt = _DOUBT * weight
        weight, times = weight + doubt, times + doubt * self.floor
        spread = weight * squares - sizes * sizes
        row = max(0.0, (weight * products - sizes * times) / spread) if spread > 0 else 0.0
        floor = (times - row * sizes) / weight
        if floor < 1.0:
            floor, row = 1.0, max(0.0, products / squares)
        self.floor, self.row = floor, row


@final
@dataclass(frozen=True, slots=True)
class _BegunBatch:
    """A batch that was planned and is not done; see `BatchSizing.learn`."""

    began: int
    rows: int
    size: int
    is_behind: bool
    may_grow: bool


@final
class BatchSizing:
    """Adapts the size of batches to what they cost."""

    def __init__(
        self,
        limits: SizeLimits = FIXED,
        sources: Iterable[FileSource] = (),
        folder: Folder | None = None,
    ) -> None:
        """Begin with the size of the start; what follows is noted in a folder, for people."""
        self._limits = limits
        self._folder = folder
        self._noted: BatchSize | None = None
        self._begun: _BegunBatch | None = None
        self._widths = [_width(source.stored) for source in sources]
        self._left = _COLD
        self._size = limits.start
        self._behind = 0
        self._usual = 0
        self._room = limits.start
        self._probe = 1 / STEP
        self.costs: BatchCosts = BatchCosts()

    @property
    def adapts(self) -> bool:
        """Whether sizes change at all."""
        return self._limits.bytes > 0

    @property
    def rows(self) -> int:
        """The rows of a source in the next batch.

        As long as batches have one size, nobody can tell the floor from what rows cost: a batch of
        half the size tells them apart, for the price of half a floor. Where pieces of files are
        too large for that, it is one of twice the size.
        """
        if not self._probes:
            return self._size
        return max(1, min(int(self._size * self._probe), max(self._room, self._size)))

    @property
    def _probes(self) -> bool:
        """Whether the next batch has another size than the others."""
        return self._behind % _PROBE == 1

    @property
    def size(self) -> BatchSize:
        """How large batches are, and why."""
        return BatchSize(
            rows=self._size,
            floor_ms=round(self.costs.floor, 1),
            million_rows_ms=round(self.costs.row * 1_000_000, 1),
            batches=self.costs.batches,
        )

    def begin(
        self, at: int, rows: int, size: int, *, is_behind: bool, may_grow: bool = True
    ) -> None:
        """Note that a batch was planned, at a time in nanoseconds; see `learn`."""
        planned = _BegunBatch(at, rows, size, is_behind, may_grow)
        self._begun = planned if self.adapts else None

    def finish(self, at: int) -> None:
        """Learn from the batch that was planned last: it is done when the next one is asked for."""
        if self._begun is None:
            return
        batch, self._begun = self._begun, None
        self.learn(
            batch.rows,
            batch.size,
            (at - batch.began) / 1e6,
            is_behind=batch.is_behind,
            may_grow=batch.may_grow,
        )
        if self._folder is not None and batch.is_behind and not self.size.is_near(self._noted):
            self._noted = self.size
            self._folder.write_json(FILE, plain(self._noted))

    def learn(
        self,
        rows: int,
        size: int,
        milliseconds: float,
        *,
        is_behind: bool,
        may_grow: bool = True,
    ) -> None:
        """Take in what a batch has cost.

        Args:
            rows: Its rows, of all sources.
            size: Its bytes; 0 where nobody knows them.
            milliseconds: What it took, from one plan to the next.
            is_behind: Whether there was more than went into it.
            may_grow: Whether a larger size would have brought more into it. Where the owners of
                all sources allow no more, there is nothing to find out by a batch of another size.
        """
        if not self.adapts:
            return
        if self._left:
            self._left -= 1
            return
        self.costs.add(rows, milliseconds)
        if not is_behind or not rows:
            return
        if may_grow:
            self._learn_behind(rows, max(1.0, size / rows, *self._widths))
        else:
            self._size = min(self._size, self._adapted(rows))

    def _learn_behind(self, rows: int, row_bytes: float) -> None:
        self._room = int(self._limits.bytes / row_bytes / max(1, len(self._widths)))
        if not self._probes:
            self._usual = rows
        elif rows > self._usual * 3 // 4 and self._probe < 1:
            # It had to be as large as the others: try again, with a larger one.
            self._probe = STEP
            return
        self._behind += 1
        if self._behind > 1:
            # The first one alone tells nothing about the floor.
            self._size = self._adapted(self._usual)

    def _adapted(self, rows: int) -> int:
        """The size that follows from the costs, where a batch of the present one has `rows`."""
        floor, row = self.costs.floor, self.costs.row
        share = floor / (floor + row * rows)
        wanted = self._size
        if share > MOST_SHARE or share < LEAST_SHARE:
            # Of several sources each has its part of the rows, so the size changes by a factor.
            best = (1 / AIM - 1) * floor / (row * rows) if row else STEP
            wanted = int(self._size * min(STEP, max(1 / STEP, best)))
        return max(self._limits.start, min(wanted, self._room))


def _width(schema: pa.Schema) -> float:
    """About how many bytes a row has by the types of its columns."""
    return float(sum(map(_value_width, schema.types)))


def _value_width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _WIDTH


def read_size(folder: Folder) -> BatchSize | None:
    """How large the batches of a plan are; None where nothing was measured."""
    content = folder.read_json(FILE)
    return None if content is None else record(BatchSize, content, where=f"{folder.path}/{FILE}")
