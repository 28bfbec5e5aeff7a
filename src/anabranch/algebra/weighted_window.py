"""A time window over lifetimes whose rows say how many occurrences they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Unary
from anabranch.algebra.time_window import CHRONON, TimeWindow
from anabranch.algebra.traits import Traits
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream, Payload
from anabranch.model.time import Duration, Time


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedWindow(Unary):
    """Granularity(TimeWindow(x, size, slide), granule), with multiplicities as a column.

    Where n copies of p hold in that stream, p is there with weights that add up to n. So the
    content of a window is counted at the instants of the grid, where alone it changes, and a
    lifetime of an hour is a few rows and not 3.6 billion layers.

    How n is made of weights is not part of the meaning: aggregates above add them up. `denote`
    takes one row, or one per binary digit if weights are `powers` of two. These are for sums of
    floats: x * 2^k is exact, so that a sum over copies is that over products, bit by bit.

    Only `algebra/analysis/weights.py` makes it, when a plan is compiled.
    """

    identity: ClassVar[Identity] = Identity(
        "WeightedWindow", ("input", "size", "slide", "granule", "weight", "powers"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits()

    size: Duration
    slide: Duration = CHRONON
    granule: Duration = CHRONON
    weight: str
    powers: bool = False

    @property
    def schema(self) -> pa.Schema:
        """That of the input, and the weight."""
        return pa.schema([*self.input.schema, pa.field(self.weight, pa.int64())])

    @property
    def remembers(self) -> bool:
        """No: each row leaves by itself."""
        return False

    @property
    def properties(self) -> Properties:
        """Nothing: a longer lifetime changes weights."""
        return Properties()

    @property
    def window(self) -> TimeWindow:
        """The window whose content is weighed."""
        return TimeWindow(input=self.input, size=self.size, slide=self.slide)

    @property
    def sampled(self) -> Granularity:
        """The window as the grid shows it."""
        return Granularity(input=self.window, granule=self.granule)

    @property
    def label(self) -> str:
        """`TimeWindow 1h slide 1m counted on the grid`."""
        shown = f" {self.sampled.label.lower()}" if self.granule > 1 else ""
        return f"{self.window.label}{shown} counted on the grid"

    def promise(self, *stables: Time) -> Time:
        """That of the grid."""
        return self.sampled.promise(*stables)

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The number of copies as a column."""
        held = self.sampled.denote(self.window.denote(*inputs))

        def weighed() -> Iterator[tuple[Payload, int, int]]:
            for start, end, snapshot in held.segments():
                for payload, count in snapshot.items():
                    digits = [1 << k for k in range(count.bit_length()) if count >> k & 1]
                    for weight in digits if self.powers else [count]:
                        yield (*payload, weight), start, end

        return LogicalStream.of(weighed())
