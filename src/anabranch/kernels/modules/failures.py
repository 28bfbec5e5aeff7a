"""Modules that failed for windows: the query fails with them, or it is told what happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_module import ApplyModule
from anabranch.algebra.node import clock_of
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.contract.column_names import ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.modules.module_windows import Failure
from anabranch.kernels.modules.window_events import WindowLayout, WindowMembers, Windows, no_pairs
from anabranch.model.batch import no_rows, take_rows
from anabranch.model.payload import Payload, payloads, show_payload

_TOLD: Final = pa.schema([(ID, pa.uint64()), (TIME, pa.int64()), ("said", pa.string())])

_MOST_TOLD: Final = 100
"""Of so many failed windows of a batch it is told what happened; the others are counted."""

_MOST_SHOWN: Final = 20
"""So many events of a failed window are told of."""

Members = Callable[[Windows], WindowMembers]
"""The events of some windows."""


@final
@dataclass(slots=True, eq=False)
class Failures:
    """What is to be told of the windows of one step that have no results for a reason."""

    node: ApplyModule
    layout: WindowLayout
    members: Members
    told: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    def note(
        self, failures: Mapping[int, Failure], windows: Windows, keys: Sequence[pa.Array]
    ) -> None:
        """Fail, or remember what is to be told.

        Raises:
            OperatorError: The first failure, if the query shall not go on without.
        """
        places = sorted(failures)
        self.count += len(places)
        places = places[: max(_MOST_TOLD - len(self.told), 0)]
        if not places:
            return
        pairs = self.members(windows.take(np.array(places)))
        for number, place in enumerate(places):
            own = pairs.take(np.flatnonzero((pairs.owner == number) & (pairs.count > 0)))
            failure = failures[place]
            if not failure.event and len(own):
                failure = replace(failure, event=self._events(own, 1)[0][0])
            group = self._group(keys, place)
            if self.node.errors == "fail":
                raise self.node.failed(
                    failure.reason, windows.one(place), group, failure.event
                ) from failure.cause
            self.told.append(self._about(failure, windows, place, group, own))

    def _group(self, keys: Sequence[pa.Array], place: int) -> Payload:
        row = [key.slice(place, 1) for key in keys]
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
        self, failure: Failure, windows: Windows, place: int, group: Payload, own: WindowMembers
    ) -> dict[str, Any]:
        clock = clock_of(self.node.input)
        times = (int(windows.start[place]), int(windows.end[place]))
        told: dict[str, Any] = {
            "module": failure.module,
            "reason": failure.reason,
            "window": [clock.format(time) for time in times],
            "group": show_payload(group) if self.layout.keys else None,
            "event": failure.event,
        }
        if self.node.errors == "quarantine":
            told["events"] = [
                {"values": values, "start": start, "end": end}
                for _, values, start, end in self._events(own, _MOST_SHOWN)
            ]
            told["count"] = int(own.count.sum())
        return told

    def run(self) -> SortedRun | None:
        """What is reported, as a list of a trace has it."""
        if not self.count:
            return None
        said = [{"failed": self.count}, *self.told]
        zeros = np.zeros(len(said), np.int64)
        columns = [
            pa.array(zeros.astype(np.uint64)),
            pa.array(zeros),
            pa.array([json.dumps(each) for each in said]),
        ]
        return SortedRun(pa.RecordBatch.from_arrays(columns, schema=_TOLD))


def no_members(layout: WindowLayout) -> WindowMembers:
    """No events of any window."""
    return no_pairs(no_rows(pa.schema(layout.about)))


def report_of(runs: Sequence[SortedRun]) -> dict[str, Any]:
    """What was told, as plain values for people."""
    told = [json.loads(said) for run in runs for said in run.rows.column("said").to_pylist()]
    return {"failed": told[0]["failed"], "failures": told[1:]} if told else {}
