"""Give every row other times, by one function that keeps their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.clip import Clip
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.shift import FIRST, Shift
from anabranch.kernels.contract.kernel import Stateless
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray, add_saturating


@final
@dataclass(frozen=True, slots=True)
class RetimeKernel(Stateless):
    """Granularity, shift and clip: no state, any row order.

    As the function keeps the order of times, it maps all moves of an event to moves of its image.
    Where the image of the old end is the start, nothing was there: the row becomes an insert.
    """

    identity: ClassVar[Identity] = Identity("RetimeKernel", ("node",))

    node: Granularity | Shift | Clip

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.node.schema

    def promise(self, stable: Time) -> Time:
        """That of the node."""
        return self.node.promise(stable)

    def interest(self, end: Time, side: int = 0) -> Time:
        """The same function backwards."""
        del side
        match self.node:
            case Granularity(granule=granule):
                return Time(max(end - (granule - 1), BEGINNING))
            case Shift(by=by):
                return Time(min(max(end - by, BEGINNING), FOREVER))
            case Clip():
                return end

    def apply(self, batch: EventBatch) -> EventBatch:
        """Rows that move nothing after that are dropped."""
        if not len(batch):
            return batch
        start, end, new_end = map(self._image, (batch.start, batch.end, batch.new_end))
        moved = EventBatch(batch.payload, start, end, new_end, batch.stable)
        return moved.where(end != new_end)

    def _image(self, times: TimeArray) -> TimeArray:
        match self.node:
            case Granularity(granule=granule):
                over = np.mod(times, np.int64(granule))
                return add_saturating(times, np.where(over > 0, np.int64(granule) - over, 0))
            case Shift(by=by):
                return add_saturating(times, by) if by >= 0 else _earlier(times, by)
            case Clip(first=first, last=last):
                return np.clip(times, np.int64(first), np.int64(last))


def _earlier(times: TimeArray, by: int) -> TimeArray:
    """Add a negative amount; what would pass the first instant stays there, FOREVER stays too."""
    with np.errstate(over="ignore"):
        moved = np.where(times < FIRST - by, np.int64(FIRST), times + np.int64(by))
    return np.where(times == FOREVER, np.int64(FOREVER), moved)
