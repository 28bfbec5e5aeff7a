"""Statistics: how sources and conditions behave, as users expect it or as it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatistics:
    """How a source behaves on average; what is not known is guessed.

    Attributes:
        rate: So many events per chronon.
        lifetime: So many chronons an event holds.
        distinct: Of some columns, how many different values there are.
    """

    rate: float | None = None
    lifetime: float | None = None
    distinct: Mapping[str, float] = field(default_factory=dict)


Statistics: TypeAlias = Mapping[str, SourceStatistics]
"""By the name of the source."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatistics:
    """What was measured of a running query, for any plan of it.

    Attributes:
        sources: How its sources behave.
        shares: By what conditions are called (`origins.condition_key`), the part of rows, or of
            pairs that hold together, which satisfies them.
        ratios: By the fingerprint of an operator with all below it, its rows out per row in.
    """

    sources: Statistics = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def of(given: Statistics | PlanStatistics | None) -> PlanStatistics:
        """The same where only sources are known, or nothing."""
        if isinstance(given, PlanStatistics):
            return given
        return PlanStatistics(sources=given or {})

    def __or__(self, newer: PlanStatistics) -> PlanStatistics:
        """Both; where both know something, the newer one counts."""
        return PlanStatistics(
            sources={**self.sources, **newer.sources},
            shares={**self.shares, **newer.shares},
            ratios={**self.ratios, **newer.ratios},
        )


UNKNOWN: Final = PlanStatistics()
