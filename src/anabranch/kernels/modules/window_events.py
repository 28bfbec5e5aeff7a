"""Events in windows: in which form they are sent and kept, and what user operators see of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.user_operator import Window
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_first, order_by_id_and_time
from anabranch.kernels.contract.column_names import (
    CHECK,
    ID,
    MEMBERS,
    NEW_STOP,
    ROW,
    ROW_CHECK,
    SINCE,
    START,
    STOP,
    UNTIL,
    WEND,
)
from anabranch.kernels.contract.keys import ids_and_checks, key_checks, key_ids, needs_check
from anabranch.kernels.modules.answers import WindowEvents
from anabranch.kernels.modules.window_bags import Bag
from anabranch.kernels.trace.runs import search, slices
from anabranch.model.batch import EventBatch
from anabranch.model.numbers.hashing import stable_hash


@final
@dataclass(frozen=True, slots=True)
class WindowLayout:
    """The columns of what is sent, and of what is kept.

    Attributes:
        keys: The types of what is grouped by.
        values: The arguments of all calls, each once, and the types they are taken as.
        argument_indexes: For every call the indexes of its arguments among the values.
        results: The types of what the calls give, one behind the other.
        states: How many of the calls keep states.
        checked: Groups have a second hash.
    """

    keys: tuple[pa.DataType, ...]
    values: tuple[tuple[Expression, pa.DataType], ...]
    argument_indexes: tuple[tuple[int, ...], ...]
    results: tuple[pa.DataType, ...]
    states: int
    checked: bool

    @staticmethod
    def of(node: ApplyOperator) -> WindowLayout:
        """The layout of a node."""
        values: dict[tuple[str, str], tuple[Expression, pa.DataType]] = {}
        indexes = []
        for call in node.calls:
            own = []
            for argument, (_, kind) in zip(call.arguments, call.operator.takes, strict=True):
                values.setdefault((argument.sql, str(kind)), (argument, kind))
                own.append(list(values).index((argument.sql, str(kind))))
            indexes.append(tuple(own))
        keys = tuple(key.type for _, key in node.group_by)
        return WindowLayout(
            keys=keys,
            values=tuple(values.values()),
            argument_indexes=tuple(indexes),
            results=tuple(each.type for call in node.calls for each in call.operator.gives),
            states=sum(call.operator.incremental for call in node.calls),
            checked=needs_check(keys),
        )

    @property
    def key_names(self) -> list[str]:
        """What the columns of the group are called."""
        return [f"key{index}" for index in range(len(self.keys))]

    @property
    def value_names(self) -> list[str]:
        """What the columns of the arguments are called."""
        return [f"value{index}" for index in range(len(self.values))]

    @property
    def about(self) -> list[tuple[str, pa.DataType]]:
        """The columns that an event is sent and kept with, beside its times."""
        fields = [(CHECK, pa.uint64())] if self.checked else []
        fields += [(ROW, pa.uint64()), (ROW_CHECK, pa.uint64())]
        fields += zip(self.key_names, self.keys)
        return [*fields, *zip(self.value_names, (kind for _, kind in self.values))]

    @property
    def sent(self) -> pa.Schema:
        """What the exchange carries."""
        times = [(name, pa.int64()) for name in (START, STOP, NEW_STOP)]
        return pa.schema([(ID, pa.uint64()), *times, *self.about])

    @property
    def events(self) -> Bag:
        """Events that user operators may still see."""
        return Bag(tuple(self.about), (ROW, ROW_CHECK))

    @property
    def windows(self) -> Bag:
        """Windows: those that wait for their end, or that may still change."""
        # A window until the last instant and one without an end settle at the same time.
        return Bag(((WEND, pa.int64()),), (WEND,))

    @property
    def answers(self) -> Bag:
        """What has been said of windows that may still change."""
        times = [(name, pa.int64()) for name in (WEND, SINCE, UNTIL)]
        hashes = [(name, pa.uint64()) for name in (ROW, ROW_CHECK)]
        named = zip(self.key_names, self.keys)
        results = [(f"result{index}", kind) for index, kind in enumerate(self.results)]
        return Bag((*times, *hashes, *named, *results), (WEND, SINCE, UNTIL, ROW, ROW_CHECK))

    @property
    def state_bag(self) -> Bag:
        """The states of windows."""
        numbers = [(WEND, pa.int64()), (MEMBERS, pa.int64())]
        hashes = [(name, pa.uint64()) for name in (ROW, ROW_CHECK)]
        named = zip(self.key_names, self.keys)
        states = [(f"state{index}", pa.binary()) for index in range(self.states)]
        return Bag((*numbers, *hashes, *named, *states), (WEND, MEMBERS, ROW, ROW_CHECK))

    @property
    def groups(self) -> Bag:
        """The first window of every group, where empty ones count."""
        return Bag(tuple(zip(self.key_names, self.keys)), ())

    def send(self, node: ApplyOperator, batch: EventBatch) -> pa.RecordBatch:
        """Moves in the form in which they go through the exchange."""
        batch = batch.where(batch.end != batch.new_end)
        length = len(batch)
        wanted = [key for _, key in node.group_by] + [each for each, _ in self.values]
        found = evaluate_all(wanted, batch.payload, length)
        keys, values = found[: len(self.keys)], found[len(self.keys) :]
        values = [
            value if value.type == kind else value.cast(kind)
            for value, (_, kind) in zip(values, self.values)
        ]
        row, check = ids_and_checks([*keys, *values], length)
        given = {
            ID: key_ids(keys, length),
            START: batch.start,
            STOP: batch.end,
            NEW_STOP: batch.new_end,
            ROW: row,
            ROW_CHECK: check,
        }
        if self.checked:
            given[CHECK] = key_checks(keys, length)
        schema = self.sent
        arrays = [pa.array(given[name]) for name in schema.names if name in given]
        return pa.RecordBatch.from_arrays([*arrays, *keys, *values], schema=schema)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows of groups, by group, start and end; none twice."""

    ids: Ids
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.ids)

    @staticmethod
    def none() -> Windows:
        """No windows."""
        return Windows(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))

    @staticmethod
    def of(ids: Ids, start: Ints, end: Ints) -> tuple[Windows, Ints]:
        """Different windows in order, and which each of the given ones is."""
        order = order_by_id_and_time(ids, start)
        first = is_first(ids[order], start[order])
        again = ~first
        again[again] = end[order[again]] != end[order[np.flatnonzero(again) - 1]]
        if again.any():
            # Several windows begin at one instant: rare, so only then ends are sorted as well.
            order = np.lexsort((end, start, ids))
            first = is_first(ids[order], start[order], end[order])
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(first) - 1
        first_rows = order[first]
        return Windows(ids[first_rows], start[first_rows], end[first_rows]), number

    def one(self, index: int) -> Window:
        """One of them, as user operators see it."""
        return Window(int(self.start[index]), int(self.end[index]))

    def take(self, chosen: Ints | Mask) -> Windows:
        """Those at these positions."""
        return Windows(self.ids[chosen], self.start[chosen], self.end[chosen])

    def find(self, ids: Ids, start: Ints, end: Ints) -> Ints:
        """Which of them each of other windows is, or -1."""
        low, high = slices(self.ids, ids)
        index = search(self.start, low, high, start, after_equal=False)
        while True:
            there = index < high
            here = np.minimum(index, max(len(self) - 1, 0))
            there[there] &= self.start[here[there]] == start[there]
            later = there.copy()
            later[later] = self.end[here[later]] < end[later]
            if not later.any():
                break
            index = index + later
        there[there] &= self.end[here[there]] == end[there]
        return np.where(there, index, -1)

    def starting(self, ids: Ids, start: Ints) -> Ints:
        """Which of them is the first of a group that begins at an instant, or -1."""
        low, high = slices(self.ids, ids)
        index = search(self.start, low, high, start, after_equal=False)
        there = index < high
        there[there] = self.start[index[there]] == start[there]
        return np.where(there, index, -1)

    @staticmethod
    def union(*parts: Windows) -> Windows:
        """All of them, each once."""
        return Windows.of(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
        )[0]


@final
@dataclass(frozen=True, slots=True, eq=False)
class WindowMembers:
    """Events in windows: `owner` is the window, `row` the row of `rows` with the event.

    `count` says how many there are, or how many more and fewer. `begin` is the start of the event,
    `stop` its end, `since` and `until` are what user operators see of them.
    """

    owner: Ints
    row: Ints
    count: Ints
    begin: Ints
    stop: Ints
    since: Ints
    until: Ints
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, chosen: Ints | Mask) -> WindowMembers:
        """Those at these positions."""
        return WindowMembers(
            self.owner[chosen],
            self.row[chosen],
            self.count[chosen],
            self.begin[chosen],
            self.stop[chosen],
            self.since[chosen],
            self.until[chosen],
            self.rows,
        )

    def owned(self, owner: Ints) -> WindowMembers:
        """The same in windows with other numbers; those without one are left out."""
        keep = np.flatnonzero(owner >= 0)
        if len(keep) == len(self):
            return replace(self, owner=owner)
        return replace(self.take(keep), owner=owner[keep])

    def hashes(self) -> tuple[Ids, Ids]:
        """Both hashes of every event."""
        both = (self.rows.column(name).to_numpy()[self.row] for name in (ROW, ROW_CHECK))
        first, second = both
        return first, second


_COLUMNS: Final = ("owner", "row", "count", "begin", "stop", "since", "until")


def no_pairs(rows: pa.RecordBatch) -> WindowMembers:
    """No events, of rows of some schema."""
    none = np.empty(0, np.int64)
    return WindowMembers(none, none, none, none, none, none, none, rows.slice(0, 0))


def concat_members(*parts: WindowMembers) -> WindowMembers:
    """All pairs, over rows of one schema."""
    nonempty = [part for part in parts if len(part)] or [*parts[:1]]
    if len(nonempty) == 1:
        return nonempty[0]
    same = all(part.rows is nonempty[0].rows for part in nonempty)
    before = np.cumsum([0, *(0 if same else part.rows.num_rows for part in nonempty)])
    moved = [replace(part, row=part.row + shift) for part, shift in zip(nonempty, before)]
    columns = [np.concatenate([getattr(part, name) for part in moved]) for name in _COLUMNS]
    rows = nonempty[0].rows if same else pa.concat_batches([part.rows for part in nonempty])
    return WindowMembers(**dict(zip(_COLUMNS, columns)), rows=rows)


def netted(pairs: WindowMembers) -> WindowMembers:
    """The same, with equal events of a window added up; what adds up to none is left out."""
    row, check = pairs.hashes()
    keys = [pairs.until, pairs.since, pairs.begin, check, row, pairs.owner]
    order = np.lexsort(keys)
    first = is_first(*(key[order] for key in keys))
    if first.all():
        return pairs
    begins = np.flatnonzero(first)
    total = np.add.reduceat(pairs.count[order], begins)
    nonzero = np.flatnonzero(total)
    return replace(pairs.take(order[begins[nonzero]]), count=total[nonzero])


def seen_by(
    call: Call, chosen: Sequence[int], pairs: WindowMembers, windows: Windows, names: Sequence[str]
) -> WindowEvents:
    """Windows with their events, each as often as it holds, as a user operator sees them."""
    rows, operator = pairs.rows, call.operator
    columns = [rows.column(names[index]) for index in chosen]
    order = _order(call, columns, pairs)
    order = np.repeat(order, pairs.count[order])
    sizes = np.bincount(pairs.owner, pairs.count, len(windows)).astype(np.int64)
    where = pa.array(pairs.row[order])
    return WindowEvents(
        windows.start,
        windows.end,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        tuple(column.take(where) for column in columns),
        pairs.since[order] if operator.time_sensitive else pairs.begin[order],
        pairs.until[order] if operator.time_sensitive else pairs.stop[order],
    )


def _order(call: Call, columns: Sequence[pa.Array], pairs: WindowMembers) -> Ints:
    """By window; in it as a user operator sees it, where that is of interest."""
    operator = call.operator
    if not operator.time_sensitive and "ordered" not in operator.properties:
        return np.argsort(pairs.owner, kind="stable")
    ties = stable_hash(columns, pairs.rows.num_rows)[pairs.row] if columns else pairs.row
    times = (pairs.until, pairs.since) if operator.time_sensitive else (pairs.begin,)
    return np.lexsort((ties, *times, pairs.owner))
