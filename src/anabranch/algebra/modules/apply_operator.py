"""Let user operators answer for windows of the time axis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.filter import check_schema
from anabranch.algebra.map import show_column
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Span,
)
from anabranch.algebra.modules.call import Arguments, call_once
from anabranch.algebra.modules.call import Call as Call
from anabranch.algebra.modules.event_identity import with_events
from anabranch.algebra.modules.results import (
    Clip,
    Errors,
    OperatorCallError,
    Timed,
    Timestamps,
    settled_results,
)
from anabranch.algebra.modules.user_operator import Window
from anabranch.algebra.node import Node, Unary, clock_of
from anabranch.algebra.source import check_names
from anabranch.algebra.traits import Traits
from anabranch.algebra.window_columns import Columns, bounds
from anabranch.errors import OperatorError, PlanError
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream, Payload
from anabranch.model.payload import payloads, rows_of, show_payload
from anabranch.model.time import BEGINNING, FOREVER, Time

Lifetimed = tuple[Payload, int, int]

_CLIPS: Final = ("none", "left", "right", "full")
_TIMESTAMPS: Final = ("align", "unchanged", "clip", "time_bound")
_ERRORS: Final = ("fail", "skip", "quarantine")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOperator(Unary):
    """What user operators say of every window of every group (Ali et al., StreamInsight).

    Windows are those of `window` over the events of the group; an event is in every window that it
    belongs to. A user operator sees the events of one window, with lifetimes that are cut as `clip`
    says; in order of their starts, if it sees times or says that the order matters to it. Several
    aggregates answer together, in one row per window; an operator answers alone. A result holds as
    `timestamps` says.

    The input decides what its events are (`event_identity.py`): those of its sources, changed one
    by one or not, results of windows one by one, and what is defined by snapshots alone in its
    longest lifetimes. So the result does not depend on how the input is cut.

    What a window says is settled as soon as nothing that the user operators see of it can change.

    Attributes:
        window: The type of windows.
        calls: The user operators; either one operator, or aggregates.
        group_by: What has windows of its own. NULL is a group, too.
        columns: Names for columns with the bounds of the window.
        clip: What is cut off lifetimes before a user operator sees them: what is before the window
            (`left`), after it (`right`), both (`full`), or nothing.
        timestamps: When results hold: as long as the window (`align`); as the user operator says,
        but
            not before the window (`unchanged`); of that what is in the window (`clip`); as the
            user operator says, which promises to change nothing before what came (`time_bound`).
        empty: Windows without events count, too, from the first event of a group on.
        open_windows: Windows that have not ended are told of as well, and corrected.
        errors: If a user operator fails, the query does (`fail`), or the window has no result
        (`skip`),
            which is reported with the events (`quarantine`).
    """

    identity: ClassVar[Identity] = Identity(
        "ApplyModule",
        (
            "input",
            "window",
            "calls",
            "group_by",
            "columns",
            "clip",
            "timestamps",
            "empty",
            "open_windows",
            "errors",
        ),
        by_hash=True,
    )

    traits: ClassVar[Traits] = Traits()

    holds_back: ClassVar[bool] = True
    makes_events: ClassVar[bool] = True

    window: AxisWindow
    calls: tuple[Call, ...]
    group_by: tuple[tuple[str, Expression], ...] = ()
    columns: Columns | None = None
    clip: Clip = "none"
    timestamps: Timestamps = "align"
    empty: bool = False
    open_windows: bool = False
    errors: Errors = "fail"

    @staticmethod
    def over(input: Node, **options: Any) -> ApplyOperator:
        """The node over an input whose events are defined."""
        return ApplyOperator(input=with_events(input), **options)

    def __post_init__(self) -> None:
        self._check_options()
        self._check_calls()
        for _, key in self.group_by:
            check_schema(key, self.input)
        check_names(self.schema.names, where=self.label)

    def _check_options(self) -> None:
        allowed = {"clip": _CLIPS, "timestamps": _TIMESTAMPS, "errors": _ERRORS}
        for name, choices in allowed.items():
            given = getattr(self, name)
            if given not in choices:
                hint = f"use one of: {', '.join(choices)}"
                if name == "timestamps" and given in ("any", "unrestricted"):
                    hint = (
                        "results without any bound would never be settled; use 'unchanged' for "
                        "results from the start of the window on"
                    )
                raise PlanError(f"there is no {name} '{given}'", hint=hint)
        if self.timestamps == "time_bound" and isinstance(self.window, CountByStart | CountByEnd):
            raise PlanError(
                "timestamps 'time_bound' cannot be used with windows that count rows",
                where=self.window.label(clock_of(self.input)),
                hint="a later row moves the ends of windows that began before it, so a module "
                "cannot "
                "promise that earlier results stay; use 'unchanged' or 'clip'",
            )
        if self.empty and not self.window.on_grid:
            raise PlanError(
                "only hopping and tumbling windows can be empty",
                where=self.window.label(clock_of(self.input)),
                hint="leave the option out: these windows exist only where there are events",
            )

    def _check_calls(self) -> None:
        if not self.calls:
            raise PlanError(
                "the windows have no module that computes a result",
                hint="apply a module to the windows",
            )
        applied = [call.operator for call in self.calls]
        operators = [operator for operator in applied if operator.kind == "udo"]
        if operators and len(applied) > 1:
            raise PlanError(
                f"the operator {operators[0].name} cannot be combined with other modules",
                hint="an operator returns any number of rows; apply it alone",
            )
        for call in self.calls:
            for argument in call.arguments:
                check_schema(argument, self.input)
            if len(call.names) != len(call.operator.gives):
                raise PlanError(
                    f"{call.operator.name} returns {len(call.operator.gives)} columns, "
                    f"but has {len(call.names)} names",
                    hint=f"it returns: {', '.join(call.operator.gives.names)}",
                )
        framed = [each.name for each in applied if each.frame != "python" and each.on_empty is None]
        if self.empty and framed:
            raise PlanError(
                f"{framed[0]} takes a table of events, in which empty windows do not appear",
                hint="declare what the module returns for them, or leave empty windows out",
            )
        if self.timestamps != "align" and not any(operator.own_times for operator in applied):
            raise PlanError(
                f"{applied[0].name} returns no lifetimes",
                where=f"timestamps '{self.timestamps}'",
                hint="only operators that return events can have other timestamps than 'align'",
            )

    @property
    def time_sensitive(self) -> bool:
        """Whether a user operator sees times."""
        return any(call.operator.time_sensitive for call in self.calls)

    @property
    def sees_ends(self) -> bool:
        """Whether an end after its window matters to a user operator."""
        return self.time_sensitive and self.clip in ("none", "left")

    @property
    def schema(self) -> pa.Schema:
        """The grouping keys, the bounds of the window if wanted, and the results of all calls."""
        kind = clock_of(self.input).type
        fields = [pa.field(name, key.type) for name, key in self.group_by]
        fields += [pa.field(name, kind) for name in self.columns or ()]
        for call in self.calls:
            fields += [
                pa.field(name, each.type) for name, each in zip(call.names, call.operator.gives)
            ]
        return pa.schema(fields)

    @property
    def reads(self) -> tuple[Expression, ...]:
        """Groups and arguments."""
        arguments = (argument for call in self.calls for argument in call.arguments)
        return (*(key for _, key in self.group_by), *arguments)

    @property
    def properties(self) -> Properties:
        """Little: results are corrected. One row per group and window has no duplicates."""
        apart = not self.overlaps
        return Properties(
            no_duplicates=self.one_row and (apart or self.columns is not None),
            single=self.one_row and apart and not self.group_by,
        )

    @property
    def one_row(self) -> bool:
        """Whether a window of a group has at most one row: aggregates, not an operator."""
        return self.calls[0].operator.kind == "uda"

    @property
    def overlaps(self) -> bool:
        """Whether windows of one group may overlap."""
        if isinstance(self.window, Hopping):
            return self.window.hop < self.window.size
        return isinstance(self.window, CountByStart | CountByEnd)

    @property
    def label(self) -> str:
        """`ApplyModule median(price) per HOPPING 10m every 1m by itemID`."""
        parts = ["ApplyModule", ", ".join(call.label for call in self.calls)]
        parts += ["per", self.window.label(clock_of(self.input))]
        if self.group_by:
            keys = ", ".join(show_column(name, key) for name, key in self.group_by)
            parts.append(f"by {keys}")
        if self.columns:
            parts.append(f"with {', '.join(self.columns)}")
        parts += [f"clip {self.clip}"] if self.clip != "none" else []
        parts += [f"timestamps {self.timestamps}"] if self.timestamps != "align" else []
        parts += ["with empty windows"] if self.empty else []
        parts += ["with open windows"] if self.open_windows else []
        parts += [f"errors {self.errors}"] if self.errors != "fail" else []
        return " ".join(parts)

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """What the user operators say of the longest lifetimes."""
        (rows,) = inputs
        return LogicalStream.of(self.apply(rows.events()))

    def apply(self, events: Sequence[Lifetimed], stable: int = BEGINNING) -> list[Lifetimed]:
        """What the user operators say of some events, window by window.

        Args:
            events: The history: every event with the lifetime that it has.
            stable: How far time has come. So far empty windows are told of, and between others. So
                far, or to the last start or end in its group, what never ends is looked at.
        """
        tuples = [payload for payload, _, _ in events]
        rows = rows_of(tuples, self.input.schema)
        keys = payloads(_table(self.group_by, rows, len(tuples)), len(tuples))
        groups: dict[Payload, list[int]] = defaultdict(list)
        for index, key in enumerate(keys):
            groups[key].append(index)
        arguments = Arguments.of(self.calls, rows, [(start, end) for _, start, end in events])
        clock = clock_of(self.input)
        found: list[Lifetimed] = []
        for key, indexes in groups.items():
            lifetimes = [arguments.times[index] for index in indexes]
            spans = self.window.spans(lifetimes, self._horizon(lifetimes, stable))
            if self.empty:
                assert isinstance(self.window, Hopping)
                spans = self.window.filled(spans, lifetimes, stable)
            for span in spans:
                members = [
                    index for index in indexes if self.window.holds(span, arguments.times[index])
                ]
                window = Window(*span)
                about = bounds(*span, clock) if self.columns else ()
                for values, start, end in self._answers(arguments, members, window, key):
                    found.append(((*key, *about, *values), start, end))
        return found

    @staticmethod
    def _horizon(lifetimes: Sequence[Span], stable: int) -> int:
        """So far what never ends is looked at: nothing of its group begins or ends later."""
        starts = [start + 1 for start, _ in lifetimes]
        return max([stable, *starts, *(end for _, end in lifetimes if end < FOREVER)])

    def _answers(
        self, arguments: Arguments, members: list[int], window: Window, key: Payload
    ) -> list[Timed]:
        """The rows of one window: one operator's, or one of all aggregates."""
        parts: list[list[Timed]] = []
        for number, call in enumerate(self.calls):
            seen = arguments.seen(number, call.operator, members, window, self.clip)
            try:
                given = call_once(call.operator, *seen, window)
                parts.append(settled_results(call.operator, given, window, self.timestamps))
            except OperatorCallError as failure:
                if self.errors != "fail":
                    return []
                raise self.failed(failure.reason, window, key) from failure
        if len(parts) == 1:
            return parts[0]
        values = tuple(value for part in parts for value in part[0][0])
        return [(values, window.start, window.end)]

    def failed(self, reason: str, window: Window, group: Payload, event: str = "") -> OperatorError:
        """The error of a user operator, with the window, the group and the event."""
        clock = clock_of(self.input)
        start, end = (clock.format(time) for time in (window.start, window.end))
        where = [f"in the window [{start}, {end})"]
        if self.group_by:
            names = ", ".join(name for name, _ in self.group_by)
            where.append(f"of the group ({names}) = {show_payload(group)}")
        where += [f"first event: {event}"] if event else []
        return OperatorError(
            reason,
            where="\n".join(where),
            hint="correct the module and test it with anabranch.testing.check_module, or let the "
            "query continue with errors => 'skip' or 'quarantine'",
        )

    def promise(self, *stables: Time) -> Time:
        """At most as far as the input."""
        return Time(min(stables))


def _table(
    columns: Sequence[tuple[str, Expression]], rows: pa.RecordBatch, length: int
) -> pa.RecordBatch:
    values = evaluate_all([key for _, key in columns], rows, length)
    return pa.RecordBatch.from_arrays(values, names=[str(n) for n in range(len(values))])
