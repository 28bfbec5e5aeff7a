"""Give lifetimes another end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.time_window import UNBOUNDED
from anabranch.kernels.contract.kernel import Arrived, Rest, Stateful, Trace
from anabranch.kernels.contract.routing import Routing
from anabranch.kernels.multiplicity.multiplicity import MultiplicityKernel
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import FOREVER, Duration, Time, TimeArray, add_saturating


@final
@dataclass(frozen=True, slots=True)
class AlterLifetimeKernel(Stateful):
    """The canonical form with other ends: keyed by the whole payload.

    A move of an end becomes a move of the new end that follows from it, or nothing. Neither the
    new ends nor what they replace lie before the ends they follow from or the start, so that a
    move which is legal stays so.
    """

    identity: ClassVar[Identity] = Identity("AlterLifetimeKernel", ("node",), form=("route",))

    node: AlterLifetime

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.node.schema

    @property
    def _longest(self) -> MultiplicityKernel:
        return MultiplicityKernel(Coalesce(input=self.node.input), route=self.route)

    def routing(self, name: str) -> Routing:
        """As for other counts of payloads."""
        return self._longest.routing(name)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """That of counts of payloads."""
        return self._longest.prepared_schema(side)

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """Moves of equal payloads and ends are added up."""
        return self._longest.prepare(batch, side)

    def rest(self, trace: Trace) -> Rest:
        """As other counts of payloads."""
        return self._longest.rest(trace)

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Revise the longest lifetimes, then rewrite what became of them."""
        trace, moves = self._longest.step(trace, arrived, stable)
        was, now = (self._other(moves.start, end) for end in (moves.end, moves.new_end))
        return trace, moves.with_ends(was, now).where(was != now)

    def _other(self, start: TimeArray, end: TimeArray) -> TimeArray:
        node = self.node
        if node.duration is not None:
            other = _later(start, node.duration)
        elif node.extend is not None:
            other = _later(end, node.extend)
        else:
            assert node.at_most is not None
            other = np.minimum(end, _later(start, node.at_most))
        return np.where(end == start, start, other)


def _later(times: TimeArray, span: Duration) -> TimeArray:
    """A span without bound reaches the end of time from everywhere, from before instant 0 too."""
    if span == UNBOUNDED:
        return np.full(len(times), np.int64(FOREVER))
    return add_saturating(times, span)
