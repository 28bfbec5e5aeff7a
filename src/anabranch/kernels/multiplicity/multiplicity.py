"""How often a payload holds, as a function of how often it holds in one or two inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.set_operation import SetOperation
from anabranch.errors import StreamError
from anabranch.kernels.columns.combining import combine
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_first,
    mostly_different,
    order_by_id,
    positions_of,
)
from anabranch.kernels.contract.column_names import CHECK, END, ID, NEW_END
from anabranch.kernels.contract.kernel import Arrived, Need, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.keys import key_checks, key_ids, needs_check
from anabranch.kernels.contract.per_window import has_window_end
from anabranch.kernels.contract.prepared import assemble, hashes, keyed, numbers
from anabranch.kernels.contract.routing import (
    BY_CHECK,
    Route,
    Routing,
    by_id_or,
    is_own,
    marked,
    routed_checks,
)
from anabranch.kernels.trace.cutting import cut_before
from anabranch.kernels.trace.output import changed_events
from anabranch.kernels.trace.rest import lists_rest
from anabranch.kernels.trace.timeline import LaneMoves, Lanes, TimelineRevision, revise, settle
from anabranch.kernels.trace.timeline_rows import COUNT, add_rows
from anabranch.model.batch import EventBatch, concat_rows, no_rows
from anabranch.model.identity import Identity
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import BEGINNING, Time

RIGHT: Final = "right"
"""The lane that counts the second input; COUNT counts both."""

Function = Callable[[Ints, Ints], Ints]
"""From the multiplicities in both inputs to the one in the output."""

FUNCTIONS: Final[Mapping[str, Function]] = {
    "coalesce": lambda left, _: left,
    "distinct": lambda left, _: np.minimum(left, 1),
    "difference": lambda left, right: np.maximum(left - right, 0),
    "intersection": np.minimum,
    "max-union": np.maximum,
    "strict difference": lambda left, right: np.where(right == 0, left, 0),
    "matched": lambda left, right: np.where(right > 0, left, 0),
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What arrived, as moves of multiplicities: `right` says that a row is of the second input.

    `route` has the ids by which the rows came to their shard, where that is to be remembered.
    """

    ids: Ids
    check: Ids | None
    end: Ints
    new_end: Ints
    count: Ints
    right: Mask | None = None
    route: Ids | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class OutputRows:
    """Moves of the output; `rows` says which arrived row has the payload of each."""

    rows: Ints
    start: Ints
    end: Ints
    new_end: Ints


Runs = dict[str, tuple[SortedRun, ...]]


def revise_multiplicity(
    runs: Runs, name: str, steps: Steps, function: str, stable: Time, label: str
) -> OutputRows:
    """Revise the counts, then the levels that they change; `runs` gets the new runs.

    Level k of a payload holds while its multiplicity in the output is at least k. One timeline
    counts copies; a second one has a key per payload and level, whose segments are the lifetimes
    of the output. A change moves only ends within its own stretch of time (closing the oldest
    lifetime first would move ends far beyond it).
    """
    checked = steps.check is not None
    whole = {COUNT: steps.count}
    if steps.right is not None:
        whole[RIGHT] = np.where(steps.right, steps.count, 0)
    lanes = Lanes(whole=tuple(whole), checked=checked)
    held = runs.get(f"{name}counts", ())
    moves = LaneMoves(steps.ids, steps.end, steps.new_end, whole, steps.check)
    counts = revise(held, lanes, moves)
    right_now = counts.new.get(RIGHT, np.zeros(len(counts.ids), np.int64))
    right_was = counts.old.get(RIGHT, right_now)
    if (counts.new[COUNT] < right_now).any() or (right_now < 0).any():
        raise StreamError(
            "an adjust or withdrawal of an event that was never inserted",
            where=label,
            hint="run `anabranch check` on the source",
        )
    nothing = np.zeros(len(counts.ids), np.bool_)
    runs[f"{name}counts"], _ = settle(held, lanes, counts, {}, nothing, nothing, stable)
    was = FUNCTIONS[function](counts.old[COUNT] - right_was, right_was)
    now = FUNCTIONS[function](counts.new[COUNT] - right_now, right_now)
    return revise_levels(runs, name, steps, counts, was, now, stable)


def revise_levels(
    runs: Runs,
    name: str,
    steps: Steps,
    counts: TimelineRevision,
    was: Ints,
    now: Ints,
    stable: Time,
) -> OutputRows:
    """Revise the lifetimes of the output where its multiplicity, once `was`, is `now`."""
    changed = np.flatnonzero(counts.touched & (was != now))
    if not len(changed):
        none = np.empty(0, np.int64)
        runs[f"{name}levels"] = _forget(runs.get(f"{name}levels", ()), stable)
        return OutputRows(none, none, none, none)
    low, high = np.minimum(was, now)[changed], np.maximum(was, now)[changed]
    level, owner = positions_of(low, high)
    index = changed[owner]
    rises = now[index] > was[index]
    begin, finish = counts.times[index], counts.times[index + 1]
    row = counts.move[index]
    ids = steps.ids[row]
    check = np.zeros(len(row), np.uint64) if steps.check is None else steps.check[row]
    # Level 0 keeps the ids of the payloads, as nearly all there is are single copies.
    upper = np.flatnonzero(level)
    if len(upper):
        named = [pa.array(ids[upper]), pa.array(level[upper])]
        extra = named if steps.check is None else [*named, pa.array(check[upper])]
        check[upper] = stable_hash(extra, len(upper), salt=1)
        ids[upper] = stable_hash(named, len(upper))
    if steps.route is not None:
        check = marked(steps.route[row], check)
    held = runs.get(f"{name}levels", ())
    lanes = Lanes(checked=True)
    rising = np.where(rises, begin, finish), np.where(rises, finish, begin)
    ones = {COUNT: np.ones(len(level), np.int64)}
    # Levels change only where counts do: what has no counts from here on has no levels.
    seen = np.zeros(len(steps.ids), np.bool_)
    seen[counts.move[counts.held_index]] = True
    levels = revise(held, lanes, LaneMoves(ids, *rising, ones, check, ~seen[row]))
    nothing = np.zeros(len(levels.ids), np.bool_)
    runs[f"{name}levels"], new_row = settle(held, lanes, levels, {}, nothing, nothing, stable)
    changes = changed_events(
        levels, new_row, levels.old[COUNT] > 0, levels.new[COUNT] > 0, ~nothing
    )
    rows = row[levels.move[changes.positions]]
    return OutputRows(rows, changes.start, changes.end, changes.new_end)


def routes_of(route: Route | None, rows: pa.RecordBatch) -> Ids | None:
    """The ids by which prepared rows came to their shard (or what has the same upper half)."""
    if route is None:
        return None
    found: Ids = rows.column(ID if route.is_own else CHECK).to_numpy()
    return found


def first_rows(ids: Ids, wanted: Ids) -> Ints:
    """For every wanted id the first row that has it."""
    order = order_by_id(ids)
    order = order[is_first(ids[order])]
    return np.asarray(order[np.searchsorted(ids[order], wanted)])


def _forget(held: tuple[SortedRun, ...], stable: Time) -> tuple[SortedRun, ...]:
    if not held:
        return held
    return add_rows(held, no_rows(held[0].rows.schema), stable)


def forget(runs: Runs, stable: Time) -> Runs:
    """Drop from all timelines what cannot matter after the stable point."""
    kept = {name: _forget(held, stable) for name, held in runs.items()}
    return {name: held for name, held in kept.items() if held}


@final
@dataclass(frozen=True, slots=True)
class MultiplicityKernel(Stateful):
    """Coalesce, distinct, and the set operations: keyed by the whole payload."""

    identity: ClassVar[Identity] = Identity(
        "MultiplicityKernel", ("node",), form=("route", "checked=_checked")
    )

    node: Coalesce | Distinct | SetOperation

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """That of the first input."""
        return self.node.schema

    @property
    def sides(self) -> int:
        """Two for set operations."""
        return len(self.node.inputs)

    @property
    def _function(self) -> str:
        match self.node:
            case Coalesce():
                return "coalesce"
            case Distinct():
                return "distinct"
            case SetOperation(kind=kind):
                return kind

    @property
    def _checked(self) -> bool:
        return needs_check([field.type for field in self.schema]) or not is_own(self.route)

    @property
    def remembers_events(self) -> bool:
        """No: it adds up how often payloads hold."""
        return False

    def routing(self, name: str) -> Routing:
        """Levels have ids of their own, but all of them are marked."""
        return by_id_or(self.route, BY_CHECK) if name == "counts" else BY_CHECK

    def interest(self, end: Time, side: int = 0) -> Time:
        """Any row may begin a longer one of its payload, unless payloads name their window."""
        del side
        first, *others = self.node.inputs
        has_end = not others and has_window_end(first, first.schema.names)
        return end if has_end else BEGINNING

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Moves of payloads with their numbers."""
        del side
        checks = [CHECK] if self._checked else []
        moves = numbers(END, NEW_END, COUNT)
        return pa.schema([*hashes(ID, *checks), *moves, *keyed(self.schema.types)])

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """Moves of equal payloads and ends are added up."""
        del side
        payload = batch.payload.columns
        ids, check = key_ids(payload, len(batch)), None
        if self._checked:
            hashed = key_checks(payload, len(batch))
            check = routed_checks(self.route, batch.payload, hashed)
        rows, counts = np.arange(len(batch)), np.ones(len(batch), np.int64)
        if not mostly_different(ids, batch.end, batch.new_end):
            found = combine(ids, check, batch.end, batch.new_end, {})
            rows, counts = found.first, found.counts
            payload = [column.take(pa.array(rows)) for column in payload]
        arrays: dict[str, pa.Array | np.ndarray] = {
            ID: ids[rows],
            END: batch.end[rows],
            NEW_END: batch.new_end[rows],
            COUNT: counts,
            **{f"key{position}": column for position, column in enumerate(payload)},
        }
        if check is not None:
            arrays[CHECK] = check[rows]
        return assemble(self.prepared_schema(), arrays)

    def purge(
        self, trace: Trace, arrived: Arrived, need: Need, sides: Sequence[Time]
    ) -> tuple[Trace, Arrived]:
        """Forget the snapshots that are not needed: its output follows from those of its inputs."""
        del sides
        return cut_before(self, trace, arrived, need.first)

    def rest(self, trace: Trace) -> Rest:
        """Until some of the counts are expected to have expired."""
        return Rest(lists_rest(trace.runs, trace.stable))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Revise the multiplicities of the payloads that something arrived for."""
        runs = dict(trace.runs)
        rows = concat_rows(arrived)
        if not rows.num_rows:
            return Trace(forget(runs, stable), stable), EventBatch.empty(self.schema, stable)
        right = None
        if self.sides == 2:
            right = np.repeat([False, True], [part.num_rows for part in arrived])
        steps = Steps(
            ids=rows.column(ID).to_numpy(),
            check=rows.column(CHECK).to_numpy() if self._checked else None,
            end=rows.column(END).to_numpy(),
            new_end=rows.column(NEW_END).to_numpy(),
            count=rows.column(COUNT).to_numpy(),
            right=right,
            route=routes_of(self.route, rows),
        )
        found = revise_multiplicity(runs, "", steps, self._function, stable, self.label)
        columns = [
            rows.column(f"key{index}").take(pa.array(found.rows))
            for index in range(len(self.schema))
        ]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        output = EventBatch(payload, found.start, found.end, found.new_end, stable)
        return Trace({name: held for name, held in runs.items() if held}, stable), output
