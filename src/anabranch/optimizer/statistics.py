"""Statistics of sources that users give beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, final


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
