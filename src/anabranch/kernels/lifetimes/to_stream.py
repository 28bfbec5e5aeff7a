"""Begins and ends of payloads as points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.to_stream import ToStream
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.contract.kernel import Arrived, Rest, Stateful, Trace
from anabranch.kernels.contract.packed_events import payload_names
from anabranch.kernels.contract.routing import Routing
from anabranch.kernels.lifetimes.jumps import Jumps, changed_points, revise_jumps
from anabranch.kernels.multiplicity.multiplicity import MultiplicityKernel, forget
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True)
class ToStreamKernel(Stateful):
    """Istream, Dstream and signed points: keyed by the whole payload.

    The counts of each payload over time are remembered; what leaves is how their jumps change.
    """

    identity: ClassVar[Identity] = Identity("ToStreamKernel", ("node",), form=("route",))

    node: ToStream | ToSigned

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """That of the input; a sign may follow."""
        return self.node.schema

    @property
    def _counts(self) -> MultiplicityKernel:
        return MultiplicityKernel(Coalesce(input=self.node.input), route=self.route)

    def routing(self, name: str) -> Routing:
        """As for other counts of payloads."""
        return self._counts.routing(name)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """That of counts of payloads."""
        return self._counts.prepared_schema(side)

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """Moves of equal payloads and ends are added up."""
        return self._counts.prepare(batch, side)

    def rest(self, trace: Trace) -> Rest:
        """As other counts of payloads."""
        return self._counts.rest(trace)

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Revise the jumps of the payloads that something arrived for."""
        (rows,) = arrived
        runs, promised = dict(trace.runs), self.node.promise(stable)
        if not rows.num_rows:
            return Trace(forget(runs, stable), stable), EventBatch.empty(self.schema, promised)
        jumps = revise_jumps(runs, rows, stable, self.label)
        output = self._output(rows, jumps, promised)
        return Trace({name: held for name, held in runs.items() if held}, stable), output

    def _output(self, rows: pa.RecordBatch, jumps: Jumps, stable: Time) -> EventBatch:
        up = _above_zero(jumps.old), _above_zero(jumps.new)
        down = _above_zero(-jumps.old), _above_zero(-jumps.new)
        match self.node:
            case ToSigned():
                # An end comes before a beginning at the same instant.
                instant = np.repeat(jumps.instant, 2)
                old, new = (
                    np.stack([before, after], axis=1).reshape(-1)
                    for before, after in zip(down, up, strict=True)
                )
                points = changed_points(instant, old, new)
                owner, is_rise = points.jump // 2, points.jump % 2
                signs = [pa.array(np.where(is_rise > 0, 1, -1), pa.int8())]
            case ToStream(kind=kind, looks_ahead=ahead):
                change = up if kind == "insertions" else down
                points = changed_points(jumps.instant - int(ahead), *change)
                owner, signs = points.jump, []
        taken = pa.array(jumps.rows[owner])
        columns = [rows.column(name).take(taken) for name in payload_names(self.node.input.schema)]
        payload = pa.RecordBatch.from_arrays([*columns, *signs], schema=self.schema)
        return EventBatch(payload, points.start, points.end, points.new_end, stable)


def _above_zero(jump: Ints) -> Ints:
    return np.maximum(jump, 0)
