"""User operators that failed for windows: the query fails with them, or reports what happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import clock_of
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.contract.column_names import ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.modules.operator_windows import Failure
from anabranch.kernels.modules.window_events import WindowLayout, WindowMembers, Windows, no_pairs
from anabranch.model.batch import no_rows, take_rows
from anabranch.model.payload import Payload, payloads, show_payload

_REPORT_SCHEMA: Final = pa.schema([(ID, pa.uint64()), (TIME, pa.int64()), ("said", pa.string())])

_REPORTED_WINDOWS: Final = 100
"""This many failed windows of a batch are reported in detail; the others are counted."""

_REPORTED_EVENTS: Final = 20
"""This many events of a failed window are reported."""

Members = Callable[[Windows], WindowMembers]
"""The events of some windows."""


@final
@dataclass(slots=True, eq=False)
class Failures:
    """Reports of the windows of one step that have no results because a user operator failed."""

    node: ApplyOperator
    layout: WindowLayout
    members: Members
    reports: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    def note(
        self, failures: Mapping[int, Failure], windows: Windows, keys: Sequence[pa.Array]
    ) -> None:
        """Fail, or remember a report of each.

        Raises:
            OperatorError: The first failure, if the query shall not go on without.
        """
        failed = sorted(failures)
        self.count += len(failed)
        failed = failed[: max(_REPORTED_WINDOWS - len(self.reports), 0)]
        if not failed:
            return
        pairs = self.members(windows.take(np.array(failed)))
        for number, index in enumerate(failed):
            own = pairs.take(np.flatnonzero((pairs.owner == number) & (pairs.count > 0)))
            failure = failures[index]
            if not failure.event and len(own):
                failure = replace(failure, event=self._events(own, 1)[0][0])
            group = self._group(keys, index)
            if self.node.errors == "fail":
                raise self.node.failed(
                    failure.reason, windows.one(index), group, failure.event
                ) from failure.cause
            self.reports.append(self._about(failure, windows, index, group, own))

    def _group(self, keys: Sequence[pa.Array], index: int) -> Payload:
        row = [key.slice(index, 1) for key in keys]
        return payloads(pa.RecordBatch.from_arrays(row, names=self.layout.key_names), 1)[0]

    def _events(self, own: WindowMembers, most: int) -> list[tuple[str, str, str, str]]:
        """The first events for people: all in one text, values, start, end."""
        clock = clock_of(self.node.input)
        first: Ints = np.lexsort((own.stop, own.begin))[:most]
        rows = take_rows(own.rows, own.row[first]).select(self.layout.value_names)
        found = []
        for value, at in zip(payloads(rows, len(first)), first.tolist()):
            times = (int(own.begin[at]), int(own.stop[at]))
            start, end = (clock.format(time) for time in times)
            shown = show_payload(value)
            found.append((f"{shown} during [{start}, {end})", shown, start, end))
        return found

    def _about(
        self, failure: Failure, windows: Windows, index: int, group: Payload, own: WindowMembers
    ) -> dict[str, Any]:
        clock = clock_of(self.node.input)
        times = (int(windows.start[index]), int(windows.end[index]))
        report: dict[str, Any] = {
            "module": failure.operator,
            "reason": failure.reason,
            "window": [clock.format(time) for time in times],
            "group": show_payload(group) if self.layout.keys else None,
            "event": failure.event,
        }
        if self.node.errors == "quarantine":
            report["events"] = [
                {"values": values, "start": start, "end": end}
                for _, values, start, end in self._events(own, _REPORTED_EVENTS)
            ]
            report["count"] = int(own.count.sum())
        return report

    def run(self) -> SortedRun | None:
        """The reports as a run of the trace."""
        if not self.count:
            return None
        reports = [{"failed": self.count}, *self.reports]
        zeros = np.zeros(len(reports), np.int64)
        columns = [
            pa.array(zeros.astype(np.uint64)),
            pa.array(zeros),
            pa.array([json.dumps(each) for each in reports]),
        ]
        return SortedRun(pa.RecordBatch.from_arrays(columns, schema=_REPORT_SCHEMA))


def no_members(layout: WindowLayout) -> WindowMembers:
    """No events of any window."""
    return no_pairs(no_rows(pa.schema(layout.about)))


def report_of(runs: Sequence[SortedRun]) -> dict[str, Any]:
    """The stored reports as plain values for people."""
    reports = [json.loads(text) for run in runs for text in run.rows.column("said").to_pylist()]
    return {"failed": reports[0]["failed"], "failures": reports[1:]} if reports else {}
