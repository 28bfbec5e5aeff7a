"""Calls of user operators, and what they are called with for one window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.results import Clip, called, clipped
from anabranch.algebra.modules.user_operator import FRAME_TIMES, WINDOW, UserOperator, Window
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.model.identity import Identity
from anabranch.model.numbers.hashing import stable_hash


@final
@dataclass(frozen=True, slots=True)
class Call:
    """A user operator, what it is applied to, and the names of the columns with what it gives."""

    identity: ClassVar[Identity] = Identity("Call", ("module=operator", "arguments", "names"))

    operator: UserOperator
    arguments: tuple[Expression, ...]
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        """`median(price) AS middle`."""
        given = [each.sql for each in self.arguments] or ["*"]
        given += [f"{name} => {value!r}" for name, value in self.operator.parameters]
        text = f"{self.operator.name}({', '.join(given)})"
        defaults = (self.operator.name,), (text,)
        return text if self.names in defaults else f"{text} AS {', '.join(self.names)}"


@final
@dataclass(frozen=True, slots=True)
class Arguments:
    """What user operators may see of events: per call the values and a hash of each event."""

    columns: tuple[tuple[list[Any], ...], ...]
    hashes: tuple[list[int], ...]
    times: tuple[tuple[int, int], ...]

    @staticmethod
    def of(
        calls: Sequence[Call], rows: pa.RecordBatch, times: Sequence[tuple[int, int]]
    ) -> Arguments:
        """What the calls may see of rows with some lifetimes."""
        columns, hashes = [], []
        for call in calls:
            found = evaluate_all(call.arguments, rows, len(times))
            given = [value.cast(kind) for value, (_, kind) in zip(found, call.operator.takes)]
            columns.append(tuple(column.to_pylist() for column in given))
            hashes.append(stable_hash(given, len(times)).tolist() if given else [0] * len(times))
        return Arguments(tuple(columns), tuple(hashes), tuple(times))

    def seen(
        self,
        number: int,
        operator: UserOperator,
        members: Sequence[int],
        window: Window,
        clip: Clip,
    ) -> tuple[list[list[Any]], tuple[list[int], list[int]]]:
        """The values and times that an operator sees of some events, in the order it sees them."""
        times = {event: self.times[event] for event in members}
        if operator.time_sensitive:
            times = {event: clipped(*times[event], window, clip) for event in members}
            order = sorted(members, key=lambda at: (*times[at], self.hashes[number][at]))
        else:
            order = sorted(members, key=lambda at: (times[at][0], self.hashes[number][at]))
        values = [[column[event] for event in order] for column in self.columns[number]]
        return values, ([times[event][0] for event in order], [times[event][1] for event in order])


def call_once(
    operator: UserOperator,
    columns: Sequence[list[Any]],
    times: tuple[list[int], list[int]],
    window: Window,
) -> list[Any]:
    """What a user operator says of one window, by whatever shape it has.

    Raises:
        ModuleCallError: It raised something.
    """
    code = operator.code
    if operator.on_empty is not None and not times[0]:
        return [(operator.on_empty, None, None)]
    if operator.incremental:
        state = called(operator, code.initial)
        rows = zip(*columns) if columns else ((),) * len(times[0])
        for values, start, end in zip(rows, *times):
            state = called(operator, code.add, state, values, start, end)
        return called(operator, lambda: list(code.finish(state, window)))
    if operator.frame == "python":
        return called(operator, lambda: list(code.compute(columns, times, window)))
    table = frame_of(
        operator, [pa.array(c, t) for c, (_, t) in zip(columns, operator.takes)], times, window
    )
    given = called(operator, code.compute_frame, table)
    return called(operator, lambda: list(_frame_results(operator, given)))


def frame_of(
    operator: UserOperator,
    columns: Sequence[pa.Array],
    times: tuple[Sequence[int], Sequence[int]],
    window: Window,
) -> pa.Table:
    """The events of one window as a table."""
    length = len(times[0])
    made: dict[str, Any] = {WINDOW: pa.array(np.zeros(length, np.int64))}
    made |= {name: column for (name, _), column in zip(operator.takes, columns)}
    if operator.time_sensitive:
        around = ([window.start] * length, [window.end] * length)
        for name, values in zip(FRAME_TIMES, (*times, *around)):
            made[name] = pa.array(values, pa.int64())
    return pa.table(made)


def _frame_results(operator: UserOperator, given: pa.Table) -> Iterator[Any]:
    """The rows of a table of results."""
    names = operator.gives.names
    if operator.own_times:
        columns = [given.column(name).to_pylist() for name in (*names, "start", "end")]
        yield from ((tuple(row[:-2]), row[-2], row[-1]) for row in zip(*columns))
    else:
        columns = [given.column(name).to_pylist() for name in names]
        yield from ((tuple(row), None, None) for row in zip(*columns))
