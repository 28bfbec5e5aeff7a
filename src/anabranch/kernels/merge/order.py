"""Hold the inputs of r0, r1 and r2 to their order, and tell a restart from disorder.

An input that was restarted from an earlier point says part of its past again. What it says is then
behind the largest start that it had reached, up to the elements at that start, which come again as
well. An input that is out of order goes back, too, but does not come through its own last elements
again. So one start and the hash of the first element there are enough to tell one from the other,
however much is repeated; what is behind that start has passed already (`ordered.py`). Hashes of the
last few elements tell at once that one was never said, where an input goes back a little.

Example as r0, an input that has said A at 2, B at 3, C at 4 (it remembers 4 and the hash of C):
    B at 3, C at 4, D at 5     a restart: B is behind 4, C is as it was, D is new
    B at 3, D at 5             disorder: C should have come again before D
    E at 3                     disorder: that was never said
    B at 3, A at 2, B at 3     restarted twice, and not yet back at C

Ties cannot be told from repetitions as r1: a restart is noticed there if it begins at an earlier
start than the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.merge_case import Case
from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import Ints, group_starts, is_first
from anabranch.kernels.contract.column_names import END, ID, KEY, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.merge.copies import Copies, InputState
from anabranch.kernels.merge.keyed import Runs
from anabranch.kernels.merge.nodes import Elements
from anabranch.model.payload import payloads, show_payload
from anabranch.model.time import BEGINNING, FOREVER, format_time

RECENT: Final = "recent"
RECENT_ROWS: Final = 64
"""So many hashes of elements are kept per input."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_TWO: Final = "has two elements of one start"
_HINT: Final = (
    "merge as a weaker case (r3, or r4 for multisets); rejoin an input that was restarted"
)


def in_order(
    runs: Runs, elements: Elements, copies: Copies, case: Case, *, proven: bool
) -> tuple[Runs, Copies, Ints]:
    """Check that every input is as the case says; as r1, give each element's number among ties.

    Where the plan has `proven` it, what an input sends in a batch may be in any order, because it
    comes from several shards: nothing is checked.

    Raises:
        StreamError: An input adjusts, goes back in time without repeating itself, or has two
            elements of one start where that may not be.
    """
    ordinal = np.zeros(len(elements), np.int64)
    recent = _Recent.of(runs.get(RECENT, ()))
    for index, copy in enumerate(copies.heard):
        rows = np.flatnonzero(elements.column == index)
        if len(rows):
            _refuse_adjusts(copy, elements, rows, case)
        if not proven:
            order = _Order(copy, elements, case, ordinal, recent.get(copy.key, _Recent()))
            copies = copies.replaced(order.through(rows))
            recent[copy.key] = order.recent.since_promise(copy.stable)
        elif len(rows):
            most = max(copy.last, int(elements.start[rows].max()))
            copies = copies.changed(copy.number, last=most)
    if proven:
        return runs, copies, ordinal
    heard = {copy.key: recent[copy.key] for copy in copies.heard if copy.stable < FOREVER}
    return {**runs, RECENT: _Recent.run(heard)}, copies, ordinal


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Recent:
    """The last elements of an input: their starts, in order, and their hashes."""

    starts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    prints: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @staticmethod
    def of(runs: Sequence[SortedRun]) -> dict[int, _Recent]:
        """As they were stored, by the keys of the inputs."""
        if not runs:
            return {}
        keys, starts, prints = (runs[0].rows.column(n).to_numpy() for n in (KEY, TIME, END))
        return {int(k): _Recent(starts[keys == k], prints[keys == k]) for k in np.unique(keys)}

    @staticmethod
    def run(every: Mapping[int, _Recent]) -> tuple[SortedRun, ...]:
        """As they are stored."""
        keys = [np.full(len(each.starts), key, np.int64) for key, each in every.items()]
        if not sum(map(len, keys)):
            return ()
        columns = {
            ID: np.concatenate(keys).view(np.uint64),
            KEY: np.concatenate(keys),
            TIME: np.concatenate([each.starts for each in every.values()]),
            END: np.concatenate([each.prints for each in every.values()]),
        }
        rows = {name: pa.array(column) for name, column in columns.items()}
        return (SortedRun(pa.RecordBatch.from_pydict(rows)),)

    def since_promise(self, stable: int) -> _Recent:
        """Without those that, said again, would be left out as late."""
        kept = self.starts >= stable
        return self if kept.all() else _Recent(self.starts[kept], self.prints[kept])

    def then(self, starts: Ints, prints: Ints) -> _Recent:
        """With more elements behind them."""
        both = zip((self.starts, self.prints), (starts, prints))
        return _Recent(*(np.concatenate(pair)[-RECENT_ROWS:] for pair in both))

    @property
    def since(self) -> int:
        """All elements that start at this instant or later are among them."""
        complete = len(self.starts) < RECENT_ROWS
        return int(BEGINNING) if complete else int(self.starts[0]) + 1


def _refuse_adjusts(copy: InputState, elements: Elements, rows: Ints, case: Case) -> None:
    # Mostly an input's rows are next to each other.
    adjacent = rows[-1] - rows[0] + 1 == len(rows)
    chosen = slice(int(rows[0]), int(rows[-1]) + 1) if adjacent else rows
    starts = elements.start[chosen]
    moved = (elements.end[chosen] != starts) | (elements.new_end[chosen] <= starts)
    if moved.any():
        row = int(rows[moved.argmax()])
        raise broken(copy, elements, row, case, "adjusts, but is declared insert-only")


class _Order:
    """One input, and how it goes through its elements of a batch."""

    def __init__(
        self, copy: InputState, elements: Elements, case: Case, ordinal: Ints, recent: _Recent
    ) -> None:
        self.recent = recent
        self._copy = copy
        self._elements = elements
        self._case = case
        self._ordinal = ordinal
        self._last = copy.last
        # How many elements at the last start have come: since the beginning, or since it went back.
        self._ties = copy.ties
        self._mark = copy.mark
        self._back = copy.back
        self._back_row: int | None = None

    @property
    def _repeats(self) -> bool:
        """Whether it has gone back, and not yet come again to what it said last."""
        return self._back < FOREVER

    def through(self, rows: Ints) -> InputState:
        """What is known of the input after these rows."""
        starts = self._elements.start[rows]
        cuts = (np.flatnonzero(starts[1:] < starts[:-1]) + 1).tolist()
        # Each piece is in order: where it goes back, another one begins.
        for low, high in pairwise([0, *cuts, len(rows)]):
            if high > low:
                self._piece(rows[low:high], starts[low:high])
        if self._repeats and self._copy.stable > self._last:
            # It settles what it has not repeated: so it was no repetition.
            raise self._disorder(None)
        return self._copy.advanced(self._last, self._ties, self._mark, self._back)

    def _piece(self, rows: Ints, starts: Ints) -> None:
        behind = reached = 0
        if self._ties or self._repeats:
            behind = int(np.searchsorted(starts, self._last, side="left"))
            reached = int(np.searchsorted(starts, self._last, side="right"))
        if behind:
            self._back, self._ties = min(self._back, int(starts[0])), 0
            self._back_row = int(rows[0]) if self._back_row is None else self._back_row
            self._refuse_unknown(rows[:behind], starts[:behind])
        if reached > behind:
            self._at_last(rows[behind:reached])
        if len(rows) > reached:
            if self._repeats:
                raise self._disorder(self._back_row or int(rows[reached]))
            self._beyond(rows[reached:], starts[reached:])

    def _at_last(self, rows: Ints) -> None:
        """Elements at the last start: ties, or what it said there before."""
        if self._case == "r0" or self._repeats:
            same = self._prints(rows) == self._mark
            # As r2 ties come in any order; otherwise the first one comes first.
            again = bool(same.any()) if self._case == "r2" else bool(same[0]) or self._ties > 0
            if self._repeats and self._case != "r2" and not again:
                raise self._disorder(int(rows[0]))
            if self._case == "r0" and not same.all():
                raise self._broken(int(rows[same.argmin()]), _TWO)
            if again:
                self._back = int(FOREVER)
        self._ordinal[rows] = self._ties + np.arange(len(rows))
        self._ties += len(rows)
        self._remember(rows)

    def _beyond(self, rows: Ints, starts: Ints) -> None:
        """Elements that are new."""
        first = is_first(starts)
        if self._case == "r0" and not first.all():
            tied = np.flatnonzero(~first)
            differs = self._prints(rows[tied]) != self._prints(rows[tied - 1])
            if differs.any():
                raise self._broken(int(rows[tied[differs.argmax()]]), _TWO)
        number = np.arange(len(starts)) - group_starts(first)
        self._ordinal[rows] = number
        self._last = int(starts[-1])
        self._ties = int(number[-1]) + 1
        (self._mark,) = self._prints(rows[len(rows) - self._ties :][:1]).tolist()
        self._remember(rows)

    def _remember(self, rows: Ints) -> None:
        """Remember the last of these rows, of equal ones one."""
        last = rows[-RECENT_ROWS:]
        prints = self._prints(last)
        new = ~np.isin(prints, self.recent.prints)
        self.recent = self.recent.then(self._elements.start[last[new]], prints[new])

    def _refuse_unknown(self, rows: Ints, starts: Ints) -> None:
        """Refuse what was never said, where that is known."""
        close = rows[starts >= self.recent.since]
        if len(close):
            known = np.isin(self._prints(close), self.recent.prints)
            if not known.all():
                raise self._disorder(int(close[known.argmin()]))

    def _prints(self, rows: Ints) -> Ints:
        """Hashes of the payloads and times of elements."""
        payload = self._elements.payload.take(rows)
        ids, check = ids_and_checks(payload.columns, len(rows))
        start, end = self._elements.start[rows], self._elements.new_end[rows]
        times = start.view(np.uint64) * _ODD + end.view(np.uint64)
        return np.asarray((ids ^ (check << np.uint64(1)) ^ (times * _ODD)).view(np.int64))

    def _disorder(self, row: int | None) -> StreamError:
        last = format_time(self._last)
        what = f"goes back in time, after {last}"
        if row is not None:
            return self._broken(row, what)
        where = f"an element that starts at {format_time(self._back)}, merged as {self._case}"
        return StreamError(f"input '{self._copy.name}' {what}", where=where, hint=_HINT)

    def _broken(self, row: int, what: str) -> StreamError:
        return broken(self._copy, self._elements, row, self._case, what)


def broken(copy: InputState, elements: Elements, row: int, case: Case, what: str) -> StreamError:
    """An input is not what the user says it is."""
    (payload,) = payloads(elements.payload.take(np.array([row])), 1)
    times = f"[{format_time(int(elements.start[row]))}, {format_time(int(elements.new_end[row]))})"
    return StreamError(
        f"input '{copy.name}' {what}",
        where=f"element {show_payload(payload)} {times}, merged as {case}",
        hint=_HINT,
    )
